package ptxrun

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// Buffer is device memory for a number of elements of T, a type without
// pointers. It belongs to one runtime and is freed by Free; views made by Slice
// share its memory.
type Buffer[T any] struct {
	rt   *Runtime
	ptr  driver.Ptr
	n    int64
	own  bool         // not a view
	free *atomic.Bool // shared by all views
}

// NewBuffer allocates n elements. The contents are undefined. n may be zero.
//
// Errors: ErrElementType if T holds pointers, ErrInvalidValue for a negative n,
// ErrOutOfMemory.
func NewBuffer[T any](rt *Runtime, n int) (*Buffer[T], error) {
	const op = "NewBuffer"
	if err := rt.begin(op); err != nil {
		return nil, err
	}
	defer rt.end()
	if err := checkElement[T](op); err != nil {
		return nil, err
	}
	size := sizeOf[T]()
	if n < 0 || int64(n) > (1<<62)/size {
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%d elements of %d bytes", n, size)
	}
	b := &Buffer[T]{rt: rt, n: int64(n), own: true, free: new(atomic.Bool)}
	if n == 0 {
		return b, nil
	}
	p, err := rt.dev.Alloc(int64(n) * size)
	if err != nil {
		return nil, named(op, err)
	}
	b.ptr = p
	rt.mu.Lock()
	rt.buffers[p] = int64(n) * size
	rt.mu.Unlock()
	return b, nil
}

// NewBufferFrom allocates a buffer that holds a copy of src.
func NewBufferFrom[T any](s *Stream, src []T) (*Buffer[T], error) {
	if err := s.begin("NewBufferFrom"); err != nil {
		return nil, err
	}
	defer s.end()
	b, err := NewBuffer[T](s.rt, len(src))
	if err != nil {
		return nil, err
	}
	if err := b.CopyFrom(s, src); err != nil {
		b.Free()
		return nil, err
	}
	return b, nil
}

// Len is the number of elements; none of a nil buffer.
func (b *Buffer[T]) Len() int {
	if b == nil {
		return 0
	}
	return int(b.n)
}

// Ptr is the address of the first element, for kernels of the caller's own.
// Zero if the buffer is empty or nil.
func (b *Buffer[T]) Ptr() driver.Ptr {
	if b == nil {
		return 0
	}
	return b.ptr
}

// Slice returns the view [from, to) of the same memory. Views are not freed.
func (b *Buffer[T]) Slice(from, to int) (*Buffer[T], error) {
	if b == nil {
		return nil, driver.Errorf("Buffer.Slice", driver.ErrNil, "buffer")
	}
	if from < 0 || to < from || int64(to) > b.n {
		return nil, driver.Errorf("Buffer.Slice", driver.ErrLength, "[%d:%d] of %d elements", from, to, b.n)
	}
	v := *b
	v.own, v.n = false, int64(to-from)
	if v.n > 0 {
		v.ptr += driver.Ptr(int64(from) * sizeOf[T]())
	}
	return &v, nil
}

// View returns n elements of T in b's memory, from byte offset on, as a view like that
// of Slice: results of several types can lie together, for one copy to fetch.
//
// Errors: ErrNil, ErrElementType if T holds pointers, ErrLength for what is not in b,
// ErrInvalidValue for an address that T cannot have.
func View[T, S any](b *Buffer[S], offset, n int) (*Buffer[T], error) {
	const op = "View"
	if b == nil {
		return nil, driver.Errorf(op, driver.ErrNil, "buffer")
	}
	if err := checkElement[T](op); err != nil {
		return nil, err
	}
	size, bytes := sizeOf[T](), b.n*sizeOf[S]()
	if offset < 0 || n < 0 || int64(offset) > bytes || int64(n) > (bytes-int64(offset))/size {
		return nil, driver.Errorf(op, driver.ErrLength, "%d elements of %d bytes from byte %d on, of %d", n, size, offset, bytes)
	}
	v := &Buffer[T]{rt: b.rt, n: int64(n), free: b.free}
	if n > 0 {
		v.ptr = b.ptr + driver.Ptr(offset)
	}
	var zero T
	if align := driver.Ptr(unsafe.Alignof(zero)); v.ptr%align != 0 {
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "elements from byte %d on, at %#x, which is no multiple of %d", offset, uint64(v.ptr), align)
	}
	return v, nil
}

