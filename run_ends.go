package ptxrun

import (
	"cmp"
	"context"
	"math"
	"reflect"

	"github.com/ptxrun/ptxrun/driver"
)

// RunEnd is the type of run ends in Apache Arrow's run-end encoded layout: run i
// covers the elements from the end before up to ends[i], and the first run begins
// at 0. Ends increase strictly.
type RunEnd interface{ ~int16 | ~int32 | ~int64 }

// RLERunEnds returns the run ends of a run-length encoding, whose values stay as
// they are: ends[i] = lengths[0] + … + lengths[i]. Nothing is decoded.
//
// The result does not depend on the device. When ctx is done first it returns
// ctx's error and nothing else. Errors: ErrNil, ErrClosed, ErrOutOfMemory;
// ErrOverflow if the sum of the lengths does not fit E; ErrInvalidValue, with its
// place, for a run of length zero, which this layout cannot have: [RLENormalize]
// drops those.
func RLERunEnds[E RunEnd, L RunLength](ctx context.Context, rt *Runtime, lengths []L) ([]E, error) {
	return convertHost[E](ctx, "RLERunEnds", rt, lengths, endsOfLengths[E, L])
}

// RLERunEndsBuffer is [RLERunEnds] on device buffers, in stream order. It waits
// once, for the sum of the lengths and the check, then gives the writing of ends
// to the stream. ends and lengths have the same length and do not overlap. Errors
// are also ErrLength and ErrOverlap.
func RLERunEndsBuffer[E RunEnd, L RunLength](s *Stream, ends *Buffer[E], lengths *Buffer[L]) error {
	return convertBuffers("RLERunEndsBuffer", s, ends, "ends", lengths, "lengths", endsOfLengths[E, L])
}

// RLELengths returns the lengths of the runs with these ends: the reverse of
// [RLERunEnds].
//
// The result does not depend on the device. When ctx is done first it returns
// ctx's error and nothing else. Errors: ErrNil, ErrClosed, ErrOutOfMemory;
// ErrCorrupt, with the place, if ends do not increase from 1 on; ErrOverflow if a
// run is too long for L.
func RLELengths[L RunLength, E RunEnd](ctx context.Context, rt *Runtime, ends []E) ([]L, error) {
	return convertHost[L](ctx, "RLELengths", rt, ends, lengthsOfEnds[L, E])
}

// RLELengthsBuffer is [RLELengths] on device buffers, in stream order. It waits
// once, for the check of the ends. lengths and ends have the same length and do
// not overlap. Errors are also ErrLength and ErrOverlap.
func RLELengthsBuffer[L RunLength, E RunEnd](s *Stream, lengths *Buffer[L], ends *Buffer[E]) error {
	return convertBuffers("RLELengthsBuffer", s, lengths, "lengths", ends, "ends", lengthsOfEnds[L, E])
}

// converter gives the stream the conversion of n numbers, at least one.
type converter func(ctx context.Context, s *Stream, call string, dst, src driver.Ptr, n int64) error

func convertHost[Out, In any](ctx context.Context, call string, rt *Runtime, src []In, convert converter) (dst []Out, err error) {
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, err
	}
	defer rt.end()
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return nil, err
	}
	err = rt.onStream(call, func(s *Stream) error {
		n := int64(len(src))
		bytes := align256(n * sizeOf[In]())
		p, err := s.alloc(bytes + n*sizeOf[Out]())
		if err != nil {
			return err
		}
		defer s.free(p)
		out := p + driver.Ptr(bytes)
		if err := s.upload(ctx, p, bytesOf(src)); err != nil {
			return err
		}
		if err := convert(ctx, s, call, out, p, n); err != nil {
			return err
		}
		result := make([]Out, n)
		if err := s.download(ctx, bytesOf(result), out); err != nil {
			return err
		}
		dst = result
		return nil
	})
	return dst, err
}

