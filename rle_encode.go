package ptxrun

import (
	"cmp"
	"context"
	"math"

	"github.com/ptxrun/ptxrun/driver"
)

// RLEEncode returns the runs of equal neighbours in src: each run's value and
// its length, in order. Values are compared by their bits: floats by
// representation, so that NaN continues a run of the same NaN and -0 ends one
// of +0. The sum of the lengths is len(src); no length is zero.
//
// The result does not depend on the device or the strategy. When ctx is done
// before the result is complete, it returns ctx's error and nothing else. Errors:
// ErrNil, ErrClosed, ErrOutOfMemory, and ErrOverflow if a run has 2^32 elements or
// more; [RLEEncode64] takes those.
func RLEEncode[V Number](ctx context.Context, rt *Runtime, src []V, opts ...EncodeOption) (values []V, lengths []uint32, err error) {
	return encodeHost[V, uint32](ctx, "RLEEncode", rt, src, opts)
}

// RLEEncode64 is [RLEEncode] with 64-bit lengths.
func RLEEncode64[V Number](ctx context.Context, rt *Runtime, src []V, opts ...EncodeOption) (values []V, lengths []uint64, err error) {
	return encodeHost[V, uint64](ctx, "RLEEncode64", rt, src, opts)
}

// RLECount returns how many runs [RLEEncode] would return, without memory for
// them. Errors: ErrNil, ErrClosed, ErrOutOfMemory.
func RLECount[V Number](ctx context.Context, rt *Runtime, src []V) (int, error) {
	const call = "RLECount"
	if err := rt.beginHost(ctx, call); err != nil {
		return 0, err
	}
	defer rt.end()
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return 0, err
	}
	var runs uint64
	err := rt.onStream(call, func(s *Stream) error {
		size := align256(int64(len(src)) * sizeOf[V]())
		p, err := s.alloc(size + 256)
		if err != nil {
			return err
		}
		defer s.free(p)
		e := encoding{call: call, size: sizeOf[V](), length: 8, src: p, n: int64(len(src)), count: p + driver.Ptr(size)}
		if err := cmp.Or(s.upload(ctx, p, bytesOf(src)), s.encodePass(&e, 0), s.wait(ctx)); err != nil {
			return err
		}
		runs, err = s.read(e.count, 8)
		return err
	})
	return int(runs), err
}

// RLEEncodeBuffer is [RLEEncode] on device buffers, in stream order. values and
// lengths have equal sizes, and receive the first runs, as many as they have room
// for; count has one element and receives the number of all runs. Elements behind
// the runs are not changed. No two buffers overlap.
//
// It returns when the work is given to the stream, except for 2^32 elements and
// more with 32-bit lengths, where it waits to refuse runs too long (ErrOverflow)
// before values and lengths are written. Errors are also ErrNil, ErrClosed,
// ErrLength, ErrOverlap, ErrOutOfMemory.
func RLEEncodeBuffer[V Number, L RunLength](s *Stream, values *Buffer[V], lengths *Buffer[L], count *Buffer[uint64], src *Buffer[V], opts ...EncodeOption) error {
	const call = "RLEEncodeBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	strategy, err := encodeStrategy(call, opts)
	if err != nil {
		return err
	}
	if err := cmp.Or(values.check(call, "values", s.rt), lengths.check(call, "lengths", s.rt),
		count.check(call, "count", s.rt), src.check(call, "src", s.rt)); err != nil {
		return err
	}
	if values.n != lengths.n || count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "values has %d elements, lengths %d, count %d", values.n, lengths.n, count.n)
	}
	if err := checkDisjoint(call, values.span("values"), lengths.span("lengths"), count.span("count"), src.span("src")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, s.encode(&encoding{
		call: call, strategy: strategy, size: sizeOf[V](), length: sizeOf[L](), src: src.ptr, n: src.n,
		values: values.ptr, lengths: lengths.ptr, capacity: values.n, count: count.ptr,
	}))
}

