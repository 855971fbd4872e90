package ptxrun

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// combined is an operator on elements.
func combined[V Number](op CombineOp, a, b []V) []V {
	out := make([]V, len(a))
	for i := range a {
		x, y := a[i], b[i]
		switch op {
		case CombineAdd:
			out[i] = x + y
		case CombineSub:
			out[i] = x - y
		case CombineMin:
			out[i] = min(x, y)
		case CombineMax:
			out[i] = max(x, y)
		case CombineAnd:
			out[i] = V(int64(x) & int64(y))
		case CombineOr:
			out[i] = V(int64(x) | int64(y))
		case CombineXor:
			out[i] = V(int64(x) ^ int64(y))
		}
	}
	return out
}

// checkCanonical runs a call on buffers with exactly as much room as the result
// needs, with more, and with too little.
func checkCanonical[V Number, L RunLength](t *testing.T, s *Stream, want Runs[V, L], msg string, call func(dst BufferRuns[V, L], count *Buffer[uint64]) error) {
	t.Helper()
	runs := len(want.Values)
	for _, room := range []int{runs, runs + 3, runs - 1, 0} {
		if room < 0 {
			continue
		}
		values, lengths, count := newGuarded[V](t, s, room, 1), newGuarded[L](t, s, room, 1), newGuarded[uint64](t, s, 1, 1)
		require.NoError(t, call(BufferRuns[V, L]{values.Buffer, lengths.Buffer}, count.Buffer), msg)
		require.Equal(t, []uint64{uint64(runs)}, count.check(t, s, msg), msg)
		gotValues, gotLengths := values.check(t, s, msg), lengths.check(t, s, msg)
		written := 0
		if room >= runs {
			requireSame(t, want.Values, gotValues[:runs], "%s: values", msg)
			requireSame(t, want.Lengths, gotLengths[:runs], "%s: lengths", msg)
			written = runs
		}
		for i := written; i < room; i++ {
			require.True(t, gotValues[i] == canary && gotLengths[i] == canary, "%s: run %d of %d written, room for %d", msg, i, runs, room)
		}
	}
}