func convertBuffers[Out, In any](call string, s *Stream, dst *Buffer[Out], dstName string, src *Buffer[In], srcName string, convert converter) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(dst.check(call, dstName, s.rt), src.check(call, srcName, s.rt)); err != nil {
		return err
	}
	if dst.n != src.n {
		return driver.Errorf(call, driver.ErrLength, "%d %s, %d %s", dst.n, dstName, src.n, srcName)
	}
	if err := checkDisjoint(call, dst.span(dstName), src.span(srcName)); err != nil || src.n == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, convert(context.Background(), s, call, dst.ptr, src.ptr, src.n))
}

func endsOfLengths[E RunEnd, L RunLength](ctx context.Context, s *Stream, call string, dst, src driver.Ptr, n int64) error {
	ends, err := s.scanRunEnds(call, src, sizeOf[L](), n)
	if err != nil {
		return err
	}
	defer s.free(ends)
	empty, bad, err := s.checkRunEnds(ctx, typeI64.name, ends, n, math.MaxUint64)
	if err != nil {
		return err
	}
	total, err := s.runTotal(ctx, call, ends, n)
	if err != nil {
		return err
	}
	if most := int64(math.MaxInt64) >> (64 - 8*sizeOf[E]()); total > most {
		return driver.Errorf(call, driver.ErrOverflow, "the %d lengths sum to %d; %v run ends go to %d", n, total, reflect.TypeFor[E](), most)
	}
	if bad {
		return driver.Errorf(call, driver.ErrInvalidValue, "run %d of %d has length 0; run ends increase strictly, and RLENormalize drops empty runs", empty, n)
	}
	return s.launchRunEnds("run_ends_narrow_"+numberName[E](), n, driver.NewArgs().Ptr(ends).Uint64(uint64(n)).Ptr(dst))
}

func lengthsOfEnds[L RunLength, E RunEnd](ctx context.Context, s *Stream, call string, dst, src driver.Ptr, n int64) error {
	longest := uint64(math.MaxUint64) >> (64 - 8*sizeOf[L]())
	k, bad, err := s.checkRunEnds(ctx, numberName[E](), src, n, longest)
	if err != nil {
		return err
	}
	if bad {
		return refuseRun[E](s, call, src, k, n, longest)
	}
	return s.runLengths(numberName[E](), widthName(sizeOf[L]()), src, n, 0, dst)
}

// refuseRun is the error of run k, which checkRunEnds found.
func refuseRun[E RunEnd](s *Stream, call string, ends driver.Ptr, k, n int64, longest uint64) error {
	two := make([]E, min(k+1, 2))
	at := ends + driver.Ptr((k+1-int64(len(two)))*sizeOf[E]())
	if err := s.download(context.Background(), bytesOf(two), at); err != nil {
		return err
	}
	var begin E
	end := two[len(two)-1]
	if k > 0 {
		begin = two[0]
	}
	if end <= begin {
		return driver.Errorf(call, driver.ErrCorrupt, "run %d of %d ends at %d after %d; run ends increase from 1 on", k, n, end, begin)
	}
	return driver.Errorf(call, driver.ErrOverflow, "run %d of %d has %d elements; the lengths' type goes to %d", k, n, uint64(end)-uint64(begin), longest)
}

