package ptxrun

import (
	"cmp"
	"context"
	"math"
	"reflect"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// Runs is a run-length encoding in host memory: Values[i] stands Lengths[i]
// times, which may be zero times. What works on it never decodes it: the time is
// that of the runs, however long they are. The lengths sum to less than 2^63.
type Runs[V Number, L RunLength] struct {
	Values  []V
	Lengths []L
}

// BufferRuns is [Runs] in device memory.
type BufferRuns[V Number, L RunLength] struct {
	Values  *Buffer[V]
	Lengths *Buffer[L]
}

// Accumulator is the type of a sum of elements: uint64 of unsigned, int64 of
// signed ones, float64 of floats.
type Accumulator interface{ ~int64 | ~uint64 | ~float64 }

// RLESum returns the sum of all elements of an encoding: value times length over
// all runs, 0 where there are none.
//
// Integers are added in 128 bits, so the sum is exact, and ErrOverflow if and
// only if it does not fit A. Floats are added in float64, a product and its
// addition rounded once, in an order fixed by the number of runs alone: at most
// 1024 chunks of runs, 256 sums in each of every 256th run, put together by a
// tree in groups of 32 and else from left to right. So the bits are the same on
// every run and every device. NaN, and infinities of both signs, give NaN.
//
// When ctx is done first it returns ctx's error. Errors: ErrNil, ErrClosed,
// ErrOutOfMemory, ErrLength if values and lengths differ in length,
// ErrElementType for an A that is not the values', ErrOverflow also if the
// lengths sum to 2^63 or more.
func RLESum[A Accumulator, V Number, L RunLength](ctx context.Context, rt *Runtime, r Runs[V, L]) (sum A, err error) {
	const call = "RLESum"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) (err error) {
		sum, err = sumRuns[A, V, L](ctx, s, call, r[0])
		return err
	}, r)
	return sum, err
}

// RLESumBuffer is [RLESum] on device buffers. It waits for the stream.
func RLESumBuffer[A Accumulator, V Number, L RunLength](s *Stream, r BufferRuns[V, L]) (sum A, err error) {
	const call = "RLESumBuffer"
	err = onBufferRuns(call, s, func(r []deviceRuns) (err error) {
		sum, err = sumRuns[A, V, L](context.Background(), s, call, r[0])
		return err
	}, r)
	return sum, err
}

// RLEMinMax returns the least and the greatest element of an encoding. -0 is less
// than +0, and NaN among the elements makes both NaN, as for [Min] and [Max].
// The result does not depend on the device. Errors: as [RLESum], and
// ErrInvalidValue if there are no elements.
func RLEMinMax[V Number, L RunLength](ctx context.Context, rt *Runtime, r Runs[V, L]) (least, greatest V, err error) {
	const call = "RLEMinMax"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) (err error) {
		least, greatest, err = minMaxRuns[V, L](ctx, s, call, r[0])
		return err
	}, r)
	return least, greatest, err
}

// RLEMinMaxBuffer is [RLEMinMax] on device buffers. It waits for the stream.
func RLEMinMaxBuffer[V Number, L RunLength](s *Stream, r BufferRuns[V, L]) (least, greatest V, err error) {
	const call = "RLEMinMaxBuffer"
	err = onBufferRuns(call, s, func(r []deviceRuns) (err error) {
		least, greatest, err = minMaxRuns[V, L](context.Background(), s, call, r[0])
		return err
	}, r)
	return least, greatest, err
}

// RLECountWhere returns how many elements x of an encoding there are for which
// "x c value" holds; with [Equal], how often the value occurs. The result does
// not depend on the device. Errors: as [RLESum], and ErrInvalidValue for an
// unknown comparison.
func RLECountWhere[V Number, L RunLength](ctx context.Context, rt *Runtime, r Runs[V, L], c Comparison, value V) (count int64, err error) {
	const call = "RLECountWhere"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) (err error) {
		count, err = countRuns[V, L](ctx, s, call, r[0], c, value)
		return err
	}, r)
	return count, err
}

