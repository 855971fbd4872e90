package ptxrun

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// naiveSegmented is the definition of a segmented scan, forwards or in reverse.
func naiveSegmented[T any](init T, combine func(a, b T) T, src []T, heads []uint8, exclusive, reverse bool) []T {
	out, acc := make([]T, len(src)), init
	for k := range src {
		i, begins := k, heads[k] != 0
		if reverse {
			i = len(src) - 1 - k
			begins = k > 0 && heads[i+1] != 0
		}
		if begins {
			acc = init
		}
		next := combine(acc, src[i])
		if out[i] = next; exclusive {
			out[i] = acc
		}
		acc = next
	}
	return out
}

// headPatterns are places of heads where kernels could go wrong: at the borders
// of lanes, rows, parts and tiles for elements of that size, nowhere and
// everywhere.
func headPatterns(n, size int) map[string][]uint8 {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	all := map[string][]uint8{}
	add := func(name string, head func(i int) bool) {
		h := make([]uint8, n)
		for i := range h {
			if head(i) {
				h[i] = uint8(1 + r.Uint32()%255)
			}
		}
		all[name] = h
	}
	lane := 16 / size
	tile := int(passTile(size))
	add("nowhere", func(int) bool { return false })
	add("everywhere", func(int) bool { return true })
	for name, border := range map[string]int{"lanes": lane, "rows": 32 * lane, "parts": tile / passParts, "tiles": tile} {
		add(name, func(i int) bool { return i%border == 0 })
		add("the ends of "+name, func(i int) bool { return i%border == border-1 })
	}
	add("at the end", func(i int) bool { return i == n-1 })
	add("seldom", func(int) bool { return r.Uint32()%3000 == 0 })
	add("often", func(int) bool { return r.Uint32()%3 == 0 })
	return all
}

// keysOf gives elements of one segment the same key, and neighbours of different
// segments different ones.
func keysOf[K Number](heads []uint8) []K {
	keys, k := make([]K, len(heads)), K(3)
	for i, h := range heads {
		if h != 0 {
			k = 7 - k
		}
		keys[i] = k
	}
	return keys
}

// offsetsOf are the heads' places, with some empty segments among them.
func offsetsOf[I SegmentOffset](heads []uint8) []I {
	offsets := []I{0}
	for i, h := range heads {
		if h != 0 {
			offsets = append(offsets, I(i))
			if i%5 == 0 {
				offsets = append(offsets, I(i))
			}
		}
	}
	return append(offsets, I(len(heads)))
}

// describe puts heads on the device in one of the ways to describe them.
func describe(t *testing.T, s *Stream, way int, heads []uint8, skew int) (g BufferSegments, check func(msg string)) {
	switch way % 7 {
	case 0:
		return described(t, s, heads, skew, SegmentHeadsBuffer[uint8])
	case 1:
		return described(t, s, keysOf[uint8](heads), skew, SegmentKeysBuffer[uint8])
	case 2:
		return described(t, s, keysOf[int16](heads), skew, SegmentKeysBuffer[int16])
	case 3:
		return described(t, s, keysOf[float32](heads), skew, SegmentKeysBuffer[float32])
	case 4:
		return described(t, s, keysOf[uint64](heads), skew, SegmentKeysBuffer[uint64])
	case 5:
		return described(t, s, offsetsOf[uint32](heads), skew, SegmentOffsetsBuffer[uint32])
	default:
		return described(t, s, offsetsOf[uint64](heads), skew, SegmentOffsetsBuffer[uint64])
	}
}

func described[T Number](t *testing.T, s *Stream, v []T, skew int, of func(*Buffer[T]) BufferSegments) (BufferSegments, func(string)) {
	b := newGuarded[T](t, s, len(v), skew)
	require.NoError(t, b.CopyFrom(s, v))
	return of(b.Buffer), func(msg string) { requireSame(t, v, b.check(t, s, msg), "%s: what describes the segments", msg) }
}