// RLEAt returns the elements at the given indices of an encoding by values and
// run ends, in the order of the indices, which may repeat. Nothing is decoded: a
// thread searches the ends for each index.
//
// The result does not depend on the device. When ctx is done first it returns
// ctx's error and nothing else. Errors: ErrNil, ErrClosed, ErrOutOfMemory,
// ErrLength if values and ends differ in length; ErrCorrupt, with the place, if
// ends do not increase from 1 on, unless there are no indices; ErrInvalidValue,
// with its place, for an index at or beyond the last end.
func RLEAt[V Number, E RunEnd, I Index](ctx context.Context, rt *Runtime, values []V, ends []E, indices []I) (dst []V, err error) {
	const call = "RLEAt"
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, err
	}
	defer rt.end()
	if len(values) != len(ends) {
		return nil, driver.Errorf(call, driver.ErrLength, "%d values, %d run ends", len(values), len(ends))
	}
	if err := ctx.Err(); err != nil || len(indices) == 0 {
		return nil, err
	}
	err = rt.onStream(call, func(s *Stream) error {
		a := access{runs: int64(len(ends)), n: int64(len(indices))}
		endsAt := align256(a.runs * sizeOf[V]())
		indicesAt := endsAt + align256(a.runs*sizeOf[E]())
		outAt := indicesAt + align256(a.n*sizeOf[I]())
		p, err := s.alloc(outAt + a.n*sizeOf[V]())
		if err != nil {
			return err
		}
		defer s.free(p)
		a.values, a.ends, a.indices, a.out = p, p+driver.Ptr(endsAt), p+driver.Ptr(indicesAt), p+driver.Ptr(outAt)
		if err := cmp.Or(s.upload(ctx, a.values, bytesOf(values)), s.upload(ctx, a.ends, bytesOf(ends)), s.upload(ctx, a.indices, bytesOf(indices))); err != nil {
			return err
		}
		if a.runs > 0 {
			k, bad, err := s.checkRunEnds(ctx, numberName[E](), a.ends, a.runs, math.MaxUint64)
			if err != nil {
				return err
			}
			if bad {
				return refuseRun[E](s, call, a.ends, k, a.runs, math.MaxUint64)
			}
		}
		if err := accessRuns[V, E, I](ctx, s, call, a); err != nil {
			return err
		}
		result := make([]V, a.n)
		if err := s.download(ctx, bytesOf(result), a.out); err != nil {
			return err
		}
		dst = result
		return nil
	})
	return dst, err
}

// RLEAtBuffer is [RLEAt] on device buffers, in stream order. It waits once, for
// the check of the indices; then the writing of dst, of the indices' length, is
// given to the stream. The ends are not checked: where they do not increase, some
// value of the encoding is taken. dst overlaps no other buffer (ErrOverlap).
func RLEAtBuffer[V Number, E RunEnd, I Index](s *Stream, dst, values *Buffer[V], ends *Buffer[E], indices *Buffer[I]) error {
	const call = "RLEAtBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(dst.check(call, "dst", s.rt), values.check(call, "values", s.rt),
		ends.check(call, "ends", s.rt), indices.check(call, "indices", s.rt)); err != nil {
		return err
	}
	if values.n != ends.n || dst.n != indices.n {
		return driver.Errorf(call, driver.ErrLength, "%d values, %d run ends; dst has %d elements for %d indices", values.n, ends.n, dst.n, indices.n)
	}
	out := dst.span("dst")
	if err := cmp.Or(checkDisjoint(call, out, values.span("values")), checkDisjoint(call, out, ends.span("ends")),
		checkDisjoint(call, out, indices.span("indices"))); err != nil || indices.n == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, accessRuns[V, E, I](context.Background(), s, call, access{values.ptr, ends.ptr, indices.ptr, dst.ptr, ends.n, indices.n}))
}

// access is one call of random access, on the device.
type access struct {
	values, ends, indices, out driver.Ptr
	runs, n                    int64
}

