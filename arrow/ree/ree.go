// Package ree connects ptxrun to Apache Arrow's run-end encoded arrays
// (https://arrow.apache.org/docs/format/Columnar.html, "Run-End Encoded Layout").
//
// [Encode] and [Decode] are between plain arrays and run-end encoded ones, by a
// [ptxrun.Runtime]'s device. [FromArrow] and [Runs.ToArrow] are between run-end
// encoded arrays and what ptxrun's functions take: values and lengths.
//
// Values have a fixed width of 1, 2, 4 or 8 bytes: integers, floats, times, dates,
// decimals and binary of that size. Encode and Decode also take booleans. Values
// are equal when their bits are: NaN continues a run of the same NaN, and -0 ends
// one of +0.
//
// Nulls are runs of their own, as Arrow has them: validity is that of the encoded
// values, and the run-end encoded array itself has none. A run of nulls is one run
// whatever the bytes under it are.
//
// Slices are honoured on the way in; results begin at offset 0. Results have
// their memory from the allocator given and are released by the caller; arguments
// are neither kept nor released.
package ree

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Runs are the values and lengths of runs, in order.
type Runs[V ptxrun.Number, L ptxrun.RunLength] struct {
	Values  []V
	Lengths []L
	// Valid tells of each run whether it is one of values, or of nulls; nil if
	// no run is null. A null run's value has no meaning.
	Valid []bool
}

// FromArrow returns a copy of the runs of a, or of the part that a slice shows. V
// is of the size of a's values; no length is zero.
//
// Errors: ErrNil; ErrElementType if V does not fit a's values; ErrCorrupt if a's
// run ends do not rise, do not cover it, or lack values, if its length or offset
// is negative, or a buffer too short; ErrOverflow if a run is too long for L.
func FromArrow[V ptxrun.Number, L ptxrun.RunLength](a *array.RunEndEncoded) (Runs[V, L], error) {
	const call = "ree.FromArrow"
	p, err := physical(call, a)
	if err != nil {
		return Runs[V, L]{}, err
	}
	if p.boolean || p.width != sizeOf[V]() {
		return Runs[V, L]{}, driver.Errorf(call, driver.ErrElementType, "values of %v as elements of %d bytes", p.dt, sizeOf[V]())
	}
	r := Runs[V, L]{Values: make([]V, len(p.lengths)), Lengths: make([]L, len(p.lengths)), Valid: p.valid}
	copy(bytesOf(r.Values), p.values)
	for i, n := range p.lengths {
		if r.Lengths[i] = L(n); uint64(r.Lengths[i]) != n {
			return Runs[V, L]{}, driver.Errorf(call, driver.ErrOverflow, "run %d has %d elements", i, n)
		}
	}
	return r, nil
}

// ToArrow returns the runs as an array of the type, which has values of V's size.
// Runs without elements are left out; equal neighbours stay apart.
//
// Errors: ErrNil, also for a type that lacks a part; ErrElementType if the type's
// values are not of V's size, or its run ends not int16, int32 or int64;
// ErrLength if the parts of r differ in length; ErrOverflow if the lengths' sum
// does not fit the type's run ends.
func (r Runs[V, L]) ToArrow(mem memory.Allocator, dt *arrow.RunEndEncodedType) (*array.RunEndEncoded, error) {
	const call = "ree.ToArrow"
	if mem == nil || dt == nil || dt.RunEnds() == nil || dt.Encoded() == nil {
		return nil, driver.Errorf(call, driver.ErrNil, "allocator, type, or that of run ends or values")
	}
	if err := checkEnds(call, dt); err != nil {
		return nil, err
	}
	if width, boolean, ok := layout(dt.Encoded()); !ok || boolean || width != sizeOf[V]() {
		return nil, driver.Errorf(call, driver.ErrElementType, "elements of %d bytes as values of %v", sizeOf[V](), dt.Encoded())
	}
	if len(r.Lengths) != len(r.Values) || r.Valid != nil && len(r.Valid) != len(r.Values) {
		return nil, driver.Errorf(call, driver.ErrLength, "%d values, %d lengths, validity of %d", len(r.Values), len(r.Lengths), len(r.Valid))
	}
	kept := 0
	for _, n := range r.Lengths {
		if n > 0 {
			kept++
		}
	}
	if kept < len(r.Lengths) {
		some := Runs[V, L]{Values: make([]V, 0, kept), Lengths: make([]L, 0, kept)}
		for i, n := range r.Lengths {
			if n == 0 {
				continue
			}
			some.Values, some.Lengths = append(some.Values, r.Values[i]), append(some.Lengths, n)
			if r.Valid != nil {
				some.Valid = append(some.Valid, r.Valid[i])
			}
		}
		r = some
	}
	return newArray(call, mem, dt, bytesOf(r.Values), r.Lengths, r.Valid)
}

