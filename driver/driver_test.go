package driver_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestErrorIsByCode(t *testing.T) {
	err := fmt.Errorf("around: %w", driver.Errorf("Open", driver.ErrNoDevice, "found %d", 0))
	require.ErrorIs(t, err, driver.ErrNoDevice)
	require.NotErrorIs(t, err, driver.ErrNoDriver)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "Open", e.Op)
	require.False(t, errors.Is(err, errors.New("other")))
}

func TestErrorText(t *testing.T) {
	e := &driver.Error{
		Op: "cuLaunchKernel", Code: driver.ErrOutOfMemory, Detail: "4096 bytes",
		Kernel: "scan_upsweep_sum_u32", Grid: driver.D1(7), Block: driver.Dim3{X: 16, Y: 16, Z: 1}, N: 1 << 33,
		Log: "line one\nline two\n\x00",
	}
	require.Equal(t, "ptxrun: cuLaunchKernel: out of memory (CUDA error 2): 4096 bytes"+
		" [kernel scan_upsweep_sum_u32, grid 7×1×1, block 16×16×1, n 8589934592]\nline one\nline two", e.Error())
	require.Equal(t, "ptxrun: Load: not found", (&driver.Error{Op: "Load", Code: driver.ErrNotFound}).Error(), "no CUDA call failed")
	require.Equal(t, "ptxrun: Close: memory still held", (&driver.Error{Op: "Close", Code: driver.ErrLeak}).Error())
	require.Contains(t, (&driver.Error{Op: "x", Code: 12345 - 12000}).Error(), "CUDA error 345", "an unknown code keeps its number")
	require.Contains(t, driver.ErrPTXVersion.Error(), "update the NVIDIA driver", "error 222 says what to do")
}

// TestEveryCodeHasWords: no code of ours reads as a number.
func TestEveryCodeHasWords(t *testing.T) {
	for c := driver.ErrNoDriver; c <= driver.ErrCompile; c++ {
		require.NotContains(t, c.Error(), "CUDA error", "code %d", int32(c))
	}
}

// TestArgsLayout compares the block with the layout that a C compiler gives the
// same parameters in a struct, which is PTX's.
func TestArgsLayout(t *testing.T) {
	type pair struct{ A, B uint32 }
	type block struct {
		Flag  uint8
		Count uint32
		Small uint16
		At    uint64
		Pair  pair
		X     float32
		Y     float64
		Last  uint8
	}
	a := driver.NewArgs()
	defer a.Release()
	want := block{1, 2, 3, 4, pair{5, 6}, 7.5, 8.5, 9}
	p := want.Pair
	a.Bytes([]byte{1}, 1).Uint32(2).Bytes([]byte{3, 0}, 2).Ptr(4).
		Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&p)), 8), 4).Float32(7.5).Float64(8.5).Bytes([]byte{9}, 1)
	require.Equal(t, unsafe.Slice((*byte)(unsafe.Pointer(&want)), unsafe.Offsetof(want.Last)+1), a.Buffer())
	require.EqualValues(t, unsafe.Sizeof(want), a.StructSize())
	offsets := []uintptr{unsafe.Offsetof(want.Flag), unsafe.Offsetof(want.Count), unsafe.Offsetof(want.Small), unsafe.Offsetof(want.At),
		unsafe.Offsetof(want.Pair), unsafe.Offsetof(want.X), unsafe.Offsetof(want.Y), unsafe.Offsetof(want.Last)}
	sizes := []int{1, 4, 2, 8, 8, 4, 8, 1}
	for i, param := range a.Params() {
		require.Equal(t, driver.Param{Offset: int(offsets[i]), Size: sizes[i]}, param)
	}

	c := a.Clone()
	defer c.Release()
	require.Equal(t, a.StructSize(), c.StructSize())
	r := c.Reader()
	require.Equal(t, []byte{1}, r.Bytes(1))
	require.EqualValues(t, 2, r.Uint32())
	require.Equal(t, []byte{3, 0}, r.Bytes(2))
	require.Equal(t, driver.Ptr(4), r.Ptr())
	require.Len(t, r.Bytes(8), 8)
	require.Equal(t, float32(7.5), r.Float32())
	require.Equal(t, 8.5, r.Float64())
	require.Panics(t, func() { r.Uint64() }, "the last parameter has one byte")
}

func TestArgsStructSize(t *testing.T) {
	for _, test := range []struct {
		args *driver.Args
		want int
	}{
		{driver.NewArgs(), 1},
		{driver.NewArgs().Bytes(nil, 1), 1},
		{driver.NewArgs().Bytes(make([]byte, 3), 1), 3},
		{driver.NewArgs().Ptr(0).Uint32(0), 16},
		{driver.NewArgs().Uint32(0).Bytes([]byte{1}, 2), 8},
		{driver.NewArgs().Bytes(make([]byte, 16), 16).Uint32(0), 32},
	} {
		require.Equal(t, test.want, test.args.StructSize())
		test.args.Release()
	}
}

func TestArgsAllocateNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		driver.NewArgs().Ptr(1).Uint64(math.MaxUint64).Uint32(3).Release()
	}))
}

// flat is one allocation at address 4096.
type flat []byte

func (f flat) Resolve(p driver.Ptr, bytes int64) ([]byte, error) {
	if p < 4096 || int64(p)-4096+bytes > int64(len(f)) {
		return nil, driver.Errorf("launch", driver.ErrIllegalAddress, "%#x", uint64(p))
	}
	return f[p-4096:][:bytes], nil
}

func TestSlice(t *testing.T) {
	m := make(flat, 64)
	s, err := driver.Slice[uint32](m, 4096+8, 4)
	require.NoError(t, err)
	s[3] = 0x01020304
	require.Equal(t, []byte{4, 3, 2, 1}, []byte(m[20:24]))
	s, err = driver.Slice[uint32](m, 0, 0)
	require.NoError(t, err)
	require.Empty(t, s)
	_, err = driver.Slice[uint32](m, 4096+2, 1)
	require.ErrorIs(t, err, driver.ErrMisaligned)
	_, err = driver.Slice[uint32](m, 4096, 17)
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
	for _, n := range []int64{-1, math.MaxInt64, 1 << 61} {
		_, err = driver.Slice[uint64](m, 4096, n)
		require.ErrorIs(t, err, driver.ErrIllegalAddress, "n %d", n)
	}
}

func TestDim3(t *testing.T) {
	require.EqualValues(t, 1<<62, driver.Dim3{X: 1 << 31, Y: 1 << 31, Z: 1}.Count(), "counts are 64 bits")
	require.Equal(t, driver.Dim3{X: 5, Y: 1, Z: 1}, driver.D1(5))
}
