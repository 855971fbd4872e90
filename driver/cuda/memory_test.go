//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

func TestAllocFree(t *testing.T) {
	d := open(t)
	for _, bytes := range []int64{0, -1, math.MinInt64} {
		_, err := d.Alloc(bytes)
		fails(t, err, driver.ErrInvalidValue, "bytes")
		_, err = d.AllocHost(bytes)
		fails(t, err, driver.ErrInvalidValue, "bytes")
	}
	p := alloc(t, d, 100)
	assert.Zero(t, p%256)
	assert.Equal(t, []string{"cuCtxSynchronize", "cuMemFree_v2"}, since(func() {
		assert.NoError(t, d.Free(p))
	}))
	fails(t, d.Free(p), driver.ErrInvalidValue, "freed already")
	fails(t, d.Free(0), driver.ErrInvalidValue, "not the start of memory")

	q := alloc(t, d, 100)
	fails(t, d.Free(q+1), driver.ErrInvalidValue, "not the start of memory")
	assert.Equal(t, 1, fake.Now().Allocations)
}

func TestForeignMemory(t *testing.T) {
	d := open(t)
	other, err := cuda.Open(1)
	require.NoError(t, err)
	p, s := alloc(t, other, 8), newStream(t, d)
	h, err := other.AllocHost(8)
	require.NoError(t, err)
	fails(t, d.Free(p), driver.ErrInvalidValue, "on this device")
	fails(t, s.Free(p), driver.ErrInvalidValue, "on this device")
	fails(t, d.FreeHost(h), driver.ErrInvalidValue, "on this device")
	assert.NoError(t, other.Close())
}

// What waits to be reused is given back before an allocation fails.
func TestOutOfMemory(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	fake.FailAt(1, "cuMemAlloc_v2", driver.ErrOutOfMemory)
	p := alloc(t, d, 16)
	assert.Equal(t, "cuMemAlloc_v2", fake.Failed())
	assert.NoError(t, d.Free(p))

	fake.SetBusy(true)
	p = alloc(t, d, 16)
	require.NoError(t, s.Free(p))
	assert.Equal(t, 1, fake.Now().Allocations, "not freed before the stream has got there")
	fake.FailAt(1, "cuMemAlloc_v2", driver.ErrOutOfMemory)
	p = alloc(t, d, 16)
	assert.Equal(t, 1, fake.Now().Allocations, "freed to make room")
	fake.SetBusy(false)
	assert.NoError(t, d.Free(p))

	_, err := d.Alloc(1 << 50)
	fails(t, err, driver.ErrOutOfMemory, "1125899906842624 bytes")
	_, err = s.Alloc(1 << 50)
	fails(t, err, driver.ErrOutOfMemory, "1125899906842624 bytes")
	_, err = d.AllocHost(1 << 50)
	fails(t, err, driver.ErrOutOfMemory, "")
}

func TestStreamOrderedMemory(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	for _, bytes := range []int64{0, -1} {
		_, err := s.Alloc(bytes)
		fails(t, err, driver.ErrInvalidValue, "bytes")
	}
	var p driver.Ptr
	var err error
	allocated := since(func() { p, err = s.Alloc(64) })
	require.NoError(t, err)
	freed := since(func() { err = s.Free(p) })
	require.NoError(t, err)
	if d.Info().StreamOrderedAlloc {
		assert.Equal(t, []string{"cuMemAllocAsync"}, allocated)
		assert.Equal(t, []string{"cuMemFreeAsync"}, freed)
	} else {
		assert.Equal(t, []string{"cuMemAlloc_v2"}, allocated)
		assert.Equal(t, []string{"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuMemFree_v2", "cuEventDestroy_v2"}, freed)
	}
	fails(t, s.Free(p), driver.ErrInvalidValue, "freed already")

	// Either call frees the other's memory.
	p, err = s.Alloc(64)
	require.NoError(t, err)
	assert.NoError(t, d.Free(p))
	assert.NoError(t, s.Free(alloc(t, d, 64)))
	assert.Zero(t, fake.Now().Allocations)
}

// Memory that is not from a pool stays until the stream has got there.
func TestDeferredFree(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	fake.SetBusy(true)
	for n := range 3 {
		require.NoError(t, s.Free(alloc(t, d, 64)))
		assert.Equal(t, fake.Live{Contexts: 1, Streams: 1, Events: n + 1, Allocations: n + 1}, fake.Now())
	}
	require.NoError(t, s.Synchronize())
	assert.Equal(t, fake.Live{Contexts: 1, Streams: 1}, fake.Now())

	require.NoError(t, s.Free(alloc(t, d, 64)))
	require.NoError(t, s.Close(), "waits, then frees")
	assert.Equal(t, fake.Live{Contexts: 1}, fake.Now())

	require.NoError(t, newStream(t, d).Free(alloc(t, d, 64)))
	require.NoError(t, d.Close(), "waits, then frees")
}