// RLECountBuffer is [RLECount] on device buffers, in stream order: count has one
// element and receives the number of runs. The two do not overlap. Errors: as
// [RLECount], ErrLength, ErrOverlap.
func RLECountBuffer[V Number](s *Stream, count *Buffer[uint64], src *Buffer[V]) error {
	const call = "RLECountBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(count.check(call, "count", s.rt), src.check(call, "src", s.rt)); err != nil {
		return err
	}
	if count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "count has %d elements, not 1", count.n)
	}
	if err := checkDisjoint(call, count.span("count"), src.span("src")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, s.encode(&encoding{call: call, size: sizeOf[V](), length: 8, src: src.ptr, n: src.n, count: count.ptr}))
}

// encoding is one run-length encoding of n values of size bytes, with lengths of
// length bytes.
type encoding struct {
	call            string
	strategy        EncodeStrategy
	size, length    int64
	src             driver.Ptr
	n               int64
	values, lengths driver.Ptr
	capacity        int64
	count           driver.Ptr
}

func encodeHost[V Number, L RunLength](ctx context.Context, call string, rt *Runtime, src []V, opts []EncodeOption) (values []V, lengths []L, err error) {
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, nil, err
	}
	defer rt.end()
	strategy, err := encodeStrategy(call, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return nil, nil, err
	}
	err = rt.onStream(call, func(s *Stream) error {
		e := encoding{call: call, strategy: strategy, size: sizeOf[V](), length: sizeOf[L](), n: int64(len(src))}
		var err error
		if e.src, err = s.alloc(e.n * e.size); err != nil {
			return err
		}
		defer s.free(e.src)
		if err := s.upload(ctx, e.src, bytesOf(src)); err != nil {
			return err
		}
		// Room for a guess of the runs; if it is too small, the count is known, and
		// a second time it fits.
		for e.capacity = min(e.n, max(1024, e.n/4)); ; {
			runs, done, err := encodeTry(ctx, s, &e, &values, &lengths)
			if err != nil || done {
				return err
			}
			e.capacity = runs
		}
	})
	return values, lengths, err
}

// encodeTry encodes with room for e.capacity runs and, if there are no more,
// copies them to the host.
func encodeTry[V Number, L RunLength](ctx context.Context, s *Stream, e *encoding, values *[]V, lengths *[]L) (runs int64, done bool, err error) {
	valueBytes, lengthBytes := align256(e.capacity*e.size), align256(e.capacity*e.length)
	out, err := s.alloc(valueBytes + lengthBytes + 256)
	if err != nil {
		return 0, false, err
	}
	defer s.free(out)
	e.values, e.lengths, e.count = out, out+driver.Ptr(valueBytes), out+driver.Ptr(valueBytes+lengthBytes)
	if err := cmp.Or(s.encode(e), s.wait(ctx)); err != nil {
		return 0, false, err
	}
	count, err := s.read(e.count, 8)
	if runs = int64(count); err != nil || runs > e.capacity {
		return runs, false, err
	}
	v, l := make([]V, runs), make([]L, runs)
	if err := cmp.Or(s.download(ctx, bytesOf(v), e.values), s.download(ctx, bytesOf(l), e.lengths)); err != nil {
		return runs, false, err
	}
	*values, *lengths = v, l
	return runs, true, nil
}

// encode gives the stream an encoding.
func (s *Stream) encode(e *encoding) error {
	if e.n == 0 {
		return s.s.Fill(e.count, 0, 8)
	}
	if e.length == 4 && e.n > math.MaxUint32 {
		if err := s.refuseLongRuns(e); err != nil {
			return err
		}
	}
	if e.strategy == EncodeMarkScan {
		return s.encodeMarkScan(e)
	}
	return s.encodePass(e, 0)
}

