package ptxrun

import (
	"cmp"
	"context"
	"math"
	"reflect"

	"github.com/ptxrun/ptxrun/driver"
)

// CombineOp is an element-wise operator on two encodings. Integer sums and
// differences wrap, as Go's do. Min and max of floats are those of [Min] and
// [Max]. A NaN result is always the same NaN. The bitwise ones are for integers.
type CombineOp uint8

const (
	CombineAdd CombineOp = iota
	CombineSub
	CombineMin
	CombineMax
	CombineAnd
	CombineOr
	CombineXor
	combineOps
)

var combineNames = [combineOps]string{"add", "sub", "min", "max", "and", "or", "xor"}

func (o CombineOp) String() string {
	if o < combineOps {
		return combineNames[o]
	}
	return "unknown operator"
}

func (o CombineOp) bitwise() bool { return o >= CombineAnd }

// RLENormalize returns the canonical encoding of the same elements: no run is
// empty, and none has the value of the one before, by its bits, as [RLEEncode]
// returns it. The result does not depend on the device.
//
// When ctx is done first it returns ctx's error and nothing else. Errors: ErrNil,
// ErrClosed, ErrOutOfMemory, ErrLength if values and lengths differ in length,
// ErrOverflow if the lengths sum to 2^63 or more, or a run of the result is too
// long for L.
func RLENormalize[V Number, L RunLength](ctx context.Context, rt *Runtime, r Runs[V, L]) (result Runs[V, L], err error) {
	const call = "RLENormalize"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) error {
		k, err := markRuns[V, L](ctx, s, call, r[0])
		if err != nil {
			return err
		}
		defer k.free(s)
		result, err = keptToHost[V, L](ctx, s, call, k)
		return err
	}, r)
	return result, err
}

// RLENormalizeBuffer is [RLENormalize] on device buffers, in stream order. dst's
// two buffers have equal sizes, the most runs there is room for; count has one
// element and receives the number of runs. If that is more than there is room
// for, dst is not written: compare count with dst.Values.Len() before using it.
// dst and count overlap nothing.
//
// It waits once, for the number of elements, and again, to refuse runs too long,
// where there are 2^32 elements or more and lengths are of 32 bits. Then the
// writing of dst is given to the stream. Errors: as [RLENormalize], ErrOverlap, and
// ErrLength also for dst or count.
func RLENormalizeBuffer[V Number, L RunLength](s *Stream, dst BufferRuns[V, L], count *Buffer[uint64], r BufferRuns[V, L]) error {
	const call = "RLENormalizeBuffer"
	return onBufferRuns(call, s, func(on []deviceRuns) error {
		if err := checkRunsOutput(call, s, dst, count, r.Values.span("values"), r.Lengths.span("lengths")); err != nil {
			return err
		}
		k, err := markRuns[V, L](context.Background(), s, call, on[0])
		if err != nil {
			return err
		}
		defer k.free(s)
		return keptToBuffers(s, call, k, dst, count)
	}, r)
}

// RLECombine returns the canonical encoding, as [RLENormalize] does, of
// "x op y" for each element x of a and the element y of b at the same place.
//
// The run ends of both are merged (Green, McColl and Bader, "GPU Merge Path",
// 2012), and the segments between them that end a maximal run are kept by
// [SelectFlagged]: work in proportion to the runs of both, balanced whatever
// their lengths. The result does not depend on the device.
//
// Errors: as [RLENormalize], and ErrLength, with both, if a and b have different
// numbers of elements; ErrElementType for a bitwise operator on floats;
// ErrInvalidValue for an unknown operator.
func RLECombine[V Number, L RunLength](ctx context.Context, rt *Runtime, op CombineOp, a, b Runs[V, L]) (Runs[V, L], error) {
	return overlayHost[V](ctx, "RLECombine", rt, combineKernel[V](op), a, b)
}

// RLECombineBuffer is [RLECombine] on device buffers, in stream order, with dst
// and count, and what it waits for, as in [RLENormalizeBuffer]. a and b may be the
// same.
func RLECombineBuffer[V Number, L RunLength](s *Stream, dst BufferRuns[V, L], count *Buffer[uint64], op CombineOp, a, b BufferRuns[V, L]) error {
	return overlayBuffers("RLECombineBuffer", s, dst, count, combineKernel[V](op), a, b)
}

// RLECompare is [RLECombine] with a comparison: the elements are 1 where "x c y"
// holds, else 0. Floats compare as in Go.
func RLECompare[V Number, L RunLength](ctx context.Context, rt *Runtime, c Comparison, a, b Runs[V, L]) (Runs[uint8, L], error) {
	return overlayHost[uint8](ctx, "RLECompare", rt, compareKernel[V](c), a, b)
}

