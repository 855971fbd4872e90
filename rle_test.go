package ptxrun

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func naiveEncode[V Number](src []V) (values []V, lengths []uint64) {
	for i, v := range src {
		if i == 0 || v != src[i-1] {
			values, lengths = append(values, v), append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	return values, lengths
}

func lengthsAs[L RunLength](lengths []uint64) []L {
	out := make([]L, len(lengths))
	for i, l := range lengths {
		out[i] = L(l)
	}
	return out
}

var decodeStrategyList = []DecodeStrategy{DecodeTiled, DecodeThread, DecodeWarp, DecodeBlock}

func testRLE[V Number, L RunLength](t *testing.T) {
	t.Run(fmt.Sprintf("%v-%v", reflect.TypeFor[V](), reflect.TypeFor[L]()), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			for _, n := range d.sizes(rleTile) {
				for name, src := range testData[V](d, n) {
					msg := fmt.Sprintf("n %d, %s", n, name)
					wantValues, wantLengths := naiveEncode(src)
					runs := len(wantValues)

					// Exactly as much room as there are runs, then one too few.
					for _, room := range []int{runs, runs - 1} {
						if room < 0 {
							continue
						}
						in := newGuarded[V](t, s, n, n%3)
						require.NoError(t, in.CopyFrom(s, src))
						values, lengths := newGuarded[V](t, s, room, 1), newGuarded[L](t, s, room, 1)
						count := newGuarded[uint64](t, s, 1, 1)
						require.NoError(t, RLEEncodeBuffer(s, values.Buffer, lengths.Buffer, count.Buffer, in.Buffer, WithEncodeStrategy(EncodeMarkScan)), msg)
						require.Equal(t, []uint64{uint64(runs)}, count.check(t, s, msg), msg)
						gotValues, gotLengths := values.check(t, s, msg), lengths.check(t, s, msg)
						if room == runs {
							requireSame(t, wantValues, gotValues, "%s: values", msg)
							requireSame(t, lengthsAs[L](wantLengths), gotLengths, "%s: lengths", msg)
						}
						for i := range room {
							if room < runs && (gotValues[i] != canary || gotLengths[i] != canary) {
								require.Fail(t, "written although there is no room for all", "%s: run %d", msg, i)
							}
						}
						requireSame(t, src, in.check(t, s, msg), "%s: input", msg)
					}

					for _, strategy := range decodeStrategyList {
						decodeAndCompare(t, s, wantValues, lengthsAs[L](wantLengths), src, strategy, msg)
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

// decodeAndCompare decodes into guarded memory larger than needed.
func decodeAndCompare[V Number, L RunLength](t *testing.T, s *Stream, values []V, lengths []L, want []V, strategy DecodeStrategy, msg string) {
	t.Helper()
	msg = fmt.Sprintf("%s, %v", msg, strategy)
	for skew := range 2 {
		v, err := NewBufferFrom(s, values)
		require.NoError(t, err)
		l, err := NewBufferFrom(s, lengths)
		require.NoError(t, err)
		const spare = 5
		out := newGuarded[V](t, s, len(want)+spare, skew)
		total, err := RLEDecodeBuffer(s, out.Buffer, v, l, WithDecodeStrategy(strategy))
		require.NoError(t, err, msg)
		require.Equal(t, int64(len(want)), total, msg)
		got := out.check(t, s, msg)
		requireSame(t, want, got[:len(want)], "%s", msg)
		for _, x := range got[len(want):] {
			require.Equal(t, V(canary), x, "%s: written past the total", msg)
		}
		require.NoError(t, v.Free())
		require.NoError(t, l.Free())
	}
}

func TestRLE(t *testing.T) {
	testRLE[uint8, uint32](t)
	testRLE[uint16, uint64](t)
	testRLE[int32, uint32](t)
	testRLE[float64, uint64](t)
}

// TestRLEDecodeShapes are run lengths that unbalance: zero-length runs, one huge
// among many short, run ends on and beside every tile border.
func TestRLEDecodeShapes(t *testing.T) {
	shapes := map[string][]uint32{
		"zeros only":         make([]uint32, 1000),
		"zeros between":      nil,
		"one huge":           {1, 1, 300_000, 1, 1, 0, 0, 1},
		"tile borders":       {decodeTile - 1, 1, 1, decodeTile - 2, 1, decodeTile, decodeTile + 1, 2*decodeTile - 1, 3},
		"one run":            {1},
		"zeros at the end":   {5, 0, 0, 0},
		"zeros at the start": {0, 0, 0, 5},
	}
	for i := range 5000 {
		shapes["zeros between"] = append(shapes["zeros between"], uint32(i%3/2*7))
	}
	many := make([]uint32, 20_000)
	for i := range many {
		many[i] = 1
	}
	many[7777] = 123_457
	shapes["one huge among ones"] = many
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		for name, lengths := range shapes {
			values := make([]uint8, len(lengths))
			var want []uint8
			for i, l := range lengths {
				values[i] = uint8(i*7 + i>>8)
				for range l {
					want = append(want, values[i])
				}
			}
			for _, strategy := range decodeStrategyList {
				decodeAndCompare(t, s, values, lengths, want, strategy, name)
			}
		}
		require.NoError(t, s.Close())
	})
}

func TestRLEHost(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		for _, n := range d.sizes(rleTile) {
			for name, src := range testData[int16](d, n) {
				wantValues, wantLengths := naiveEncode(src)
				values, lengths, err := RLEEncode(t.Context(), rt, src)
				require.NoError(t, err)
				requireSame(t, wantValues, values, "%s %d", name, n)
				requireSame(t, lengthsAs[uint32](wantLengths), lengths, "%s %d", name, n)
				_, lengths64, err := RLEEncode64(t.Context(), rt, src)
				require.NoError(t, err)
				requireSame(t, wantLengths, lengths64, "%s %d", name, n)
				back, err := RLEDecode(t.Context(), rt, values, lengths64)
				require.NoError(t, err)
				requireSame(t, src, back, "%s %d", name, n)
			}
		}
	})
}

// TestRLEBits: values are compared by their bits.
func TestRLEBits(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		nan := math.NaN()
		src := []float64{0, math.Copysign(0, -1), nan, nan, 1}
		_, lengths, err := RLEEncode(t.Context(), rt, src)
		require.NoError(t, err)
		require.Equal(t, []uint32{1, 1, 2, 1}, lengths)
	})
}

func TestRLEErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		_, _, err := RLEEncode(ctx, nil, []byte{1})
		require.ErrorIs(t, err, driver.ErrNil)
		_, _, err = RLEEncode(ctx, rt, []byte{1}, WithEncodeStrategy(encodeStrategies))
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = RLEDecode(ctx, rt, []byte{1, 2}, []uint32{1})
		require.ErrorIs(t, err, driver.ErrLength)
		_, err = RLEDecode(ctx, rt, []byte{1}, []uint32{1}, WithDecodeStrategy(decodeStrategies))
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = RLEDecode(ctx, rt, []byte{1, 2}, []uint64{math.MaxUint64, 2})
		require.ErrorIs(t, err, driver.ErrOverflow, "the sum wraps to 1")
		_, err = RLEDecode(ctx, rt, []byte{1, 2, 3}, []uint64{1 << 62, 1 << 62, 1})
		require.ErrorIs(t, err, driver.ErrOverflow)
		_, err = RLEDecode(ctx, rt, []uint64{1}, []uint64{1 << 62})
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
		_, err = RLEDecode(ctx, rt, []byte{1}, []uint64{1 << 60})
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, _, err = RLEEncode(cancelled, rt, []byte{1})
		require.ErrorIs(t, err, context.Canceled)
		_, err = RLEDecode(cancelled, rt, []byte{1}, []uint32{1})
		require.ErrorIs(t, err, context.Canceled)
		none, err := RLEDecode[byte, uint32](ctx, rt, nil, nil)
		require.NoError(t, err)
		require.Empty(t, none)

		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBuffer[byte](rt, 8)
		require.NoError(t, err)
		l, err := NewBufferFrom(s, []uint32{3, 3, 3, 3})
		require.NoError(t, err)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		at := func(from, to int) *Buffer[byte] {
			v, err := b.Slice(from, to)
			require.NoError(t, err)
			return v
		}
		require.ErrorIs(t, RLEEncodeBuffer(s, at(0, 4), l, count, at(2, 8)), driver.ErrOverlap)
		require.ErrorIs(t, RLEEncodeBuffer(s, at(0, 3), l, count, at(4, 8)), driver.ErrLength)
		require.ErrorIs(t, RLEEncodeBuffer(s, nil, l, count, at(4, 8)), driver.ErrNil)
		require.ErrorIs(t, RLEEncodeBuffer(nil, at(0, 4), l, count, at(4, 8)), driver.ErrNil)
		_, err = RLEDecodeBuffer(s, at(2, 8), at(0, 4), l)
		require.ErrorIs(t, err, driver.ErrOverlap)
		_, err = RLEDecodeBuffer(s, at(4, 8), at(0, 4), l)
		require.ErrorIs(t, err, driver.ErrTooSmall)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		require.EqualValues(t, 12, e.Need)
		require.NoError(t, b.Free())
		require.NoError(t, l.Free())
		require.NoError(t, count.Free())
		require.NoError(t, s.Close())
	})
}
