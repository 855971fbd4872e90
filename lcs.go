package ptxrun

import (
	"cmp"
	"context"

	"github.com/ptxrun/ptxrun/driver"
)

// LCSStrategy is an algorithm for the longest common subsequence.
type LCSStrategy uint8

const (
	// LCSSpinWait computes the dynamic-programming table with a thread a cell:
	// every thread spins until its three neighbours are there. The sequences
	// are read from page-locked host memory, mapped, without a copy, and only
	// the last cell is copied back. Blocks take their place in the table by
	// ticket, so that they wait for running blocks only.
	LCSSpinWait LCSStrategy = iota
	lcsStrategies
)

// LCSSpinWaitMaxCells is the largest len(a)·len(b) that [LCSSpinWait] takes: its
// table has 4 bytes a cell, and a kernel that spins longer would be ended by
// machines that limit a kernel's time.
const LCSSpinWaitMaxCells = 1 << 30

func (s LCSStrategy) String() string {
	if s < lcsStrategies {
		return [...]string{"spin-wait"}[s]
	}
	return "unknown strategy"
}

// LCSOption changes how a longest common subsequence is computed.
type LCSOption struct{ strategy LCSStrategy }

// WithLCSStrategy chooses the algorithm.
func WithLCSStrategy(s LCSStrategy) LCSOption { return LCSOption{s} }

// LCSLength returns the length of the longest common subsequence of a and b:
// the most elements that can be had from both by leaving some out. An empty
// sequence has none. The recurrence is Wagner and Fischer's (1974). It takes 4
// bytes of memory times len(a)·len(b), which is at most [LCSSpinWaitMaxCells].
//
// When ctx is done first it returns ctx's error. Errors: ErrNil, ErrClosed,
// ErrTooLarge if len(a)·len(b) is beyond what the strategy takes,
// ErrOutOfMemory.
func LCSLength(ctx context.Context, rt *Runtime, a, b []byte, opts ...LCSOption) (int, error) {
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
		length, err = s.lcsSpinWait(ctx, m.kernel("lcs_spinwait"), a, b)
		return err
	})
	return length, err
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