// RLECompareBuffer is [RLECompare] on device buffers, as [RLECombineBuffer].
func RLECompareBuffer[V Number, L RunLength](s *Stream, dst BufferRuns[uint8, L], count *Buffer[uint64], c Comparison, a, b BufferRuns[V, L]) error {
	return overlayBuffers("RLECompareBuffer", s, dst, count, compareKernel[V](c), a, b)
}

// RLEEqual says whether two encodings have the same elements, by their bits,
// however they are cut into runs. Errors: as [RLESum].
func RLEEqual[V Number, L RunLength](ctx context.Context, rt *Runtime, a, b Runs[V, L]) (equal bool, err error) {
	const call = "RLEEqual"
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) (err error) {
		equal, err = equalRuns[V, L](ctx, s, call, r[0], r[1])
		return err
	}, a, b)
	return equal, err
}

// RLEEqualBuffer is [RLEEqual] on device buffers. It waits for the stream.
func RLEEqualBuffer[V Number, L RunLength](s *Stream, a, b BufferRuns[V, L]) (equal bool, err error) {
	const call = "RLEEqualBuffer"
	err = onBufferRuns(call, s, func(r []deviceRuns) (err error) {
		equal, err = equalRuns[V, L](context.Background(), s, call, r[0], r[1])
		return err
	}, a, b)
	return equal, err
}

// overlayKernel is an element-wise operator's kernel, or why there is none.
type overlayKernel struct {
	module, name string
	op           uint32
	err          error
}

func combineKernel[V Number](op CombineOp) overlayKernel {
	t := numberName[V]()
	k := overlayKernel{module: "runs_combine_" + t, name: "runs_combine_" + t, op: uint32(op)}
	switch {
	case op >= combineOps:
		k.err = driver.Errorf("", driver.ErrInvalidValue, "operator %d", op)
	case op.bitwise() && t[0] == 'f':
		k.err = driver.Errorf("", driver.ErrElementType, "%v of %v", op, reflect.TypeFor[V]())
	}
	return k
}

func compareKernel[V Number](c Comparison) overlayKernel {
	t := numberName[V]()
	k := overlayKernel{module: "runs_combine_" + t, name: "runs_compare_" + t, op: uint32(c)}
	if c >= comparisons {
		k.err = c.unknown("")
	}
	return k
}

func overlayHost[R, V Number, L RunLength](ctx context.Context, call string, rt *Runtime, kernel overlayKernel, a, b Runs[V, L]) (result Runs[R, L], err error) {
	err = onHostRuns(ctx, call, rt, func(s *Stream, r []deviceRuns) error {
		k, err := overlayRuns[R, L](ctx, s, call, kernel, r[0], r[1])
		if err != nil {
			return err
		}
		defer k.free(s)
		result, err = keptToHost[R, L](ctx, s, call, k)
		return err
	}, a, b)
	return result, err
}

func overlayBuffers[R, V Number, L RunLength](call string, s *Stream, dst BufferRuns[R, L], count *Buffer[uint64], kernel overlayKernel, a, b BufferRuns[V, L]) error {
	return onBufferRuns(call, s, func(r []deviceRuns) error {
		if err := checkRunsOutput(call, s, dst, count, a.Values.span("a's values"), a.Lengths.span("a's lengths"),
			b.Values.span("b's values"), b.Lengths.span("b's lengths")); err != nil {
			return err
		}
		k, err := overlayRuns[R, L](context.Background(), s, call, kernel, r[0], r[1])
		if err != nil {
			return err
		}
		defer k.free(s)
		return keptToBuffers(s, call, k, dst, count)
	}, a, b)
}

// checkRunsOutput checks what a call writes an encoding to: it overlaps nothing,
// the inputs included.
func checkRunsOutput[V Number, L RunLength](call string, s *Stream, dst BufferRuns[V, L], count *Buffer[uint64], inputs ...span) error {
	if err := cmp.Or(dst.Values.check(call, "dst's values", s.rt), dst.Lengths.check(call, "dst's lengths", s.rt), count.check(call, "count", s.rt)); err != nil {
		return err
	}
	if dst.Values.n != dst.Lengths.n || count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "dst has %d values, %d lengths, count %d elements", dst.Values.n, dst.Lengths.n, count.n)
	}
	outputs := []span{dst.Values.span("dst's values"), dst.Lengths.span("dst's lengths"), count.span("count")}
	for _, in := range inputs {
		for _, out := range outputs {
			if err := checkDisjoint(call, out, in); err != nil {
				return err
			}
		}
	}
	return checkDisjoint(call, outputs...)
}