// checkSegmented scans out of place and in place in all four ways, and compares
// with the definition.
func checkSegmented[T Number](t *testing.T, s *Stream, op Op, src []T, heads []uint8, way, skew int, msg string) {
	identity, combine := naive[T](op)
	for variant := range 4 {
		exclusive, reverse := variant&1 != 0, variant&2 != 0
		msg := fmt.Sprintf("%s, %v, n %d, way %d, skew %d, exclusive %v, reverse %v", msg, op, len(src), way, skew, exclusive, reverse)
		scan := InclusiveSegmentedScanBuffer[T]
		if exclusive {
			scan = ExclusiveSegmentedScanBuffer[T]
		}
		var opts []ScanOption
		if reverse {
			opts = append(opts, WithScanReverse())
		}
		want := naiveSegmented(identity, combine, src, heads, exclusive, reverse)
		in, out := newGuarded[T](t, s, len(src), skew), newGuarded[T](t, s, len(src), 2*skew)
		require.NoError(t, in.CopyFrom(s, src))
		g, check := describe(t, s, way, heads, skew)
		require.NoError(t, scan(s, out.Buffer, in.Buffer, g, op, opts...), msg)
		require.NoError(t, scan(s, in.Buffer, in.Buffer, g, op, opts...), msg)
		requireScan(t, op, want, out.check(t, s, msg), msg)
		requireScan(t, op, want, in.check(t, s, msg), msg+", in place")
		check(msg)
	}
}

// segmentedData keeps products of floats where they neither vanish nor overflow.
func segmentedData[T Number](op Op, n int) []T {
	src := allData[T](n)["random"]
	if op == Product && reflect.TypeFor[T]().Kind() >= reflect.Float32 {
		for i := range src {
			src[i] = T(1 + float64(int(src[i])%3-1)/1024)
		}
	}
	return src
}

func testSegmentedType[T Number](t *testing.T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		eachTarget[T](t, "scan_segmented_", func(t *testing.T, d testDevice, rt *Runtime) {
			s, err := NewStream(rt)
			require.NoError(t, err)
			size := int(sizeOf[T]())
			if d.slow && rt.Info().Capability > 70 {
				t.Log("the kernels are those of sm_70; sums show that they run")
			}
			for op := range opCount {
				if d.slow && rt.Info().Capability > 70 && op != Sum {
					continue
				}
				if _, combine := naive[T](op); combine == nil {
					one := []T{1}
					require.ErrorIs(t, InclusiveSegmentedScan(t.Context(), rt, one, one, SegmentHeads(make([]uint8, 1)), op), driver.ErrElementType)
					continue
				}
				sizes := []int{int(passTile(size)) + 1000}
				if !d.slow || op == Sum {
					sizes = d.sizes(int(passTile(size)))
				}
				for i, n := range sizes {
					checkSegmented(t, s, op, segmentedData[T](op, n), headPatterns(n, size)["often"], i+int(op), n%3, "often")
				}
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestSegmentedScan(t *testing.T) {
	testSegmentedType[uint8](t)
	testSegmentedType[uint16](t)
	testSegmentedType[uint32](t)
	testSegmentedType[uint64](t)
	testSegmentedType[int8](t)
	testSegmentedType[int16](t)
	testSegmentedType[int32](t)
	testSegmentedType[int64](t)
	testSegmentedType[int](t)
	testSegmentedType[uint](t)
	testSegmentedType[float32](t)
	testSegmentedType[float64](t)
}

// TestSegmentedHeads has heads wherever a border is, in every description.
func TestSegmentedHeads(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		way := 0
		test := func(n, size int, check func(heads []uint8, way, skew int, name string)) {
			for name, heads := range headPatterns(n, size) {
				ways := 7
				if d.slow {
					ways = 1
				}
				for range ways {
					check(heads, way, way/7%2, name)
					way++
				}
			}
		}
		n := 2*int(passTile(8)) + 33
		test(n, 8, func(heads []uint8, way, skew int, name string) {
			checkSegmented(t, s, Sum, segmentedData[uint64](Sum, n), heads, way, skew, name)
		})
		n = 2*int(passTile(4)) - 31
		test(n, 4, func(heads []uint8, way, skew int, name string) {
			checkSegmented(t, s, Max, segmentedData[int32](Max, n), heads, way, skew, name)
		})
		n = int(passTile(1)) + 4096 + 1
		test(n, 1, func(heads []uint8, way, skew int, name string) {
			checkSegmented(t, s, Sum, segmentedData[uint8](Sum, n), heads, way, skew, name)
		})
		require.NoError(t, s.Close())
	})
}

// TestSegmentedLookBack has more tiles than a look-back takes at a time.
func TestSegmentedLookBack(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		tiles := 400
		if d.slow {
			tiles = 40
		}
		n := tiles*int(passTile(8)) + 5
		src := allData[uint64](n)["random"]
		dst := make([]uint64, n)
		_, add := naive[uint64](Sum)
		for name, every := range map[string]int{"nowhere": n, "every third tile": 3*int(passTile(8)) + 7, "every 70th": 70 * int(passTile(8))} {
			heads := make([]bool, n)
			flags := make([]uint8, n)
			for i := every; i < n; i += every {
				heads[i], flags[i] = true, 1
			}
			require.NoError(t, InclusiveSegmentedScan(t.Context(), rt, dst, src, SegmentHeads(heads), Sum))
			requireSame(t, naiveSegmented(0, add, src, flags, false, false), dst, "heads %s", name)
			require.NoError(t, ExclusiveSegmentedScan(t.Context(), rt, dst, src, SegmentHeads(heads), Sum, WithScanReverse()))
			requireSame(t, naiveSegmented(0, add, src, flags, true, true), dst, "heads %s, in reverse", name)
		}
	})
}