// Free releases the memory after the work that uses it; views of it become
// unusable. A second Free is ErrClosed, also after an error of the device, which
// releases what it could not free when it is closed. A view is not freed,
// ErrInvalidValue; nil and a zero Buffer are ErrNil.
func (b *Buffer[T]) Free() error {
	const op = "Buffer.Free"
	if b == nil {
		return driver.Errorf(op, driver.ErrNil, "buffer")
	}
	if b.rt == nil {
		return driver.Errorf(op, driver.ErrNil, "a zero Buffer, not one of NewBuffer")
	}
	if !b.own {
		return driver.Errorf(op, driver.ErrInvalidValue, "a view; free the buffer that it is a view of")
	}
	if err := b.rt.begin(op); err != nil {
		return err
	}
	defer b.rt.end()
	if b.free.Swap(true) {
		return driver.Errorf(op, driver.ErrClosed, "buffer freed before")
	}
	if b.ptr == 0 {
		return nil
	}
	b.rt.mu.Lock()
	delete(b.rt.buffers, b.ptr)
	b.rt.mu.Unlock()
	return named(op, b.rt.dev.Free(b.ptr))
}

// CopyFrom copies src, of the buffer's length, to the device in stream order.
// src may be reused when it returns, which on CUDA is after the stream's earlier
// work. Errors: ErrNil, ErrClosed, ErrWrongDevice, ErrLength.
func (b *Buffer[T]) CopyFrom(s *Stream, src []T) error {
	const op = "Buffer.CopyFrom"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	if err := b.check(op, "buffer", s.rt); err != nil {
		return err
	}
	if int64(len(src)) != b.n {
		return driver.Errorf(op, driver.ErrLength, "%d elements into a buffer of %d", len(src), b.n)
	}
	if b.n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(op, s.s.CopyToDevice(b.ptr, bytesOf(src)))
}

// CopyTo waits for the stream's earlier work and copies the buffer into dst, of
// the buffer's length. Errors: as CopyFrom, and those of the earlier work.
func (b *Buffer[T]) CopyTo(s *Stream, dst []T) error {
	const op = "Buffer.CopyTo"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	if err := b.check(op, "buffer", s.rt); err != nil {
		return err
	}
	if int64(len(dst)) != b.n {
		return driver.Errorf(op, driver.ErrLength, "a buffer of %d elements into %d", b.n, len(dst))
	}
	if b.n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.s.CopyToHost(bytesOf(dst), b.ptr); err != nil {
		return named(op, err)
	}
	return named(op, s.s.Synchronize())
}

// check reports why the buffer, called name in the message, cannot be used on
// rt's device.
func (b *Buffer[T]) check(op, name string, rt *Runtime) error {
	switch {
	case b == nil:
		return driver.Errorf(op, driver.ErrNil, "%s", name)
	case b.rt != rt:
		return driver.Errorf(op, driver.ErrWrongDevice, "%s", name)
	case b.free.Load():
		return driver.Errorf(op, driver.ErrClosed, "%s was freed", name)
	}
	return nil
}

// span is the addresses that a buffer covers, for overlap checks.
type span struct {
	name string
	from driver.Ptr
	size int64
}

func (b *Buffer[T]) span(name string) span { return span{name, b.ptr, b.n * sizeOf[T]()} }

func spanOf[T any](name string, s []T) span {
	return span{name, driver.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(s)))), int64(len(s)) * sizeOf[T]()}
}

// checkDisjoint reports overlapping spans.
func checkDisjoint(op string, spans ...span) error {
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if a.size > 0 && b.size > 0 && a.from < b.from+driver.Ptr(b.size) && b.from < a.from+driver.Ptr(a.size) {
				return driver.Errorf(op, driver.ErrOverlap, "%s and %s", a.name, b.name)
			}
		}
	}
	return nil
}

// checkInPlace is checkDisjoint for algorithms that may also work in place.
func checkInPlace(op string, dst, src span) error {
	if dst.from == src.from {
		return nil
	}
	return checkDisjoint(op, dst, src)
}

func sizeOf[T any]() int64 {
	var zero T
	return int64(unsafe.Sizeof(zero))
}

// bytesOf is the memory of s.
func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), int64(len(s))*sizeOf[T]())
}

// bytesOfValue is the memory of *v.
func bytesOfValue[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), sizeOf[T]())
}

// pointerFree caches, by reflect.Type, whether a type can live in device memory.
var pointerFree sync.Map

// checkElement refuses types that device memory cannot hold: those with
// pointers, which the garbage collector could not see there, and empty ones.
func checkElement[T any](op string) error {
	t := reflect.TypeFor[T]()
	if ok, known := pointerFree.Load(t); known && ok.(bool) {
		return nil
	}
	ok := t.Size() > 0 && !hasPointers(t)
	pointerFree.Store(t, ok)
	if !ok {
		return driver.Errorf(op, driver.ErrElementType, "%s: elements must have a size and hold no pointers", t)
	}
	return nil
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	}
	return true
}