// keptRuns are n runs of which those flagged make up an encoding of total
// elements, which has no empty run. Without elements there is nothing else.
type keptRuns struct {
	values, ends, keep driver.Ptr
	n, total           int64
	held               []driver.Ptr // to be freed
}

func (k *keptRuns) free(s *Stream) {
	for _, p := range k.held {
		s.free(p)
	}
}

// alloc takes memory that is freed with k.
func (k *keptRuns) alloc(s *Stream, bytes int64) (driver.Ptr, error) {
	p, err := s.alloc(bytes)
	if err == nil {
		k.held = append(k.held, p)
	}
	return p, err
}

// markRuns finds the runs that end a maximal run. It waits for the number of
// elements.
func markRuns[V Number, L RunLength](ctx context.Context, s *Stream, call string, r deviceRuns) (k keptRuns, err error) {
	defer func() {
		if err != nil {
			k.free(s)
		}
	}()
	k.values, k.n = r.values, r.n
	ends, totals, err := k.scan(ctx, s, call, sizeOf[L](), r)
	if err != nil || totals[0] == 0 {
		return k, err
	}
	k.ends, k.total = ends[0], totals[0]
	if k.keep, err = k.alloc(s, k.n); err != nil {
		return k, err
	}
	width := widthName(sizeOf[V]())
	last, err := s.rt.kernel("runs_"+width, "runs_last_"+width)
	if err != nil {
		return k, err
	}
	a := driver.NewArgs().Ptr(r.values).Ptr(k.ends).Uint64(uint64(r.n)).Ptr(k.keep)
	return k, s.launch(last, last.tiles(r.n), r.n, a)
}

// scan gives the stream the scans of encodings to run ends, which are freed with
// k, and waits for their numbers of elements. One without runs has no run ends.
func (k *keptRuns) scan(ctx context.Context, s *Stream, call string, lengthSize int64, all ...deviceRuns) (ends []driver.Ptr, totals []int64, err error) {
	ends, totals = make([]driver.Ptr, len(all)), make([]int64, len(all))
	for i, r := range all {
		if r.n == 0 {
			continue
		}
		if ends[i], err = s.scanRunEnds(call, r.lengths, lengthSize, r.n); err != nil {
			return nil, nil, err
		}
		k.held = append(k.held, ends[i])
	}
	for i, r := range all {
		if r.n == 0 {
			continue
		}
		if totals[i], err = s.runTotal(ctx, call, ends[i], r.n); err != nil {
			return nil, nil, err
		}
	}
	return ends, totals, nil
}

// overlayRuns applies an operator to the segments of two encodings. It waits for
// the numbers of elements.
func overlayRuns[R Number, L RunLength](ctx context.Context, s *Stream, call string, kernel overlayKernel, a, b deviceRuns) (k keptRuns, err error) {
	if kernel.err != nil {
		return k, kernel.err
	}
	defer func() {
		if err != nil {
			k.free(s)
		}
	}()
	ends, totals, err := k.scan(ctx, s, call, sizeOf[L](), a, b)
	if err != nil {
		return k, err
	}
	if totals[0] != totals[1] {
		return k, driver.Errorf(call, driver.ErrLength, "the encodings have %d and %d elements", totals[0], totals[1])
	}
	if k.total = totals[0]; k.total == 0 {
		return k, nil
	}
	k.n = a.n + b.n
	valueBytes, endBytes := align256(k.n*sizeOf[R]()), align256(k.n*8)
	p, err := k.alloc(s, valueBytes+endBytes+k.n)
	if err != nil {
		return k, err
	}
	k.values, k.ends = p, p+driver.Ptr(valueBytes)
	k.keep = k.ends + driver.Ptr(endBytes)
	overlay, err := s.rt.kernel(kernel.module, kernel.name)
	if err != nil {
		return k, err
	}
	args := overlayArgs(a, b, ends).
		Uint32(kernel.op).Ptr(k.values).Ptr(k.ends).Ptr(k.keep)
	return k, s.launch(overlay, overlay.tiles(k.n), k.n, args)
}

// overlayArgs are a kernel's first parameters, overlayParams, for encodings with
// these run ends.
func overlayArgs(a, b deviceRuns, ends []driver.Ptr) *driver.Args {
	return driver.NewArgs().Ptr(a.values).Ptr(ends[0]).Uint64(uint64(a.n)).Ptr(b.values).Ptr(ends[1]).Uint64(uint64(b.n))
}

