package emu_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// rig is a device under test with what a test puts on it.
type rig struct {
	t       testing.TB
	dev     driver.Device
	stream  driver.Stream
	modules map[string]driver.Module
	held    []driver.Ptr
}

func newRig(t testing.TB, dev driver.Device) *rig {
	s, err := dev.NewStream()
	require.NoError(t, err)
	return &rig{t: t, dev: dev, stream: s, modules: map[string]driver.Module{}}
}

// emulator opens an emulator that the test closes, leaving nothing on it.
func emulator(t testing.TB, opts ...emu.Option) *rig {
	d, err := emu.Open(opts...)
	require.NoError(t, err)
	r := newRig(t, d)
	t.Cleanup(r.close)
	return r
}

// gpu opens the GPU, or returns nil where this build has none.
func gpu(t testing.TB) driver.Device {
	d, err := cuda.Open(0)
	if errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrNoDevice) {
		return nil
	}
	require.NoError(t, err, "a GPU driver is here and cannot be opened")
	return d
}

// eachDevice runs f on the emulator, and on the GPU where this build has one.
func eachDevice(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Run("emu", func(t *testing.T) { f(t, emulator(t)) })
	if d := gpu(t); d != nil {
		t.Run("cuda", func(t *testing.T) {
			r := newRig(t, d)
			t.Cleanup(r.close)
			f(t, r)
		})
	}
}

// of has the rig fail a subtest from now on, until what it returns is called.
func (r *rig) of(t testing.TB) (restore func()) {
	whole := r.t
	r.t = t
	return func() { r.t = whole }
}

func (r *rig) close() {
	r.release()
	for _, m := range r.modules {
		require.NoError(r.t, m.Close())
	}
	require.NoError(r.t, r.stream.Close())
	require.NoError(r.t, r.dev.Close(), "nothing is left on the device")
}

// release frees what upload and alloc have taken.
func (r *rig) release() {
	for _, p := range r.held {
		require.NoError(r.t, r.dev.Free(p))
	}
	r.held = nil
}

// load loads PTX text once under a name.
func (r *rig) load(name, text string) driver.Module {
	if r.modules[name] == nil {
		m, err := r.dev.Load(driver.Image{Name: name, PTX: []byte(text)})
		require.NoError(r.t, err)
		r.modules[name] = m
	}
	return r.modules[name]
}

// entry is a kernel of a generated module.
type entry struct{ name, what, text string }

// entries loads kernels that share a head. If the device refuses them together,
// each is loaded alone, so that every one that it refuses is reported.
func (r *rig) entries(t *testing.T, head string, list []entry) map[string]driver.Kernel {
	kernels := map[string]driver.Kernel{}
	load := func(part []entry) error {
		text := head
		for _, e := range part {
			text += e.text
		}
		m, err := r.dev.Load(driver.Image{Name: part[0].name, PTX: []byte(text)})
		if err != nil {
			return err
		}
		r.modules[fmt.Sprintf("entries %d", len(r.modules))] = m
		for _, e := range part {
			if kernels[e.name], err = m.Kernel(e.name); err != nil {
				return err
			}
		}
		return nil
	}
	if load(list) == nil {
		return kernels
	}
	for i := range list {
		if err := load(list[i : i+1]); err != nil {
			t.Errorf("%s does not load: %v", list[i].what, err)
			delete(kernels, list[i].name)
		}
	}
	return kernels
}

// kernel finds a kernel of a file in testdata.
func (r *rig) kernel(file, name string) driver.Kernel {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(r.t, err)
	k, err := r.load(file, string(text)).Kernel(name)
	require.NoError(r.t, err)
	return k
}

func (r *rig) alloc(bytes int) driver.Ptr {
	p, err := r.dev.Alloc(int64(max(bytes, 1)))
	require.NoError(r.t, err)
	r.held = append(r.held, p)
	return p
}

func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// upload returns device memory that holds s.
func upload[T any](r *rig, s []T) driver.Ptr {
	p := r.alloc(len(bytesOf(s)))
	require.NoError(r.t, r.stream.CopyToDevice(p, bytesOf(s)))
	return p
}

func download[T any](r *rig, p driver.Ptr, n int) []T {
	s := make([]T, n)
	require.NoError(r.t, r.stream.CopyToHost(bytesOf(s), p))
	return s
}

// zeros returns device memory of zeros for n elements of T.
func zeros[T any](r *rig, n int) driver.Ptr { return upload(r, make([]T, n)) }

// args packs arguments by their Go types.
func args(list ...any) *driver.Args {
	a := driver.NewArgs()
	for _, v := range list {
		switch v := v.(type) {
		case driver.Ptr:
			a.Ptr(v)
		case int:
			a.Uint32(uint32(v))
		case uint32:
			a.Uint32(v)
		case uint64:
			a.Uint64(v)
		default:
			panic("args: a type that no test kernel takes")
		}
	}
	return a
}

// try launches and waits.
func (r *rig) try(k driver.Kernel, grid, block driver.Dim3, shared int64, list ...any) error {
	a := args(list...)
	defer a.Release()
	if err := r.stream.Launch(k, driver.Config{Grid: grid, Block: block, Shared: shared}, a); err != nil {
		return err
	}
	return r.stream.Synchronize()
}

func (r *rig) run(k driver.Kernel, grid, block driver.Dim3, shared int64, list ...any) {
	r.t.Helper()
	require.NoError(r.t, r.try(k, grid, block, shared, list...))
}
