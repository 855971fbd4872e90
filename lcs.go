package ptxrun

import (
	"cmp"
	"context"
	"math"

	"github.com/ptxrun/ptxrun/driver"
)

// LCSStrategy is an algorithm for the longest common subsequence.
type LCSStrategy uint8

const (
	// LCSBitParallel computes the table in bits, a word of rows at a time, from
	// one column to the next: the recurrence of Crochemore and others (2001) in
	// Hyyrö's form (2004). A warp has a band of rows, through which columns flow;
	// bands pass the lengths' growth on to the next.
	LCSBitParallel LCSStrategy = iota
	// LCSSpinWait computes the dynamic-programming table with a thread a cell:
	// every thread spins until its three neighbours are there. The sequences
	// are read from page-locked host memory, mapped, without a copy, and only
	// the last cell is copied back. Blocks take their place in the table by
	// ticket, so that they wait for running blocks only.
	LCSSpinWait
	// LCSTiled computes the table in squares of cells, an anti-diagonal of squares
	// a launch, and in a square an anti-diagonal of cells at a time: only the edges
	// of squares are in memory. It is the plain way, for comparison.
	LCSTiled
	lcsStrategies
)

// LCSSpinWaitMaxCells is the largest len(a)·len(b) that [LCSSpinWait] takes: its
// table has 4 bytes a cell, and a kernel that spins longer would be ended by
// machines that limit a kernel's time.
const LCSSpinWaitMaxCells = 1 << 30

func (s LCSStrategy) String() string {
	if s < lcsStrategies {
		return [...]string{"bit-parallel", "spin-wait", "tiled"}[s]
	}
	return "unknown strategy"
}

// LCSOption changes how a longest common subsequence is computed.
type LCSOption struct{ strategy LCSStrategy }

// WithLCSStrategy chooses the algorithm of [LCSLength].
func WithLCSStrategy(s LCSStrategy) LCSOption { return LCSOption{s} }

// Token is an element of a sequence. Tokens are equal if their bits are.
// [Renumber] makes tokens of other types.
type Token interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Renumber gives equal elements of two sequences equal numbers, and others
// others, in order of their first occurrence.
func Renumber[T comparable](a, b []T) (na, nb []uint32) {
	numbers := map[T]uint32{}
	number := func(s []T) []uint32 {
		out := make([]uint32, len(s))
		for i, x := range s {
			n, known := numbers[x]
			if !known {
				n = uint32(len(numbers))
				numbers[x] = n
			}
			out[i] = n
		}
		return out
	}
	return number(a), number(b)
}

// lcsHost begins a call on two host slices and runs f on a stream of its own, unless
// one of them is empty. bad is what was wrong with the call's options, or nil.
func lcsHost[T Token](ctx context.Context, call string, rt *Runtime, bad error, a, b []T, f func(s *Stream) error) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	if err := cmp.Or(ctx.Err(), bad); err != nil || len(a) == 0 || len(b) == 0 {
		return err
	}
	return rt.onStream(call, f)
}

func lcsOptions(call string, opts []LCSOption) (c LCSOption, err error) {
	for _, o := range opts {
		c = o
	}
	if c.strategy >= lcsStrategies {
		return c, driver.Errorf(call, driver.ErrInvalidValue, "LCS strategy %d", c.strategy)
	}
	return c, nil
}

// bitParallel reports the strategies that give no more than a length.
func bitParallel(call string, opts []LCSOption) error {
	c, err := lcsOptions(call, opts)
	if err == nil && c.strategy != LCSBitParallel {
		err = driver.Errorf(call, driver.ErrNotSupported, "the %v strategy gives lengths only", c.strategy)
	}
	return err
}

