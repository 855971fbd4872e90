package twin

import (
	"math"
	"math/big"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// Partial is what one chunk of runs comes to: a reduction's value in its bytes,
// and the number of elements, which saturates. As in ptx/src/runs_reduce.cuh.
type Partial struct {
	Value    [2]uint64
	Elements uint64
}

// PartialOf is a partial result.
func PartialOf[T any](value T, elements uint64) (p Partial) {
	*(*T)(unsafe.Pointer(&p.Value)) = value
	p.Elements = elements
	return p
}

// ValueOf is a partial result's value.
func ValueOf[T any](p Partial) T { return *(*T)(unsafe.Pointer(&p.Value)) }

// Int128 is a number in two's complement.
type Int128 struct{ Low, High uint64 }

func (a Int128) Add(b Int128) Int128 {
	low, carry := bits.Add64(a.Low, b.Low, 0)
	high, _ := bits.Add64(a.High, b.High, carry)
	return Int128{low, high}
}

func (a Int128) String() string {
	n := new(big.Int).SetUint64(a.High)
	if int64(a.High) < 0 {
		n.SetInt64(int64(a.High))
	}
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(a.Low)).String()
}

// MinMax is a least and a greatest value.
type MinMax[V any] struct{ Min, Max V }

// runsReduce reduces each chunk by itself.
//
// Parameters: values, lengths, n, chunk, partials, …
func runsReduce[V Number, L Unsigned](l *driver.TwinLaunch, reduce func(values []V, lengths []L) Partial) error {
	valuesAt, lengthsAt, n := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64())
	chunk, partialsAt := int64(l.Args.Uint64()), l.Args.Ptr()
	values, err := driver.Slice[V](l.Mem, valuesAt, n)
	if err != nil {
		return err
	}
	lengths, err := driver.Slice[L](l.Mem, lengthsAt, n)
	if err != nil {
		return err
	}
	chunks := ceilDiv(n, chunk)
	partials, err := driver.Slice[Partial](l.Mem, partialsAt, chunks)
	if err != nil {
		return err
	}
	l.Parallel(chunks, func(c int64) {
		lo, hi := c*chunk, min(n, (c+1)*chunk)
		partials[c] = reduce(values[lo:hi], lengths[lo:hi])
	})
	return nil
}

// elements is the sum of the lengths, which saturates.
func elements[L Unsigned](lengths []L) (n uint64) {
	for _, l := range lengths {
		var carry uint64
		if n, carry = bits.Add64(n, uint64(l), 0); carry != 0 {
			return math.MaxUint64
		}
	}
	return n
}

// RunsSum is the exact sum of integers, an Int128.
//
// Parameters: values, lengths, n, chunk, partials.
func RunsSum[V Unsigned | Signed, L Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		return runsReduce(l, func(values []V, lengths []L) Partial {
			var sum Int128
			for i, v := range values {
				high, low := bits.Mul64(uint64(v), uint64(lengths[i]))
				if v < 0 {
					high -= uint64(lengths[i])
				}
				sum = sum.Add(Int128{low, high})
			}
			return PartialOf(sum, elements(lengths))
		})
	}
}

// reduceThreads are the kernel's threads, which add floats in this order: each
// every 256th run, then a tree over 32 of them, then from left to right.
const reduceThreads = 256

// RunsFloatSum is the sum of floats in float64, with the kernel's bits. A product
// and its addition are rounded once.
//
// Parameters: values, lengths, n, chunk, partials.
func RunsFloatSum[V Float, L Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		return runsReduce(l, func(values []V, lengths []L) Partial {
			var acc [reduceThreads]float64
			for t := range acc {
				acc[t] = math.Copysign(0, -1)
			}
			for i, v := range values {
				if n := lengths[i]; n != 0 {
					t := i % reduceThreads
					acc[t] = math.FMA(float64(v), float64(n), acc[t])
				}
			}
			for delta := 1; delta < 32; delta *= 2 {
				for t := 0; t < reduceThreads; t += 2 * delta {
					acc[t] += acc[t+delta]
				}
			}
			sum := acc[0]
			for t := 32; t < reduceThreads; t += 32 {
				sum += acc[t]
			}
			return PartialOf(sum, elements(lengths))
		})
	}
}