// refuseLongRuns waits to see whether a run has 2^32 elements or more.
func (s *Stream) refuseLongRuns(e *encoding) error {
	longest, err := s.alloc(8)
	if err != nil {
		return err
	}
	defer s.free(longest)
	counting := *e
	counting.capacity = 0
	if err := cmp.Or(s.s.Fill(longest, 0, 8), s.encodePass(&counting, longest)); err != nil {
		return err
	}
	v, err := s.read(longest, 8)
	if err == nil && v > 0 {
		err = driver.Errorf(e.call, driver.ErrOverflow, "a run of %d elements does not fit 32-bit lengths", v)
	}
	return err
}

// encodePass encodes in a single pass: by bulk copies where the device has them
// and the input is aligned for them. tooLong, if it is not 0, is raised to the
// length of a run that is too long.
func (s *Stream) encodePass(e *encoding, tooLong driver.Ptr) error {
	kind := "pass"
	if e.n > encodeBulkTile(e.size) && bulkCapability <= s.rt.dev.Info().Capability && e.src%16 == 0 {
		kind = "bulk"
	}
	module := "rle_encode_" + kind + "_" + widthName(e.size)
	k, err := s.rt.kernel(module, module+"_"+widthName(e.length))
	if err != nil {
		return err
	}
	bytes := int64(0) // none for a single tile
	if e.n > k.spec.Tile {
		bytes = encodeState(ceilDiv(e.n, k.spec.Tile))
	}
	return s.launchPass(k, e.n, 0, bytes, func(a *driver.Args, state driver.Ptr, first uint32) {
		a.Ptr(e.src).Uint64(uint64(e.n)).Ptr(e.values).Ptr(e.lengths).Uint64(uint64(e.capacity)).Ptr(e.count).Ptr(tooLong).Ptr(state).Uint32(first)
	})
}

// encodeMarkScan marks the heads of runs, numbers them, scatters their positions
// and finishes values and lengths from those.
func (s *Stream) encodeMarkScan(e *encoding) error {
	width, length, index, size := widthName(e.size), widthName(e.length), typeU32.name, int64(4)
	if e.n > math.MaxUint32 {
		// A run count of n must fit as well as a position below n.
		index, size = typeU64.name, 8
	}
	flags, err := s.alloc(e.n * size) // later the runs' numbers
	if err != nil {
		return err
	}
	defer s.free(flags)
	mark, err := s.rt.kernel("rle_"+width, "rle_mark_"+width+"_"+index)
	if err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(e.src).Uint64(uint64(e.n)).Ptr(flags)
	if err := s.launch(mark, mark.tiles(e.n), e.n, a); err != nil {
		return err
	}
	sum := sumScanner(sumNames["sum_"+index], size)
	if err := s.scan(e.call, &sum, flags, flags, e.n, ScanOption{}); err != nil {
		return err
	}
	// The last run that there is room for ends where the next begins.
	room := min(e.n, e.capacity+1)
	starts, err := s.alloc(room * size)
	if err != nil {
		return err
	}
	defer s.free(starts)
	scatter, err := s.rt.kernel("rle_index", "rle_scatter_"+index)
	if err != nil {
		return err
	}
	a = driver.NewArgs().Ptr(flags).Uint64(uint64(e.n)).Ptr(starts).Uint64(uint64(room)).Ptr(e.count)
	if err := s.launch(scatter, scatter.tiles(e.n), e.n, a); err != nil || e.capacity == 0 {
		return err
	}
	finish, err := s.rt.kernel("rle_"+width, "rle_finish_"+width+"_"+index+"_"+length)
	if err != nil {
		return err
	}
	a = driver.NewArgs().Ptr(e.src).Uint64(uint64(e.n)).Ptr(starts).Ptr(e.count).Uint64(uint64(e.capacity)).Ptr(e.values).Ptr(e.lengths)
	return s.launch(finish, s.rt.strideBlocks(room, rleBlock), e.n, a)
}