// RLECountWhereBuffer is [RLECountWhere] on device buffers. It waits for the
// stream.
func RLECountWhereBuffer[V Number, L RunLength](s *Stream, r BufferRuns[V, L], c Comparison, value V) (count int64, err error) {
	const call = "RLECountWhereBuffer"
	err = onBufferRuns(call, s, func(r []deviceRuns) (err error) {
		count, err = countRuns[V, L](context.Background(), s, call, r[0], c, value)
		return err
	}, r)
	return count, err
}

// RLEHistogram counts the elements of an encoding in bins: len(edges)+1 of them,
// the first of elements below edges[0], bin i of elements from edges[i-1] to
// below edges[i], the last of those from the last edge on. Edges do not decrease;
// between equal ones nothing lies. Floats compare as in Go: -0 is +0, and NaN is
// in no bin. [EveryValue] are edges that give each 8-bit value a bin.
//
// Up to 2048 bins are counted in shared memory. The result does not depend on the
// device. Errors: as [RLESum], and ErrInvalidValue, with its place, for an edge
// that is NaN or less than the one before.
func RLEHistogram[V Number, L RunLength](ctx context.Context, rt *Runtime, r Runs[V, L], edges []V) (counts []int64, err error) {
	const call = "RLEHistogram"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) (err error) {
		counts, err = histogramRuns[V, L](ctx, s, call, r[0], edges)
		return err
	}, r)
	return counts, err
}

// RLEHistogramBuffer is [RLEHistogram] on device buffers. It waits for the
// stream.
func RLEHistogramBuffer[V Number, L RunLength](s *Stream, r BufferRuns[V, L], edges []V) (counts []int64, err error) {
	const call = "RLEHistogramBuffer"
	err = onBufferRuns(call, s, func(r []deviceRuns) (err error) {
		counts, err = histogramRuns[V, L](context.Background(), s, call, r[0], edges)
		return err
	}, r)
	return counts, err
}

// EveryValue are the edges of a histogram with a bin for each value of V, in
// ascending order.
func EveryValue[V ~uint8 | ~int8]() []V {
	edges := make([]V, 255)
	low := V(0)
	if low-1 < low {
		low = 1
		low <<= 7 // the lowest of int8
	}
	for i := range edges {
		edges[i] = low + V(i) + 1
	}
	return edges
}

// deviceRuns is an encoding in device memory.
type deviceRuns struct {
	values, lengths driver.Ptr
	n               int64
}

// onHostRuns runs f on encodings that it copies to the device.
func onHostRuns[V Number, L RunLength](ctx context.Context, call string, rt *Runtime, f func(s *Stream, r []deviceRuns) error, all ...Runs[V, L]) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	for i, r := range all {
		if len(r.Values) != len(r.Lengths) {
			return differentLengths(call, i, int64(len(r.Values)), int64(len(r.Lengths)))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return rt.onStream(call, func(s *Stream) error {
		on := make([]deviceRuns, len(all))
		for i, r := range all {
			n := int64(len(r.Values))
			if n == 0 {
				continue
			}
			valueBytes := align256(n * sizeOf[V]())
			p, err := s.alloc(valueBytes + n*sizeOf[L]())
			if err != nil {
				return err
			}
			defer s.free(p)
			on[i] = deviceRuns{p, p + driver.Ptr(valueBytes), n}
			if err := cmp.Or(s.upload(ctx, p, bytesOf(r.Values)), s.upload(ctx, on[i].lengths, bytesOf(r.Lengths))); err != nil {
				return err
			}
		}
		return f(s, on)
	})
}

// onBufferRuns runs f on encodings in device buffers, with the stream to itself.
func onBufferRuns[V Number, L RunLength](call string, s *Stream, f func(r []deviceRuns) error, all ...BufferRuns[V, L]) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	on := make([]deviceRuns, len(all))
	for i, r := range all {
		if err := cmp.Or(r.Values.check(call, "values", s.rt), r.Lengths.check(call, "lengths", s.rt)); err != nil {
			return err
		}
		if r.Values.n != r.Lengths.n {
			return differentLengths(call, i, r.Values.n, r.Lengths.n)
		}
		on[i] = deviceRuns{r.Values.ptr, r.Lengths.ptr, r.Values.n}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, f(on))
}

