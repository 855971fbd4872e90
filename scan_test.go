package ptxrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx"
)

// naive is the definition of each operator, a pair at a time.
func naive[T Number](op Op) (identity T, combine func(a, b T) T) {
	isFloat := reflect.TypeFor[T]().Kind() >= reflect.Float32
	lowest, highest := limits[T]()
	bits := func(f func(a, b uint64) uint64) func(a, b T) T {
		return func(a, b T) T { return T(f(uint64(a), uint64(b))) }
	}
	switch op {
	case Sum:
		return 0, func(a, b T) T { return a + b }
	case Product:
		return 1, func(a, b T) T { return a * b }
	case Min:
		return highest, func(a, b T) T {
			if a != a || b != b {
				return T(math.NaN())
			}
			return min(a, b)
		}
	case Max:
		return lowest, func(a, b T) T {
			if a != a || b != b {
				return T(math.NaN())
			}
			return max(a, b)
		}
	}
	if isFloat {
		return 0, nil
	}
	switch op {
	case And:
		ones := T(0)
		return ones - 1, bits(func(a, b uint64) uint64 { return a & b })
	case Or:
		return 0, bits(func(a, b uint64) uint64 { return a | b })
	default:
		return 0, bits(func(a, b uint64) uint64 { return a ^ b })
	}
}

func limits[T Number]() (lowest, highest T) {
	if reflect.TypeFor[T]().Kind() >= reflect.Float32 {
		return T(math.Inf(-1)), T(math.Inf(1))
	}
	zero := T(0)
	if ones := zero - 1; ones > 0 {
		return 0, ones
	}
	bits := reflect.TypeFor[T]().Bits()
	low := T(1)
	for range bits - 1 {
		low *= 2
	}
	return low, low - 1
}

func naiveScan[T any](identity T, combine func(a, b T) T, src []T, exclusive bool) []T {
	out, acc := make([]T, len(src)), identity
	for i, v := range src {
		next := combine(acc, v)
		if out[i] = next; exclusive {
			out[i] = acc
		}
		acc = next
	}
	return out
}

// requireScan is equality for integers, and within the rounding of n additions
// or multiplications for floats.
func requireScan[T Number](t testing.TB, op Op, want, got []T, msg string) {
	t.Helper()
	if reflect.TypeFor[T]().Kind() < reflect.Float32 || op == Min || op == Max {
		requireSame(t, want, got, "%s", msg)
		return
	}
	// A chain of n operations is off by n/2 units in the last place at most.
	tolerance := math.Ldexp(float64(len(want)+1), -24)
	if sizeOf[T]() == 8 {
		tolerance = math.Ldexp(float64(len(want)+1), -53)
	}
	require.Equal(t, len(want), len(got), msg)
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		if w != g && math.Abs(w-g) > tolerance*max(1, math.Abs(w)) {
			require.Fail(t, "values differ", "%s: element %d of %d: want %v, got %v", msg, i, len(want), w, g)
		}
	}
}

