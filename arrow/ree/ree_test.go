package ree

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// open returns a runtime and an allocator that must both have their memory back
// when the test ends.
func open(t *testing.T) (*ptxrun.Runtime, *memory.CheckedAllocator) {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() {
		mem.AssertSize(t, 0)
		require.NoError(t, rt.Close())
	})
	return rt, mem
}

var ctx = context.Background()

var endTypes = []arrow.DataType{arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}

var valueTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8,
	arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint16, arrow.FixedWidthTypes.Float16,
	arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Float32, arrow.FixedWidthTypes.Date32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Timestamp_us,
	&arrow.FixedSizeBinaryType{ByteWidth: 4}, &arrow.Decimal32Type{Precision: 5, Scale: 1},
}

// plain builds an array of n elements with arrow-go's builder, of runs of the
// mean length, some of nulls.
func plain(t *testing.T, mem memory.Allocator, dt arrow.DataType, n, mean int, nulls bool) arrow.Array {
	r := rand.New(rand.NewPCG(uint64(n), uint64(mean)))
	b := array.NewBuilder(mem, dt)
	defer b.Release()
	text := ""
	for i := range n {
		if i == 0 || r.IntN(mean) == 0 {
			v := r.IntN(4)
			switch dt.ID() {
			case arrow.BOOL:
				text = fmt.Sprint(v%2 == 0)
			case arrow.FIXED_SIZE_BINARY:
				text = []string{"YWFhYQ==", "YmJiYg==", "AAAAAA==", "/////w=="}[v]
			case arrow.DATE32:
				text = []string{"2020-01-01", "1970-01-01", "1969-12-31", "2100-01-01"}[v]
			case arrow.TIMESTAMP:
				text = []string{"2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "2100-01-01T00:00:00Z"}[v]
			default:
				text = fmt.Sprint(v)
			}
			if nulls && r.IntN(3) == 0 {
				text = ""
			}
		}
		if text == "" {
			b.AppendNull()
		} else {
			require.NoError(t, b.AppendValueFromString(text))
		}
	}
	return b.NewArray()
}

// Both directions against arrow-go's own, whole and sliced.
func TestAgainstArrow(t *testing.T) {
	rt, mem := open(t)
	actx := compute.WithAllocator(ctx, mem)
	for _, dt := range valueTypes {
		for _, nulls := range []bool{false, true} {
			for _, mean := range []int{1, 30} {
				whole := plain(t, mem, dt, 1000, mean, nulls)
				for i, cut := range [][2]int{{0, 1000}, {1, 1000}, {13, 700}, {500, 501}, {999, 1000}, {400, 400}} {
					ends := endTypes[i%3]
					name := fmt.Sprintf("%v, nulls %v, mean %d, %v, %v", dt, nulls, mean, cut, ends)
					a := array.NewSlice(whole, int64(cut[0]), int64(cut[1]))

					ours, err := Encode(ctx, rt, mem, a, ends)
					require.NoError(t, err, name)
					require.NoError(t, ours.ValidateFull(), name)
					require.Equal(t, a.Len(), ours.Len(), name)
					if a.Len() > 0 && arrowEncodes(dt) {
						theirs, err := compute.RunEndEncodeArray(actx, compute.RunEndEncodeOptions{RunEndType: ends}, a)
						require.NoError(t, err, name)
						require.True(t, array.Equal(theirs, ours), "%s: %v and %v", name, theirs, ours)
						require.True(t, arrow.TypeEqual(theirs.DataType(), ours.DataType()), name)
						back, err := Decode(ctx, rt, mem, theirs.(*array.RunEndEncoded))
						require.NoError(t, err, name)
						require.True(t, array.Equal(a, back), "%s: %v and %v", name, a, back)
						back.Release()
						theirs.Release()

						back, err = compute.RunEndDecodeArray(actx, ours)
						require.NoError(t, err, name)
						require.True(t, array.Equal(a, back), "%s: %v and %v", name, a, back)
						back.Release()
					}
					back, err := Decode(ctx, rt, mem, ours)
					require.NoError(t, err, name)
					require.Equal(t, a.NullN(), back.NullN(), name)
					require.True(t, array.Equal(a, back), "%s: %v and %v", name, a, back)
					back.Release()

					// A slice of the run-end encoded array is one of the plain.
					if n := int64(a.Len()); n > 10 {
						part := array.NewSlice(ours, n/3, n-3).(*array.RunEndEncoded)
						want := array.NewSlice(a, n/3, n-3)
						back, err := Decode(ctx, rt, mem, part)
						require.NoError(t, err, name)
						require.True(t, array.Equal(want, back), "%s: %v and %v", name, want, back)
						back.Release()
						want.Release()
						part.Release()
					}
					ours.Release()
					a.Release()
				}
				whole.Release()
			}
		}
	}
}

// arrowEncodes reports whether arrow-go has the function for the type.
func arrowEncodes(dt arrow.DataType) bool { return dt.ID() != arrow.DECIMAL32 }

// What is under a null makes no run.
func TestNullsAreOneRun(t *testing.T) {
	rt, mem := open(t)
	b := array.NewInt32Builder(mem)
	defer b.Release()
	b.AppendValues([]int32{7, 7, 1, 2, 3, 0, 0, 5}, []bool{true, true, false, false, false, true, true, false})
	a := b.NewInt32Array()
	defer a.Release()
	e, err := Encode(ctx, rt, mem, a, arrow.PrimitiveTypes.Int32)
	require.NoError(t, err)
	defer e.Release()
	require.Equal(t, []int32{2, 5, 7, 8}, e.RunEndsArr().(*array.Int32).Int32Values())
	require.Equal(t, "[7 (null) 0 (null)]", e.Values().String())
	r, err := FromArrow[int32, uint32](e)
	require.NoError(t, err)
	require.Equal(t, Runs[int32, uint32]{[]int32{7, 0, 0, 0}, []uint32{2, 3, 2, 1}, []bool{true, false, true, false}}, r)
}

// Built with arrow-go's builder; the example of LogicalValuesArray's
// documentation is the slice.
func TestFromArrow(t *testing.T) {
	_, mem := open(t)
	for _, ends := range endTypes {
		b := array.NewRunEndEncodedBuilder(mem, ends, arrow.PrimitiveTypes.Uint16)
		values := b.ValueBuilder().(*array.Uint16Builder)
		start := uint64(0)
		for i, end := range []uint64{1, 2, 4, 6, 10, 1000, 1750, 2000} {
			b.Append(end - start)
			values.Append(uint16(i))
			start = end
		}
		a := b.NewRunEndEncodedArray()
		b.Release()
		r, err := FromArrow[uint16, uint64](a)
		require.NoError(t, err)
		assert.Equal(t, Runs[uint16, uint64]{[]uint16{0, 1, 2, 3, 4, 5, 6, 7}, []uint64{1, 1, 2, 2, 4, 990, 750, 250}, nil}, r)
		part := array.NewSlice(a, 150, 1650).(*array.RunEndEncoded)
		r, err = FromArrow[uint16, uint64](part)
		require.NoError(t, err)
		assert.Equal(t, Runs[uint16, uint64]{[]uint16{5, 6}, []uint64{850, 650}, nil}, r)

		again, err := r.ToArrow(mem, part.DataType().(*arrow.RunEndEncodedType))
		require.NoError(t, err)
		assert.True(t, array.Equal(part, again), "%v and %v", part, again)
		again.Release()
		none := array.NewSlice(a, 5, 5).(*array.RunEndEncoded)
		r, err = FromArrow[uint16, uint64](none)
		require.NoError(t, err)
		assert.Empty(t, r.Lengths)
		none.Release()
		part.Release()
		a.Release()
	}
}

func TestToArrow(t *testing.T) {
	_, mem := open(t)
	dt := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float32)
	r := Runs[float32, uint32]{[]float32{1, 9, 2, 3}, []uint32{2, 0, 3, 1}, []bool{true, true, false, true}}
	a, err := r.ToArrow(mem, dt)
	require.NoError(t, err)
	require.NoError(t, a.ValidateFull())
	require.Equal(t, []int16{2, 5, 6}, a.RunEndsArr().(*array.Int16).Int16Values())
	require.Equal(t, "[1 (null) 3]", a.Values().String())
	a.Release()
	a, err = Runs[float32, uint32]{}.ToArrow(mem, dt)
	require.NoError(t, err)
	require.Zero(t, a.Len())
	a.Release()

	for ends, most := range map[arrow.DataType]uint64{arrow.PrimitiveTypes.Int16: math.MaxInt16, arrow.PrimitiveTypes.Int32: math.MaxInt32, arrow.PrimitiveTypes.Int64: math.MaxInt64} {
		dt := arrow.RunEndEncodedOf(ends, arrow.PrimitiveTypes.Uint8)
		r := Runs[uint8, uint64]{Values: []uint8{1, 2}, Lengths: []uint64{most - 1, 1}}
		a, err := r.ToArrow(mem, dt)
		require.NoError(t, err)
		require.NoError(t, a.ValidateFull())
		require.EqualValues(t, most, a.Len())
		if most > math.MaxUint32 {
			_, err = FromArrow[uint8, uint32](a)
			require.ErrorIs(t, err, driver.ErrOverflow)
		}
		a.Release()
		for _, more := range []uint64{2, math.MaxUint64} {
			r.Lengths[1] = more
			_, err = r.ToArrow(mem, dt)
			require.ErrorIs(t, err, driver.ErrOverflow)
		}
	}
}