func differentLengths(call string, i int, values, lengths int64) error {
	return driver.Errorf(call, driver.ErrLength, "%s encoding has %d values, %d lengths", [...]string{"the first", "the second"}[i], values, lengths)
}

// reduceShape is how n runs are shared by blocks. It is the same on all devices,
// as it is the order of sums.
func reduceShape(n int64) (chunk int64, blocks uint64) {
	chunk = ceilDiv(ceilDiv(n, reduceChunks), reduceChunk) * reduceChunk
	return chunk, uint64(ceilDiv(n, chunk))
}

// reduceRuns waits for the partial results of a reduction, and refuses too many
// elements. Behind those of all reductions a kernel's parameters are params.
func (s *Stream) reduceRuns(ctx context.Context, call, module, name string, r deviceRuns, params func(a *driver.Args)) (partials []twin.Partial, elements int64, err error) {
	if r.n == 0 {
		return nil, 0, nil
	}
	kernel, err := s.rt.kernel(module, name)
	if err != nil {
		return nil, 0, err
	}
	chunk, blocks := reduceShape(r.n)
	partials = make([]twin.Partial, blocks)
	p, err := s.alloc(int64(len(bytesOf(partials))))
	if err != nil {
		return nil, 0, err
	}
	defer s.free(p)
	a := driver.NewArgs().Ptr(r.values).Ptr(r.lengths).Uint64(uint64(r.n)).Uint64(uint64(chunk)).Ptr(p)
	if params != nil {
		params(a)
	}
	if err := s.launch(kernel, blocks, r.n, a); err != nil {
		return nil, 0, err
	}
	if err := s.download(ctx, bytesOf(partials), p); err != nil {
		return nil, 0, err
	}
	counts := make([]uint64, blocks)
	for i := range partials {
		counts[i] = partials[i].Elements
	}
	elements, err = sumElements(call, r.n, counts)
	return partials, elements, err
}

// sumElements adds saturated numbers of elements, of so many runs.
func sumElements(call string, runs int64, counts []uint64) (int64, error) {
	var total uint64
	for _, n := range counts {
		if n > math.MaxInt64-total {
			return 0, tooManyElements(call, runs)
		}
		total += n
	}
	return int64(total), nil
}

func sumRuns[A Accumulator, V Number, L RunLength](ctx context.Context, s *Stream, call string, r deviceRuns) (A, error) {
	t, length := numberName[V](), widthName(sizeOf[L]())
	class := numberName[A]()[0] // u, i or f
	if class != t[0] {
		return 0, driver.Errorf(call, driver.ErrElementType, "a sum of %v in %v", reflect.TypeFor[V](), reflect.TypeFor[A]())
	}
	partials, elements, err := s.reduceRuns(ctx, call, "runs_reduce_"+t, "runs_sum_"+t+"_"+length, r, nil)
	if err != nil || elements == 0 {
		return 0, err
	}
	if class == 'f' {
		sum := twin.ValueOf[float64](partials[0])
		for _, p := range partials[1:] {
			sum += twin.ValueOf[float64](p)
		}
		if sum != sum {
			sum = math.NaN()
		}
		return A(sum), nil
	}
	var sum twin.Int128
	for _, p := range partials {
		sum = sum.Add(twin.ValueOf[twin.Int128](p))
	}
	extension := uint64(0)
	if class == 'i' {
		extension = uint64(int64(sum.Low) >> 63)
	}
	if sum.High != extension {
		return 0, driver.Errorf(call, driver.ErrOverflow, "the sum of %d elements, %v, does not fit %v", elements, sum, reflect.TypeFor[A]())
	}
	return A(sum.Low), nil
}