func testCombine[V Number, L RunLength](t *testing.T) {
	t.Run(fmt.Sprintf("%v-%v", reflect.TypeFor[V](), reflect.TypeFor[L]()), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			ctx := t.Context()
			s, err := NewStream(rt)
			require.NoError(t, err)
			sizes := runSizes(d)
			if d.slow {
				sizes = []int{0, 1, 33, overlayTile - 1}
			}
			for _, n := range sizes {
				msg := fmt.Sprintf("%d runs", n)
				r := rand.New(rand.NewPCG(uint64(n), 4))
				a := randomRuns[V, L](r, n)
				x := decodeRuns(a)
				b := fitTo(randomRuns[V, L](r, (3*n+3)/4), len(x))
				y := decodeRuns(b)
				require.Equal(t, len(x), len(y))
				onA, freeA := runsOnDevice(t, s, a, n%3)
				onB, freeB := runsOnDevice(t, s, b, n%2)

				same := canonicalRuns[V, L](x)
				got, err := RLENormalize(ctx, rt, a)
				require.NoError(t, err, msg)
				requireSame(t, same.Values, got.Values, "%s: values", msg)
				requireSame(t, same.Lengths, got.Lengths, "%s: lengths", msg)
				checkCanonical(t, s, same, msg, func(dst BufferRuns[V, L], count *Buffer[uint64]) error {
					return RLENormalizeBuffer(s, dst, count, onA)
				})

				for op := range combineOps {
					if op.bitwise() && numberName[V]()[0] == 'f' {
						continue
					}
					want := canonicalRuns[V, L](combined(op, x, y))
					got, err := RLECombine(ctx, rt, op, a, b)
					require.NoError(t, err, msg)
					requireSame(t, want.Values, got.Values, "%s: values of %v", msg, op)
					requireSame(t, want.Lengths, got.Lengths, "%s: lengths of %v", msg, op)
					if op == CombineSub {
						checkCanonical(t, s, want, msg, func(dst BufferRuns[V, L], count *Buffer[uint64]) error {
							return RLECombineBuffer(s, dst, count, op, onA, onB)
						})
					}
				}
				for c := range comparisons {
					z := make([]uint8, len(x))
					for i := range z {
						z[i] = uint8(flag(compared(c, x[i], y[i])))
					}
					want := canonicalRuns[uint8, L](z)
					got, err := RLECompare(ctx, rt, c, a, b)
					require.NoError(t, err, msg)
					requireSame(t, want.Values, got.Values, "%s: values of %v", msg, c)
					requireSame(t, want.Lengths, got.Lengths, "%s: lengths of %v", msg, c)
					if c == Less {
						checkCanonical(t, s, want, msg, func(dst BufferRuns[uint8, L], count *Buffer[uint64]) error {
							return RLECompareBuffer(s, dst, count, c, onA, onB)
						})
					}
				}

				// Equal however they are cut, and not where one element differs.
				again := recut(r, a)
				equal, err := RLEEqual(ctx, rt, a, again)
				require.NoError(t, err, msg)
				require.True(t, equal, msg)
				equal, err = RLEEqualBuffer(s, onA, onB)
				require.NoError(t, err, msg)
				require.Equal(t, slices.Equal(x, y), equal, msg)
				if len(x) > 0 {
					k := r.IntN(len(again.Values))
					for again.Lengths[k] == 0 {
						k = (k + 1) % len(again.Values)
					}
					again.Values[k]++
					equal, err = RLEEqual(ctx, rt, again, a)
					require.NoError(t, err, msg)
					require.False(t, equal, msg)
				}
				freeA()
				freeB()
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestRLECombine(t *testing.T) {
	testCombine[uint8, uint32](t)
	testCombine[int16, uint64](t)
	testCombine[float32, uint32](t)
	testCombine[int64, uint64](t)
}

// TestRLECombineSkewed: one run of more than 2^32 elements among ones, in the
// middle of one encoding and at the end of the other.
func TestRLECombineSkewed(t *testing.T) {
	const huge = 1<<33 + 5
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		n := 3 * overlayTile / 2
		var a, b Runs[uint16, uint64]
		for i := range n {
			length := uint64(1)
			if i == n/2 {
				length = huge
			}
			a.Values, a.Lengths = append(a.Values, uint16(i%3)), append(a.Lengths, length)
			b.Values, b.Lengths = append(b.Values, uint16(i%2)), append(b.Lengths, 1)
		}
		b.Lengths[n-1] = huge
		total := uint64(n-1) + huge

		sum, err := RLESum[uint64](ctx, rt, b)
		require.NoError(t, err)
		require.EqualValues(t, uint64(n/2)+(huge-1)*uint64((n-1)%2), sum)
		count, err := RLECountWhere(ctx, rt, a, Equal, uint16(n/2%3))
		require.NoError(t, err)
		require.Greater(t, count, int64(huge))

		// a - a is one run.
		one, err := RLECombine(ctx, rt, CombineSub, a, a)
		require.NoError(t, err)
		require.Equal(t, Runs[uint16, uint64]{[]uint16{0}, []uint64{total}}, one)
		// (a + b) - b is a.
		both, err := RLECombine(ctx, rt, CombineAdd, a, b)
		require.NoError(t, err)
		back, err := RLECombine(ctx, rt, CombineSub, both, b)
		require.NoError(t, err)
		require.Equal(t, a, back, "a is canonical")
		equal, err := RLEEqual(ctx, rt, a, back)
		require.NoError(t, err)
		require.True(t, equal)
		back.Values[n/2]++
		equal, err = RLEEqual(ctx, rt, a, back)
		require.NoError(t, err)
		require.False(t, equal)
	})
}

// TestRLECombineFloats: results are equal by their bits, all NaN are one.
func TestRLECombineFloats(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		inf, other := math.Inf(1), math.Float64frombits(0xfff8000000000123)
		a := Runs[float64, uint32]{[]float64{0, math.NaN(), inf, 1, 2}, []uint32{2, 1, 1, 1, 3}}
		b := Runs[float64, uint32]{[]float64{math.Copysign(0, -1), other, inf, other, 2}, []uint32{2, 1, 1, 1, 3}}
		got, err := RLECombine(ctx, rt, CombineSub, a, b)
		require.NoError(t, err)
		require.Equal(t, []uint32{2, 3, 3}, got.Lengths, "0, NaN, 0")
		require.True(t, math.IsNaN(got.Values[1]))
		least, err := RLECombine(ctx, rt, CombineMin, a, b)
		require.NoError(t, err)
		require.True(t, math.Signbit(least.Values[0]), "-0 is less than +0")
		eq, err := RLECompare(ctx, rt, Equal, a, b)
		require.NoError(t, err)
		require.Equal(t, Runs[uint8, uint32]{[]uint8{1, 0, 1, 0, 1}, []uint32{2, 1, 1, 1, 3}}, eq)
		equal, err := RLEEqual(ctx, rt, a, a)
		require.NoError(t, err)
		require.True(t, equal, "by bits, NaN equals itself")
		equal, err = RLEEqual(ctx, rt, a, b)
		require.NoError(t, err)
		require.False(t, equal)
		zeros := Runs[float64, uint32]{[]float64{0, math.Copysign(0, -1)}, []uint32{1, 1}}
		kept, err := RLENormalize(ctx, rt, zeros)
		require.NoError(t, err)
		require.Equal(t, zeros.Lengths, kept.Lengths, "-0 is not +0's run")
	})
}

func TestRLECombineErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		seven := Runs[uint8, uint32]{[]uint8{1, 2}, []uint32{3, 4}}
		eight := Runs[uint8, uint32]{[]uint8{1, 2}, []uint32{3, 5}}
		none := Runs[uint8, uint32]{}
		empty := Runs[uint8, uint32]{[]uint8{9}, []uint32{0}}
		_, err := RLECombine(ctx, rt, CombineAdd, seven, eight)
		require.ErrorIs(t, err, driver.ErrLength)
		require.ErrorContains(t, err, "7 and 8")
		_, err = RLECombine(ctx, rt, CombineAdd, seven, none)
		require.ErrorIs(t, err, driver.ErrLength)
		_, err = RLECombine(ctx, rt, combineOps, seven, seven)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = RLECombine(ctx, rt, CombineXor, Runs[float32, uint32]{}, Runs[float32, uint32]{})
		require.ErrorIs(t, err, driver.ErrElementType)
		_, err = RLECompare(ctx, rt, comparisons, seven, seven)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		got, err := RLECombine(ctx, rt, CombineAdd, none, empty)
		require.NoError(t, err)
		require.Equal(t, none, got)
		equal, err := RLEEqual(ctx, rt, none, empty)
		require.NoError(t, err)
		require.True(t, equal)
		equal, err = RLEEqual(ctx, rt, seven, eight)
		require.NoError(t, err)
		require.False(t, equal)

		// Runs that meet may be too long for 32 bits.
		long := Runs[uint8, uint32]{[]uint8{1, 2, 2, 3}, []uint32{1, math.MaxUint32, 1, 1}}
		_, err = RLENormalize(ctx, rt, long)
		require.ErrorIs(t, err, driver.ErrOverflow)
		require.ErrorContains(t, err, "run 1 of 3")
		_, err = RLECompare(ctx, rt, Equal, long, long)
		require.ErrorIs(t, err, driver.ErrOverflow)
		kept, err := RLECombine(ctx, rt, CombineAdd, long, Runs[uint8, uint32]{[]uint8{0, 1}, []uint32{math.MaxUint32, 3}})
		require.NoError(t, err)
		require.Equal(t, Runs[uint8, uint32]{[]uint8{1, 2, 3, 4}, []uint32{1, math.MaxUint32 - 1, 2, 1}}, kept)

		s, err := NewStream(rt)
		require.NoError(t, err)
		a, freeA := runsOnDevice(t, s, seven, 0)
		b, freeB := runsOnDevice(t, s, eight, 0)
		dst, freeDst := runsOnDevice(t, s, seven, 0)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		require.ErrorIs(t, RLECombineBuffer(s, dst, count, CombineAdd, a, b), driver.ErrLength)
		require.ErrorIs(t, RLECombineBuffer(s, a, count, CombineAdd, a, a), driver.ErrOverlap)
		require.ErrorIs(t, RLENormalizeBuffer(s, a, count, a), driver.ErrOverlap)
		require.ErrorIs(t, RLENormalizeBuffer(s, BufferRuns[uint8, uint32]{}, count, a), driver.ErrNil)
		require.ErrorIs(t, RLENormalizeBuffer(s, dst, nil, a), driver.ErrNil)
		short, err := dst.Lengths.Slice(0, 1)
		require.NoError(t, err)
		require.ErrorIs(t, RLENormalizeBuffer(s, BufferRuns[uint8, uint32]{dst.Values, short}, count, a), driver.ErrLength)
		tooLong, freeLong := runsOnDevice(t, s, long, 0)
		result, freeResult := runsOnDevice(t, s, long, 0)
		require.NoError(t, count.CopyFrom(s, []uint64{99}))
		require.ErrorIs(t, RLENormalizeBuffer(s, result, count, tooLong), driver.ErrOverflow)
		got99 := make([]uint64, 1)
		require.NoError(t, count.CopyTo(s, got99))
		require.Equal(t, []uint64{99}, got99, "a refused call has written nothing")
		freeLong()
		freeResult()
		freeA()
		freeB()
		freeDst()
		require.NoError(t, count.Free())
		require.NoError(t, s.Close())
	})
}
