package ptxrun

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// randomRuns are n runs of few values, also negative ones; some are empty, at
// times many in a row.
func randomRuns[V Number, L RunLength](r *rand.Rand, n int) (e Runs[V, L]) {
	for i := range n {
		length := L(r.IntN(5))
		if i%50 > 40 {
			length = 0
		}
		e.Values, e.Lengths = append(e.Values, V(r.IntN(4))-V(r.IntN(2))), append(e.Lengths, length)
	}
	return e
}

// decodeRuns is the elements of an encoding.
func decodeRuns[V Number, L RunLength](e Runs[V, L]) (elements []V) {
	for i, v := range e.Values {
		elements = append(elements, slices.Repeat([]V{v}, int(e.Lengths[i]))...)
	}
	return elements
}

// canonicalRuns is the encoding that RLENormalize gives of elements.
func canonicalRuns[V Number, L RunLength](elements []V) (e Runs[V, L]) {
	for i, v := range elements {
		if i == 0 || !sameNumber(v, elements[i-1]) {
			e.Values, e.Lengths = append(e.Values, v), append(e.Lengths, 0)
		}
		e.Lengths[len(e.Lengths)-1]++
	}
	return e
}

// sameNumber compares bits.
func sameNumber[V Number](a, b V) bool { return slices.Equal(bytesOfValue(&a), bytesOfValue(&b)) }

// recut is another encoding of the same elements.
func recut[V Number, L RunLength](r *rand.Rand, e Runs[V, L]) (o Runs[V, L]) {
	for i, v := range e.Values {
		left := e.Lengths[i]
		for range r.IntN(4) {
			part := L(r.Uint64N(uint64(left) + 1))
			o.Values, o.Lengths = append(o.Values, v), append(o.Lengths, part)
			left -= part
		}
		o.Values, o.Lengths = append(o.Values, v, v+1), append(o.Lengths, left, 0)
	}
	return o
}

// fitTo changes an encoding's last run so that it has n elements, where it has no
// more before that run.
func fitTo[V Number, L RunLength](e Runs[V, L], n int) Runs[V, L] {
	for i, l := range e.Lengths {
		if int(l) > n || i == len(e.Lengths)-1 {
			e.Lengths[i] = L(n)
		}
		n -= int(e.Lengths[i])
	}
	return e
}

// runsOnDevice puts an encoding between canaries on the device.
func runsOnDevice[V Number, L RunLength](t *testing.T, s *Stream, e Runs[V, L], skew int) (BufferRuns[V, L], func()) {
	t.Helper()
	values, lengths := newGuarded[V](t, s, len(e.Values), skew), newGuarded[L](t, s, len(e.Lengths), skew)
	require.NoError(t, values.CopyFrom(s, e.Values))
	require.NoError(t, lengths.CopyFrom(s, e.Lengths))
	return BufferRuns[V, L]{values.Buffer, lengths.Buffer}, func() {
		requireSame(t, e.Values, values.check(t, s, "values"), "input values")
		requireSame(t, e.Lengths, lengths.check(t, s, "lengths"), "input lengths")
	}
}

// runSizes are the numbers of runs to test with, around the tiles of all kernels.
func runSizes(d testDevice) []int {
	if d.slow {
		return []int{0, 1, 33, overlayTile - 1, runsTile + 1, reduceChunk + 300}
	}
	return slices.Concat(d.sizes(runsTile), d.sizes(reduceChunk), d.sizes(overlayTile))
}

func testReductions[A Accumulator, V Number, L RunLength](t *testing.T) {
	t.Run(fmt.Sprintf("%v-%v", reflect.TypeFor[V](), reflect.TypeFor[L]()), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			ctx := t.Context()
			s, err := NewStream(rt)
			require.NoError(t, err)
			sizes := runSizes(d)
			if !d.slow && sizeOf[V]() == 1 {
				sizes = append(sizes, reduceChunk*reduceChunks+5) // more than a chunk of the least length each
			}
			for _, n := range sizes {
				msg := fmt.Sprintf("%d runs", n)
				e := randomRuns[V, L](rand.New(rand.NewPCG(uint64(n), 2)), n)
				elements := decodeRuns(e)
				b, free := runsOnDevice(t, s, e, n%3)

				var want A
				for _, x := range elements {
					want += A(x)
				}
				sum, err := RLESum[A](ctx, rt, e)
				require.NoError(t, err, msg)
				require.Equal(t, want, sum, msg)
				sum, err = RLESumBuffer[A](s, b)
				require.NoError(t, err, msg)
				require.Equal(t, want, sum, msg)

				least, greatest, err := RLEMinMax(ctx, rt, e)
				if len(elements) == 0 {
					require.ErrorIs(t, err, driver.ErrInvalidValue, msg)
				} else {
					require.NoError(t, err, msg)
					require.Equal(t, []V{slices.Min(elements), slices.Max(elements)}, []V{least, greatest}, msg)
					least, greatest, err = RLEMinMaxBuffer(s, b)
					require.NoError(t, err, msg)
					require.Equal(t, []V{slices.Min(elements), slices.Max(elements)}, []V{least, greatest}, msg)
				}

				for c := range comparisons {
					var want int64
					for _, x := range elements {
						if compared(c, x, 2) {
							want++
						}
					}
					count, err := RLECountWhere(ctx, rt, e, c, 2)
					require.NoError(t, err, msg)
					require.Equal(t, want, count, "%s: %v 2", msg, c)
				}
				count, err := RLECountWhereBuffer(s, b, Less, 2)
				require.NoError(t, err, msg)
				elsewhere, err := RLECountWhereBuffer(s, b, GreaterOrEqual, 2)
				require.NoError(t, err, msg)
				require.EqualValues(t, len(elements), count+elsewhere, msg)

				for _, edges := range [][]V{nil, {1}, {0, 1, 1, 3}, slices.Repeat([]V{2}, 2100)} {
					want := make([]int64, len(edges)+1)
					for _, x := range elements {
						bin := 0
						for bin < len(edges) && edges[bin] <= x {
							bin++
						}
						want[bin]++
					}
					counts, err := RLEHistogram(ctx, rt, e, edges)
					require.NoError(t, err, msg)
					require.Equal(t, want, counts, "%s: %d edges", msg, len(edges))
					counts, err = RLEHistogramBuffer(s, b, edges)
					require.NoError(t, err, msg)
					require.Equal(t, want, counts, "%s: %d edges", msg, len(edges))
					if len(elements) > 10_000 {
						break // the edges are searched one by one here
					}
				}
				free()
			}
			require.NoError(t, s.Close())
		})
	})
}

