package ptxrun

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// flagShapes are the flags that the suite uses, by name. Some set flags are other
// than 1.
func flagShapes(d testDevice, n, tile int) map[string][]uint8 {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	shape := func(keep func(i int) bool) []uint8 {
		flags := make([]uint8, n)
		for i := range flags {
			if keep(i) {
				flags[i] = uint8(1 + r.IntN(255))
			}
		}
		return flags
	}
	border := func(i int) bool { return i%tile == 0 || i%tile == tile-1 || i == n-1 }
	all := map[string][]uint8{
		"half":        shape(func(int) bool { return r.IntN(2) == 0 }),
		"none":        shape(func(int) bool { return false }),
		"all":         shape(func(int) bool { return true }),
		"alternating": shape(func(i int) bool { return i%2 == 0 }),
		"at borders":  shape(border),
		"not borders": shape(func(i int) bool { return !border(i) }),
		"but one":     shape(func(i int) bool { return i != n/2 }),
	}
	if d.slow {
		delete(all, "none")
		delete(all, "alternating")
		delete(all, "not borders")
	}
	return all
}

// split is the definition of compaction: what is kept and what is not, in order.
func split[T any](src []T, keep func(i int) bool) (kept, rest []T) {
	for i, v := range src {
		if keep(i) {
			kept = append(kept, v)
		} else {
			rest = append(rest, v)
		}
	}
	return kept, rest
}

// selectCall is a compaction into dst of what the caller knows.
type selectCall[T Number] func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error

// testSelect makes a call with room for all, in place, with room for exactly what
// is kept, and with room for one less, and compares with want.
func testSelect[T Number](t *testing.T, s *Stream, src, want []T, skew int, call selectCall[T], msg string) {
	t.Helper()
	n := len(src)
	for room, in := range map[string]int{"room for all": n, "in place": n, "just room": len(want), "too little room": len(want) - 1} {
		if in < 0 {
			continue
		}
		msg := msg + ", " + room
		input, output := newGuarded[T](t, s, n, skew), newGuarded[T](t, s, in, skew/2)
		count := newGuarded[uint64](t, s, 1, 1)
		require.NoError(t, input.CopyFrom(s, src))
		dst := output
		if room == "in place" {
			dst = input
		}
		require.NoError(t, call(dst.Buffer, count.Buffer, input.Buffer), msg)
		require.Equal(t, []uint64{uint64(len(want))}, count.check(t, s, msg), msg)
		gotIn, gotOut := input.check(t, s, msg), output.check(t, s, msg)
		switch room {
		case "in place":
			requireBits(t, want, gotIn[:len(want)], msg)
			requireBits(t, src[len(want):], gotIn[len(want):], msg+": behind what is kept")
			continue
		case "too little room":
			require.NotContains(t, notCanary(gotOut), true, "%s: written although there is no room for all", msg)
		default:
			requireBits(t, want, gotOut[:len(want)], msg)
			require.NotContains(t, notCanary(gotOut[len(want):]), true, "%s: written behind what is kept", msg)
		}
		requireBits(t, src, gotIn, msg+": input")
	}
}

func notCanary[T Number](s []T) []bool {
	out := make([]bool, len(s))
	for i, v := range s {
		out[i] = v != canary
	}
	return out
}

// requireBits is requireSame for floats that may be NaN.
func requireBits[T Number](t testing.TB, want, got []T, msg string) {
	t.Helper()
	require.Equal(t, len(want), len(got), "%s: length", msg)
	if !slices.Equal(bytesOf(want), bytesOf(got)) {
		for i := range want {
			if !slices.Equal(bytesOf(want[i:i+1]), bytesOf(got[i:i+1])) {
				require.Fail(t, "values differ", "%s: element %d of %d: want %v, got %v", msg, i, len(want), want[i], got[i])
			}
		}
	}
}