// TestScanReverse is the ordinary scan from the end.
func TestScanReverse(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		tile := int(passTile(4))
		for _, n := range d.sizes(tile) {
			src := allData[int32](n)["random"]
			_, add := naive[int32](Sum)
			none := make([]uint8, n)
			for variant := range 4 {
				exclusive, init := variant&1 != 0, int32(variant>>1*100)
				msg := fmt.Sprintf("n %d, exclusive %v, from %d", n, exclusive, init)
				scan := InclusiveScanBuffer[int32]
				if exclusive {
					scan = ExclusiveScanBuffer[int32]
				}
				plan, err := PlanScan(ScanSinglePass, int64(n), 4)
				require.NoError(t, err)
				w := newGuarded[byte](t, s, int(plan.Bytes), 0)
				in, out := newGuarded[int32](t, s, n, n%3), newGuarded[int32](t, s, n, variant%3)
				require.NoError(t, in.CopyFrom(s, src))
				opts := []ScanOption{WithScanReverse(), WithScanInit(init), WithScanWorkspace(w.Buffer)}
				require.NoError(t, scan(s, out.Buffer, in.Buffer, Sum, opts...), msg)
				require.NoError(t, scan(s, in.Buffer, in.Buffer, Sum, opts...), msg)
				want := naiveSegmented(init, add, src, none, exclusive, true)
				requireSame(t, want, out.check(t, s, msg), "%s", msg)
				requireSame(t, want, in.check(t, s, msg), "%s, in place", msg)
				w.check(t, s, msg)
			}
		}
		one := []uint32{1}
		require.ErrorIs(t, InclusiveScan(t.Context(), rt, one, one, Sum, WithScanReverse(), WithScanStrategy(ScanRecursive)), driver.ErrInvalidValue)
		require.ErrorIs(t, InclusiveSum(t.Context(), rt, one, []uint8{1}, WithScanReverse()), driver.ErrInvalidValue)
		require.ErrorIs(t, InclusiveScan(t.Context(), rt, one[:0], one[:0], Sum, WithScanReverse(), WithScanStrategy(ScanRecursive)), driver.ErrInvalidValue)
		require.NoError(t, s.Close())
	})
}

// TestSegmentedInit starts every segment from a value.
func TestSegmentedInit(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		for _, n := range []int{1, 100, 20_000} {
			src, heads := allData[int32](n)["random"], headPatterns(n, 4)["often"]
			_, add := naive[int32](Sum)
			dst := make([]int32, n)
			for variant := range 4 {
				exclusive, reverse := variant&1 != 0, variant&2 != 0
				scan, opts := InclusiveSegmentedScan[int32], []ScanOption{WithScanInit(int32(-7))}
				if exclusive {
					scan = ExclusiveSegmentedScan[int32]
				}
				if reverse {
					opts = append(opts, WithScanReverse())
				}
				want := naiveSegmented(-7, add, src, heads, exclusive, reverse)
				for _, g := range []Segments{SegmentHeads(heads), SegmentKeys(keysOf[uint16](heads)), SegmentOffsets(offsetsOf[uint64](heads))} {
					require.NoError(t, scan(t.Context(), rt, dst, src, g, Sum, opts...))
					requireSame(t, want, dst, "n %d, exclusive %v, reverse %v", n, exclusive, reverse)
				}
			}
		}
	})
}