// testScanType scans with every operator. Slow devices run one type of each width
// and kind.
func testScanType[T Number](t *testing.T, everywhere bool) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		eachTarget[T](t, "scan_", func(t *testing.T, d testDevice, rt *Runtime) {
			if d.slow && !everywhere {
				t.Log("the emulator's own tests run every kernel")
				return
			}
			s, err := NewStream(rt)
			require.NoError(t, err)
			for op := range opCount {
				identity, combine := naive[T](op)
				if combine == nil {
					one := []T{1}
					require.ErrorIs(t, InclusiveScan(t.Context(), rt, one, one, op), driver.ErrElementType)
					require.Equal(t, []T{1}, one)
					continue
				}
				recursive, pass := int(scanTile(int(sizeOf[T]()))), int(passTile(int(sizeOf[T]())))
				for _, n := range append(d.sizes(recursive), pass-1, pass, pass+1, 3*pass+5) {
					for name, src := range testData[T](d, n) {
						if op == Product && reflect.TypeFor[T]().Kind() >= reflect.Float32 {
							for i := range src { // products that neither vanish nor overflow
								src[i] = T(1 + float64(int(src[i])%3-1)/1024)
							}
						}
						for variant := range 4 {
							exclusive, strategy := variant&1 != 0, ScanStrategy(variant>>1)
							msg := fmt.Sprintf("%v, %v, n %d, %s, exclusive %v", op, strategy, n, name, exclusive)
							want := naiveScan(identity, combine, src, exclusive)
							// Aligned as bulk copies need it, and not.
							skew := n % 3
							in, out := newGuarded[T](t, s, n, skew), newGuarded[T](t, s, n, skew*(variant%3))
							require.NoError(t, in.CopyFrom(s, src))
							scan := InclusiveScanBuffer[T]
							if exclusive {
								scan = ExclusiveScanBuffer[T]
							}
							require.NoError(t, scan(s, out.Buffer, in.Buffer, op, WithScanStrategy(strategy)), msg)
							require.NoError(t, scan(s, in.Buffer, in.Buffer, op, WithScanStrategy(strategy)), msg)
							requireScan(t, op, want, out.check(t, s, msg), msg)
							requireScan(t, op, want, in.check(t, s, msg), msg+", in place")
						}
					}
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestScan(t *testing.T) {
	testScanType[uint8](t, true)
	testScanType[uint16](t, false)
	testScanType[uint32](t, true)
	testScanType[uint64](t, false)
	testScanType[int8](t, false)
	testScanType[int16](t, true)
	testScanType[int32](t, false)
	testScanType[int64](t, true)
	testScanType[int](t, false)
	testScanType[uint](t, false)
	testScanType[float32](t, true)
	testScanType[float64](t, true)
}

func TestScanExtremes(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		// NaN goes on to the end, and -0 is less than +0.
		nan, negZero := math.NaN(), math.Copysign(0, -1)
		src, dst := []float64{0, negZero, 1, nan, -5, 7}, make([]float64, 6)
		require.NoError(t, InclusiveScan(ctx, rt, dst, src, Min))
		require.True(t, math.Signbit(dst[1]) && dst[2] == 0 && math.Signbit(dst[2]))
		require.True(t, math.IsNaN(dst[3]) && math.IsNaN(dst[4]) && math.IsNaN(dst[5]))
		require.NoError(t, InclusiveScan(ctx, rt, dst, src, Max))
		require.True(t, !math.Signbit(dst[1]) && dst[2] == 1 && math.IsNaN(dst[5]))

		// The identity of float sums is -0.
		require.NoError(t, ExclusiveScan(ctx, rt, dst[:2], []float64{negZero, 0}, Sum))
		require.True(t, dst[0] == 0 && math.Signbit(dst[0]) && dst[1] == 0 && math.Signbit(dst[1]))

		ints := []int64{math.MaxInt64, math.MinInt64, -1, 1}
		got := make([]int64, 4)
		require.NoError(t, ExclusiveScan(ctx, rt, got, ints, Min))
		require.Equal(t, []int64{math.MaxInt64, math.MaxInt64, math.MinInt64, math.MinInt64}, got)
		require.NoError(t, InclusiveScan(ctx, rt, got, ints, Sum))
		require.Equal(t, []int64{math.MaxInt64, -1, -2, -1}, got)
	})
}

// TestScanRecursion goes three levels deep: more tiles than a tile holds.
func TestScanRecursion(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		if d.slow {
			t.Skip("the recursion's kernels are the same at every level; the emulator stops at two")
		}
		s, err := NewStream(rt)
		require.NoError(t, err)
		tile := int(scanTile(8))
		for _, n := range []int{tile*tile - 1, tile * tile, tile*tile + 1, tile*tile + tile + 3} {
			src := allData[uint64](n)["random"]
			b, err := NewBufferFrom(s, src)
			require.NoError(t, err)
			require.NoError(t, ExclusiveScanBuffer(s, b, b, Sum, WithScanStrategy(ScanRecursive)))
			got := make([]uint64, n)
			require.NoError(t, b.CopyTo(s, got))
			requireSame(t, naiveScan(0, func(a, b uint64) uint64 { return a + b }, src, true), got, "n %d", n)
			require.NoError(t, b.Free())
		}
		require.NoError(t, s.Close())
	})
}

