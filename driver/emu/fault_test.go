package emu_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// plant is a kernel of testdata/faults.cu and what must be said about it.
type plant struct {
	kernel string
	grid   uint32
	block  uint32
	args   func(r *rig) []any
	code   driver.Code
	says   []string
	opts   []emu.Option
}

func buffer(bytes int) func(r *rig) []any {
	return func(r *rig) []any { return []any{upload(r, make([]byte, bytes))} }
}

func buffers(sizes ...int) func(r *rig) []any {
	return func(r *rig) []any {
		var list []any
		for _, n := range sizes {
			list = append(list, upload(r, make([]byte, n)))
		}
		return list
	}
}

func with(f func(r *rig) []any, more ...any) func(r *rig) []any {
	return func(r *rig) []any { return append(f(r), more...) }
}

var (
	race  = []emu.Option{emu.WithRaceCheck()}
	inits = []emu.Option{emu.WithInitCheck()}
	hurry = []emu.Option{emu.WithPatience(20 * time.Millisecond)}
)

func at(thread, block string) string {
	return "of faults.ptx, thread (" + thread + ") of block (" + block + "): "
}

var plants = []plant{
	{"past_end", 1, 64, with(buffer(256), 1), driver.ErrIllegalAddress,
		[]string{"st.global.u32", at("63,0,0", "0,0,0"), "4 bytes at 0x", "256 bytes into the device allocation of 256 bytes"}, nil},
	{"past_end", 1, 64, with(buffer(256), 1<<20), driver.ErrIllegalAddress,
		[]string{at("0,0,0", "0,0,0"), "4194048 bytes past the end of the device allocation of 256 bytes"}, nil},
	{"past_end", 1, 64, func(r *rig) []any { return []any{r.alloc(256) - 8, 0} }, driver.ErrIllegalAddress,
		[]string{at("0,0,0", "0,0,0"), "8 bytes before the device allocation of 256 bytes"}, nil},
	{"misaligned", 1, 32, buffer(256), driver.ErrMisaligned, []string{"st.global.u32", at("1,0,0", "0,0,0"), "for an access of 4 bytes"}, nil},
	{"null_read", 1, 32, func(r *rig) []any { return []any{driver.Ptr(0), r.alloc(128)} }, driver.ErrIllegalAddress,
		[]string{"ld.global.u32", at("0,0,0", "0,0,0"), "4 bytes at 0x0"}, nil},
	{"copies", 1, 32, func(r *rig) []any {
		p, err := r.dev.Alloc(128)
		require.NoError(r.t, err)
		require.NoError(r.t, r.dev.Free(p))
		return []any{p, r.alloc(128)}
	}, driver.ErrIllegalAddress, []string{"ld.global.u32", "used after free: 0 bytes into the freed device allocation of 128 bytes"}, nil},
	{"shared_past_end", 2, 32, with(buffer(128), 4), driver.ErrIllegalAddress,
		[]string{"ld.shared.u32", "thread (28,0,0)", "4 bytes at 128 of 128 bytes of shared memory"}, nil},
	{"local_past_end", 1, 32, with(buffer(128), 0), driver.ErrIllegalAddress,
		[]string{"ld.local.u32", "thread (8,0,0)", "4 bytes at 32 of 32 bytes of local memory"}, nil},
	{"missing_barrier", 1, 64, buffer(256), driver.ErrRace, []string{"st.shared.u32", "this write at", "a read by thread (", "are not ordered"}, race},
	{"same_warp_race", 1, 32, buffer(128), driver.ErrRace, []string{"ld.shared.u32", "of shared memory"}, race},
	{"write_race", 1, 32, buffer(4), driver.ErrRace, []string{"st.shared.u32", "thread (1,0,0)", "a write by thread (0,0,0)"}, race},
	{"handed_over_early", 1, 64, buffer(4), driver.ErrRace, []string{"of shared memory", "are not ordered"}, race},
	{"block_race", 2, 32, buffer(128), driver.ErrRace, []string{"of the device allocation of 128 bytes", "of block ("}, race},
	{"missing_fence", 2, 1, buffers(4, 4, 4), driver.ErrRace, []string{"ld.global.u32", "block (1,0,0)", "a write by thread (0,0,0) of block (0,0,0)"}, race},
	{"missing_reader_fence", 2, 1, buffers(4, 4, 4), driver.ErrRace, []string{"ld.global.u32", "block (1,0,0)", "a write by thread (0,0,0) of block (0,0,0)"}, race},
	{"both_read", 2, 1, buffers(4, 4, 4), driver.ErrRace, []string{"st.global.u32", "block (1,0,0)", "a read by thread (0,0,0) of block (0,0,0)"}, race},
	{"partial_barrier", 1, 64, buffer(256), driver.ErrSync,
		[]string{"bar.sync", "only 40 of the block's 64 threads come to the barrier; thread (", "ended at line"}, nil},
	{"deadlock", 2, 1, buffer(8), driver.ErrHang, []string{"wait for memory to change", "1 threads at", "line"}, hurry},
	{"endless", 1, 32, buffer(8), driver.ErrHang, []string{"32 threads at"}, hurry},
	{"two_barriers", 1, 64, buffer(256), driver.ErrHang, []string{"no thread can go on", "32 threads at barrier.sync", "thread (32,0,0) first"}, nil},
	{"inactive_shuffle", 1, 32, buffer(128), driver.ErrSync, []string{"shfl.sync.bfly.b32", "thread (0,0,0)", "reads from lane 16"}, nil},
	{"not_in_mask", 1, 32, buffer(128), driver.ErrSync, []string{"shfl.sync.bfly.b32", "thread (16,0,0)", "0x0000ffff leaves out"}, nil},
	{"uninitialised_shared", 1, 32, buffer(128), driver.ErrUninitialized, []string{"st.global.u32", "what it stores comes from memory that nothing wrote, read by ld.shared.u32 at line"}, inits},
	{"copies", 1, 32, func(r *rig) []any { return []any{r.alloc(128), r.alloc(128)} }, driver.ErrUninitialized,
		[]string{"st.global.u32", "read by ld.global.u32 at line"}, inits},
	{"undefined_address", 1, 32, buffer(128), driver.ErrUninitialized,
		[]string{"st.global.u32", "an address comes from memory that nothing wrote, read by ld.volatile.shared.u32 at line"}, inits},
	{"undefined_condition", 1, 32, buffer(128), driver.ErrUninitialized, []string{"a condition comes from memory that nothing wrote"}, inits},
	{"undefined_shuffled", 1, 32, buffer(128), driver.ErrUninitialized, []string{"st.global.u32", "thread (10,0,0)"}, inits},
	{"trap_here", 1, 32, buffer(4), driver.ErrLaunchFailed, []string{"trap", "thread (7,0,0)"}, nil},
	{"deep", 1, 1, with(buffer(4), 1<<20), driver.ErrLaunchFailed, []string{"call", "the call stack is full at a depth of"}, nil},
}