func compared[V Number](c Comparison, x, y V) bool {
	switch c {
	case Equal:
		return x == y
	case NotEqual:
		return x != y
	case Less:
		return x < y
	case LessOrEqual:
		return x <= y
	case Greater:
		return x > y
	}
	return x >= y
}

func TestRLEReductions(t *testing.T) {
	testReductions[uint64, uint8, uint32](t)
	testReductions[int64, int16, uint64](t)
	testReductions[int64, int, uint32](t)
	testReductions[float64, float32, uint64](t)
	testReductions[float64, float64, uint32](t)
}

// TestRLESumExact: sums are exact, and refused if and only if they do not fit.
func TestRLESumExact(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		r := rand.New(rand.NewPCG(3, 3))
		for range 20 {
			e := Runs[int64, uint64]{}
			want := new(big.Int)
			for range 300 {
				v, l := int64(r.Uint64())>>r.IntN(60), r.Uint64()>>(10+r.IntN(54))
				e.Values, e.Lengths = append(e.Values, v), append(e.Lengths, l)
				want.Add(want, new(big.Int).Mul(big.NewInt(v), new(big.Int).SetUint64(l)))
			}
			// The last run brings the sum close to zero, or leaves it beyond.
			if near := new(big.Int).Neg(want); near.Rsh(near, 40).IsInt64() {
				e.Values, e.Lengths = append(e.Values, near.Int64()), append(e.Lengths, 1<<40)
				want.Add(want, near.Lsh(near, 40))
			}
			sum, err := RLESum[int64](ctx, rt, e)
			if want.IsInt64() {
				require.NoError(t, err)
				require.Equal(t, want.Int64(), sum)
			} else {
				require.ErrorIs(t, err, driver.ErrOverflow)
				require.ErrorContains(t, err, want.String())
			}
		}
		for _, c := range []struct {
			value  int64
			length uint64
			fits   bool
		}{{math.MinInt64, 1, true}, {math.MinInt64, 2, false}, {math.MaxInt64, 1, true}, {1, math.MaxInt64, true}, {-1, math.MaxInt64, true}, {2, 1 << 62, false}} {
			sum, err := RLESum[int64](ctx, rt, Runs[int64, uint64]{[]int64{c.value}, []uint64{c.length}})
			if c.fits {
				require.NoError(t, err)
				require.Equal(t, c.value*int64(c.length), sum)
			} else {
				require.ErrorIs(t, err, driver.ErrOverflow)
			}
		}
		most, err := RLESum[uint64](ctx, rt, Runs[uint64, uint32]{[]uint64{math.MaxUint64, 5}, []uint32{1, 0}})
		require.NoError(t, err)
		require.EqualValues(t, uint64(math.MaxUint64), most)
		_, err = RLESum[uint64](ctx, rt, Runs[uint64, uint32]{[]uint64{math.MaxUint64, 1}, []uint32{1, 1}})
		require.ErrorIs(t, err, driver.ErrOverflow)
	})
}