// newArray makes an array of runs, each of at least one element.
func newArray[L ptxrun.RunLength](call string, mem memory.Allocator, dt *arrow.RunEndEncodedType, values []byte, lengths []L, valid []bool) (*array.RunEndEncoded, error) {
	total := uint64(0)
	for i, n := range lengths {
		if total += uint64(n); total < uint64(n) || total > endLimit(dt) {
			return nil, driver.Errorf(call, driver.ErrOverflow, "the lengths up to run %d do not fit run ends of %v", i, dt.RunEnds())
		}
	}
	ends := memory.NewResizableBuffer(mem)
	defer ends.Release()
	ends.Resize(len(lengths) * dt.RunEnds().(arrow.FixedWidthDataType).Bytes())
	switch dt.RunEnds().ID() {
	case arrow.INT16:
		putEnds(arrow.Int16Traits.CastFromBytes(ends.Bytes()), lengths)
	case arrow.INT32:
		putEnds(arrow.Int32Traits.CastFromBytes(ends.Bytes()), lengths)
	default:
		putEnds(arrow.Int64Traits.CastFromBytes(ends.Bytes()), lengths)
	}
	encoded := memory.NewResizableBuffer(mem)
	defer encoded.Release()
	if _, boolean, _ := layout(dt.Encoded()); boolean {
		putBits(encoded, values)
	} else {
		encoded.Resize(len(values))
		copy(encoded.Bytes(), values)
	}
	nulls, validity := 0, (*memory.Buffer)(nil)
	if valid != nil {
		validity = memory.NewResizableBuffer(mem)
		defer validity.Release()
		nulls = len(valid) - putBits(validity, bytesOf(valid))
	}
	endData := array.NewData(dt.RunEnds(), len(lengths), []*memory.Buffer{nil, ends}, nil, 0, 0)
	defer endData.Release()
	valueData := array.NewData(dt.Encoded(), len(lengths), []*memory.Buffer{validity, encoded}, nil, nulls, 0)
	defer valueData.Release()
	data := array.NewData(dt, int(total), []*memory.Buffer{nil}, []arrow.ArrayData{endData, valueData}, 0, 0)
	defer data.Release()
	return array.NewRunEndEncodedData(data), nil
}

func checkEnds(call string, dt *arrow.RunEndEncodedType) error {
	if !dt.ValidRunEndsType(dt.RunEnds()) {
		return driver.Errorf(call, driver.ErrElementType, "run ends of %v; int16, int32 and int64 are possible", dt.RunEnds())
	}
	return nil
}

func endLimit(dt *arrow.RunEndEncodedType) uint64 {
	switch dt.RunEnds().ID() {
	case arrow.INT16:
		return math.MaxInt16
	case arrow.INT32:
		return math.MaxInt32
	}
	return math.MaxInt64
}

func putEnds[E int16 | int32 | int64, L ptxrun.RunLength](ends []E, lengths []L) {
	end := E(0)
	for i, n := range lengths {
		end += E(n)
		ends[i] = end
	}
}

// putBits makes b a bitmap of the bytes, zeros and ones, and returns how many
// ones there are.
func putBits(b *memory.Buffer, of []byte) (ones int) {
	b.Resize(int(bitutil.BytesForBits(int64(len(of)))))
	bits := b.Bytes()
	clear(bits)
	for i, v := range of {
		bits[i/8] |= v << (i % 8)
		ones += int(v)
	}
	return ones
}

// bitBytes are n bits from an offset as bytes, zeros and ones.
func bitBytes(bits []byte, offset, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = bits[(offset+i)/8] >> ((offset + i) % 8) & 1
	}
	return b
}

// runs are the runs of an array, as bytes.
type runs struct {
	dt      arrow.DataType
	width   int // bytes of a value
	boolean bool
	values  []byte // shared with the array, but for booleans
	lengths []uint64
	valid   []bool
}

