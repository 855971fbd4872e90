package ptxrun

import (
	"cmp"
	"context"

	"github.com/ptxrun/ptxrun/driver"
)

// The strategies that fill the table itself, for comparison.

func (s *Stream) lcsSpinWait(ctx context.Context, call string, size int64, a, b []byte) (int, error) {
	if size != 1 {
		return 0, driver.Errorf(call, driver.ErrNotSupported, "the %v strategy takes bytes, not elements of %d", LCSSpinWait, size)
	}
	if len(a) > LCSSpinWaitMaxCells/len(b) {
		return 0, driver.Errorf(call, driver.ErrTooLarge, "%d × %d elements; their product may be at most %d", len(a), len(b), LCSSpinWaitMaxCells)
	}
	k, err := s.rt.kernel("lcs", "lcs_spinwait")
	if err != nil {
		return 0, err
	}
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

func (s *Stream) lcsTiled(ctx context.Context, size int64, a, b []byte) (int, error) {
	k, err := s.rt.kernel("lcs_"+widthName(size), "lcs_tiled_"+widthName(size))
	if err != nil {
		return 0, err
	}
	m, n := int64(len(a))/size, int64(len(b))/size
	rows, columns := ceilDiv(m, lcsTile), ceilDiv(n, lcsTile)
	bAt := align256(int64(len(a)))
	rightAt := bAt + align256(int64(len(b)))
	lowerAt := rightAt + align256(m*4)
	cornersAt := lowerAt + align256(n*4)
	total := cornersAt + rows*4
	at, err := s.alloc(total)
	if err != nil {
		return 0, err
	}
	defer s.free(at)
	place := func(offset int64) driver.Ptr { return at + driver.Ptr(offset) }
	if err := cmp.Or(s.upload(ctx, at, a), s.upload(ctx, place(bAt), b), s.s.Fill(place(rightAt), 0, total-rightAt)); err != nil {
		return 0, err
	}
	for d := range rows + columns - 1 {
		first := max(0, d-columns+1)
		args := driver.NewArgs().Ptr(at).Uint64(uint64(m)).Ptr(place(bAt)).Uint64(uint64(n)).
			Ptr(place(rightAt)).Ptr(place(lowerAt)).Ptr(place(cornersAt)).Uint64(uint64(d)).Uint64(uint64(first))
		if err := cmp.Or(ctx.Err(), s.launch(k, uint64(min(d, rows-1)-first+1), m, args)); err != nil {
			return 0, err
		}
	}
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	v, err := s.read(place(lowerAt+(n-1)*4), 4)
	return int(v), err
}
