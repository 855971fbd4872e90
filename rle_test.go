package ptxrun

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
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

var (
	encodeStrategyList = []EncodeStrategy{EncodeSinglePass, EncodeMarkScan}
	decodeStrategyList = []DecodeStrategy{DecodeSinglePass, DecodeTiled, DecodeThread, DecodeWarp, DecodeBlock}
)

func testRLE[V Number, L RunLength](t *testing.T) {
	t.Run(fmt.Sprintf("%v-%v", reflect.TypeFor[V](), reflect.TypeFor[L]()), func(t *testing.T) {
		eachTarget[V](t, "rle_", func(t *testing.T, d testDevice, rt *Runtime) {
			if d.slow && sizeOf[V]() != sizeOf[L]() && sizeOf[V]() > 1 {
				t.Skip("the emulator's own tests run every kernel; here it runs the bytes and the widest values")
			}
			s, err := NewStream(rt)
			require.NoError(t, err)
			sizes := d.sizes(rleTile)
			if !d.slow && !testing.Short() {
				sizes = append(sizes, d.sizes(int(selectTile(int(sizeOf[V]()))))...)
			}
			for _, n := range sizes {
				for name, src := range testData[V](d, n) {
					msg := fmt.Sprintf("n %d, %s", n, name)
					wantValues, wantLengths := naiveEncode(src)
					runs := len(wantValues)

					for _, strategy := range encodeStrategyList {
						// Exactly as much room as there are runs, then less: the first runs.
						for _, room := range rooms(d, runs) {
							msg := fmt.Sprintf("%s, %v, room for %d", msg, strategy, room)
							in := newGuarded[V](t, s, n, n%3)
							require.NoError(t, in.CopyFrom(s, src))
							values, lengths := newGuarded[V](t, s, room, 1+n%2), newGuarded[L](t, s, room, 1+n%2)
							count := newGuarded[uint64](t, s, 1, 1)
							require.NoError(t, RLEEncodeBuffer(s, values.Buffer, lengths.Buffer, count.Buffer, in.Buffer, WithEncodeStrategy(strategy)), msg)
							require.Equal(t, []uint64{uint64(runs)}, count.check(t, s, msg), msg)
							requireSame(t, wantValues[:room], values.check(t, s, msg), "%s: values", msg)
							requireSame(t, lengthsAs[L](wantLengths[:room]), lengths.check(t, s, msg), "%s: lengths", msg)
							requireSame(t, src, in.check(t, s, msg), "%s: input", msg)
						}
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

// rooms are the numbers of runs that an encoding with that many gets room for.
func rooms(d testDevice, runs int) []int {
	if d.slow || testing.Short() || runs == 0 {
		return []int{runs, runs / 2}
	}
	return []int{runs, runs - 1, runs / 2, 0}
}

// decodeAndCompare decodes into guarded memory larger than needed.
func decodeAndCompare[V Number, L RunLength](t *testing.T, s *Stream, values []V, lengths []L, want []V, strategy DecodeStrategy, msg string) {
	t.Helper()
	msg = fmt.Sprintf("%s, %v", msg, strategy)
	for skew := range 2 {
		if skew == 0 && strategy != DecodeSinglePass && len(want)%2 == 0 {
			continue // the emulator takes its time; both happen
		}
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
	testRLE[int32, uint64](t)
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

// TestRLEDecodeManyTiles has more tiles than a block has stages, parts large and small
// in one, and memory that bulk copies can and cannot be made of.
func TestRLEDecodeManyTiles(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		runs := 3*rt.Info().Multiprocessors*decodeBulkStages*int(decodeBulkTile(8, 4)) + 5
		values, lengths, lengths64 := make([]uint64, runs), make([]uint32, runs), make([]uint64, runs)
		var want []uint64
		for i := range runs {
			n := (i * 7) % 4
			if i%10_000 == 5000 {
				n = 20_000
			}
			values[i], lengths[i], lengths64[i] = uint64(i)<<32|uint64(i*i), uint32(n), uint64(n)
			for range n {
				want = append(want, values[i])
			}
		}
		decodeAndCompare(t, s, values, lengths, want, DecodeSinglePass, "32-bit lengths")
		decodeAndCompare(t, s, values, lengths64, want, DecodeSinglePass, "64-bit lengths")

		// Without the first run, which is empty, values are not aligned.
		v, err := NewBufferFrom(s, values)
		require.NoError(t, err)
		l, err := NewBufferFrom(s, lengths)
		require.NoError(t, err)
		v1, err := v.Slice(1, runs)
		require.NoError(t, err)
		l1, err := l.Slice(1, runs)
		require.NoError(t, err)
		from, to := len(want)/3+1, len(want)/3*2
		for name, runs := range map[string]struct {
			values  *Buffer[uint64]
			lengths *Buffer[uint32]
		}{"aligned": {v, l}, "not aligned": {v1, l1}} {
			out, sum := newGuarded[uint64](t, s, to-from, 1), newGuarded[uint64](t, s, 1, 1)
			require.NoError(t, RLEDecodeRangeBuffer(s, out.Buffer, sum.Buffer, runs.values, runs.lengths, int64(from)), name)
			require.Equal(t, []uint64{uint64(len(want))}, sum.check(t, s, name))
			requireSame(t, want[from:to], out.check(t, s, name), "%s", name)
		}

		// The sum reaches its bound between tiles; what precedes is decoded.
		lengths64[runs/2] = math.MaxUint64 - 5
		huge, err := NewBufferFrom(s, lengths64)
		require.NoError(t, err)
		out, sum := newGuarded[uint64](t, s, to-from, 1), newGuarded[uint64](t, s, 1, 1)
		require.NoError(t, RLEDecodeRangeBuffer(s, out.Buffer, sum.Buffer, v, huge, int64(from)))
		require.Equal(t, []uint64{math.MaxUint64}, sum.check(t, s, "saturated"))
		got, half := out.check(t, s, "saturated"), 0
		for _, n := range lengths[:runs/2] {
			half += int(n)
		}
		require.True(t, from < half && half < to)
		requireSame(t, want[from:half], got[:half-from], "before the huge run")
		requireSame(t, slices.Repeat(values[runs/2:runs/2+1], to-half), got[half-from:], "in the huge run")
		require.NoError(t, cmp.Or(v.Free(), l.Free(), huge.Free(), s.Close()))
	})
}

// TestRLEDecodeRange decodes windows that begin and end at and beside run, tile
// and chunk borders, on the host and on the device, and behind the end.
func TestRLEDecodeRange(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		var values, want []uint16
		var lengths []uint32
		for i := range 9000 {
			n := uint32(i % 4)
			if i == 4321 {
				n = 100_000
			}
			values, lengths = append(values, uint16(i)), append(lengths, n)
			for range n {
				want = append(want, uint16(i))
			}
		}
		total := len(want)
		v, err := NewBufferFrom(s, values)
		require.NoError(t, err)
		l, err := NewBufferFrom(s, lengths)
		require.NoError(t, err)
		for _, w := range [][2]int{{0, total}, {0, 1}, {1, 2}, {total - 1, total}, {6000, 6001}, {6477, 6500}, {6000, 106_485}, {50_001, 70_003}, {total, total}, {5, 5}} {
			msg := fmt.Sprintf("elements %d to %d of %d", w[0], w[1], total)
			got, err := RLEDecodeRange(t.Context(), rt, values, lengths, int64(w[0]), int64(w[1]))
			require.NoError(t, err, msg)
			requireSame(t, want[w[0]:w[1]], got, "%s", msg)
			out, sum := newGuarded[uint16](t, s, w[1]-w[0]+3, 1), newGuarded[uint64](t, s, 1, 1)
			require.NoError(t, RLEDecodeRangeBuffer(s, out.Buffer, sum.Buffer, v, l, int64(w[0])), msg)
			require.Equal(t, []uint64{uint64(total)}, sum.check(t, s, msg))
			wide := append(slices.Clone(want[w[0]:min(total, w[1]+3)]), canary, canary, canary)[:w[1]-w[0]+3]
			requireSame(t, wide, out.check(t, s, msg), "%s, on the device", msg)
		}
		for _, w := range [][2]int64{{-1, 1}, {2, 1}, {0, int64(total) + 1}, {math.MaxInt64, math.MaxInt64}} {
			_, err := RLEDecodeRange(t.Context(), rt, values, lengths, w[0], w[1])
			require.ErrorIs(t, err, driver.ErrInvalidValue, "elements %d to %d", w[0], w[1])
		}

		// A sum beyond 64 bits is told, and what is there is decoded.
		huge, err := NewBufferFrom(s, []uint64{3, math.MaxUint64 - 1, 7})
		require.NoError(t, err)
		few, err := NewBufferFrom(s, []uint16{1, 2, 3})
		require.NoError(t, err)
		out, sum := newGuarded[uint16](t, s, 5, 1), newGuarded[uint64](t, s, 1, 1)
		require.NoError(t, RLEDecodeRangeBuffer(s, out.Buffer, sum.Buffer, few, huge, 1))
		require.Equal(t, []uint64{math.MaxUint64}, sum.check(t, s, "sum"))
		require.Equal(t, []uint16{1, 1, 2, 2, 2}, out.check(t, s, "huge"))
		_, err = RLEDecodeBuffer(s, few, v, l)
		require.ErrorIs(t, err, driver.ErrTooSmall)
		other, err := NewBuffer[uint16](rt, 5)
		require.NoError(t, err)
		_, err = RLEDecodeBuffer(s, other, few, huge)
		require.ErrorIs(t, err, driver.ErrOverflow)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		require.ErrorIs(t, RLEDecodeRangeBuffer(s, other, count, few, huge, -1), driver.ErrInvalidValue)
		require.ErrorIs(t, RLEDecodeRangeBuffer(s, other, huge, few, huge, 0), driver.ErrLength)
		require.ErrorIs(t, RLEDecodeRangeBuffer(s, other, nil, few, huge, 0), driver.ErrNil)
		require.NoError(t, cmp.Or(v.Free(), l.Free(), huge.Free(), few.Free(), other.Free(), count.Free(), s.Close()))
	})
}

func TestRLECount(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		for _, n := range d.sizes(rleTile) {
			for name, src := range testData[uint32](d, n) {
				want, _ := naiveEncode(src)
				got, err := RLECount(t.Context(), rt, src)
				require.NoError(t, err)
				require.Equal(t, len(want), got, "%s %d", name, n)
			}
		}
		b, err := NewBufferFrom(s, []int8{1, 1, 2})
		require.NoError(t, err)
		count := newGuarded[uint64](t, s, 1, 1)
		require.NoError(t, RLECountBuffer(s, count.Buffer, b))
		require.Equal(t, []uint64{2}, count.check(t, s, "count"))
		two, err := NewBuffer[uint64](rt, 2)
		require.NoError(t, err)
		require.ErrorIs(t, RLECountBuffer(s, two, b), driver.ErrLength)
		require.ErrorIs(t, RLECountBuffer(s, nil, b), driver.ErrNil)
		require.NoError(t, cmp.Or(b.Free(), two.Free(), s.Close()))
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
		for _, n := range []uint64{1 << 60, math.MaxInt64 - 255, math.MaxInt64} {
			_, err = RLEDecode(ctx, rt, []byte{1}, []uint64{n})
			require.ErrorIs(t, err, driver.ErrOutOfMemory, "%d", n)
			_, err = RLEDecode(ctx, rt, []byte{1}, []uint64{n}, WithDecodeStrategy(DecodeTiled))
			require.ErrorIs(t, err, driver.ErrOutOfMemory, "%d", n)
		}
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