// compactEnds brings the kept runs' ends together, in place, counts them, and
// refuses those too long for their lengths' type, for which it waits.
func (k *keptRuns) compactEnds(ctx context.Context, s *Stream, call string, lengthSize int64, count driver.Ptr) error {
	if err := s.compact(k.compaction(8, k.ends, k.ends, count, k.n)); err != nil {
		return err
	}
	if lengthSize == 8 || k.total <= math.MaxUint32 {
		return nil
	}
	var runs int64
	if err := s.download(ctx, bytesOfValue(&runs), count); err != nil {
		return err
	}
	long, bad, err := s.checkRunEnds(ctx, typeI64.name, k.ends, runs, math.MaxUint32)
	if err != nil || !bad {
		return err
	}
	return refuseRun[int64](s, call, k.ends, long, runs, math.MaxUint32)
}

// compaction keeps the flagged ones of k's elements of size bytes.
func (k *keptRuns) compaction(size int64, out, in, count driver.Ptr, capacity int64) *compaction {
	return &compaction{criterion: byFlag, size: size, in: in, flags: k.keep, out: out, count: count, n: k.n, capacity: capacity}
}

// keptToHost returns the encoding. Values that k holds are compacted in place.
func keptToHost[V Number, L RunLength](ctx context.Context, s *Stream, call string, k keptRuns) (result Runs[V, L], err error) {
	if k.total == 0 {
		return result, nil
	}
	count, err := s.alloc(8)
	if err != nil {
		return result, err
	}
	defer s.free(count)
	if err := k.compactEnds(ctx, s, call, sizeOf[L](), count); err != nil {
		return result, err
	}
	if err := s.compact(k.compaction(sizeOf[V](), k.values, k.values, count, k.n)); err != nil {
		return result, err
	}
	var runs int64
	if err := s.download(ctx, bytesOfValue(&runs), count); err != nil {
		return result, err
	}
	lengths, err := s.alloc(runs * sizeOf[L]())
	if err != nil {
		return result, err
	}
	defer s.free(lengths)
	if err := s.runLengths(typeI64.name, widthName(sizeOf[L]()), k.ends, runs, 0, lengths); err != nil {
		return result, err
	}
	r := Runs[V, L]{make([]V, runs), make([]L, runs)}
	if err := cmp.Or(s.download(ctx, bytesOf(r.Values), k.values), s.download(ctx, bytesOf(r.Lengths), lengths)); err != nil {
		return result, err
	}
	return r, nil
}

// keptToBuffers stores the encoding if there is room for it, and its number of
// runs.
func keptToBuffers[V Number, L RunLength](s *Stream, call string, k keptRuns, dst BufferRuns[V, L], count *Buffer[uint64]) error {
	if k.total == 0 {
		return s.s.Fill(count.ptr, 0, 8)
	}
	// The caller's count is written when nothing can be refused any more.
	own, err := s.alloc(8)
	if err != nil {
		return err
	}
	defer s.free(own)
	if err := k.compactEnds(context.Background(), s, call, sizeOf[L](), own); err != nil {
		return err
	}
	if err := s.s.Copy(count.ptr, own, 8); err != nil {
		return err
	}
	room := dst.Values.n
	if room == 0 {
		return nil
	}
	if err := s.compact(k.compaction(sizeOf[V](), dst.Values.ptr, k.values, count.ptr, room)); err != nil {
		return err
	}
	return s.runLengths(typeI64.name, widthName(sizeOf[L]()), k.ends, min(room, k.n), count.ptr, dst.Lengths.ptr)
}

// equalRuns compares two encodings. It waits for the numbers of elements, and for
// the result.
func equalRuns[V Number, L RunLength](ctx context.Context, s *Stream, call string, a, b deviceRuns) (bool, error) {
	var k keptRuns
	defer func() { k.free(s) }()
	ends, totals, err := k.scan(ctx, s, call, sizeOf[L](), a, b)
	if err != nil {
		return false, err
	}
	if totals[0] != totals[1] || totals[0] == 0 {
		return totals[0] == totals[1], nil
	}
	width := widthName(sizeOf[V]())
	kernel, err := s.rt.kernel("runs_"+width, "runs_equal_"+width)
	if err != nil {
		return false, err
	}
	_, differ, err := s.firstBad(ctx, func(differs driver.Ptr) error {
		return s.launch(kernel, kernel.tiles(a.n+b.n), a.n+b.n, overlayArgs(a, b, ends).Ptr(differs))
	})
	return err == nil && !differ, err
}