func TestPlanScan(t *testing.T) {
	plan := func(strategy ScanStrategy, n, size int64) ScanPlan {
		p, err := PlanScan(strategy, n, size)
		require.NoError(t, err)
		require.Zero(t, p.Bytes%256)
		return p
	}
	for _, size := range []int64{1, 2, 4, 8, 12, 16} {
		tile := scanTile(int(size))
		for _, n := range []int64{0, 1, tile} {
			require.Equal(t, ScanPlan{Strategy: ScanRecursive}, plan(ScanRecursive, n, size), "one tile needs no workspace")
		}
		require.Equal(t, ScanPlan{}, plan(ScanSinglePass, 0, size))
		for _, n := range []int64{tile + 1, tile * tile, tile*tile + 1, 1 << 32, 1<<32 + 1, 1 << 40, maxScanElements} {
			p := plan(ScanRecursive, n, size)
			require.Positive(t, p.Depth)
			end := int64(0)
			for i, l := range p.Levels[:p.Depth] {
				require.Equal(t, n, l.N, "a level scans what the level above left")
				require.Zero(t, l.Offset%256)
				require.GreaterOrEqual(t, l.Offset, end, "levels do not overlap")
				require.Equal(t, (n+tile-1)/tile, l.Tiles)
				end = l.Offset + l.Tiles*size
				n = l.Tiles
				require.Equal(t, i == p.Depth-1, n <= tile, "the last level's sums fit a tile")
			}
			require.GreaterOrEqual(t, p.Bytes, end)
			require.Less(t, p.Bytes, end+256)
		}
		pass := passTile(int(size))
		words := (size + 3) / 4
		require.GreaterOrEqual(t, plan(ScanSinglePass, 5*pass+1, size).Bytes, 256+6*8*words, "a word for every 4 bytes of a tile's total")
	}
	for _, bad := range []struct {
		n, size int64
		code    driver.Code
	}{{-1, 4, driver.ErrLength}, {maxScanElements + 1, 4, driver.ErrTooLarge}, {5000, 0, driver.ErrInvalidValue}, {5000, 17, driver.ErrInvalidValue}} {
		_, err := PlanScan(ScanRecursive, bad.n, bad.size)
		require.ErrorIs(t, err, bad.code)
	}
	_, err := PlanScan(scanStrategies, 1, 1)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
}

func TestScanWorkspace(t *testing.T) {
	for _, strategy := range []ScanStrategy{ScanSinglePass, ScanRecursive} {
		testScanWorkspace(t, strategy)
	}
}

func testScanWorkspace(t *testing.T, strategy ScanStrategy) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		n := int(3*scanTile(4) + 5)
		src := allData[uint32](n)["random"]
		b, err := NewBufferFrom(s, src)
		require.NoError(t, err)
		plan, err := PlanScan(strategy, int64(n), 4)
		require.NoError(t, err)
		w := newGuarded[byte](t, s, int(plan.Bytes), 0)
		for range 3 { // reused
			require.NoError(t, b.CopyFrom(s, src))
			require.NoError(t, InclusiveScanBuffer(s, b, b, Sum, WithScanStrategy(strategy), WithScanWorkspace(w.Buffer)))
			got := make([]uint32, n)
			require.NoError(t, b.CopyTo(s, got))
			requireSame(t, naiveScan(0, func(a, b uint32) uint32 { return a + b }, src, false), got, "with workspace")
		}
		short, err := w.Slice(0, int(plan.Bytes)-1)
		require.NoError(t, err)
		err = InclusiveScanBuffer(s, b, b, Sum, WithScanStrategy(strategy), WithScanWorkspace(short))
		require.ErrorIs(t, err, driver.ErrTooSmall)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, plan.Bytes, e.Need)
		askew, err := w.whole.Slice(1, int(plan.Bytes)+1)
		require.NoError(t, err)
		require.ErrorIs(t, InclusiveScanBuffer(s, b, b, Sum, WithScanStrategy(strategy), WithScanWorkspace(askew)), driver.ErrMisaligned)
		one := []uint32{1}
		require.ErrorIs(t, InclusiveScan(t.Context(), rt, one, one, Sum, WithScanWorkspace(w.Buffer)), driver.ErrInvalidValue)
		w.check(t, s, "workspace")
		require.NoError(t, b.Free())
		require.NoError(t, s.Close())
	})
}