// LCSLength returns the length of the longest common subsequence of a and b:
// the most elements that can be had from both by leaving some out. An empty
// sequence has none.
//
// [LCSBitParallel] takes memory in proportion to the lengths, the other
// strategies are for comparison. When ctx is done first it returns ctx's error.
// Errors: ErrNil, ErrClosed, ErrInvalidValue for an unknown strategy; of
// [LCSSpinWait] ErrNotSupported for tokens that are no bytes, and ErrTooLarge if
// len(a)·len(b) is beyond [LCSSpinWaitMaxCells]; ErrOutOfMemory.
func LCSLength[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) (length int, err error) {
	const call = "LCSLength"
	c, bad := lcsOptions(call, opts)
	err = lcsHost(ctx, call, rt, bad, a, b, func(s *Stream) (err error) {
		// Rows are more bands at work at a time, columns more steps of each.
		if len(a) < len(b) {
			a, b = b, a
		}
		switch c.strategy {
		case LCSSpinWait:
			length, err = s.lcsSpinWait(ctx, call, sizeOf[T](), bytesOf(a), bytesOf(b))
		case LCSTiled:
			length, err = s.lcsTiled(ctx, sizeOf[T](), bytesOf(a), bytesOf(b))
		default:
			length, err = s.lcsLength(ctx, sizeOf[T](), lcsDistinct(a), bytesOf(a), bytesOf(b))
		}
		return err
	})
	return length, err
}

// LCSLengthBuffer is [LCSLength] of device buffers by [LCSBitParallel], in stream
// order, into the one element of length. No two buffers overlap, but a and b may.
// Errors are also ErrLength, ErrOverlap and ErrWrongDevice.
func LCSLengthBuffer[T Token](s *Stream, length *Buffer[uint64], a, b *Buffer[T]) error {
	const call = "LCSLengthBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(length.check(call, "length", s.rt), a.check(call, "a", s.rt), b.check(call, "b", s.rt)); err != nil {
		return err
	}
	if length.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "length has %d elements", length.n)
	}
	if err := cmp.Or(checkDisjoint(call, length.span("length"), a.span("a")), checkDisjoint(call, length.span("length"), b.span("b"))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.n == 0 || b.n == 0 {
		return s.s.Fill(length.ptr, 0, 8)
	}
	if a.n < b.n {
		a, b = b, a
	}
	return named(call, s.lcsLengthOn(sizeOf[T](), length.ptr, a.ptr, a.n, b.ptr, b.n))
}

// LCSMatches returns a longest common subsequence of a and b as spans of both,
// in rising order, each as long as it can be.
//
// Of all longest common subsequences it is the one found from the end: the last
// element is the one that ends earliest in a, and lies as late in b as it can;
// so is the last element of what is in front of both, and so on. The result is
// the same on all devices. Memory is in proportion to the lengths (Hirschberg,
// 1975), time about twice that of the length.
//
// When ctx is done first it returns ctx's error. Errors: ErrNil, ErrClosed,
// ErrInvalidValue for an unknown strategy, ErrNotSupported for another than
// [LCSBitParallel], ErrOutOfMemory.
func LCSMatches[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]Match, error) {
	return lcsMatches(ctx, "LCSMatches", rt, a, b, opts)
}

func lcsMatches[T Token](ctx context.Context, call string, rt *Runtime, a, b []T, opts []LCSOption) (matches []Match, err error) {
	err = lcsHost(ctx, call, rt, bitParallel(call, opts), a, b, func(s *Stream) error {
		aMarks, bMarks, err := s.lcsMarks(ctx, sizeOf[T](), lcsDistinct(a), bytesOf(a), bytesOf(b))
		if err == nil {
			matches = matchesOf(aMarks, bMarks)
		}
		return err
	})
	return matches, err
}