func TestPlantedFaults(t *testing.T) {
	for _, p := range plants {
		t.Run(p.kernel, func(t *testing.T) {
			r := emulator(t, p.opts...)
			list := p.args(r)
			err := r.try(r.kernel("faults.ptx", p.kernel), driver.D1(p.grid), driver.D1(p.block), 0, list...)
			require.ErrorIs(t, err, p.code)
			for _, s := range append(p.says, "line", "[kernel "+p.kernel+",") {
				assert.ErrorContains(t, err, s)
			}
			// The device is not lost: another kernel runs.
			r.run(r.kernel("faults.ptx", "copies"), driver.D1(1), driver.D1(32), 0, zeros[int32](r, 32), r.alloc(128))
		})
	}
}

// TestCheckedAndRight is the counterpart: what is allowed is not reported.
func TestCheckedAndRight(t *testing.T) {
	r := emulator(t, checked...)
	in := make([]byte, 30)
	for i := range in {
		in[i] = byte(i)
	}
	sums := r.alloc(128)
	r.run(r.kernel("faults.ptx", "dropped_tail"), driver.D1(1), driver.D1(32), 0, upload(r, in), sums, len(in))
	for i, v := range download[uint32](r, sums, 32) {
		var want uint32
		for k := 4 * i; k < min(4*i+4, len(in)); k++ {
			want += uint32(k)
		}
		require.Equal(t, want, v)
	}
	out := r.alloc(4)
	for range 20 {
		r.run(r.kernel("faults.ptx", "handed_over"), driver.D1(1), driver.D1(64), 0, out)
		require.Equal(t, int32(42), download[int32](r, out, 1)[0])
		r.run(r.kernel("faults.ptx", "with_fence"), driver.D1(2), driver.D1(1), 0, zeros[int32](r, 1), zeros[int32](r, 1), out)
		require.Equal(t, int32(42), download[int32](r, out, 1)[0])
	}
}

// TestWithoutSyncCheck runs what a GPU would run, too.
func TestWithoutSyncCheck(t *testing.T) {
	r := emulator(t, emu.WithoutSyncCheck())
	out := zeros[int32](r, 64)
	r.run(r.kernel("faults.ptx", "partial_barrier"), driver.D1(1), driver.D1(64), 0, out)
	for i, v := range download[int32](r, out, 64) {
		require.Equal(t, i < 40, v == 1)
	}
}

// TestHostEndsWait lets the host write what a kernel waits for.
func TestHostEndsWait(t *testing.T) {
	r := emulator(t)
	h, err := r.dev.AllocHost(8)
	require.NoError(t, err)
	clear(h.Bytes)
	a := args(h.Ptr)
	require.NoError(t, r.stream.Launch(r.kernel("faults.ptx", "deadlock"), driver.Config{Grid: driver.D1(2), Block: driver.D1(1)}, a))
	a.Release()
	time.Sleep(30 * time.Millisecond)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(h.Bytes))), 1)
	require.NoError(t, r.stream.Synchronize())
	require.Equal(t, []byte{1, 0, 0, 0, 1, 0, 0, 0}, h.Bytes)
	require.NoError(t, r.dev.FreeHost(h))
}

// TestStreamEndsWait lets a kernel in another stream write what a kernel waits
// for.
func TestStreamEndsWait(t *testing.T) {
	r := emulator(t)
	flags, scratch := zeros[uint32](r, 2), zeros[uint32](r, 1)
	one := driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}
	a := args(flags)
	defer a.Release()
	require.NoError(t, r.stream.Launch(r.kernel("faults.ptx", "deadlock"), one, a))
	other, err := r.dev.NewStream()
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	b := args(scratch, flags+4, scratch)
	defer b.Release()
	require.NoError(t, other.Launch(r.kernel("faults.ptx", "with_fence"), one, b))
	require.NoError(t, r.stream.Synchronize())
	require.NoError(t, other.Synchronize())
	require.Equal(t, []uint32{1, 1}, download[uint32](r, flags, 2))
	require.NoError(t, other.Close())
}
