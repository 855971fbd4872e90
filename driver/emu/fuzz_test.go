package emu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// FuzzLoad requires that no text makes the loader panic, take much memory, or
// lose what it took.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 8<<10)])
	}
	head := ".version 8.0\n.target sm_90\n.address_size 64\n"
	for _, body := range []string{
		".func (.reg .u32 %o) f(.reg .u32 %i) { mov.u32 %o, %i; ret; } .entry k() { .reg .b32 %r<3>; call (%r1), f, (%r2); }",
		".global .u64 x[2] = {generic(x)+8, k}; .entry k(.param .align 8 .b8 p[16]) { .reg .b64 %x<2>; ld.param.v2.u64 {%x0, %x1}, [p]; }",
		".entry k() { .reg .pred %p<2>; .reg .b32 %r<2>; t: .branchtargets a, b; a: brx.idx %r0, t; b: @%p0 bra a; }",
		".extern .shared .b8 d[]; .shared .b8 s[64]; .entry k() { .reg .b32 %r<2>; mov.u32 %r0, d+4; @!%r1 st.shared.u32 [s+4], %r0; }",
	} {
		f.Add([]byte(head + body))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		space, err := hostdev.NewSpace(hostdev.WithLimit(8 << 20))
		if err != nil {
			t.Fatal(err)
		}
		_, globals, err := load(driver.Image{Name: "fuzz", PTX: text}, space, 90)
		if e, ok := errors.AsType[*driver.Error](err); err != nil && (!ok || e.Detail == "") {
			t.Fatalf("an error without words: %v", err)
		}
		for _, g := range globals {
			if err := space.Free("Free", g.Base(), hostdev.ForModule); err != nil {
				t.Fatal(err)
			}
		}
		if n, bytes := space.Usage(); n != 0 {
			t.Fatalf("%d bytes are left", bytes)
		}
	})
}