// LCSMatchesBuffer is [LCSMatches] on device buffers, in stream order: the elements
// that are matched, one by one. a[aIndices[i]] is b[bIndices[i]], and both rise.
// aIndices and bIndices have equal sizes and receive the first matches, as many as
// they have room for; count has one element and receives the number of all, which is
// the length, at most the shorter sequence's. Indices behind the matches are not
// changed. No two buffers overlap, but a and b may.
//
// It waits for the stream, because the host cuts the pair into parts; the search in
// them and the writing of indices are then given to the stream. Errors: ErrNil,
// ErrClosed, ErrWrongDevice, ErrLength, ErrOverlap, ErrOverflow for 32-bit indices of
// 2^32 elements or more, ErrOutOfMemory.
func LCSMatchesBuffer[T Token, I Index](s *Stream, aIndices, bIndices *Buffer[I], count *Buffer[uint64], a, b *Buffer[T]) error {
	const call = "LCSMatchesBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(aIndices.check(call, "aIndices", s.rt), bIndices.check(call, "bIndices", s.rt), count.check(call, "count", s.rt),
		a.check(call, "a", s.rt), b.check(call, "b", s.rt)); err != nil {
		return err
	}
	if aIndices.n != bIndices.n || count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "aIndices has %d elements, bIndices %d, count %d", aIndices.n, bIndices.n, count.n)
	}
	x, y, z := aIndices.span("aIndices"), bIndices.span("bIndices"), count.span("count")
	if err := cmp.Or(checkDisjoint(call, x, y, z, a.span("a")), checkDisjoint(call, x, y, z, b.span("b"))); err != nil {
		return err
	}
	if sizeOf[I]() == 4 && max(a.n, b.n) > math.MaxUint32 {
		return driver.Errorf(call, driver.ErrOverflow, "indices of %d and %d elements do not fit 32 bits", a.n, b.n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.n == 0 || b.n == 0 {
		return s.s.Fill(count.ptr, 0, 8)
	}
	return named(call, s.lcsMatchesOn(call, sizeOf[T](), sizeOf[I](), aIndices.ptr, bIndices.ptr, aIndices.n, count.ptr, a.ptr, a.n, b.ptr, b.n))
}

// LCS returns a longest common subsequence of a and b, the one of [LCSMatches],
// with its errors.
func LCS[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]T, error) {
	matches, err := lcsMatches(ctx, "LCS", rt, a, b, opts)
	if err != nil {
		return nil, err
	}
	length := 0
	for _, m := range matches {
		length += m.Len
	}
	out := make([]T, 0, length)
	for _, m := range matches {
		out = append(out, a[m.A:m.A+m.Len]...)
	}
	return out, nil
}

// LCSPrefixes returns the length of the longest common subsequence of a and
// every prefix of b: len(b)+1 numbers, the first of them 0, for the time of
// [LCSLength]. Errors are those of [LCSMatches], and ErrTooLarge if both have
// 2^32 elements or more, whose lengths do not fit.
func LCSPrefixes[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]uint32, error) {
	const call = "LCSPrefixes"
	var grows []uint32
	err := lcsHost(ctx, call, rt, bitParallel(call, opts), a, b, func(s *Stream) (err error) {
		if min(len(a), len(b)) > math.MaxUint32 {
			return driver.Errorf(call, driver.ErrTooLarge, "%d and %d elements; their length may not fit 32 bits", len(a), len(b))
		}
		grows, err = s.lcsGrowth(ctx, sizeOf[T](), lcsDistinct(a), bytesOf(a), bytesOf(b))
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]uint32, len(b)+1)
	if grows != nil {
		for j := range b {
			out[j+1] = out[j] + grows[j/32]>>(j%32)&1
		}
	}
	return out, nil
}

// LCSPrefixesBuffer is [LCSPrefixes] on device buffers, in stream order, into the
// b.Len()+1 elements of out. No two buffers overlap, but a and b may. Errors are
// also ErrLength, ErrOverlap and ErrWrongDevice.
func LCSPrefixesBuffer[T Token](s *Stream, out *Buffer[uint32], a, b *Buffer[T]) error {
	const call = "LCSPrefixesBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(out.check(call, "out", s.rt), a.check(call, "a", s.rt), b.check(call, "b", s.rt)); err != nil {
		return err
	}
	if out.n != b.n+1 {
		return driver.Errorf(call, driver.ErrLength, "out has %d elements for %d and one more", out.n, b.n)
	}
	if err := cmp.Or(checkDisjoint(call, out.span("out"), a.span("a")), checkDisjoint(call, out.span("out"), b.span("b"))); err != nil {
		return err
	}
	if min(a.n, b.n) > math.MaxUint32 {
		return driver.Errorf(call, driver.ErrTooLarge, "%d and %d elements; their length may not fit 32 bits", a.n, b.n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.n == 0 || b.n == 0 {
		return s.s.Fill(out.ptr, 0, out.n*4)
	}
	return named(call, s.lcsPrefixesOn(call, sizeOf[T](), out.ptr, a.ptr, a.n, b.ptr, b.n))
}