func testFlagged[T Number](t *testing.T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		eachTarget[T](t, "select_", func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			tile := int(selectTile(int(sizeOf[T]())))
			for _, n := range d.sizes(tile) {
				src := allData[T](n)["random"]
				for name, flags := range flagShapes(d, n, tile) {
					keep := func(i int) bool { return flags[i] != 0 }
					kept, rest := split(src, keep)
					for skew := 0; skew < 4; skew += 3 { // aligned as bulk copies need it, and not
						if d.slow && skew > 0 && name != "half" {
							continue
						}
						msg := fmt.Sprintf("n %d, %s, skew %d", n, name, skew)
						f := newGuarded[uint8](t, s, n, skew)
						require.NoError(t, f.CopyFrom(s, flags))
						testSelect(t, s, src, kept, skew, func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
							return SelectFlaggedBuffer(s, dst, count, src, f.Buffer)
						}, msg)
						testPartition(t, s, src, kept, rest, skew, func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
							return PartitionFlaggedBuffer(s, dst, count, src, f.Buffer)
						}, msg)
						requireSame(t, flags, f.check(t, s, msg), "%s: flags", msg)
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func testPartition[T Number](t *testing.T, s *Stream, src, kept, rest []T, skew int, call selectCall[T], msg string) {
	t.Helper()
	input, output := newGuarded[T](t, s, len(src), skew), newGuarded[T](t, s, len(src), skew/2)
	count := newGuarded[uint64](t, s, 1, 1)
	require.NoError(t, input.CopyFrom(s, src))
	require.NoError(t, call(output.Buffer, count.Buffer, input.Buffer), msg)
	require.Equal(t, []uint64{uint64(len(kept))}, count.check(t, s, msg), msg)
	requireBits(t, slices.Concat(kept, rest), output.check(t, s, msg), msg+", partition")
	requireBits(t, src, input.check(t, s, msg), msg+": input")
}

func TestSelectFlagged(t *testing.T) {
	testFlagged[uint8](t)
	testFlagged[int16](t)
	testFlagged[float32](t)
	testFlagged[uint64](t)
}

func compareNaive[T Number](c Comparison, a, b T) bool {
	return [...]bool{a == b, a != b, a < b, a <= b, a > b, a >= b}[c]
}

// testWhere compares with each of values, of which the input is made. Kernels are
// by width: slow devices run one type of each.
func testWhere[T Number](t *testing.T, everywhere bool, values ...T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		eachTarget[T](t, "select_", func(t *testing.T, d testDevice, rt *Runtime) {
			if d.slow && !everywhere {
				t.Log("its kernels run with another type of this width")
				return
			}
			s, err := NewStream(rt)
			require.NoError(t, err)
			tile := int(selectTile(int(sizeOf[T]())))
			for _, n := range []int{0, 1, 100, 2*tile + 17} {
				skew := 1
				if n > tile {
					skew = 0 // aligned as bulk copies need it
				}
				src := make([]T, n)
				for i := range src {
					src[i] = values[(i*7+i/len(values))%len(values)]
				}
				for c := range comparisons {
					for k, v := range values {
						if n > 100 && (k+int(c))%len(values) != 0 || d.slow && n > 100 && c%2 == 0 {
							continue // a comparison once in several tiles
						}
						kept, rest := split(src, func(i int) bool { return compareNaive(c, src[i], v) })
						msg := fmt.Sprintf("n %d, x %v %v", n, c, v)
						testSelect(t, s, src, kept, skew, func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
							return SelectWhereBuffer(s, dst, count, src, c, v)
						}, msg)
						testPartition(t, s, src, kept, rest, skew, func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
							return PartitionWhereBuffer(s, dst, count, src, c, v)
						}, msg)
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestSelectWhere(t *testing.T) {
	inf, negZero := math.Inf(1), math.Copysign(0, -1)
	testWhere[uint8](t, true, 0, 1, 7, 128, 255)
	testWhere[int8](t, false, -128, -1, 0, 1, 127)
	testWhere[int16](t, true, math.MinInt16, -1, 0, 5, math.MaxInt16)
	testWhere[uint32](t, false, 0, 1, 1<<31, math.MaxUint32)
	testWhere[int32](t, false, math.MinInt32, -1, 0, 1, math.MaxInt32)
	testWhere[float32](t, true, float32(-inf), -1.5, float32(negZero), 0, math.SmallestNonzeroFloat32, 2, float32(inf), float32(math.NaN()))
	testWhere[int64](t, false, math.MinInt64, -1, 0, 1, math.MaxInt64)
	testWhere[float64](t, true, -inf, -1.5, negZero, 0, math.SmallestNonzeroFloat64, 2, inf, math.NaN(), math.Copysign(math.NaN(), -1))
}

func testUnique[T Number](t *testing.T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		eachTarget[T](t, "select_", func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			tile := int(selectTile(int(sizeOf[T]())))
			for _, n := range d.sizes(tile) {
				data := testData[T](d, n)
				data["distinct"] = allData[T](n)["distinct"]
				// Runs that end at the borders of tiles.
				borders := make([]T, n)
				for i := range borders {
					borders[i] = T(i / tile % 2)
				}
				data["borders"] = borders
				for name, src := range data {
					want, _ := naiveEncode(src)
					for skew := range 2 {
						testSelect(t, s, src, want, skew, func(dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
							return UniqueBuffer(s, dst, count, src)
						}, fmt.Sprintf("n %d, %s, skew %d", n, name, skew))
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestUnique(t *testing.T) {
	testUnique[uint8](t)
	testUnique[uint16](t)
	testUnique[int32](t)
	testUnique[float64](t)
}

// TestUniqueBits: values are compared by their bits.
func TestUniqueBits(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		nan, negZero := math.NaN(), math.Copysign(0, -1)
		dst := make([]float64, 5)
		n, err := Unique(t.Context(), rt, dst, []float64{0, negZero, nan, nan, 1})
		require.NoError(t, err)
		requireBits(t, []float64{0, negZero, nan, 1}, dst[:n], "bits")
	})
}

func testIndices[I Index](t *testing.T) {
	t.Run(reflect.TypeFor[I]().String(), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			tile := int(selectTile(int(sizeOf[I]())))
			for _, n := range d.sizes(tile) {
				for name, flags := range flagShapes(d, n, tile) {
					var want []I
					for i, f := range flags {
						if f != 0 {
							want = append(want, I(i))
						}
					}
					for _, room := range []int{n, len(want), len(want) - 1} {
						if room < 0 {
							continue
						}
						msg := fmt.Sprintf("n %d, %s, room %d", n, name, room)
						f, err := NewBufferFrom(s, flags)
						require.NoError(t, err)
						whole, err := NewBuffer[I](rt, room+8)
						require.NoError(t, err)
						require.NoError(t, whole.CopyFrom(s, slices.Repeat([]I{canary}, room+8)))
						out, err := whole.Slice(3, 3+room)
						require.NoError(t, err)
						count, err := NewBuffer[uint64](rt, 1)
						require.NoError(t, err)
						require.NoError(t, FlaggedIndicesBuffer(s, out, count, f), msg)
						got, c := make([]I, room+8), make([]uint64, 1)
						require.NoError(t, whole.CopyTo(s, got))
						require.NoError(t, count.CopyTo(s, c))
						require.Equal(t, []uint64{uint64(len(want))}, c, msg)
						expected := slices.Repeat([]I{canary}, room+8)
						if room >= len(want) {
							copy(expected[3:], want)
						}
						requireSame(t, expected, got, "%s", msg)
						require.NoError(t, f.Free())
						require.NoError(t, whole.Free())
						require.NoError(t, count.Free())
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestFlaggedIndices(t *testing.T) {
	testIndices[uint32](t)
	testIndices[uint64](t)
}

func TestSelectHost(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		for _, n := range d.sizes(int(selectTile(4))) {
			src := allData[int32](n)["random"]
			flags := make([]bool, n)
			for i := range flags {
				flags[i] = i%3 == 1
			}
			kept, rest := split(src, func(i int) bool { return flags[i] })
			msg := fmt.Sprintf("n %d", n)

			dst := slices.Repeat([]int32{-9}, n)
			c, err := SelectFlagged(ctx, rt, dst, src, flags)
			require.NoError(t, err, msg)
			require.Equal(t, len(kept), c)
			requireSame(t, append(slices.Clone(kept), slices.Repeat([]int32{-9}, n-c)...), dst, "%s", msg)

			c, err = PartitionFlagged(ctx, rt, dst, src, flags)
			require.NoError(t, err, msg)
			require.Equal(t, len(kept), c)
			requireSame(t, slices.Concat(kept, rest), dst, "%s", msg)

			indices := make([]uint64, n)
			c, err = FlaggedIndices(ctx, rt, indices, flags)
			require.NoError(t, err, msg)
			require.Equal(t, len(kept), c)
			for k, i := range indices[:c] {
				require.EqualValues(t, 3*k+1, i)
			}

			low, high := split(src, func(i int) bool { return src[i] < 2 })
			c, err = PartitionWhere(ctx, rt, dst, src, Less, 2)
			require.NoError(t, err, msg)
			require.Equal(t, len(low), c)
			requireSame(t, slices.Concat(low, high), dst, "%s", msg)

			if len(high) > 0 {
				short := slices.Repeat([]int32{-9}, len(high)-1)
				c, err = SelectWhere(ctx, rt, short, src, GreaterOrEqual, 2)
				require.ErrorIs(t, err, driver.ErrTooSmall)
				require.Equal(t, len(high), c)
				var e *driver.Error
				require.ErrorAs(t, err, &e)
				require.EqualValues(t, len(high), e.Need)
				requireSame(t, slices.Repeat([]int32{-9}, len(high)-1), short, "%s", msg)
			}

			want, _ := naiveEncode(src)
			c, err = Unique(ctx, rt, src, src) // in place
			require.NoError(t, err, msg)
			requireSame(t, want, src[:c], "%s", msg)
		}
	})
}

func TestSelectErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		a, b, f := []uint32{1, 2, 3}, []uint32{9, 9, 9}, []bool{true, true, true}
		fails := func(code driver.Code, n int, err error) {
			t.Helper()
			require.ErrorIs(t, err, code)
			require.Zero(t, n)
		}
		n, err := SelectFlagged(ctx, nil, b, a, f)
		fails(driver.ErrNil, n, err)
		n, err = Unique(nil, rt, b, a) //nolint:staticcheck // a nil context is what is tested
		fails(driver.ErrNil, n, err)
		n, err = SelectFlagged(ctx, rt, b, a, f[:2])
		fails(driver.ErrLength, n, err)
		n, err = SelectFlagged(ctx, rt, a[1:], a[:2], f[:2])
		fails(driver.ErrOverlap, n, err)
		n, err = SelectWhere(ctx, rt, b, a, comparisons, 1)
		fails(driver.ErrInvalidValue, n, err)
		require.ErrorContains(t, err, "comparison 6; known are Equal (0) to GreaterOrEqual (5)")
		n, err = PartitionFlagged(ctx, rt, b[:2], a, f)
		fails(driver.ErrLength, n, err)
		n, err = PartitionWhere(ctx, rt, a, a, Less, 1)
		fails(driver.ErrOverlap, n, err)
		bytes := []uint8{1, 0, 1}
		n, err = SelectFlagged(ctx, rt, bytes, bytes, bytes)
		fails(driver.ErrOverlap, n, err)
		n, err = FlaggedIndices(ctx, rt, b[:0], f)
		require.ErrorIs(t, err, driver.ErrTooSmall)
		require.ErrorContains(t, err, "dst has 0 elements, 3 are needed")
		require.Equal(t, 3, n)
		n, err = Unique[uint32](ctx, rt, nil, nil)
		require.NoError(t, err)
		require.Zero(t, n)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = Unique(cancelled, rt, a, a)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []uint32{1, 2, 3}, a, "no failed call wrote")
		require.Equal(t, []uint32{9, 9, 9}, b)
		require.Equal(t, []uint8{1, 0, 1}, bytes)

		s, err := NewStream(rt)
		require.NoError(t, err)
		x, err := NewBufferFrom(s, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
		require.NoError(t, err)
		flags, err := NewBufferFrom(s, make([]uint8, 3))
		require.NoError(t, err)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		other, err := Open(WithDevice("cpu"))
		require.NoError(t, err)
		foreign, err := NewBuffer[uint64](other, 3)
		require.NoError(t, err)
		at := func(from, to int) *Buffer[uint64] {
			v, err := x.Slice(from, to)
			require.NoError(t, err)
			return v
		}
		require.ErrorIs(t, SelectFlaggedBuffer(nil, x, count, x, flags), driver.ErrNil)
		require.ErrorIs(t, SelectFlaggedBuffer(s, nil, count, at(0, 3), flags), driver.ErrNil)
		require.ErrorIs(t, SelectFlaggedBuffer(s, x, nil, at(0, 3), flags), driver.ErrNil)
		require.ErrorIs(t, SelectFlaggedBuffer(s, x, count, nil, flags), driver.ErrNil)
		require.ErrorIs(t, SelectFlaggedBuffer[uint64, uint8](s, x, count, at(0, 3), nil), driver.ErrNil)
		require.ErrorIs(t, FlaggedIndicesBuffer[uint64, uint8](s, x, count, nil), driver.ErrNil)
		require.ErrorIs(t, SelectFlaggedBuffer(s, foreign, count, at(0, 3), flags), driver.ErrWrongDevice)
		require.ErrorIs(t, SelectFlaggedBuffer(s, x, count, at(0, 4), flags), driver.ErrLength)
		require.ErrorIs(t, SelectFlaggedBuffer(s, at(0, 3), at(4, 6), at(0, 3), flags), driver.ErrLength, "count of two elements")
		require.ErrorIs(t, SelectFlaggedBuffer(s, at(0, 3), at(1, 2), at(4, 7), flags), driver.ErrOverlap, "dst and count")
		require.ErrorIs(t, SelectFlaggedBuffer(s, at(0, 3), at(5, 6), at(4, 7), flags), driver.ErrOverlap, "src and count")
		require.ErrorIs(t, SelectFlaggedBuffer(s, at(1, 4), count, at(0, 3), flags), driver.ErrOverlap, "dst and src")
		require.ErrorIs(t, PartitionWhereBuffer(s, at(0, 3), count, at(0, 3), Less, 5), driver.ErrOverlap, "a partition in place")
		require.ErrorIs(t, PartitionFlaggedBuffer(s, at(4, 8), count, at(0, 3), flags), driver.ErrLength)
		require.ErrorIs(t, SelectWhereBuffer(s, x, count, x, comparisons, 5), driver.ErrInvalidValue)
		got := make([]uint64, 8)
		require.NoError(t, x.CopyTo(s, got))
		require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, got)
		require.NoError(t, flags.Free())
		require.ErrorIs(t, SelectFlaggedBuffer(s, at(4, 7), count, at(0, 3), flags), driver.ErrClosed)
		require.NoError(t, x.Free())
		require.NoError(t, count.Free())
		require.NoError(t, foreign.Free())
		require.NoError(t, s.Close())
		require.NoError(t, other.Close())
	})
}

// TestSelectManyTiles gives one multiprocessor, with the checks for races and
// uninitialised memory, more tiles than it has stages: each is used several times.
func TestSelectManyTiles(t *testing.T) {
	tile := int(selectTile(8))
	n := 21*tile + 5
	for _, capability := range []int{70, 90} {
		dev, err := emu.Open(emu.WithCapability(capability), emu.WithWorkers(1), emu.WithRaceCheck(), emu.WithInitCheck(), emu.WithMemoryChecks())
		rt, err := runtimeOn(dev, err)
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		src := allData[uint64](n)["runs"]
		flags := flagShapes(testDevice{}, n, tile)["half"]
		f, err := NewBufferFrom(s, flags)
		require.NoError(t, err)
		kept, _ := split(src, func(i int) bool { return flags[i] != 0 })
		low, _ := split(src, func(i int) bool { return src[i] < 3 })
		heads, _ := naiveEncode(src)
		msg := fmt.Sprintf("sm_%d", capability)
		testSelect(t, s, src, kept, 0, func(dst *Buffer[uint64], count *Buffer[uint64], src *Buffer[uint64]) error {
			return SelectFlaggedBuffer(s, dst, count, src, f)
		}, msg+", flagged")
		testSelect(t, s, src, low, 0, func(dst *Buffer[uint64], count *Buffer[uint64], src *Buffer[uint64]) error {
			return SelectWhereBuffer(s, dst, count, src, Less, 3)
		}, msg+", where")
		testSelect(t, s, src, heads, 0, func(dst *Buffer[uint64], count *Buffer[uint64], src *Buffer[uint64]) error {
			return UniqueBuffer(s, dst, count, src)
		}, msg+", unique")
		require.NoError(t, cmp.Or(f.Free(), s.Close(), rt.Close()))
	}
}

// TestSelectLarge goes beyond 2^32 elements, with answers in closed form.
func TestSelectLarge(t *testing.T) {
	const n = 1<<32 + 4097
	eachLargeDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBuffer[uint8](rt, n)
		require.NoError(t, err)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		require.NoError(t, s.s.Fill(b.Ptr(), 1, n))
		require.NoError(t, InclusiveScanBuffer(s, b, b, Sum)) // 1, …, 255, 0, 1, …
		got := make([]uint64, 1)
		require.NoError(t, cmp.Or(UniqueBuffer(s, b, count, b), count.CopyTo(s, got)))
		require.EqualValues(t, []uint64{n}, got)
		require.NoError(t, cmp.Or(SelectWhereBuffer(s, b, count, b, NotEqual, 0), count.CopyTo(s, got)))
		require.EqualValues(t, []uint64{n - n/256}, got)
		counting := make([]uint8, checkPiece+255)
		for i := range counting {
			counting[i] = uint8(i%255 + 1)
		}
		kept, err := b.Slice(0, n-n/256)
		require.NoError(t, err)
		checkLarge(t, s, kept, func(from, n int) []uint8 { return counting[from%255:][:n] })
		require.NoError(t, cmp.Or(b.Free(), count.Free(), s.Close()))
	})
}

// TestSelectConcurrent mixes calls of many goroutines on one runtime.
func TestSelectConcurrent(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 5 {
					n := 3000*g + 377*i
					src := allData[uint16](n)["random"]
					want, _ := split(src, func(i int) bool { return src[i] > 2 })
					dst := make([]uint16, n)
					c, err := SelectWhere(context.Background(), rt, dst, src, Greater, 2)
					if err != nil || !slices.Equal(want, dst[:c]) {
						t.Errorf("n %d: %d of %d kept, %v", n, c, len(want), err)
					}
				}
			})
		}
		wg.Wait()
	})
}
