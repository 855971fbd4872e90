package emu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

func TestCodeAsNVCCWritesIt(t *testing.T) {
	r := emulator(t, checked...)
	k := r.kernel("nvcc.ptx", "dispatch")
	a, err := k.Attributes()
	require.NoError(t, err)
	require.Equal(t, 128, a.MaxThreads)
	require.Equal(t, int64(512), a.SharedStatic)
	require.Equal(t, 90, a.PTXVersion)

	const blocks, threads, limit = 2, 64, 70
	in := make([]uint32, blocks*threads)
	for i := range in {
		in[i] = uint32(i*i%37) % 9
	}
	out := r.alloc(4 * len(in))
	r.run(k, driver.D1(blocks), driver.D1(threads), 4*threads, upload(r, in), out, limit)
	for i, got := range download[uint32](r, out, len(in)) {
		other, least := in[i^1], uint32(min(i^1, limit))
		want := uint32(77)
		switch in[i] & 3 {
		case 0:
			want = 1 + least
		case 1:
			want = other + least
		case 2:
			want = other + 3
			if i&1 == 1 {
				want = other * 3
			}
		}
		require.Equal(t, want, got, i)
	}

	in[67] = 1000
	err = r.try(k, driver.D1(blocks), driver.D1(threads), 4*threads, upload(r, in), out, limit)
	require.ErrorIs(t, err, driver.ErrAssert)
	require.ErrorContains(t, err, "thread (3,0,0) of block (1,0,0): i < limit, in checked, x.cu:41")
}

// module wraps a body in an entry.
func module(body string) string {
	return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<4>;\n.reg .b64 %x<4>;\n.reg .pred %p<2>;\n" + body + "\nret;\n}\n"
}

