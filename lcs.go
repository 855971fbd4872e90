package ptxrun

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/ptxrun/ptxrun/driver"
)

// LCSStrategy is an algorithm for the longest common subsequence.
type LCSStrategy uint8

const (
	// LCSBitParallel computes 32 or 64 rows of the table at a time, as bits.
	LCSBitParallel LCSStrategy = iota
	// LCSSpinWait computes the dynamic-programming table with a thread a cell:
	// every thread spins until its three neighbours are there. The sequences
	// are read from page-locked host memory, mapped, without a copy, and only
	// the last cell is copied back. Blocks take their place in the table by
	// ticket, so that they wait for running blocks only.
	LCSSpinWait
	lcsStrategies
)

// LCSSpinWaitMaxCells is the largest len(a)·len(b) that [LCSSpinWait] takes: its
// table has 4 bytes a cell, and a kernel that spins longer would be ended by
// machines that limit a kernel's time.
const LCSSpinWaitMaxCells = 1 << 30

func (s LCSStrategy) String() string {
	if s < lcsStrategies {
		return [...]string{"bit-parallel", "spin-wait"}[s]
	}
	return "unknown strategy"
}

// LCSOption changes how a longest common subsequence is computed.
type LCSOption struct{ strategy LCSStrategy }

// WithLCSStrategy chooses the algorithm.
func WithLCSStrategy(s LCSStrategy) LCSOption { return LCSOption{s} }

// Token is an element of a sequence. Tokens are equal if their bits are.
type Token interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Match is a span of a common subsequence: a[A:A+Len] is b[B:B+Len].
type Match struct{ A, B, Len int }

// LCSLength returns the length of the longest common subsequence of a and b:
// the most elements that can be had from both by leaving some out. An empty
// sequence has none. [LCSSpinWait] takes bytes only, and 4 bytes of memory times
// len(a)·len(b), which is at most [LCSSpinWaitMaxCells].
//
// When ctx is done first it returns ctx's error. Errors: ErrNil, ErrClosed,
// ErrTooLarge if len(a)·len(b) is beyond what the strategy takes,
// ErrElementType if the strategy does not take the tokens, ErrOutOfMemory.
func LCSLength[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) (int, error) {
	const call = "LCSLength"
	if err := rt.beginHost(ctx, call); err != nil {
		return 0, err
	}
	defer rt.end()
	var c LCSOption
	for _, o := range opts {
		c = o
	}
	if c.strategy >= lcsStrategies {
		return 0, driver.Errorf(call, driver.ErrInvalidValue, "LCS strategy %d", c.strategy)
	}
	if err := ctx.Err(); err != nil || len(a) == 0 || len(b) == 0 {
		return 0, err
	}
	if c.strategy == LCSBitParallel {
		length := 0
		for _, m := range lcsWalk(a, b) {
			length += m.Len
		}
		return length, nil
	}
	if sizeOf[T]() != 1 {
		return 0, driver.Errorf(call, driver.ErrElementType, "the %v strategy takes bytes", c.strategy)
	}
	if len(a) > LCSSpinWaitMaxCells/len(b) {
		return 0, driver.Errorf(call, driver.ErrTooLarge, "%d × %d elements; their product may be at most %d", len(a), len(b), LCSSpinWaitMaxCells)
	}
	m, err := rt.module("lcs")
	if err != nil {
		return 0, err
	}
	length := 0
	err = rt.onStream(call, func(s *Stream) error {
		var err error
		length, err = s.lcsSpinWait(ctx, m.kernel("lcs_spinwait"), bytesOf(a), bytesOf(b))
		return err
	})
	return length, err
}

// LCSMatches returns a longest common subsequence of a and b as spans of both,
// in rising order, each as long as it can be.
//
// Of all longest common subsequences it is the one found from the end: the next
// element, backwards, is matched as early in a as leaves the length of what
// remains the longest, and there as late in b as it can. The result is the same
// on all devices.
func LCSMatches[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]Match, error) {
	const call = "LCSMatches"
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, err
	}
	defer rt.end()
	return lcsWalk(a, b), ctx.Err()
}

// LCS returns a longest common subsequence of a and b, the one of [LCSMatches].
func LCS[T Token](ctx context.Context, rt *Runtime, a, b []T, opts ...LCSOption) ([]T, error) {
	matches, err := LCSMatches(ctx, rt, a, b, opts...)
	if err != nil {
		return nil, named("LCS", err)
	}
	var out []T
	for _, m := range matches {
		out = append(out, a[m.A:m.A+m.Len]...)
	}
	return out, nil
}

// lcsWalk fills a bit a cell with whether the row above has the same length, and
// walks back: up where it has, else over a match, else left.
func lcsWalk[T Token](a, b []T) []Match {
	words := (len(a) + 63) / 64
	rows := map[T][]uint64{}
	for i, x := range a {
		if rows[x] == nil {
			rows[x] = make([]uint64, words)
		}
		rows[x][i/64] |= 1 << (i % 64)
	}
	none := make([]uint64, words)
	v := make([][]uint64, len(b)+1)
	v[0] = make([]uint64, words)
	for w := range v[0] {
		v[0][w] = ^uint64(0)
	}
	for j, y := range b {
		row := rows[y]
		if row == nil {
			row = none
		}
		v[j+1] = make([]uint64, words)
		var carry uint64
		for w, x := range v[j] {
			var sum uint64
			u := x & row[w]
			sum, carry = bits.Add64(x, u, carry)
			v[j+1][w] = sum | x&^row[w]
		}
	}
	var matches []Match
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case v[j][(i-1)/64]>>((i-1)%64)&1 != 0:
			i--
		case a[i-1] == b[j-1]:
			i, j = i-1, j-1
			if k := len(matches) - 1; k >= 0 && matches[k].A == i+1 && matches[k].B == j+1 {
				matches[k] = Match{i, j, matches[k].Len + 1}
			} else {
				matches = append(matches, Match{i, j, 1})
			}
		default:
			j--
		}
	}
	slices.Reverse(matches)
	return matches
}

func (s *Stream) lcsSpinWait(ctx context.Context, k kernel, a, b []byte) (int, error) {
	host, err := s.mapped(int64(len(a) + len(b)))
	if err != nil {
		return 0, err
	}
	copy(host.Bytes, a)
	copy(host.Bytes[len(a):], b)
	cells := int64(len(a)) * int64(len(b))
	tableBytes := align256(cells * 4)
	table, err := s.alloc(tableBytes + 256)
	if err != nil {
		return 0, err
	}
	defer s.free(table)
	ticket := table + driver.Ptr(tableBytes)
	// All ones is -1, the mark of a cell that is not computed yet.
	if err := cmp.Or(s.s.Fill(table, 0xff, cells*4), s.s.Fill(ticket, 0, 8)); err != nil {
		return 0, err
	}
	args := driver.NewArgs().Ptr(host.Ptr).Uint64(uint64(len(a))).
		Ptr(host.Ptr + driver.Ptr(len(a))).Uint64(uint64(len(b))).Ptr(table).Ptr(ticket)
	blocks := uint64(ceilDiv(int64(len(a)), lcsBlockEdge)) * uint64(ceilDiv(int64(len(b)), lcsBlockEdge))
	if err := s.launch(k, blocks, cells, args); err != nil {
		return 0, err
	}
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	v, err := s.read(table+driver.Ptr((cells-1)*4), 4)
	if err != nil {
		return 0, err
	}
	if len(host.Bytes) > keptPinned {
		return int(v), s.unmap()
	}
	return int(v), nil
}