// The pool keeps memory while a device is open, and is left as it was found.
func TestPoolThreshold(t *testing.T) {
	if oldDriver {
		return
	}
	open(t).Close()
	fake.SetPoolThreshold(4096)
	a, err := cuda.Open(0)
	require.NoError(t, err)
	b, err := cuda.Open(0)
	require.NoError(t, err)
	assert.Equal(t, uint64(math.MaxUint64), fake.PoolThreshold())
	assert.NoError(t, a.Close())
	assert.Equal(t, uint64(math.MaxUint64), fake.PoolThreshold(), "b is still open")
	assert.Contains(t, since(func() { assert.NoError(t, b.Close()) }), "cuMemPoolTrimTo")
	assert.Equal(t, uint64(4096), fake.PoolThreshold())

	fake.SetPools(false)
	a, err = cuda.Open(0)
	require.NoError(t, err)
	assert.False(t, a.Info().StreamOrderedAlloc)
	s := newStream(t, a)
	p, err := s.Alloc(8)
	require.NoError(t, err)
	require.NoError(t, s.Free(p))
	assert.NoError(t, a.Close())
	assert.Equal(t, uint64(4096), fake.PoolThreshold())
}

func TestHostMemory(t *testing.T) {
	d := open(t)
	h, err := d.AllocHost(1000)
	require.NoError(t, err)
	require.Len(t, h.Bytes, 1000)
	assert.NotZero(t, h.Ptr)
	h.Bytes[999] = 7

	for _, wrong := range []driver.HostMemory{
		{}, {Bytes: make([]byte, 1000), Ptr: h.Ptr}, {Bytes: h.Bytes[:999], Ptr: h.Ptr},
		{Bytes: h.Bytes[1:], Ptr: h.Ptr}, {Bytes: h.Bytes, Ptr: h.Ptr + 1},
	} {
		fails(t, d.FreeHost(wrong), driver.ErrInvalidValue, "not host memory allocated on this device")
	}
	assert.NoError(t, d.FreeHost(h))
	fails(t, d.FreeHost(h), driver.ErrInvalidValue, "freed already")
}

func TestCopies(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	p, q := alloc(t, d, 1<<16), alloc(t, d, 1<<16)
	pinned, err := d.AllocHost(1 << 16)
	require.NoError(t, err)
	pageable := bytes.Repeat([]byte("abcdefg"), 1<<16/7)

	// Memory that is not page-locked is copied when the call returns; the other
	// kind is left to the stream.
	toDevice := func(src []byte) []string {
		return since(func() { require.NoError(t, s.CopyToDevice(p, src)) })
	}
	toHost := func(dst []byte) []string {
		return since(func() { require.NoError(t, s.CopyToHost(dst, q)) })
	}
	waits := []string{"cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"}
	assert.Equal(t, waits, toDevice(pageable))
	require.NoError(t, s.Copy(q, p, int64(len(pageable))))
	got := make([]byte, len(pageable))
	assert.Equal(t, []string{"cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"}, toHost(got))
	assert.Equal(t, pageable, got)
	assert.Equal(t, waits[:1], toDevice(pinned.Bytes))
	assert.Equal(t, waits[:1], toDevice(pinned.Bytes[17:20]), "part of page-locked memory")
	assert.Equal(t, []string{"cuMemcpyDtoHAsync_v2"}, toHost(pinned.Bytes[:len(pageable)]))
	assert.Equal(t, pageable, pinned.Bytes[:len(pageable)])

	// A slice inside an object that holds Go pointers is only its bytes.
	object := &struct {
		next *int
		data [16]byte
	}{next: new(int)}
	require.NoError(t, s.Fill(q, 0xa5, 16))
	require.NoError(t, s.CopyToHost(object.data[:], q))
	assert.Equal(t, bytes.Repeat([]byte{0xa5}, 16), object.data[:])
	require.NoError(t, s.CopyToDevice(p, object.data[:]))

	// Nothing to do, nothing asked of the driver.
	assert.Empty(t, since(func() {
		assert.NoError(t, s.CopyToDevice(0, nil))
		assert.NoError(t, s.CopyToHost([]byte{}, 0))
		assert.NoError(t, s.Copy(0, 0, 0))
		assert.NoError(t, s.Fill(0, 1, 0))
	}))

	fails(t, s.Copy(p+8, p, 9), driver.ErrOverlap, "9 bytes")
	fails(t, s.Copy(p, p+8, 9), driver.ErrOverlap, "9 bytes")
	assert.NoError(t, s.Copy(p, p+8, 8))
	fails(t, s.Copy(p, q, -1), driver.ErrInvalidValue, "-1 bytes")
	fails(t, s.Fill(p, 0, -1), driver.ErrInvalidValue, "-1 bytes")
	fails(t, s.CopyToDevice(12345, pageable), driver.ErrInvalidValue, "cuMemcpyHtoDAsync")
	fails(t, s.CopyToHost(got, 12345), driver.ErrInvalidValue, "cuMemcpyDtoHAsync")
	fails(t, s.Copy(p, 12345, 8), driver.ErrInvalidValue, "cuMemcpyDtoDAsync")
	fails(t, s.Fill(12345, 0, 8), driver.ErrInvalidValue, "cuMemsetD8Async")
}