// TestSegmentedBatch scans many rows of every length at once.
func TestSegmentedBatch(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(5, 6))
		for _, rows := range []int{0, 1, 2, 500, 3000} {
			offsets := []uint32{0}
			for range rows {
				length := r.Uint32() % 7
				if r.Uint32()%300 == 0 {
					length = r.Uint32() % 20_000
				}
				offsets = append(offsets, offsets[len(offsets)-1]+length)
			}
			n := int(offsets[rows])
			src, dst := allData[uint16](n)["random"], make([]uint16, n)
			var want []uint16
			_, add := naive[uint16](Sum)
			for i := range rows {
				want = append(want, naiveScan(0, add, src[offsets[i]:offsets[i+1]], true)...)
			}
			require.NoError(t, ExclusiveSegmentedScan(t.Context(), rt, dst, src, SegmentOffsets(offsets), Sum))
			requireSame(t, want, dst, "%d rows on the host", rows)

			b, err := NewBufferFrom(s, src)
			require.NoError(t, err)
			o, err := NewBufferFrom(s, offsets)
			require.NoError(t, err)
			require.NoError(t, ExclusiveSegmentedScanBuffer(s, b, b, SegmentOffsetsBuffer(o), Sum))
			require.NoError(t, b.CopyTo(s, dst))
			requireSame(t, want, dst, "%d rows on the device", rows)
			require.NoError(t, cmp.Or(b.Free(), o.Free()))
		}
		require.NoError(t, s.Close())
	})
}

// TestSegmentedOperator is a caller's operator that does not commute, by its Go
// form; its PTX form is tested in examples/operator.
func TestSegmentedOperator(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	op, err := NewOperator(rt, OperatorSpec[affine]{Name: "affine", Identity: affine{1, 0}, Combine: compose})
	require.NoError(t, err)
	s, err := NewStream(rt)
	require.NoError(t, err)
	for _, n := range []int{1, 1000, passPieceOfTwin, 3*passPieceOfTwin + 1} {
		src := make([]affine, n)
		for i := range src {
			src[i] = affine{uint32(i)*2 + 3, uint32(i) * 7}
		}
		for name, heads := range headPatterns(n, 8) {
			want := naiveSegmented(affine{1, 0}, compose, src, heads, false, false)
			dst := make([]affine, n)
			require.NoError(t, op.InclusiveSegmentedScan(t.Context(), dst, src, SegmentHeads(heads)))
			requireSame(t, want, dst, "n %d, heads %s", n, name)
			require.NoError(t, op.ExclusiveSegmentedScan(t.Context(), dst, src, SegmentKeys(keysOf[int64](heads)), WithScanReverse()))
			want = naiveSegmented(affine{1, 0}, compose, src, heads, true, true)
			requireSame(t, want, dst, "n %d, heads %s, in reverse", n, name)
			b, err := NewBufferFrom(s, src)
			require.NoError(t, err)
			g, err := NewBufferFrom(s, heads)
			require.NoError(t, err)
			require.NoError(t, op.ExclusiveSegmentedScanBuffer(s, b, b, SegmentHeadsBuffer(g), WithScanReverse()))
			require.NoError(t, b.CopyTo(s, dst))
			requireSame(t, want, dst, "n %d, heads %s, buffers", n, name)
			require.NoError(t, b.CopyFrom(s, src))
			require.NoError(t, op.InclusiveScanBuffer(s, b, b, WithScanReverse()))
			require.NoError(t, b.CopyTo(s, dst))
			requireSame(t, naiveSegmented(affine{1, 0}, compose, src, make([]uint8, n), false, true), dst, "n %d, all in reverse", n)
			require.NoError(t, cmp.Or(b.Free(), g.Free()))
		}
	}
	require.NoError(t, cmp.Or(op.Close(), s.Close(), rt.Close()))
}