func accessRuns[V Number, E RunEnd, I Index](ctx context.Context, s *Stream, call string, a access) error {
	suffix := numberName[E]() + "_" + widthName(sizeOf[I]())
	k, bad, err := s.firstBad(ctx, func(first driver.Ptr) error {
		return s.launchRunEnds("run_index_check_"+suffix, a.n,
			driver.NewArgs().Ptr(a.ends).Uint64(uint64(a.runs)).Ptr(a.indices).Uint64(uint64(a.n)).Ptr(first))
	})
	if err != nil {
		return err
	}
	if bad {
		var index I
		var total E
		err := s.download(ctx, bytesOfValue(&index), a.indices+driver.Ptr(k*sizeOf[I]()))
		if err == nil && a.runs > 0 {
			err = s.download(ctx, bytesOfValue(&total), a.ends+driver.Ptr((a.runs-1)*sizeOf[E]()))
		}
		if err != nil {
			return err
		}
		return driver.Errorf(call, driver.ErrInvalidValue, "indices[%d] is %d; the %d runs cover %d elements", k, index, a.runs, total)
	}
	width := widthName(sizeOf[V]())
	kernel, err := s.rt.kernel("run_at_"+width, "run_at_"+width+"_"+suffix)
	if err != nil {
		return err
	}
	args := driver.NewArgs().Ptr(a.values).Ptr(a.ends).Uint64(uint64(a.runs)).Ptr(a.indices).Uint64(uint64(a.n)).Ptr(a.out)
	return s.launch(kernel, kernel.tiles(a.n), a.n, args)
}

// scanRunEnds gives the stream the scan of n lengths, at least one, to run ends of 64
// bits, which the caller frees. The sum saturates, so that an overflow is seen in
// the last run end.
func (s *Stream) scanRunEnds(call string, lengths driver.Ptr, lengthSize, n int64) (driver.Ptr, error) {
	ends, err := s.alloc(n * 8)
	if err != nil {
		return 0, err
	}
	sc := sumScanner(sumNames["satsum_u64"], 8)
	if lengthSize == 4 {
		sc.names = sumNames["satsum_u32_u64"]
	}
	if err := s.scan(call, &sc, ends, lengths, n, ScanOption{}); err != nil {
		s.free(ends)
		return 0, err
	}
	return ends, nil
}

// runTotal waits for the n run ends of scanRunEnds and returns the last one.
func (s *Stream) runTotal(ctx context.Context, call string, ends driver.Ptr, n int64) (int64, error) {
	var total uint64
	if err := s.download(ctx, bytesOfValue(&total), ends+driver.Ptr((n-1)*8)); err != nil {
		return 0, err
	}
	if total > math.MaxInt64 {
		return 0, tooManyElements(call, n)
	}
	return int64(total), nil
}

// checkRunEnds waits for the first run of type e that is empty, ends before it
// begins or is longer than longest, and says whether there is one.
func (s *Stream) checkRunEnds(ctx context.Context, e string, ends driver.Ptr, n int64, longest uint64) (int64, bool, error) {
	return s.firstBad(ctx, func(first driver.Ptr) error {
		return s.launchRunEnds("run_ends_check_"+e, n, driver.NewArgs().Ptr(ends).Uint64(uint64(n)).Uint64(longest).Ptr(first))
	})
}

// firstBad waits for what a kernel that reports a first place found.
func (s *Stream) firstBad(ctx context.Context, launch func(first driver.Ptr) error) (int64, bool, error) {
	first, err := s.alloc(8)
	if err != nil {
		return 0, false, err
	}
	defer s.free(first)
	if err := s.s.Fill(first, 0, 8); err != nil {
		return 0, false, err
	}
	if err := launch(first); err != nil {
		return 0, false, err
	}
	var found uint64 // the place's complement, or 0
	err = s.download(ctx, bytesOfValue(&found), first)
	return int64(^found), found != 0, err
}

// runLengths gives the stream the lengths of the runs with these ends: of n, or,
// where there is a count, of as many, and none if they are more than n.
func (s *Stream) runLengths(e, l string, ends driver.Ptr, n int64, count, lengths driver.Ptr) error {
	return s.launchRunEnds("run_lengths_"+e+"_"+l, n, driver.NewArgs().Ptr(ends).Uint64(uint64(n)).Ptr(count).Ptr(lengths))
}

// launchRunEnds launches a kernel of run ends over n runs or indices.
func (s *Stream) launchRunEnds(name string, n int64, a *driver.Args) error {
	k, err := s.rt.kernel("run_ends", name)
	if err != nil {
		a.Release()
		return err
	}
	return s.launch(k, k.tiles(n), n, a)
}