func minMaxRuns[V Number, L RunLength](ctx context.Context, s *Stream, call string, r deviceRuns) (least, greatest V, err error) {
	t, length := numberName[V](), widthName(sizeOf[L]())
	partials, elements, err := s.reduceRuns(ctx, call, "runs_reduce_"+t, "runs_minmax_"+t+"_"+length, r, nil)
	if err != nil {
		return 0, 0, err
	}
	if elements == 0 {
		return 0, 0, driver.Errorf(call, driver.ErrInvalidValue, "no elements in %d runs", r.n)
	}
	m := twin.ValueOf[twin.MinMax[V]](partials[0])
	for _, p := range partials[1:] {
		x := twin.ValueOf[twin.MinMax[V]](p)
		m.Min, m.Max = min(m.Min, x.Min), max(m.Max, x.Max)
	}
	return m.Min, m.Max, nil
}

func countRuns[V Number, L RunLength](ctx context.Context, s *Stream, call string, r deviceRuns, c Comparison, value V) (count int64, err error) {
	if c >= comparisons {
		return 0, c.unknown(call)
	}
	width, length := widthName(sizeOf[V]()), widthName(sizeOf[L]())
	partials, _, err := s.reduceRuns(ctx, call, "runs_"+width, "runs_count_"+width+"_"+length, r, func(a *driver.Args) {
		rangeOf(c, value).append(a, sizeOf[V]())
	})
	for _, p := range partials {
		count += twin.ValueOf[int64](p)
	}
	if err != nil {
		return 0, err
	}
	return count, nil
}

func histogramRuns[V Number, L RunLength](ctx context.Context, s *Stream, call string, r deviceRuns, edges []V) ([]int64, error) {
	for i, e := range edges {
		if e != e || i > 0 && e < edges[i-1] {
			return nil, driver.Errorf(call, driver.ErrInvalidValue, "edges[%d] is %v; edges are numbers that do not decrease", i, e)
		}
	}
	counts := make([]int64, len(edges)+1)
	if r.n == 0 {
		return counts, nil
	}
	t, length := numberName[V](), widthName(sizeOf[L]())
	kernel, err := s.rt.kernel("runs_reduce_"+t, "runs_histogram_"+t+"_"+length)
	if err != nil {
		return nil, err
	}
	chunk, blocks := reduceShape(r.n)
	elements := make([]uint64, blocks)
	countBytes := align256(int64(len(bytesOf(counts))))
	edgesAt := countBytes + align256(int64(len(bytesOf(elements))))
	p, err := s.alloc(edgesAt + max(1, int64(len(bytesOf(edges)))))
	if err != nil {
		return nil, err
	}
	defer s.free(p)
	onElements, onEdges := p+driver.Ptr(countBytes), p+driver.Ptr(edgesAt)
	if err := cmp.Or(s.s.Fill(p, 0, countBytes), s.upload(ctx, onEdges, bytesOf(edges))); err != nil {
		return nil, err
	}
	a := driver.NewArgs().Ptr(r.values).Ptr(r.lengths).Uint64(uint64(r.n)).Uint64(uint64(chunk)).
		Ptr(onEdges).Uint64(uint64(len(counts))).Ptr(p).Ptr(onElements)
	if err := s.launch(kernel, blocks, r.n, a); err != nil {
		return nil, err
	}
	if err := cmp.Or(s.download(ctx, bytesOf(elements), onElements), s.download(ctx, bytesOf(counts), p)); err != nil {
		return nil, err
	}
	if _, err := sumElements(call, r.n, elements); err != nil {
		return nil, err
	}
	return counts, nil
}