func TestErrors(t *testing.T) {
	rt, mem := open(t)
	int32s := func(v ...int32) arrow.Array {
		b := array.NewInt32Builder(mem)
		defer b.Release()
		b.AppendValues(v, nil)
		return b.NewArray()
	}
	long := plain(t, mem, arrow.PrimitiveTypes.Int8, 1<<15, 9, false)
	defer long.Release()
	_, err := Encode(ctx, rt, mem, long, arrow.PrimitiveTypes.Int16)
	require.ErrorIs(t, err, driver.ErrOverflow)
	_, err = Encode(ctx, rt, mem, long, arrow.PrimitiveTypes.Uint32)
	require.ErrorIs(t, err, driver.ErrElementType)
	_, err = Encode(ctx, rt, mem, long, nil)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = Encode(ctx, nil, mem, long, arrow.PrimitiveTypes.Int32)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = Decode(ctx, rt, mem, nil)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = FromArrow[int8, uint32](nil)
	require.ErrorIs(t, err, driver.ErrNil)

	b := array.NewStringBuilder(mem)
	b.Append("text")
	text := b.NewArray()
	b.Release()
	defer text.Release()
	_, err = Encode(ctx, rt, mem, text, arrow.PrimitiveTypes.Int32)
	require.ErrorIs(t, err, driver.ErrElementType)
	one := int32s(1)
	defer one.Release()
	strings := array.NewRunEndEncodedArray(one, text, 1, 0)
	defer strings.Release()
	_, err = Decode(ctx, rt, mem, strings)
	require.ErrorIs(t, err, driver.ErrElementType)

	good := array.NewRunEndEncodedArray(one, one, 1, 0)
	defer good.Release()
	_, err = FromArrow[int64, uint32](good)
	require.ErrorIs(t, err, driver.ErrElementType)
	_, err = Runs[int64, uint32]{}.ToArrow(mem, good.DataType().(*arrow.RunEndEncodedType))
	require.ErrorIs(t, err, driver.ErrElementType)
	_, err = Runs[int32, uint32]{Values: []int32{1}}.ToArrow(mem, good.DataType().(*arrow.RunEndEncodedType))
	require.ErrorIs(t, err, driver.ErrLength)
	for _, dt := range []*arrow.RunEndEncodedType{nil, {}, arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, nil)} {
		_, err = Runs[int32, uint32]{}.ToArrow(mem, dt)
		require.ErrorIs(t, err, driver.ErrNil)
	}
	for _, ends := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint64, arrow.BinaryTypes.String} {
		_, err = Runs[int32, uint32]{Values: []int32{1}, Lengths: []uint32{1}}.ToArrow(mem, arrow.RunEndEncodedOf(ends, arrow.PrimitiveTypes.Int32))
		require.ErrorIs(t, err, driver.ErrElementType)
	}

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Encode(canceled, rt, mem, long, arrow.PrimitiveTypes.Int32)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Decode(canceled, rt, mem, good)
	require.ErrorIs(t, err, context.Canceled)

	// Arrays that no builder makes.
	for name, c := range map[string]struct {
		ends   []int32
		values int
		length int
	}{
		"falling":      {[]int32{5, 4, 6}, 3, 6},
		"zero":         {[]int32{0, 6}, 2, 6},
		"negative":     {[]int32{-3, 6}, 2, 6},
		"short":        {[]int32{2, 5}, 2, 6},
		"none":         {nil, 0, 6},
		"lacks values": {[]int32{2, 6}, 1, 6},
	} {
		ends, values := int32s(c.ends...), int32s(make([]int32, c.values)...)
		a := array.NewRunEndEncodedArray(ends, values, c.length, 0)
		_, err := Decode(ctx, rt, mem, a)
		require.ErrorIs(t, err, driver.ErrCorrupt, name)
		_, err = FromArrow[int32, uint32](a)
		require.ErrorIs(t, err, driver.ErrCorrupt, name)
		a.Release()
		ends.Release()
		values.Release()
	}
	// Values whose buffer has less than they say.
	data := array.NewData(arrow.PrimitiveTypes.Int32, 1, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 4))}, nil, 0, 0)
	defer data.Release()
	short := array.MakeFromData(data)
	defer short.Release()
	a := array.NewRunEndEncodedArray(one, short, 1, 0)
	defer a.Release()
	data.Buffers()[1].Reset(make([]byte, 3))
	_, err = Decode(ctx, rt, mem, a)
	require.ErrorIs(t, err, driver.ErrCorrupt)
	_, err = Encode(ctx, rt, mem, short, arrow.PrimitiveTypes.Int32)
	require.ErrorIs(t, err, driver.ErrCorrupt)
}

