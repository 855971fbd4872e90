package driver

import "unsafe"

// Twin is a kernel written in Go: given the same launch, it leaves the same
// bytes in memory as the PTX kernel of its name. The cpu device runs twins, and
// they are the reference that the PTX is compared with.
//
// A twin checks its memory with [Slice] before it writes, and returns the error.
type Twin func(l *TwinLaunch) error

// TwinLaunch is what a twin sees of a launch.
type TwinLaunch struct {
	Config
	Args ArgReader
	Mem  Memory

	// Parallel calls f(i) for every i in [0, n), spread over the device's
	// cores in contiguous, ascending pieces, and returns when all are done.
	// A panic in f becomes the launch's error.
	Parallel func(n int64, f func(i int64))
}

// Memory resolves device addresses of a host device.
type Memory interface {
	// Resolve returns the bytes at [p, p+bytes), or an ErrIllegalAddress that
	// names the nearest allocation.
	Resolve(p Ptr, bytes int64) ([]byte, error)
}

// Slice returns n elements of T at p as a slice over the device's own memory.
// T holds no pointers. n of 0 gives an empty slice whatever p is.
func Slice[T any](m Memory, p Ptr, n int64) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	var zero T
	size := int64(unsafe.Sizeof(zero))
	if n < 0 || n > (1<<62)/size {
		return nil, Errorf("launch", ErrIllegalAddress, "%d elements of %d bytes at %#x", n, size, uint64(p))
	}
	if uint64(p)%uint64(unsafe.Alignof(zero)) != 0 {
		return nil, Errorf("launch", ErrMisaligned, "address %#x for elements of %d bytes", uint64(p), size)
	}
	b, err := m.Resolve(p, n*size)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}