// TestRLEFloats: sums have the same bits on every device, an empty run of NaN is
// nothing, and NaN, infinities and zeros are what the documentation says.
func TestRLEFloats(t *testing.T) {
	const n = reduceChunk + 999
	r := rand.New(rand.NewPCG(8, 1))
	e := Runs[float32, uint32]{make([]float32, n), make([]uint32, n)}
	for i := range n {
		e.Values[i], e.Lengths[i] = float32(r.NormFloat64()), uint32(r.IntN(1000))
	}
	var bits []uint64
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		sum, err := RLESum[float64](ctx, rt, e)
		require.NoError(t, err)
		bits = append(bits, math.Float64bits(sum))
		require.Equal(t, bits[0], math.Float64bits(sum), "the sum's bits")

		nan, inf, negZero := math.NaN(), math.Inf(1), math.Copysign(0, -1)
		some := Runs[float64, uint32]{[]float64{nan, 0, negZero, inf, 3}, []uint32{0, 1, 1, 0, 2}}
		sum, err = RLESum[float64](ctx, rt, some)
		require.NoError(t, err)
		require.Equal(t, 6.0, sum)
		least, greatest, err := RLEMinMax(ctx, rt, some)
		require.NoError(t, err)
		require.True(t, least == 0 && math.Signbit(least) && greatest == 3)
		count, err := RLECountWhere(ctx, rt, some, Equal, 0)
		require.NoError(t, err)
		require.EqualValues(t, 2, count, "-0 equals +0")
		some.Lengths[0] = 7
		sum, err = RLESum[float64](ctx, rt, some)
		require.NoError(t, err)
		require.True(t, math.IsNaN(sum))
		least, greatest, err = RLEMinMax(ctx, rt, some)
		require.NoError(t, err)
		require.True(t, math.IsNaN(least) && math.IsNaN(greatest))
		counts, err := RLEHistogram(ctx, rt, some, []float64{negZero, 1})
		require.NoError(t, err)
		require.Equal(t, []int64{0, 2, 2}, counts, "NaN is in no bin")
	})
}

func TestRLEHistogramOfBytes(t *testing.T) {
	require.Equal(t, int8(-127), EveryValue[int8]()[0])
	require.Equal(t, int8(127), EveryValue[int8]()[254])
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(1, 1))
		e := Runs[uint8, uint32]{make([]uint8, 3000), make([]uint32, 3000)}
		var want [256]int64
		for i := range e.Values {
			e.Values[i], e.Lengths[i] = uint8(r.Uint32()), r.Uint32()
			want[e.Values[i]] += int64(e.Lengths[i])
		}
		counts, err := RLEHistogram(t.Context(), rt, e, EveryValue[uint8]())
		require.NoError(t, err)
		require.Equal(t, want[:], counts)
	})
}

func TestRLEOpsErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		good := Runs[uint8, uint32]{[]uint8{1, 2}, []uint32{3, 4}}
		uneven := Runs[uint8, uint32]{[]uint8{1, 2}, []uint32{3}}
		long := Runs[uint8, uint64]{[]uint8{1, 2, 0}, []uint64{1 << 62, 1 << 62, 1}}
		wrapping := Runs[uint8, uint64]{[]uint8{0, 1}, []uint64{math.MaxUint64, 2}}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()

		_, err := RLESum[uint64](ctx, nil, good)
		require.ErrorIs(t, err, driver.ErrNil)
		var none context.Context
		_, err = RLESum[uint64](none, rt, good)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = RLESum[int64](ctx, rt, good)
		require.ErrorIs(t, err, driver.ErrElementType)
		_, err = RLESum[uint64](ctx, rt, uneven)
		require.ErrorIs(t, err, driver.ErrLength)
		_, err = RLESum[uint64](cancelled, rt, good)
		require.ErrorIs(t, err, context.Canceled)
		for _, e := range []Runs[uint8, uint64]{long, wrapping} {
			_, err = RLESum[uint64](ctx, rt, e)
			require.ErrorIs(t, err, driver.ErrOverflow)
			_, _, err = RLEMinMax(ctx, rt, e)
			require.ErrorIs(t, err, driver.ErrOverflow)
			_, err = RLECountWhere(ctx, rt, e, Less, 1)
			require.ErrorIs(t, err, driver.ErrOverflow)
			_, err = RLEHistogram(ctx, rt, e, nil)
			require.ErrorIs(t, err, driver.ErrOverflow)
			_, err = RLENormalize(ctx, rt, e)
			require.ErrorIs(t, err, driver.ErrOverflow)
			_, err = RLEEqual(ctx, rt, e, e)
			require.ErrorIs(t, err, driver.ErrOverflow)
		}
		_, err = RLECountWhere(ctx, rt, good, comparisons, 1)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = RLEHistogram(ctx, rt, good, []uint8{1, 3, 2})
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		require.ErrorContains(t, err, "edges[2]")
		_, err = RLEHistogram(ctx, rt, Runs[float32, uint32]{}, []float32{float32(math.NaN())})
		require.ErrorIs(t, err, driver.ErrInvalidValue)

		s, err := NewStream(rt)
		require.NoError(t, err)
		_, err = RLESumBuffer[uint64](s, BufferRuns[uint8, uint32]{})
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = RLESumBuffer[uint64](nil, BufferRuns[uint8, uint32]{})
		require.ErrorIs(t, err, driver.ErrNil)
		b, free := runsOnDevice(t, s, good, 0)
		short, err := b.Lengths.Slice(0, 1)
		require.NoError(t, err)
		_, err = RLESumBuffer[uint64](s, BufferRuns[uint8, uint32]{b.Values, short})
		require.ErrorIs(t, err, driver.ErrLength)
		free()
		require.NoError(t, s.Close())
	})
}