func testWidening[Out Wide, In Narrow](t *testing.T, from func(r uint32) In, value func(In) Out) {
	t.Run(fmt.Sprintf("%v-%v", reflect.TypeFor[In](), reflect.TypeFor[Out]()), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			pass := int(passTile(int(sizeOf[Out]())))
			for _, n := range []int{0, 1, 15, 16, 17, 1000, pass - 1, pass, pass + 1, 3*pass + 7} {
				src := make([]In, n+1)
				for i := range src {
					src[i] = from(uint32(i) * 2654435761)
				}
				for skew := range 2 { // the second is not aligned for bulk copies
					x := src[skew:][:n]
					want := make([]Out, n)
					sum := Out(0)
					for i, v := range x {
						sum += value(v)
						want[i] = sum
					}
					got := make([]Out, n)
					require.NoError(t, InclusiveSum(t.Context(), rt, got, x))
					requireSame(t, want, got, "n %d", n)

					b, err := NewBufferFrom(s, src)
					require.NoError(t, err)
					in, err := b.Slice(skew, skew+n)
					require.NoError(t, err)
					out, err := NewBuffer[Out](rt, n)
					require.NoError(t, err)
					require.NoError(t, ExclusiveSumBuffer(s, out, in, WithScanInit(Out(5))))
					require.NoError(t, out.CopyTo(s, got))
					for i := range got {
						got[i] += value(x[i]) - 5
					}
					requireSame(t, want, got, "exclusive, n %d", n)
					require.NoError(t, b.Free())
					require.NoError(t, out.Free())
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestWideningSums(t *testing.T) {
	testWidening(t, func(r uint32) bool { return r>>31 != 0 }, func(v bool) (n uint32) {
		if v {
			n = 1
		}
		return n
	})
	testWidening(t, func(r uint32) uint8 { return uint8(r >> 24) }, func(v uint8) uint32 { return uint32(v) })
	testWidening(t, func(r uint32) uint8 { return uint8(r >> 24) }, func(v uint8) int { return int(v) })
	testWidening(t, func(r uint32) uint16 { return uint16(r >> 16) }, func(v uint16) int32 { return int32(v) })
	testWidening(t, func(r uint32) uint16 { return uint16(r >> 16) }, func(v uint16) uint64 { return uint64(v) })
	testWidening(t, func(r uint32) uint32 { return r }, func(v uint32) uint64 { return uint64(v) })
}

func TestWideningErrors(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	ctx := t.Context()
	require.ErrorIs(t, InclusiveSum(ctx, rt, make([]uint32, 1), make([]uint32, 1)), driver.ErrElementType)
	require.ErrorIs(t, InclusiveSum(ctx, rt, make([]uint32, 1), make([]uint8, 2)), driver.ErrLength)
	require.ErrorIs(t, InclusiveSum(ctx, rt, make([]uint32, 1), make([]uint8, 1), WithScanStrategy(ScanRecursive)), driver.ErrInvalidValue)
	words := make([]uint32, 8)
	narrow := bytesOf(words)
	require.ErrorIs(t, InclusiveSum(ctx, rt, words[:4], narrow[:4]), driver.ErrOverlap)
	require.NoError(t, rt.Close())
}

// TestScanManyTiles has more tiles than the fewest for bulk copies, the last one
// not whole, and memory that bulk copies can and cannot be made of.
func TestScanManyTiles(t *testing.T) {
	t.Run("uint8", testScanManyTiles[uint8])
	t.Run("uint32", testScanManyTiles[uint32])
	t.Run("int64", testScanManyTiles[int64])
}

func testScanManyTiles[T Number](t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		n := int(passTile(int(sizeOf[T]()))*int64(bulkTiles*rt.Info().Multiprocessors)) + 5
		src := make([]T, n)
		for i := range src {
			src[i] = T(i%11 + 1)
		}
		for _, skew := range []int{0, 1} {
			in, out := newGuarded[T](t, s, n, skew), newGuarded[T](t, s, n, skew)
			require.NoError(t, in.CopyFrom(s, src))
			require.NoError(t, InclusiveScanBuffer(s, out.Buffer, in.Buffer, Sum))
			sum := T(0)
			for i, got := range out.check(t, s, "scan") {
				if sum += src[i]; got != sum {
					require.Equal(t, sum, got, "element %d of %d, skew %d", i, n, skew)
				}
			}
			in.check(t, s, "input")
		}
		require.NoError(t, s.Close())
	})
}

func TestScanInit(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		for _, n := range []int{1, 100, 5000, 40_000} {
			src := allData[int32](n)["random"]
			dst := make([]int32, n)
			add := func(a, b int32) int32 { return a + b }
			for _, strategy := range []ScanStrategy{ScanSinglePass, ScanRecursive} {
				require.NoError(t, InclusiveScan(t.Context(), rt, dst, src, Sum, WithScanInit(int32(-7)), WithScanStrategy(strategy)))
				requireSame(t, naiveScan(-7, add, src, false), dst, "%v, n %d", strategy, n)
				require.NoError(t, ExclusiveScan(t.Context(), rt, dst, src, Sum, WithScanInit(int32(-7)), WithScanStrategy(strategy)))
				requireSame(t, naiveScan(-7, add, src, true), dst, "%v, n %d", strategy, n)
			}
		}
		one := []int32{1}
		for _, other := range []ScanOption{WithScanInit(int64(1)), WithScanInit(float32(1)), WithScanInit(struct{}{})} {
			require.ErrorIs(t, InclusiveScan(t.Context(), rt, one, one, Sum, other), driver.ErrElementType)
		}
		err := InclusiveSum(t.Context(), rt, []uint64{0}, []byte{1}, WithScanInit(byte(7)))
		require.ErrorIs(t, err, driver.ErrElementType)
		require.ErrorContains(t, err, "a value of type uint8, the results are of type uint64")
	})
}

