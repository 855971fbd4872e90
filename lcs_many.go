package ptxrun

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// LCSPair is two sequences of a batch and what they have in common: their
// numbers, the length of their longest common subsequence, and twice that over
// both lengths, which is 1 for two empty sequences.
type LCSPair struct {
	A, B   int
	Length int
	Ratio  float64
}

// lcsRatio is a pair's ratio.
func lcsRatio(length, a, b int) float64 { return Similarity{length, a, b}.Ratio() }

// lcsResults are the bytes of results that calls which return some of the pairs
// have on the device at a time. A variable, for tests.
var lcsResults int64 = 256 << 20

// LCSMatrix returns the length of the longest common subsequence of every
// sequence of a with every one of b: result[i][j] is that of a[i] and b[j].
//
// Sequences may have any lengths, and be empty; those of the same length are best
// served. Short ones lie side by side in the bands of the bit-parallel strategy,
// through which the others flow. When ctx is done first it returns ctx's error.
// Errors: ErrNil if a or b is nil, ErrClosed, ErrTooLarge for sequences of 2^32
// elements or more, ErrOutOfMemory.
func LCSMatrix[T Token](ctx context.Context, rt *Runtime, a, b [][]T) ([][]uint32, error) {
	return lcsMatrix(ctx, "LCSMatrix", rt, a, b, false)
}

// LCSSelfMatrix is [LCSMatrix] of a with itself, computed once a pair.
func LCSSelfMatrix[T Token](ctx context.Context, rt *Runtime, a [][]T) ([][]uint32, error) {
	return lcsMatrix(ctx, "LCSSelfMatrix", rt, a, a, true)
}

// LCSMany returns the length of the longest common subsequence of a with every
// sequence of b, as [LCSMatrix].
func LCSMany[T Token](ctx context.Context, rt *Runtime, a []T, b [][]T) ([]uint32, error) {
	m, err := lcsMatrix(ctx, "LCSMany", rt, [][]T{a}, b, false)
	if err != nil {
		return nil, err
	}
	return m[0], nil
}