// physical returns the runs that a shows, after they were checked.
func physical(call string, a *array.RunEndEncoded) (p runs, err error) {
	if a == nil {
		return p, driver.Errorf(call, driver.ErrNil, "array")
	}
	if a.Len() < 0 || a.Offset() < 0 || a.Offset() > math.MaxInt-a.Len() {
		return p, driver.Errorf(call, driver.ErrCorrupt, "%d elements from %d on", a.Len(), a.Offset())
	}
	// Validation counts the nulls of both in bitmaps that it does not look at.
	if _, err := bitmap(call, a.Data(), a.Offset(), a.Len()); err != nil {
		return p, err
	}
	ends := a.RunEndsArr().Data()
	switch bits, err := bitmap(call, ends, ends.Offset(), ends.Len()); {
	case err != nil:
		return p, err
	case bits == nil && ends.NullN() < 0:
		return p, driver.Errorf(call, driver.ErrCorrupt, "run ends of which neither nulls nor a count of them is known; they have none: set the count to 0")
	}
	if err := a.ValidateFull(); err != nil {
		return p, driver.Errorf(call, driver.ErrCorrupt, "%v", err)
	}
	data := a.Values().Data()
	p.dt = data.DataType()
	var ok bool
	if p.width, p.boolean, ok = layout(p.dt); !ok {
		return p, driver.Errorf(call, driver.ErrElementType, "values of %v", p.dt)
	}
	if a.Len() == 0 {
		return p, nil
	}
	first, n := a.GetPhysicalOffset(), a.GetPhysicalLength()
	if p.values, err = valueBytes(call, data, data.Offset()+first, n, p.width, p.boolean); err != nil {
		return p, err
	}
	if p.valid, err = validity(call, data, data.Offset()+first, n); err != nil {
		return p, err
	}
	p.lengths = make([]uint64, n)
	switch ends := a.RunEndsArr().(type) {
	case *array.Int16:
		fromEnds(p.lengths, ends.Int16Values()[first:], a.Offset(), a.Len())
	case *array.Int32:
		fromEnds(p.lengths, ends.Int32Values()[first:], a.Offset(), a.Len())
	case *array.Int64:
		fromEnds(p.lengths, ends.Int64Values()[first:], a.Offset(), a.Len())
	}
	return p, nil
}

func fromEnds[E int16 | int32 | int64](lengths []uint64, ends []E, offset, n int) {
	start := uint64(0)
	for i := range lengths {
		end := min(uint64(ends[i])-uint64(offset), uint64(n))
		lengths[i] = end - start
		start = end
	}
}

// layout is the bytes of a type's values, or that they are bits.
func layout(dt arrow.DataType) (width int, boolean, ok bool) {
	l := dt.Layout()
	if dt.ID() == arrow.EXTENSION || l.HasDict || l.VariadicSpec != nil || len(l.Buffers) != 2 {
		return 0, false, false
	}
	switch v := l.Buffers[1]; {
	case dt.ID() == arrow.BOOL:
		return 1, true, true
	case v.Kind == arrow.KindFixedWidth && (v.ByteWidth == 1 || v.ByteWidth == 2 || v.ByteWidth == 4 || v.ByteWidth == 8):
		return v.ByteWidth, false, true
	}
	return 0, false, false
}

// valueBytes are n values from one on, a byte each if they are bits.
func valueBytes(call string, data arrow.ArrayData, from, n, width int, boolean bool) ([]byte, error) {
	var b []byte
	if buffer := data.Buffers()[1]; buffer != nil {
		b = buffer.Bytes()
	}
	has := len(b) / width
	if boolean {
		has = len(b) * 8
	}
	switch {
	case n == 0:
		return nil, nil
	case from < 0 || n < 0 || n > has-from:
		return nil, driver.Errorf(call, driver.ErrCorrupt, "%d bytes of %v for %d values from %d on", len(b), data.DataType(), n, from)
	case boolean:
		return bitBytes(b, from, n), nil
	}
	return b[from*width : (from+n)*width], nil
}

// bitmap has the validity of n elements from one on, or is nil if none is null.
// The array's own count of nulls would look into a bitmap of any size.
func bitmap(call string, data arrow.ArrayData, from, n int) ([]byte, error) {
	if len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.NullN() == 0 {
		return nil, nil
	}
	buffer := data.Buffers()[0]
	if from < 0 || n < 0 || n > buffer.Len()*8-from {
		return nil, driver.Errorf(call, driver.ErrCorrupt, "validity of %d bytes for %d elements from %d on", buffer.Len(), n, from)
	}
	return buffer.Bytes(), nil
}

// validity tells which of n elements from one on are values, nil if all are.
func validity(call string, data arrow.ArrayData, from, n int) ([]bool, error) {
	bits, err := bitmap(call, data, from, n)
	if err != nil || bits == nil || bitutil.CountSetBits(bits, from, n) == n {
		return nil, err
	}
	b := bitBytes(bits, from, n)
	return unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

func sizeOf[V any]() int {
	var zero V
	return int(unsafe.Sizeof(zero))
}

func bytesOf[V any](s []V) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*sizeOf[V]())
}
