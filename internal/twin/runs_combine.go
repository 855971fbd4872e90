package twin

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// arithmetic and bitwise are the operators of RunsCombine, by their numbers, and
// comparisons those of RunsCompare; as in ptx/src/runs_combine.cu. All NaN are
// one, so that they make one run.
func arithmetic[T Number]() []func(a, b T) T {
	least, greatest := Min[T]().Combine, Max[T]().Combine
	return []func(a, b T) T{
		func(a, b T) T { return least(a+b, a+b) },
		func(a, b T) T { return least(a-b, a-b) },
		least,
		greatest,
	}
}

func bitwise[T Unsigned | Signed]() []func(a, b T) T {
	return []func(a, b T) T{
		func(a, b T) T { return a & b },
		func(a, b T) T { return a | b },
		func(a, b T) T { return a ^ b },
	}
}

func comparisons[T Number]() []func(a, b T) uint8 {
	one := func(b bool) uint8 {
		if b {
			return 1
		}
		return 0
	}
	return []func(a, b T) uint8{
		func(a, b T) uint8 { return one(a == b) },
		func(a, b T) uint8 { return one(a != b) },
		func(a, b T) uint8 { return one(a < b) },
		func(a, b T) uint8 { return one(a <= b) },
		func(a, b T) uint8 { return one(a > b) },
		func(a, b T) uint8 { return one(a >= b) },
	}
}

// runs are an encoding: run i has values[i] and ends before ends[i].
type runs[V any] struct {
	values []V
	ends   []uint64
}

// runsOf reads the parameters values, ends, n.
func runsOf[V any](l *driver.TwinLaunch) (r runs[V], err error) {
	valuesAt, endsAt, n := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64())
	if r.values, err = driver.Slice[V](l.Mem, valuesAt, n); err != nil {
		return r, err
	}
	r.ends, err = driver.Slice[uint64](l.Mem, endsAt, n)
	return r, err
}

// run is the value of run i, or of the last where there is none.
func (r *runs[V]) run(i int) V { return r.values[min(i, len(r.values)-1)] }

// end is where run i ends, beyond all positions where there is none.
func (r *runs[V]) end(i int) uint64 {
	if i < len(r.ends) {
		return r.ends[i]
	}
	return ^uint64(0)
}

// at is the value at a position that run i or a later one covers.
func (r *runs[V]) at(i int, position uint64) V {
	for r.end(i) <= position {
		i++
	}
	return r.run(i)
}

// overlay calls f for the segments that the ends of a and b, merged, cut them
// into: segment k is [begin, end), in runs i of a and j of b.
func overlay[V any](l *driver.TwinLaunch, a, b *runs[V], f func(k int64, begin, end uint64, i, j int)) {
	pieces(l, int64(len(a.ends)+len(b.ends)), func(lo, hi int64) {
		i := mergePath(a.ends, b.ends, int(lo))
		j := int(lo) - i
		begin := max(before(a.ends, int64(i)), before(b.ends, int64(j)))
		for k := lo; k < hi; k++ {
			x, y := a.end(i), b.end(j)
			end := min(x, y)
			f(k, begin, end, i, j)
			if begin = end; x <= y {
				i++
			} else {
				j++
			}
		}
	})
}

// mergePath is how many of the first diagonal elements of a and b merged are a's;
// equal ones of a are before those of b.
func mergePath(a, b []uint64, diagonal int) int {
	lo, hi := max(0, diagonal-len(b)), min(diagonal, len(a))
	for lo < hi {
		if middle := (lo + hi) / 2; a[middle] <= b[diagonal-1-middle] {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo
}

// RunsCombine stores each segment's end, the operator of its two values, and
// whether it is the last of a maximal run of results with the same bits.
//
// Parameters: a's values, ends and n, b's, op, values, ends, keep.
func RunsCombine[T Unsigned | Signed]() driver.Twin {
	return runsCombine(append(arithmetic[T](), bitwise[T]()...))
}

// RunsFloatCombine is RunsCombine without the bitwise operators.
func RunsFloatCombine[T Float]() driver.Twin { return runsCombine(arithmetic[T]()) }

// RunsCompare is RunsCombine with comparisons, which give 0 or 1.
func RunsCompare[T Number]() driver.Twin { return runsCombine(comparisons[T]()) }

func runsCombine[V, R Number](ops []func(a, b V) R) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		a, err := runsOf[V](l)
		if err != nil {
			return err
		}
		b, err := runsOf[V](l)
		if err != nil {
			return err
		}
		which, valuesAt, endsAt, keepAt := l.Args.Uint32(), l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		if int(which) >= len(ops) {
			return driver.Errorf("launch", driver.ErrInvalidValue, "operator %d", which)
		}
		segments := int64(len(a.ends) + len(b.ends))
		values, err := driver.Slice[R](l.Mem, valuesAt, segments)
		if err != nil {
			return err
		}
		ends, err := driver.Slice[uint64](l.Mem, endsAt, segments)
		if err != nil {
			return err
		}
		keep, err := driver.Slice[uint8](l.Mem, keepAt, segments)
		if err != nil {
			return err
		}
		op, total := ops[which], last(a.ends)
		overlay(l, &a, &b, func(k int64, begin, end uint64, i, j int) {
			values[k], ends[k], keep[k] = op(a.run(i), b.run(j)), end, 0
			if begin < end && (end == total || !sameBits(values[k], op(a.at(i, end), b.at(j, end)))) {
				keep[k] = 1
			}
		})
		return nil
	}
}

func sameBits[T any](a, b T) bool {
	size := unsafe.Sizeof(a)
	return slices.Equal(unsafe.Slice((*byte)(unsafe.Pointer(&a)), size), unsafe.Slice((*byte)(unsafe.Pointer(&b)), size))
}

// RunsEqual raises differs to 1 where a segment has two values.
//
// Parameters: a's values, ends and n, b's, differs.
func RunsEqual[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		a, err := runsOf[V](l)
		if err != nil {
			return err
		}
		b, err := runsOf[V](l)
		if err != nil {
			return err
		}
		differs, err := scalar[uint64](l.Mem, l.Args.Ptr())
		if err != nil {
			return err
		}
		var found atomic.Bool
		overlay(l, &a, &b, func(_ int64, begin, end uint64, i, j int) {
			if begin < end && a.run(i) != b.run(j) {
				found.Store(true)
			}
		})
		if found.Load() {
			*differs = max(*differs, 1)
		}
		return nil
	}
}

// RunsLast marks runs that are the last of a maximal run of equal values.
//
// Parameters: values, ends, n, keep.
func RunsLast[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		r, err := runsOf[V](l)
		if err != nil {
			return err
		}
		keep, err := driver.Slice[uint8](l.Mem, l.Args.Ptr(), int64(len(r.ends)))
		if err != nil {
			return err
		}
		total := last(r.ends)
		pieces(l, int64(len(r.ends)), func(lo, hi int64) {
			begin := before(r.ends, lo)
			for k := lo; k < hi; k++ {
				end := r.ends[k]
				keep[k] = 0
				if begin < end && (end == total || r.at(int(k)+1, end) != r.values[k]) {
					keep[k] = 1
				}
				begin = end
			}
		})
		return nil
	}
}
