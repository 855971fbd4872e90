package emu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// strided reads and writes words at a distance given in bytes, in global memory
// and in shared memory.
const strided = `.version 8.0
.target sm_70
.address_size 64
.visible .entry strided(.param .u64 p, .param .u32 by)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %x<4>;
	.shared .align 16 .b8 s[4096];
	ld.param.u64 %x0, [p];
	ld.param.u32 %r0, [by];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %x1, %r0, %r1;
	add.u64 %x0, %x0, %x1;
	ld.global.u32 %r2, [%x0];
	mul.lo.u32 %r3, %r0, %r1;
	mov.u32 %r4, s;
	add.u32 %r3, %r3, %r4;
	st.shared.u32 [%r3], %r2;
	setp.lt.u32 %p0, %r1, 8;
	@%p0 atom.global.add.u32 %r5, [%x0+4096], 1;
	ret;
}
`

func TestProfile(t *testing.T) {
	r := emulator(t, emu.WithProfile())
	d := r.dev.(*emu.Device)
	require.Empty(t, d.Profile())
	m := r.load("strided.ptx", strided)
	k, err := m.Kernel("strided")
	require.NoError(t, err)
	p := zeros[byte](r, 2*4096)

	r.run(k, driver.D1(3), driver.D1(32), 0, p, 4)
	list := d.Profile()
	require.Len(t, list, 1)
	got := list[0]
	require.Equal(t, "strided.ptx", got.Module)
	require.Equal(t, "strided", got.Kernel)
	require.Equal(t, uint64(1), got.Launches)
	require.Equal(t, uint64(3), got.Blocks)
	require.Equal(t, emu.Count{Warps: 3 * 13, Threads: 3 * (12*32 + 8)}, got.Total())
	require.Equal(t, emu.Count{Warps: 3 * 4, Threads: 3 * 4 * 32}, got.Classes[emu.ClassInteger])
	require.Equal(t, emu.Count{Warps: 3, Threads: 3 * 8}, got.Classes[emu.ClassAtomic])
	require.Equal(t, emu.Access{Requests: 3, Bytes: 3 * 128, Sectors: 3 * 4, Used: 3 * 128}, got.Global.Loads)
	require.InDelta(t, 4, got.Global.Loads.SectorsPerRequest(), 0)
	require.Equal(t, emu.Access{Requests: 3, Bytes: 3 * 32, Sectors: 3, Used: 3 * 32}, got.Global.Atomics)
	require.Equal(t, emu.Access{Requests: 3, Bytes: 3 * 128}, got.Shared.Stores)
	load := got.Lines[5]
	require.Equal(t, "ld.global.u32", load.Instruction)
	require.Equal(t, 15, load.Line)
	require.Equal(t, got.Global.Loads, load.Memory)

	// Words a sector apart, or a row of banks.
	d.ResetProfile()
	r.run(k, driver.D1(1), driver.D1(32), 0, p, 128)
	got = d.Profile()[0]
	require.Equal(t, emu.Access{Requests: 1, Bytes: 128, Sectors: 32, Used: 128}, got.Global.Loads)
	require.Equal(t, emu.Access{Requests: 1, Bytes: 128, Conflicts: 31}, got.Shared.Stores)

	// All lanes at one word: a single sector, and no conflict.
	d.ResetProfile()
	r.run(k, driver.D1(1), driver.D1(32), 0, p, 0)
	got = d.Profile()[0]
	require.Equal(t, emu.Access{Requests: 1, Bytes: 128, Sectors: 1, Used: 4}, got.Global.Loads)
	require.Zero(t, got.Shared.Stores.Conflicts)
}