// affine is x → m·x + c; composition is associative and not commutative.
type affine struct{ M, C uint32 }

// passPieceOfTwin is what a core of the cpu device scans at a time.
const passPieceOfTwin = 1 << 16

func compose(f, g affine) affine { return affine{f.M * g.M, f.C*g.M + g.C} }

// TestOperatorTwin runs a caller's operator by its Go form; its PTX form is
// tested in examples/operator.
func TestOperatorTwin(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	op, err := NewOperator(rt, OperatorSpec[affine]{Name: "affine", Identity: affine{1, 0}, Combine: compose})
	require.NoError(t, err)
	for _, n := range append((testDevice{}).sizes(int(scanTile(8))), 3*passPieceOfTwin+1) {
		src := make([]affine, n)
		for i := range src {
			src[i] = affine{uint32(i)*2 + 3, uint32(i) * 7}
		}
		dst := make([]affine, n)
		require.NoError(t, op.InclusiveScan(t.Context(), dst, src))
		requireSame(t, naiveScan(affine{1, 0}, compose, src, false), dst, "inclusive %d", n)
		require.NoError(t, op.ExclusiveScan(t.Context(), src, src))
		requireSame(t, append([]affine{{1, 0}}, dst...)[:n], src, "exclusive, in place %d", n)
	}
	require.NoError(t, op.Close())
	one := []affine{{1, 1}}
	for call, err := range map[string]error{"Close": op.Close(), "InclusiveScan": op.InclusiveScan(t.Context(), one, one)} {
		require.ErrorIs(t, err, driver.ErrClosed)
		require.ErrorContains(t, err, "Operator."+call+": closed: operator affine")
	}

	_, err = NewOperator(rt, OperatorSpec[affine]{Name: "affine"})
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewOperator(rt, OperatorSpec[affine]{Combine: compose})
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	_, err = NewOperator(rt, OperatorSpec[*int]{Name: "p", Combine: func(a, b *int) *int { return a }})
	require.ErrorIs(t, err, driver.ErrElementType)
	_, err = NewOperator(rt, OperatorSpec[[5]uint32]{Name: "wide", Combine: func(a, b [5]uint32) [5]uint32 { return a }})
	require.ErrorIs(t, err, driver.ErrElementType)
	// PTX is looked through even where it is not run.
	_, err = NewOperator(rt, OperatorSpec[affine]{Name: "affine", Combine: compose, PTX: [][]byte{nil}})
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewOperator(rt, OperatorSpec[affine]{Name: "affine", Combine: compose, PTX: [][]byte{[]byte("garbage")}})
	require.ErrorIs(t, err, driver.ErrInvalidPTX)
	recursive, _, err := ptx.Source("scan_recursive_sum_u32", 70)
	require.NoError(t, err)
	_, err = NewOperator(rt, OperatorSpec[affine]{Name: "affine", Combine: compose, PTX: [][]byte{recursive}})
	require.ErrorIs(t, err, driver.ErrNotFound)
	require.ErrorContains(t, err, "has no kernel scan_upsweep_v3_affine")
	whole := bytes.ReplaceAll(recursive, []byte("_sum_u32"), []byte("_v3_affine"))
	_, err = NewOperator(rt, OperatorSpec[affine]{Name: "affine", Combine: compose, PTX: [][]byte{whole}})
	require.ErrorIs(t, err, driver.ErrElementType)
	require.ErrorContains(t, err, "the Go type has 8 bytes, the PTX's Value 4")
	var none *Operator[affine]
	require.ErrorIs(t, none.InclusiveScan(t.Context(), nil, nil), driver.ErrNil)
	require.ErrorIs(t, none.Close(), driver.ErrNil)
	require.NoError(t, rt.Close())
}

func TestScanErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		a, b := []uint32{1, 2, 3}, []uint32{9, 9}
		require.ErrorIs(t, InclusiveScan(ctx, nil, a, a, Sum), driver.ErrNil)
		require.ErrorIs(t, InclusiveScan(ctx, &Runtime{}, a, a, Sum), driver.ErrNil)
		require.ErrorIs(t, InclusiveScan(nil, rt, a, a, Sum), driver.ErrNil) //nolint:staticcheck // what is tested
		require.ErrorIs(t, InclusiveScan(ctx, rt, b, a, Sum), driver.ErrLength)
		require.ErrorIs(t, InclusiveScan(ctx, rt, a[1:], a[:2], Sum), driver.ErrOverlap)
		require.ErrorIs(t, InclusiveScan(ctx, rt, a, a, opCount), driver.ErrInvalidValue)
		require.ErrorIs(t, InclusiveScan(ctx, rt, a, a, Sum, WithScanStrategy(scanStrategies)), driver.ErrInvalidValue)
		require.NoError(t, InclusiveScan(ctx, rt, a[:0], nil, Sum))
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, InclusiveScan(cancelled, rt, a, a, Sum), context.Canceled)
		require.Equal(t, []uint32{1, 2, 3}, a, "no failed call wrote")
		require.Equal(t, []uint32{9, 9}, b)

		other, err := Open(WithDevice("cpu"))
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		x, err := NewBufferFrom(s, a)
		require.NoError(t, err)
		foreign, err := NewBuffer[uint32](other, 3)
		require.NoError(t, err)
		short, err := x.Slice(0, 2)
		require.NoError(t, err)
		shifted, err := x.Slice(1, 3)
		require.NoError(t, err)
		require.ErrorIs(t, InclusiveScanBuffer(nil, x, x, Sum), driver.ErrNil)
		require.ErrorIs(t, InclusiveScanBuffer(s, nil, x, Sum), driver.ErrNil)
		require.ErrorIs(t, InclusiveScanBuffer(s, x, nil, Sum), driver.ErrNil)
		require.ErrorIs(t, InclusiveScanBuffer(s, x, foreign, Sum), driver.ErrWrongDevice)
		require.ErrorIs(t, InclusiveScanBuffer(s, x, short, Sum), driver.ErrLength)
		require.ErrorIs(t, InclusiveScanBuffer(s, short, shifted, Sum), driver.ErrOverlap)
		got := make([]uint32, 3)
		require.NoError(t, x.CopyTo(s, got))
		require.Equal(t, a, got)
		require.NoError(t, x.Free())
		require.ErrorIs(t, x.Free(), driver.ErrClosed)
		require.ErrorIs(t, InclusiveScanBuffer(s, x, x, Sum), driver.ErrClosed)
		require.ErrorIs(t, InclusiveScanBuffer(s, short, short, Sum), driver.ErrClosed, "views go with their buffer")
		require.ErrorIs(t, InclusiveScanBuffer(s, x, x, Sum, WithScanWorkspace(nil)), driver.ErrClosed)
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Close(), driver.ErrClosed)
		require.ErrorIs(t, InclusiveScanBuffer(s, x, x, Sum), driver.ErrClosed)
		require.ErrorIs(t, s.Wait(nil), driver.ErrNil) //nolint:staticcheck // what is tested
		require.ErrorIs(t, other.Close(), driver.ErrLeak)
		require.ErrorIs(t, InclusiveScan(ctx, other, a, a, Sum), driver.ErrClosed)
		require.ErrorIs(t, foreign.Free(), driver.ErrClosed)
	})
}