func TestPlanSegmentedScan(t *testing.T) {
	for _, size := range []int64{1, 2, 4, 8, 12, 16} {
		tile := passTile(int(size))
		for _, n := range []int64{0, 1, tile, tile + 1, 1 << 32, 1<<40 + 1} {
			p, err := PlanSegmentedScan(n, size)
			require.NoError(t, err)
			require.Zero(t, p.Check%256+p.Bits%256+p.Bytes%256)
			require.GreaterOrEqual(t, p.Bits, p.Check+4)
			require.GreaterOrEqual(t, 8*(p.Bytes-p.Bits), n, "a bit an element")
			if n > tile {
				require.GreaterOrEqual(t, p.Check, passState(n, int(size)))
			} else {
				require.Zero(t, p.Check, "a tile has no state")
			}
		}
	}
	_, err := PlanSegmentedScan(-1, 4)
	require.ErrorIs(t, err, driver.ErrLength)
	_, err = PlanSegmentedScan(1, 17)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
}

func TestSegmentedWorkspace(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		n := 2*int(passTile(4)) + 5
		src, heads := allData[uint32](n)["random"], headPatterns(n, 4)["often"]
		_, add := naive[uint32](Sum)
		plan, err := PlanSegmentedScan(int64(n), 4)
		require.NoError(t, err)
		w := newGuarded[byte](t, s, int(plan.Bytes), 0)
		b, err := NewBufferFrom(s, src)
		require.NoError(t, err)
		for way := range 7 { // used by each after the other
			require.NoError(t, b.CopyFrom(s, src))
			g, check := describe(t, s, way, heads, 0)
			require.NoError(t, InclusiveSegmentedScanBuffer(s, b, b, g, Sum, WithScanWorkspace(w.Buffer)))
			got := make([]uint32, n)
			require.NoError(t, b.CopyTo(s, got))
			requireSame(t, naiveSegmented(0, add, src, heads, false, false), got, "way %d", way)
			short, err := w.Slice(0, int(plan.Bytes)-1)
			require.NoError(t, err)
			require.ErrorIs(t, InclusiveSegmentedScanBuffer(s, b, b, g, Sum, WithScanWorkspace(short)), driver.ErrTooSmall)
			check("workspace")
		}
		w.check(t, s, "workspace")
		require.NoError(t, cmp.Or(b.Free(), s.Close()))
	})
}

func TestSegmentedErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		src, dst := []uint32{1, 2, 3}, []uint32{9, 9, 9}
		host := func(g Segments, opts ...ScanOption) error {
			return InclusiveSegmentedScan(ctx, rt, dst, src, g, Sum, opts...)
		}
		ok := SegmentHeads([]bool{false, true, false})
		require.ErrorIs(t, host(Segments{}), driver.ErrNil)
		require.ErrorIs(t, host(SegmentHeads([]uint8{1})), driver.ErrLength)
		require.ErrorIs(t, host(SegmentKeys([]uint8{1, 2, 3, 4})), driver.ErrLength)
		require.ErrorIs(t, host(SegmentKeys(dst)), driver.ErrOverlap)
		require.ErrorIs(t, host(SegmentOffsets([]uint32{})), driver.ErrLength)
		require.ErrorIs(t, host(ok, WithScanStrategy(ScanRecursive)), driver.ErrInvalidValue)
		require.ErrorIs(t, InclusiveSegmentedScan(ctx, rt, dst[:2], src, ok, Sum), driver.ErrLength)
		require.ErrorIs(t, InclusiveSegmentedScan(ctx, nil, dst, src, ok, Sum), driver.ErrNil)
		bad := [][]uint32{{0}, {3}, {1, 3}, {0, 2}, {0, 4}, {0, 2, 1, 3}, {0, 5, 3}, {0, 1 << 31, 3}}
		for _, offsets := range bad {
			require.ErrorIs(t, host(SegmentOffsets(offsets)), driver.ErrInvalidValue, "%v", offsets)
		}
		require.ErrorIs(t, InclusiveSegmentedScan(ctx, rt, dst[:0], src[:0], SegmentOffsets([]uint32{0, 1}), Sum), driver.ErrInvalidValue)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, InclusiveSegmentedScan(cancelled, rt, dst, src, ok, Sum), context.Canceled)
		require.Equal(t, []uint32{9, 9, 9}, dst, "no failed call wrote")
		require.NoError(t, host(ok))
		require.Equal(t, []uint32{1, 2, 5}, dst)

		s, err := NewStream(rt)
		require.NoError(t, err)
		x, err := NewBufferFrom(s, src)
		require.NoError(t, err)
		heads, err := NewBufferFrom(s, []uint8{0, 1, 0})
		require.NoError(t, err)
		short, err := heads.Slice(0, 2)
		require.NoError(t, err)
		scan := func(g BufferSegments) error { return InclusiveSegmentedScanBuffer(s, x, x, g, Sum) }
		require.ErrorIs(t, scan(BufferSegments{}), driver.ErrNil)
		require.ErrorIs(t, scan(SegmentHeadsBuffer[uint8](nil)), driver.ErrNil)
		require.ErrorIs(t, scan(SegmentHeadsBuffer(short)), driver.ErrLength)
		require.ErrorIs(t, scan(SegmentKeysBuffer(x)), driver.ErrOverlap)
		require.ErrorIs(t, InclusiveSegmentedScanBuffer(nil, x, x, SegmentHeadsBuffer(heads), Sum), driver.ErrNil)
		other, err := Open(WithDevice("cpu"))
		require.NoError(t, err)
		foreign, err := NewBuffer[uint8](other, 3)
		require.NoError(t, err)
		require.ErrorIs(t, scan(SegmentHeadsBuffer(foreign)), driver.ErrWrongDevice)
		require.NoError(t, cmp.Or(foreign.Free(), other.Close()))
		for _, offsets := range bad {
			o, err := NewBufferFrom(s, offsets)
			require.NoError(t, err)
			require.ErrorIs(t, scan(SegmentOffsetsBuffer(o)), driver.ErrInvalidValue, "%v", offsets)
			require.NoError(t, o.Free())
		}
		// A wrong pair is found wherever it stands, and in an empty batch.
		many := make([]uint64, 1000)
		many[999] = 3
		for _, at := range []int{31, 32, 255, 256, 600, 998} {
			many[at] = 4
			o, err := NewBufferFrom(s, many)
			require.NoError(t, err)
			require.ErrorIs(t, scan(SegmentOffsetsBuffer(o)), driver.ErrInvalidValue, "at %d", at)
			require.NoError(t, o.Free())
			many[at] = 0
		}
		empty, err := x.Slice(0, 0)
		require.NoError(t, err)
		o, err := NewBufferFrom(s, []uint32{0, 0, 1})
		require.NoError(t, err)
		require.ErrorIs(t, InclusiveSegmentedScanBuffer(s, empty, empty, SegmentOffsetsBuffer(o), Sum), driver.ErrInvalidValue)
		got := make([]uint32, 3)
		require.NoError(t, x.CopyTo(s, got))
		require.Equal(t, src, got, "no failed call wrote")
		require.NoError(t, heads.Free())
		require.ErrorIs(t, scan(SegmentHeadsBuffer(heads)), driver.ErrClosed)
		require.NoError(t, cmp.Or(x.Free(), o.Free(), s.Close()))
	})
}

// TestSegmentedLarge has segments on both sides of 2^32, and one across.
func TestSegmentedLarge(t *testing.T) {
	const n, second, third = 1<<32 + 4097, 1<<32 - 300, 1<<32 + 300
	eachLargeDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBuffer[uint8](rt, n)
		require.NoError(t, err)
		offsets, err := NewBufferFrom(s, []uint64{0, second, third, n})
		require.NoError(t, err)
		// The sums of ones count up from the head, or down to the segment's end, with
		// a period of 256.
		up, down, want := make([]uint8, checkPiece+256), make([]uint8, checkPiece+256), make([]uint8, checkPiece)
		for i := range up {
			up[i], down[i] = uint8(i+1), uint8(-i)
		}
		for _, reverse := range []bool{false, true} {
			var opts []ScanOption
			if reverse {
				opts = append(opts, WithScanReverse())
			}
			require.NoError(t, s.s.Fill(b.Ptr(), 1, n))
			require.NoError(t, InclusiveSegmentedScanBuffer(s, b, b, SegmentOffsetsBuffer(offsets), Sum, opts...))
			checkLarge(t, s, b, func(from, count int) []uint8 {
				for _, g := range [][2]int{{0, second}, {second, third}, {third, n}} {
					begin, end := max(from, g[0]), min(from+count, g[1])
					switch {
					case begin >= end:
					case reverse:
						copy(want[begin-from:end-from], down[(256-(g[1]-begin)%256)%256:])
					default:
						copy(want[begin-from:end-from], up[(begin-g[0])%256:])
					}
				}
				return want[:count]
			})
		}
		require.NoError(t, cmp.Or(b.Free(), offsets.Free(), s.Close()))
	})
}