// RunsMinMax is the least and the greatest value, as of [Min] and [Max], of runs
// that are not empty.
//
// Parameters: values, lengths, n, chunk, partials.
func RunsMinMax[V Number, L Unsigned]() driver.Twin {
	least, greatest := Min[V](), Max[V]()
	return func(l *driver.TwinLaunch) error {
		return runsReduce(l, func(values []V, lengths []L) Partial {
			m := MinMax[V]{least.Identity, greatest.Identity}
			for i, v := range values {
				if lengths[i] != 0 {
					m.Min, m.Max = min(m.Min, v), max(m.Max, v)
				}
			}
			m.Min, m.Max = least.Combine(m.Min, m.Min), greatest.Combine(m.Max, m.Max)
			return PartialOf(m, elements(lengths))
		})
	}
}

// RunsCount counts elements in a range of keys, or outside it, as SelectCompare
// keeps them.
//
// Parameters: values, lengths, n, chunk, partials, fold, low, span, negate.
func RunsCount[V, L Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		a := l.Args // the first parameters are read again
		a.Ptr()
		a.Ptr()
		a.Uint64()
		a.Uint64()
		a.Ptr()
		fold, low, span := value[V](&a), value[V](&a), value[V](&a)
		negate := a.Uint32()
		return runsReduce(l, func(values []V, lengths []L) Partial {
			var n uint64
			var bits [chunk]uint8
			choose := keepRange(values, fold, low, span, negate)
			for first := 0; first < len(values); first += chunk {
				keep := bits[:min(chunk, len(values)-first)]
				choose(keep, int64(first))
				for i, k := range keep {
					n += uint64(lengths[first+i]) * uint64(k)
				}
			}
			return PartialOf(n, elements(lengths))
		})
	}
}

// histogramBins are as many as a chunk counts by itself.
const histogramBins = 2048

// RunsHistogram adds to counts[i] how many elements have i of the edges at or
// below them. NaN is in no bin.
//
// Parameters: values, lengths, n, chunk, edges, bins, counts, elements.
func RunsHistogram[V Number, L Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		valuesAt, lengthsAt, n, chunk := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64()), int64(l.Args.Uint64())
		edgesAt, bins, countsAt, elementsAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), l.Args.Ptr()
		values, err := driver.Slice[V](l.Mem, valuesAt, n)
		if err != nil {
			return err
		}
		lengths, err := driver.Slice[L](l.Mem, lengthsAt, n)
		if err != nil {
			return err
		}
		edges, err := driver.Slice[V](l.Mem, edgesAt, bins-1)
		if err != nil {
			return err
		}
		counts, err := driver.Slice[uint64](l.Mem, countsAt, bins)
		if err != nil {
			return err
		}
		chunks := ceilDiv(n, chunk)
		totals, err := driver.Slice[uint64](l.Mem, elementsAt, chunks)
		if err != nil {
			return err
		}
		l.Parallel(chunks, func(c int64) {
			lo, hi := c*chunk, min(n, (c+1)*chunk)
			totals[c] = elements(lengths[lo:hi])
			var own []uint64
			if bins <= histogramBins {
				own = make([]uint64, bins)
			}
			for i := lo; i < hi; i++ {
				v, length := values[i], uint64(lengths[i])
				if length == 0 || v != v {
					continue
				}
				if bin := upperBound(edges, v); own != nil {
					own[bin] += length
				} else {
					atomic.AddUint64(&counts[bin], length)
				}
			}
			for i, n := range own {
				if n > 0 {
					atomic.AddUint64(&counts[i], n)
				}
			}
		})
		return nil
	}
}

// upperBound is how many elements of a, which ascend, are at most v.
func upperBound[T Number](a []T, v T) int {
	lo, n := 0, len(a)
	for n > 0 {
		if half := n / 2; a[lo+half] <= v {
			lo, n = lo+half+1, n-half-1
		} else {
			n = half
		}
	}
	return lo
}