// TestConcurrent mixes calls of many goroutines on one runtime, some of which
// give up half-way.
func TestConcurrent(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 20 {
					n := 1000*g + 37*i
					src := allData[uint32](n)["runs"]
					ctx, cancel := context.WithCancel(context.Background())
					if i%5 == 4 {
						go cancel()
					}
					dst := make([]uint32, n)
					switch err := InclusiveScan(ctx, rt, dst, src, Sum); {
					case err != nil:
						if i%5 != 4 || !isContextError(err) {
							t.Errorf("scan: %v", err)
						}
						for _, v := range dst {
							if v != 0 {
								t.Error("a cancelled call wrote")
								break
							}
						}
					case n > 0 && dst[n-1] != naiveScan(0, func(a, b uint32) uint32 { return a + b }, src, false)[n-1]:
						t.Error("wrong sum")
					}
					cancel()
					values, lengths, err := RLEEncode(context.Background(), rt, src)
					if err != nil {
						t.Errorf("encode: %v", err)
						continue
					}
					back, err := RLEDecode(context.Background(), rt, values, lengths)
					if err != nil || !reflect.DeepEqual(append([]uint32{}, back...), append([]uint32{}, src...)) {
						t.Errorf("decode: %v", err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestCancelDoesNotWait: a deadline ends the waiting, although the kernel, which
// nothing can stop, goes on. Close waits for it.
func TestCancelDoesNotWait(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	gate := make(chan struct{})
	op, err := NewOperator(rt, OperatorSpec[uint32]{Name: "slow", Combine: func(a, b uint32) uint32 {
		<-gate
		return a + b
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	src, dst := []uint32{1, 2, 3}, make([]uint32, 3)
	require.ErrorIs(t, op.InclusiveScan(ctx, dst, src), context.DeadlineExceeded)
	require.Equal(t, []uint32{0, 0, 0}, dst)
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	require.Eventually(t, func() bool {
		return errors.Is(InclusiveScan(t.Context(), rt, dst, src, Sum), driver.ErrClosed)
	}, time.Second, time.Millisecond, "a call does not wait for Close")
	select {
	case err := <-closed:
		require.Fail(t, "Close did not wait for the kernel", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(gate)
	require.NoError(t, <-closed)
}

func isContextError(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded
}