// TestWhatDoesNotLoad names the place and the reason.
func TestWhatDoesNotLoad(t *testing.T) {
	r := emulator(t, emu.WithCapability(80))
	for _, c := range []struct {
		text, says string
		code       driver.Code
	}{
		{"no ptx", "x.ptx:1:1: 'no' where '.version' should be", driver.ErrInvalidPTX},
		{module(""), "target sm_90 on a device of compute capability 8.0", driver.ErrNoBinaryForGPU},
	} {
		_, err := r.dev.Load(driver.Image{Name: "x.ptx", PTX: []byte(c.text)})
		require.ErrorIs(t, err, c.code)
		require.ErrorContains(t, err, c.says)
	}
	_, err := r.dev.Load(driver.Image{Name: "x.ptx"})
	require.ErrorIs(t, err, driver.ErrInvalidImage)

	r = emulator(t)
	for body, says := range map[string]string{
		"frobnicate.b32 %r0, %r1;":                         "x.ptx:9:1: the instruction frobnicate.b32 is not known",
		"add.u32.wild %r0, %r1, %r2;":                      "x.ptx:9:1: add.u32.wild: .wild is not known here",
		"add.u32 %r0, %r1, %x1;":                           "x.ptx:9:19: add.u32: %x1 is a register of type .b64, the operand of type .u32",
		"add.u32 %r0, %r1;":                                "x.ptx:9:1: add.u32 with 2 operands",
		"add.u32 %r0, %r1, %r9;":                           "x.ptx:9:19: %r9 is not declared",
		"add.u32 3, %r1, %r2;":                             "x.ptx:9:9: add.u32: 3 is no register",
		"add.pred %p0, %p1, %p1;":                          "no such instruction for type .pred",
		"ld.global.u32 %r0, [nowhere];":                    "x.ptx:9:21: nowhere is not declared",
		"ld.shared.u32 %r0, [%r1+4], %r2;":                 "ld.shared.u32 with 3 operands",
		"st.const.u32 [%r1], %r2;":                         ".const is read-only",
		"bra nowhere;":                                     "x.ptx:9:5: nowhere is no label of this function",
		"call f, ();":                                      "x.ptx:9:6: f is no function",
		"shfl.up.b32 %r0, %r1, 1, 0;":                      "shfl.up.b32 without .sync is not in sm_70",
		"mma.sync.aligned.m16n8k8.row.col.f32 %r0, %r1;":   "the instruction mma.sync.aligned.m16n8k8.row.col.f32 is not known",
		"barrier.cluster.arrive;":                          "barrier.cluster.arrive: clusters",
		"tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [a, {%r0}];": "the instruction tex.2d.v4.f32.f32 is not known",
		"L: ret; L: ret;":                                  "the label L is there twice",
		".reg .b32 %q; .reg .b32 %q;":                      "%q is declared twice",
		".local .b8 m[99999999];":                          "bytes of local memory",
		".reg .b32 %big<999999>;":                          "more than 65536 registers",
		"cvt.u32.f32 %r0, %r1;":                            "cvt.u32.f32 has no rounding",
		"setp.lt.b32 %p0, %r0, %r1;":                       "no comparison .lt for type .b32",
		"mov.u32 %r0, 0f3F800000;":                         "the constant 0f3F800000 for an operand of type .u32",
		"atom.global.add.b32 %r0, [%x0], %r1;":             "no such instruction for type .b32",
	} {
		_, err := r.dev.Load(driver.Image{Name: "x.ptx", PTX: []byte(module(body))})
		require.Error(t, err, body)
		require.ErrorContains(t, err, says)
	}
	_, err = r.dev.Load(driver.Image{Name: "x.ptx", PTX: []byte(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() .reqnctapercluster 2,1,1 { ret; }")})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorContains(t, err, "clusters of more than one block")
	m, err := r.dev.Load(driver.Image{Name: "x.ptx", PTX: []byte(module(""))})
	require.NoError(t, err)
	_, err = m.Kernel("missing")
	require.ErrorIs(t, err, driver.ErrNotFound)
	require.NoError(t, m.Close())
}

// TestPlacesOfSharedMemory has an entry with static shared memory of its own, one
// with none, and dynamic memory that asks for an alignment.
func TestPlacesOfSharedMemory(t *testing.T) {
	r := emulator(t)
	m := r.load("places.ptx", `.version 8.0
.target sm_70
.address_size 64
.extern .shared .align 128 .b8 dynamic[];
.shared .align 4 .b8 mine[20];
.visible .entry some(.param .u64 p) {
	.reg .b32 %r<2>; .reg .b64 %x<2>;
	ld.param.u64 %x0, [p];
	mov.u32 %r0, dynamic+4;
	st.global.u32 [%x0], %r0;
	st.shared.u32 [mine+16], %r0;
	st.shared.u32 [dynamic+60], %r0;
	ret;
}
.visible .entry none(.param .u64 p) {
	.reg .b32 %r<2>; .reg .b64 %x<2>;
	ld.param.u64 %x0, [p];
	mov.u32 %r0, dynamic;
	st.global.u32 [%x0], %r0;
	ret;
}`)
	out := r.alloc(4)
	for name, want := range map[string]struct {
		static int64
		at     uint32
	}{"some": {20, 132}, "none": {0, 0}} {
		k, err := m.Kernel(name)
		require.NoError(t, err)
		a, err := k.Attributes()
		require.NoError(t, err)
		require.Equal(t, want.static, a.SharedStatic)
		r.run(k, driver.D1(1), driver.D1(1), 64, out)
		require.Equal(t, want.at, download[uint32](r, out, 1)[0])
	}
}

func TestOptions(t *testing.T) {
	for _, opts := range [][]emu.Option{{emu.WithCapability(60)}, {emu.WithWorkers(0)}, {emu.WithPatience(-1)}, {emu.WithMemoryLimit(-1)}} {
		_, err := emu.Open(opts...)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
	}
	t.Setenv(emu.EnvChecks, "race,speed")
	_, err := emu.Open()
	require.ErrorContains(t, err, `"speed" is none of race, init, profile`)

	t.Setenv(emu.EnvChecks, "race, init")
	r := emulator(t)
	err = r.try(r.kernel("faults.ptx", "block_race"), driver.D1(2), driver.D1(64), 0, zeros[int32](r, 64))
	require.ErrorIs(t, err, driver.ErrRace)
	err = r.try(r.kernel("faults.ptx", "copies"), driver.D1(1), driver.D1(32), 0, r.alloc(128), r.alloc(128))
	require.ErrorIs(t, err, driver.ErrUninitialized)

	info := emulator(t, emu.WithCapability(80), emu.WithWorkers(3)).dev.Info()
	require.Equal(t, driver.KindEmu, info.Kind)
	require.Equal(t, 80, info.Capability)
	require.Equal(t, 3, info.Multiprocessors)
}
