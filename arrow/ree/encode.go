package ree

import (
	"context"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Encode run-end encodes a plain array on rt's device, with run ends of the type:
// int16, int32 or int64.
//
// When ctx is done before the result is complete, it returns ctx's error. Errors
// are also ErrNil; ErrElementType for values or run ends of a type that cannot
// be; ErrOverflow if the array is too long for the run ends; ErrCorrupt if its
// buffers are too short; and those of [ptxrun.RLEEncode].
func Encode(ctx context.Context, rt *ptxrun.Runtime, mem memory.Allocator, a arrow.Array, runEnds arrow.DataType) (*array.RunEndEncoded, error) {
	const call = "ree.Encode"
	if mem == nil || a == nil || runEnds == nil {
		return nil, driver.Errorf(call, driver.ErrNil, "allocator, array or type")
	}
	dt := arrow.RunEndEncodedOf(runEnds, a.DataType())
	if err := checkEnds(call, dt); err != nil {
		return nil, err
	}
	width, boolean, ok := layout(a.DataType())
	if !ok {
		return nil, driver.Errorf(call, driver.ErrElementType, "values of %v", a.DataType())
	}
	if uint64(a.Len()) > endLimit(dt) {
		return nil, driver.Errorf(call, driver.ErrOverflow, "%d elements do not fit run ends of %v", a.Len(), runEnds)
	}
	values, err := valueBytes(call, a.Data(), a.Data().Offset(), a.Len(), width, boolean)
	if err != nil {
		return nil, err
	}
	valid, err := validity(call, a.Data(), a.Data().Offset(), a.Len())
	if err != nil {
		return nil, err
	}
	if valid != nil {
		values = withoutNulls(values, valid, width)
	}
	values, lengths, err := encodeBytes(ctx, rt, values, width)
	if err != nil {
		return nil, err
	}
	if valid != nil { // a run ends where the values' run ends or the validity's
		ones, between, err := ptxrun.RLEEncode64(ctx, rt, bytesOf(valid))
		if err != nil {
			return nil, err
		}
		values, lengths, valid = overlay(values, lengths, width, ones, between)
	}
	return newArray(call, mem, dt, values, lengths, valid)
}

// withoutNulls is a copy of the values with zeros where they are null.
func withoutNulls(values []byte, valid []bool, width int) []byte {
	values = append(make([]byte, 0, len(values)), values...)
	for i, v := range valid {
		if !v {
			clear(values[i*width : (i+1)*width])
		}
	}
	return values
}

// overlay splits runs of values where validity changes.
func overlay(values []byte, lengths []uint64, width int, ones []byte, between []uint64) (v []byte, l []uint64, valid []bool) {
	var value, validity int
	left, until := lengths[0], between[0]
	for {
		n := min(left, until)
		v = append(v, values[value*width:(value+1)*width]...)
		l = append(l, n)
		valid = append(valid, ones[validity] != 0)
		if left -= n; left == 0 {
			if value++; value == len(lengths) {
				return v, l, valid
			}
			left = lengths[value]
		}
		if until -= n; until == 0 {
			validity++
			until = between[validity]
		}
	}
}

func encodeBytes(ctx context.Context, rt *ptxrun.Runtime, raw []byte, width int) ([]byte, []uint64, error) {
	switch width {
	case 1:
		return encodeAs[uint8](ctx, rt, raw)
	case 2:
		return encodeAs[uint16](ctx, rt, raw)
	case 4:
		return encodeAs[uint32](ctx, rt, raw)
	}
	return encodeAs[uint64](ctx, rt, raw)
}

func encodeAs[V ptxrun.Number](ctx context.Context, rt *ptxrun.Runtime, raw []byte) ([]byte, []uint64, error) {
	values, lengths, err := ptxrun.RLEEncode64(ctx, rt, elementsOf[V](raw))
	return bytesOf(values), lengths, err
}

// elementsOf is b as elements of V: the same memory if it is aligned for them,
// which a slice of a larger message may not be.
func elementsOf[V any](b []byte) []V {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(sizeOf[V]()) != 0 {
		aligned := make([]V, len(b)/sizeOf[V]())
		copy(bytesOf(aligned), b)
		return aligned
	}
	return unsafe.Slice((*V)(p), len(b)/sizeOf[V]())
}

// Decode returns the plain array of a run-end encoded one, decoded on rt's device
// into the allocator's memory.
//
// When ctx is done before the result is complete, it returns ctx's error. Errors
// are also those of [FromArrow], ErrClosed and ErrOutOfMemory.
func Decode(ctx context.Context, rt *ptxrun.Runtime, mem memory.Allocator, a *array.RunEndEncoded) (arrow.Array, error) {
	const call = "ree.Decode"
	if ctx == nil || mem == nil {
		return nil, driver.Errorf(call, driver.ErrNil, "context or allocator")
	}
	p, err := physical(call, a)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := a.Len()
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	if p.boolean {
		raw, err := ptxrun.RLEDecode(ctx, rt, p.values, p.lengths)
		if err != nil {
			return nil, err
		}
		putBits(values, raw)
	} else {
		values.Resize(n * p.width)
		if err := p.decode(ctx, rt, values.Bytes()); err != nil {
			return nil, err
		}
	}
	nulls, bitmap := 0, (*memory.Buffer)(nil)
	if p.valid != nil {
		bitmap = memory.NewResizableBuffer(mem)
		defer bitmap.Release()
		bitmap.Resize(int(bitutil.BytesForBits(int64(n))))
		clear(bitmap.Bytes())
		at := int64(0)
		for i, length := range p.lengths {
			bitutil.SetBitsTo(bitmap.Bytes(), at, int64(length), p.valid[i])
			if at += int64(length); !p.valid[i] {
				nulls += int(length)
			}
		}
	}
	data := array.NewData(p.dt, n, []*memory.Buffer{bitmap, values}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

func (p runs) decode(ctx context.Context, rt *ptxrun.Runtime, dst []byte) error {
	switch p.width {
	case 1:
		return decodeAs[uint8](ctx, rt, dst, p)
	case 2:
		return decodeAs[uint16](ctx, rt, dst, p)
	case 4:
		return decodeAs[uint32](ctx, rt, dst, p)
	}
	return decodeAs[uint64](ctx, rt, dst, p)
}

// decodeAs decodes the runs to dst, whose size is theirs.
func decodeAs[V ptxrun.Number](ctx context.Context, rt *ptxrun.Runtime, dst []byte, p runs) (err error) {
	s, err := ptxrun.NewStream(rt)
	if err != nil {
		return err
	}
	defer func() {
		if closed := s.Close(); err == nil {
			err = closed
		}
	}()
	values, err := ptxrun.NewBufferFrom(s, elementsOf[V](p.values))
	if err != nil {
		return err
	}
	defer values.Free()
	lengths, err := ptxrun.NewBufferFrom(s, p.lengths)
	if err != nil {
		return err
	}
	defer lengths.Free()
	decoded, err := ptxrun.NewBuffer[V](rt, len(dst)/sizeOf[V]())
	if err != nil {
		return err
	}
	defer decoded.Free()
	if _, err := ptxrun.RLEDecodeBuffer(s, decoded, values, lengths); err != nil {
		return err
	}
	if err := s.Wait(ctx); err != nil {
		return err
	}
	out := elementsOf[V](dst)
	if err := decoded.CopyTo(s, out); err != nil {
		return err
	}
	if raw := bytesOf(out); unsafe.SliceData(raw) != unsafe.SliceData(dst) {
		copy(dst, raw)
	}
	return nil
}