func lcsMatrix[T Token](ctx context.Context, call string, rt *Runtime, a, b [][]T, self bool) ([][]uint32, error) {
	rows := make([][]uint32, len(a))
	err := lcsBatchHost(ctx, call, rt, nil, a, b, func(s *Stream) error {
		if len(a) > math.MaxInt64/8/len(b) {
			return driver.Errorf(call, driver.ErrOutOfMemory, "lengths of %d × %d pairs", len(a), len(b))
		}
		bytes := int64(len(a)) * int64(len(b)) * 4
		out, err := s.alloc(bytes)
		if err != nil {
			return err
		}
		defer s.free(out)
		batch := wholeBatch(a, b, self)
		if err := cmp.Or(s.s.Fill(out, 0, bytes), batch.run(ctx, s, out)); err != nil {
			return err
		}
		results := make([]uint32, len(a)*len(b))
		for i := range rows {
			rows[i] = results[i*len(b):][:len(b):len(b)]
		}
		return s.download(ctx, bytesOf(results), out)
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// LCSMatrixBuffer is [LCSMatrix] into a device buffer of len(a)·len(b) elements,
// row after row, in stream order. It returns when the sequences are copied, which
// on CUDA is after the stream's earlier work, and the rest is given to the stream.
// Errors are also ErrWrongDevice, and ErrLength for a buffer of another length.
func LCSMatrixBuffer[T Token](s *Stream, out *Buffer[uint32], a, b [][]T) error {
	return lcsMatrixBuffer("LCSMatrixBuffer", s, out, a, b, false)
}

// LCSSelfMatrixBuffer is [LCSMatrixBuffer] of a with itself, computed once a
// pair.
func LCSSelfMatrixBuffer[T Token](s *Stream, out *Buffer[uint32], a [][]T) error {
	return lcsMatrixBuffer("LCSSelfMatrixBuffer", s, out, a, a, true)
}

func lcsMatrixBuffer[T Token](call string, s *Stream, out *Buffer[uint32], a, b [][]T, self bool) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(checkBatch(call, a, b), out.check(call, "out", s.rt)); err != nil {
		return err
	}
	if out.n != int64(len(a))*int64(len(b)) {
		return driver.Errorf(call, driver.ErrLength, "out has %d elements for %d × %d sequences", out.n, len(a), len(b))
	}
	if out.n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := wholeBatch(a, b, self)
	return named(call, cmp.Or(s.s.Fill(out.ptr, 0, out.n*4), batch.run(context.Background(), s, out.ptr)))
}

// LCSPairs returns the pairs of a sequence of a and one of b whose ratio is at
// least cutoff, from 0 to 1, in order of A and then B. Pairs whose lengths rule it
// out are not computed, nor are most of those ruled out by how often their letters
// occur, where the host tells that sooner than the device computes them. The results
// of others are on the device a part at a time. Errors are those of [LCSMatrix], and
// ErrInvalidValue for a cutoff outside 0 to 1.
func LCSPairs[T Token](ctx context.Context, rt *Runtime, a, b [][]T, cutoff float64) ([]LCSPair, error) {
	return lcsPairs(ctx, "LCSPairs", rt, a, b, false, cutoff)
}

// LCSSelfPairs is [LCSPairs] of the pairs of two different sequences of a, each
// once: A is less than B.
func LCSSelfPairs[T Token](ctx context.Context, rt *Runtime, a [][]T, cutoff float64) ([]LCSPair, error) {
	return lcsPairs(ctx, "LCSSelfPairs", rt, a, a, true, cutoff)
}

func lcsPairs[T Token](ctx context.Context, call string, rt *Runtime, a, b [][]T, self bool, cutoff float64) (pairs []LCSPair, err error) {
	var bad error
	if !(cutoff >= 0 && cutoff <= 1) {
		bad = driver.Errorf(call, driver.ErrInvalidValue, "a cutoff of %v; it must be from 0 to 1", cutoff)
	}
	err = lcsBatchHost(ctx, call, rt, bad, a, b, func(s *Stream) error {
		return lcsByRows(ctx, s, a, b, self, cutoff, func(i int, columns []int, lengths []uint32) {
			for k, j := range columns {
				if self && j == i {
					continue
				}
				if ratio := lcsRatio(int(lengths[k]), len(a[i]), len(b[j])); ratio >= cutoff {
					p := LCSPair{i, j, int(lengths[k]), ratio}
					if self && p.A > p.B {
						p.A, p.B = p.B, p.A
					}
					pairs = append(pairs, p)
				}
			}
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pairs, func(x, y LCSPair) int { return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B)) })
	return pairs, nil
}

// LCSBest returns, for every sequence of a, the k sequences of b with the highest
// ratios, or all if there are fewer: the highest first, and of equal ones the
// first of b. Errors are those of [LCSMatrix], and ErrInvalidValue for a k below
// 1.
func LCSBest[T Token](ctx context.Context, rt *Runtime, a, b [][]T, k int) ([][]LCSPair, error) {
	const call = "LCSBest"
	best := make([][]LCSPair, len(a))
	var bad error
	if k < 1 {
		bad = driver.Errorf(call, driver.ErrInvalidValue, "the best %d", k)
	}
	err := lcsBatchHost(ctx, call, rt, bad, a, b, func(s *Stream) error {
		return lcsByRows(ctx, s, a, b, false, 0, func(i int, columns []int, lengths []uint32) {
			row := make([]LCSPair, len(columns))
			for n, j := range columns {
				row[n] = LCSPair{i, j, int(lengths[n]), lcsRatio(int(lengths[n]), len(a[i]), len(b[j]))}
			}
			slices.SortFunc(row, func(x, y LCSPair) int { return cmp.Or(cmp.Compare(y.Ratio, x.Ratio), cmp.Compare(x.B, y.B)) })
			best[i] = slices.Clone(row[:min(k, len(row))])
		})
	})
	if err != nil {
		return nil, err
	}
	return best, nil
}

// checkBatch refuses what no batch can be made of.
func checkBatch[T Token](call string, a, b [][]T) error {
	if a == nil || b == nil {
		return driver.Errorf(call, driver.ErrNil, "batch of sequences")
	}
	for _, batch := range [][][]T{a, b} {
		for i, s := range batch {
			if len(s) > math.MaxUint32 {
				return driver.Errorf(call, driver.ErrTooLarge, "sequence %d has %d elements, whose lengths do not fit 32 bits", i, len(s))
			}
		}
		if len(batch) > math.MaxUint32 {
			return driver.Errorf(call, driver.ErrTooLarge, "%d sequences; at most %d have numbers of 32 bits", len(batch), math.MaxUint32)
		}
	}
	return nil
}

// lcsBatchHost begins a call on two batches and runs f on a stream of its own, unless
// there are no pairs. bad is what was wrong with the call's other arguments, or nil.
func lcsBatchHost[T Token](ctx context.Context, call string, rt *Runtime, bad error, a, b [][]T, f func(s *Stream) error) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	if err := cmp.Or(checkBatch(call, a, b), ctx.Err(), bad); err != nil || len(a) == 0 || len(b) == 0 {
		return err
	}
	return rt.onStream(call, f)
}

// lcsByRows computes rows of the matrix, as many at a time as there is room for,
// and calls f with each row's number, the columns that it has and their lengths.
// A pair of a batch with itself is in the row of one of them.
func lcsByRows[T Token](ctx context.Context, s *Stream, a, b [][]T, self bool, cutoff float64, f func(i int, columns []int, lengths []uint32)) error {
	rowOrder, columnOrder := byLength(a), byLength(b)
	step := int(max(1, min(int64(len(a)), lcsResults/(4*int64(len(b))))))
	bytes := int64(step) * int64(len(b)) * 4
	out, err := s.alloc(bytes)
	if err != nil {
		return err
	}
	defer s.free(out)
	results := make([]uint32, step*len(b))
	bound := newLCSBound(s, a, b, cutoff)
	columns := make([]lcsItem[T], len(b))
	for k, j := range columnOrder {
		columns[k] = lcsItem[T]{seq: b[j], at: k}
	}
	for first := 0; first < len(a); first += step {
		rows := rowOrder[first:min(len(a), first+step)]
		batch := lcsBatch[T]{columns: columns, stride: len(b), cutoff: cutoff, bound: bound, where: twin.LCSByRow}
		for k, i := range rows {
			from := 0
			if self {
				from = first + k
			}
			batch.rows = append(batch.rows, lcsItem[T]{seq: a[i], at: k, from: from})
		}
		part := results[:len(rows)*len(b)]
		if err := cmp.Or(s.s.Fill(out, 0, bytes), batch.run(ctx, s, out), s.download(ctx, bytesOf(part), out)); err != nil {
			return err
		}
		for k, i := range rows {
			from := batch.rows[k].from
			f(i, columnOrder[from:], part[k*len(b):][:len(b)][from:])
		}
	}
	return nil
}