// Arrays whose parts do not have what they say, where arrow-go itself may look
// before anything was checked.
func TestShortBitmaps(t *testing.T) {
	rt, mem := open(t)
	int32s := func(n, nulls int, bitmap []byte, raw ...int32) arrow.ArrayData {
		var valid *memory.Buffer
		if bitmap != nil {
			valid = memory.NewBufferBytes(bitmap)
		}
		values := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(raw))
		return array.NewData(arrow.PrimitiveTypes.Int32, n, []*memory.Buffer{valid, values}, nil, nulls, 0)
	}
	const unknown = array.UnknownNullCount
	hundred := make([]int32, 100)
	for _, nulls := range []int{unknown, 3} {
		a := array.MakeFromData(int32s(100, nulls, []byte{1}, hundred...))
		_, err := Encode(ctx, rt, mem, a, arrow.PrimitiveTypes.Int32)
		require.ErrorIs(t, err, driver.ErrCorrupt)
	}
	a := array.MakeFromData(int32s(100, unknown, nil, hundred...))
	e, err := Encode(ctx, rt, mem, a, arrow.PrimitiveTypes.Int32)
	require.NoError(t, err, "without a bitmap there are no nulls to count")
	e.Release()

	rising := make([]int32, 100)
	for i := range rising {
		rising[i] = int32(i + 1)
	}
	dt := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32)
	ends, values := int32s(100, 0, nil, rising...), int32s(100, 0, nil, hundred...)
	whole := []*memory.Buffer{nil}
	for name, data := range map[string]arrow.ArrayData{
		"values":          array.NewData(dt, 100, whole, []arrow.ArrayData{ends, int32s(100, unknown, []byte{1}, hundred...)}, 0, 0),
		"run ends":        array.NewData(dt, 100, whole, []arrow.ArrayData{int32s(100, unknown, []byte{1}, rising...), values}, 0, 0),
		"no count":        array.NewData(dt, 100, whole, []arrow.ArrayData{int32s(100, unknown, nil, rising...), values}, 0, 0),
		"parent":          array.NewData(dt, 100, []*memory.Buffer{memory.NewBufferBytes([]byte{1})}, []arrow.ArrayData{ends, values}, unknown, 0),
		"negative length": array.NewData(dt, -1, whole, []arrow.ArrayData{ends, values}, 0, 0),
		"negative offset": array.NewData(dt, 1, whole, []arrow.ArrayData{ends, values}, 0, -1),
		"far offset":      array.NewData(dt, 2, whole, []arrow.ArrayData{ends, values}, 0, math.MaxInt),
	} {
		a := array.NewRunEndEncodedData(data)
		_, err := Decode(ctx, rt, mem, a)
		require.ErrorIs(t, err, driver.ErrCorrupt, name)
		_, err = FromArrow[int32, uint32](a)
		require.ErrorIs(t, err, driver.ErrCorrupt, name)
	}
}

func TestBits(t *testing.T) {
	_, mem := open(t)
	b := memory.NewResizableBuffer(mem)
	defer b.Release()
	bits := []byte{1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1}
	assert.Equal(t, 6, putBits(b, bits))
	assert.Equal(t, bits[3:], bitBytes(b.Bytes(), 3, 8))
}
