package driver

import (
	"encoding/binary"
	"math"
	"sync"
)

// Args is a kernel's parameter block: the values one after the other, each at
// its natural alignment, as the kernel's .param list lays them out. It is the
// form in which every device takes them, structs included.
//
// Take one with [NewArgs] and give it back with Release; it is not safe for
// concurrent use.
type Args struct {
	buf    []byte
	params []Param
	align  int // the largest of a parameter
}

// Param is where a parameter lies in the block.
type Param struct{ Offset, Size int }

var argsPool = sync.Pool{New: func() any { return &Args{buf: make([]byte, 0, 128), params: make([]Param, 0, 16)} }}

// NewArgs returns an empty parameter block. Blocks are pooled so that a launch
// allocates nothing once the service is warm.
func NewArgs() *Args { return argsPool.Get().(*Args) }

// Release empties a and lets a later NewArgs have it.
func (a *Args) Release() {
	a.buf, a.params, a.align = a.buf[:0], a.params[:0], 0
	argsPool.Put(a)
}

// Buffer is the packed block, Params the place of each parameter in it.
// Both are valid until a changes.
func (a *Args) Buffer() []byte  { return a.buf }
func (a *Args) Params() []Param { return a.params }

// StructSize is the sizeof, in CUDA C++, of a struct with the parameters as its
// members in order: the packed block and what fills it up to its alignment.
func (a *Args) StructSize() int {
	align := max(a.align, 1)
	return max((len(a.buf)+align-1)&^(align-1), 1) // an empty struct has a byte
}

// Clone copies a, for a device that keeps the arguments past the call.
func (a *Args) Clone() *Args {
	c := NewArgs()
	c.buf = append(c.buf, a.buf...)
	c.params = append(c.params, a.params...)
	c.align = a.align
	return c
}

// place appends size zero bytes at the given alignment and returns them.
func (a *Args) place(size, align int) []byte {
	for len(a.buf)%align != 0 {
		a.buf = append(a.buf, 0)
	}
	a.align = max(a.align, align)
	off := len(a.buf)
	for range size {
		a.buf = append(a.buf, 0)
	}
	a.params = append(a.params, Param{off, size})
	return a.buf[off:]
}

// Ptr appends a pointer to device memory (.param .u64).
func (a *Args) Ptr(p Ptr) *Args { return a.Uint64(uint64(p)) }

// Uint64 appends a 64-bit value.
func (a *Args) Uint64(v uint64) *Args {
	binary.LittleEndian.PutUint64(a.place(8, 8), v)
	return a
}

// Uint32 appends a 32-bit value.
func (a *Args) Uint32(v uint32) *Args {
	binary.LittleEndian.PutUint32(a.place(4, 4), v)
	return a
}

// Float32 appends a float.
func (a *Args) Float32(v float32) *Args { return a.Uint32(math.Float32bits(v)) }

// Float64 appends a double.
func (a *Args) Float64(v float64) *Args { return a.Uint64(math.Float64bits(v)) }

// Bytes appends a value of any trivially copyable type, given as its bytes in
// memory; align is the type's alignment in CUDA C++ (a power of two).
func (a *Args) Bytes(v []byte, align int) *Args {
	copy(a.place(len(v), align), v)
	return a
}

// Reader reads the parameters back in order; twins use it.
func (a *Args) Reader() ArgReader { return ArgReader{a: a} }

// ArgReader walks over a parameter block. Reading past the end, or with another
// size than was written, panics: the kernel table and the twin disagree, which
// the kernel table's test finds.
type ArgReader struct {
	a *Args
	i int
}

// Bytes returns the next parameter of the given size.
func (r *ArgReader) Bytes(size int) []byte {
	p := r.a.params[r.i]
	if p.Size != size {
		panic("driver: a twin reads another parameter size than the launch wrote")
	}
	r.i++
	return r.a.buf[p.Offset : p.Offset+p.Size]
}

func (r *ArgReader) Uint64() uint64   { return binary.LittleEndian.Uint64(r.Bytes(8)) }
func (r *ArgReader) Uint32() uint32   { return binary.LittleEndian.Uint32(r.Bytes(4)) }
func (r *ArgReader) Float32() float32 { return math.Float32frombits(r.Uint32()) }
func (r *ArgReader) Float64() float64 { return math.Float64frombits(r.Uint64()) }
func (r *ArgReader) Ptr() Ptr         { return Ptr(r.Uint64()) }
