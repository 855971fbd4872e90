package ptxrun

import (
	"cmp"
	"context"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// Variables, for tests of what is larger.
var (
	// lcsWays is the parts that a pair's rows are cut into at a time to find the
	// subsequence: the whole table (or three quarters of it, below) is gone through from
	// both ends, and then, of each part, only what is beside it. Of 46.6 ms for 2^20 letters
	// of four on an H200, before halves, 32 parts took 1 more, and 256 half of one less with
	// four times the memory.
	lcsWays int64 = 64

	// lcsHalved is the bands a multiprocessor from which on the time is that of the
	// table's cells, and going through only half of them twice pays: with 8, 36 ms for 43
	// on an H200. Below, it is that of columns, one after the other.
	lcsHalved int64 = 5

	// lcsStored is the bytes for the rows that a launch stores to walk back over.
	lcsStored int64 = lcsWorkspace
)

// lcsMarks are the elements of a and of b that LCSMatches matches, as bits.
func (s *Stream) lcsMarks(ctx context.Context, size, distinct int64, a, b []byte) (aMarks, bMarks []uint64, err error) {
	p, err := newLCSBits(s, size, distinct)
	if err != nil {
		return nil, nil, err
	}
	data, err := p.put(ctx, a, b)
	if err != nil {
		return nil, nil, err
	}
	defer s.free(data)
	m, n := int64(len(a))/size, int64(len(b))/size
	aAt, bAt, err := p.marks(ctx, m, n)
	if err != nil {
		return nil, nil, err
	}
	defer s.free(aAt)
	aMarks, bMarks = make([]uint64, ceilDiv(m, 64)), make([]uint64, ceilDiv(n, 64))
	// The device has words of 32 bits.
	aBytes, bBytes := lcsChunks(uint64(m))*4, lcsChunks(uint64(n))*4
	return aMarks, bMarks, cmp.Or(s.download(ctx, bytesOf(aMarks)[:aBytes], aAt), s.download(ctx, bytesOf(bMarks)[:bBytes], bAt))
}

// marks gives the stream the search for a longest common subsequence of sequences
// on the device, and returns where its elements are marked, as bits. The memory at
// the first address, which has both, is the caller's to free.
func (p *lcsBits) marks(ctx context.Context, m, n int64) (aMarks, bMarks driver.Ptr, err error) {
	pieces, err := p.divide(ctx, twin.LCSProblem{Rows: uint64(m), Columns: uint64(n)})
	if err != nil {
		return 0, 0, err
	}
	aBytes := align256(lcsChunks(uint64(m)) * 4)
	bytes := aBytes + lcsChunks(uint64(n))*4
	at, err := p.s.alloc(bytes)
	if err != nil {
		return 0, 0, err
	}
	t := &lcsTracing{p: p, columns: max(1, lcsStored/(p.rows/8)), aMarks: at, bMarks: at + driver.Ptr(aBytes)}
	if err = p.s.s.Fill(at, 0, bytes); err == nil {
		err = t.pieces(ctx, pieces)
	}
	if err != nil {
		p.s.free(at)
	}
	return t.aMarks, t.bMarks, err
}

// lcsMatchesOn gives the stream the matches of sequences on the device, as indices
// of size index: those that there is room for, and their count.
func (s *Stream) lcsMatchesOn(call string, size, index int64, aIndices, bIndices driver.Ptr, room int64, count, a driver.Ptr, m int64, b driver.Ptr, n int64) error {
	p, err := newLCSBits(s, size, lcsLetters(int(size)))
	if err != nil {
		return err
	}
	p.a, p.b = a, b
	aMarks, bMarks, err := p.marks(context.Background(), m, n)
	if err != nil {
		return err
	}
	defer s.free(aMarks)
	scatter, err := s.rt.kernel("rle_index", "rle_scatter_"+widthName(index))
	if err != nil {
		return err
	}
	aNumbers, err := s.markedNumbers(call, aMarks, m, index)
	if err != nil {
		return err
	}
	defer s.free(aNumbers)
	bNumbers, err := s.markedNumbers(call, bMarks, n, index)
	if err != nil {
		return err
	}
	defer s.free(bNumbers)
	// Nothing is written before there is all the memory.
	write := func(numbers driver.Ptr, n int64, indices driver.Ptr) error {
		args := driver.NewArgs().Ptr(numbers).Uint64(uint64(n)).Ptr(indices).Uint64(uint64(room)).Ptr(count)
		return s.launch(scatter, scatter.tiles(n), n, args)
	}
	return cmp.Or(write(aNumbers, m, aIndices), write(bNumbers, n, bIndices))
}

// markedNumbers gives the stream the numbers, from 1 and of size index, of those of n
// bits that are set, which is how many there are up to each. The caller frees them.
func (s *Stream) markedNumbers(call string, bits driver.Ptr, n, index int64) (numbers driver.Ptr, err error) {
	unpack, err := s.rt.kernel("lcs", "lcs_unpack")
	if err != nil {
		return 0, err
	}
	ones, err := s.alloc(n * 4)
	if err != nil {
		return 0, err
	}
	numbers = ones
	if err = s.launch(unpack, unpack.tiles(n), n, driver.NewArgs().Ptr(bits).Uint64(uint64(n)).Ptr(ones)); err == nil {
		if index == 4 {
			sum := sumScanner(sumNames["sum_u32"], 4)
			err = s.scan(call, &sum, ones, ones, n, ScanOption{})
		} else {
			numbers, err = s.scanRunEnds(call, ones, 4, n)
		}
	}
	if numbers != ones || err != nil {
		s.free(ones)
	}
	return numbers, err
}

// divide cuts a problem into pieces of a band of rows each: Hirschberg's (1975)
// division at many rows at a time. The walk back is the last of all optimal
// paths, in every row; so the last columns at which optimal paths cross rows lie
// on it, all at once.
func (p *lcsBits) divide(ctx context.Context, whole twin.LCSProblem) (pieces []twin.LCSProblem, err error) {
	todo := []twin.LCSProblem{whole}
	if p.bands(&whole) >= uint64(max(2, lcsHalved*int64(p.s.rt.dev.Info().Multiprocessors))) {
		if todo, err = p.divideHalves(ctx, whole); err != nil {
			return nil, err
		}
	}
	for len(todo) > 0 {
		var large, next []twin.LCSProblem
		for _, q := range todo {
			switch bands := p.bands(&q); {
			case q.Columns == 0:
			case bands == 1:
				pieces = append(pieces, q)
			default:
				// Sections in front of all boundaries, and behind them.
				q.Keep = p.section(&q)
				q.Front, q.Back = uint64(q.Boundaries(p.rows))*q.Keep, bands-q.Keep
				large = append(large, q)
			}
		}
		for len(large) > 0 {
			n, bytes := 0, int64(0)
			for n < len(large) && (n == 0 || bytes+lcsRing(&large[n], p.blocks) <= lcsWorkspace) {
				bytes += lcsRing(&large[n], p.blocks)
				n++
			}
			if next, err = p.divideOnce(ctx, large[:n], next); err != nil {
				return nil, err
			}
			large = large[n:]
		}
		todo = next
	}
	return pieces, nil
}

// section is the bands between the boundaries at which a problem is cut.
func (p *lcsBits) section(q *twin.LCSProblem) uint64 {
	return uint64(ceilDiv(int64(p.bands(q)), lcsWays))
}

// divideOnce cuts problems at their boundaries and appends the parts.
func (p *lcsBits) divideOnce(ctx context.Context, problems, parts []twin.LCSProblem) ([]twin.LCSProblem, error) {
	w, at, err := p.run(ctx, problems)
	if err != nil {
		return nil, err
	}
	defer p.s.free(at)
	crossings, err := p.crossings(ctx, problems, at+driver.Ptr(w.keptAt))
	if err != nil {
		return nil, err
	}
	return p.cut(problems, crossings, parts), nil
}

// divideHalves is divideOnce for a problem with many bands, with three quarters of the
// work: the upper half is gone through from the front and the lower one from the back.
// Where the walk crosses between them is known then; what lies in front of it in the
// upper half, and behind it in the lower one, is gone through from the other side.
func (p *lcsBits) divideHalves(ctx context.Context, q twin.LCSProblem) ([]twin.LCSProblem, error) {
	q.Keep = p.section(&q)
	above := uint64(q.Boundaries(p.rows)+1) / 2 // boundaries, with the one between the halves
	q.Front, q.Back = above*q.Keep, p.bands(&q)-above*q.Keep
	problems := []twin.LCSProblem{q}
	w, at, err := p.run(ctx, problems)
	if err != nil {
		return nil, err
	}
	defer p.s.free(at)
	kept := at + driver.Ptr(w.keptAt)

	q = problems[0]
	between := q // the two sections beside the halves' boundary
	between.Rows = 2 * q.Keep * uint64(p.rows)
	between.KeptFront, between.KeptBack = q.KeptFront+(above-1)*q.Stride, q.KeptBack+(above-1)*q.Stride
	crossings, err := p.crossings(ctx, []twin.LCSProblem{between}, kept)
	if err != nil {
		return nil, err
	}
	column := crossings[0]

	upper, lower := q, q
	upper.Rows, upper.Columns = q.Front*uint64(p.rows), column
	upper.Front, upper.Back = 0, q.Front-q.Keep
	lower.A, lower.Rows, lower.B, lower.Columns = q.A+upper.Rows, q.Rows-upper.Rows, q.B+column, q.Columns-column
	lower.Front, lower.Back = uint64(lower.Boundaries(p.rows))*q.Keep, 0
	lower.KeptFront, lower.KeptBack = q.KeptFront+above*q.Stride, q.KeptBack+above*q.Stride
	problems = problems[:0]
	for _, h := range []twin.LCSProblem{upper, lower} {
		if h.Columns > 0 {
			problems = append(problems, h)
		}
	}
	if w, err = p.plan(problems); err != nil {
		return nil, err
	}
	work, err := p.s.alloc(w.size)
	if err != nil {
		return nil, err
	}
	defer p.s.free(work)
	if w.units > 0 {
		if err := p.launch(ctx, &w, work, work+driver.Ptr(w.lengthsAt), kept); err != nil {
			return nil, err
		}
	}
	if crossings, err = p.crossings(ctx, problems, kept); err != nil {
		return nil, err
	}
	return p.cut(problems, crossings, nil), nil
}

// crossings are the columns at which the walk crosses the boundaries of problems.
func (p *lcsBits) crossings(ctx context.Context, problems []twin.LCSProblem, kept driver.Ptr) ([]uint64, error) {
	last := &problems[len(problems)-1]
	crossings := make([]uint64, int64(last.Crossings)+last.Boundaries(p.rows))
	if len(crossings) == 0 {
		return nil, nil
	}
	resultsAt := align256(int64(len(problems)) * sizeOf[twin.LCSProblem]())
	at, err := p.s.alloc(resultsAt + int64(len(crossings))*8)
	if err != nil {
		return nil, err
	}
	defer p.s.free(at)
	results := at + driver.Ptr(resultsAt)
	if err := p.s.upload(ctx, at, bytesOf(problems)); err != nil {
		return nil, err
	}
	args := driver.NewArgs().Ptr(at).Uint64(uint64(len(problems))).Uint64(0).Ptr(kept).Ptr(results).Ptr(0)
	if err := p.s.launch(p.cross, uint64(len(crossings)), int64(len(crossings)), args); err != nil {
		return nil, err
	}
	return crossings, p.s.download(ctx, bytesOf(crossings), results)
}

// cut appends the parts of problems between the crossings of their boundaries.
func (p *lcsBits) cut(problems []twin.LCSProblem, crossings []uint64, parts []twin.LCSProblem) []twin.LCSProblem {
	for i := range problems {
		q := &problems[i]
		row, column := uint64(0), uint64(0)
		for k := range q.Boundaries(p.rows) + 1 {
			rowEnd, columnEnd := q.Rows, q.Columns
			if k < q.Boundaries(p.rows) {
				rowEnd, columnEnd = uint64(k+1)*q.Keep*uint64(p.rows), crossings[int64(q.Crossings)+k]
			}
			parts = append(parts, twin.LCSProblem{A: q.A + row, Rows: rowEnd - row, B: q.B + column, Columns: columnEnd - column})
			row, column = rowEnd, columnEnd
		}
	}
	return parts
}

// lcsTracing walks back over pieces.
type lcsTracing struct {
	p              *lcsBits
	columns        int64 // at most, of which a launch stores the rows
	aMarks, bMarks driver.Ptr
}

// pieces walks back over all pieces, as many at a time as there is memory for.
func (t *lcsTracing) pieces(ctx context.Context, pieces []twin.LCSProblem) error {
	for len(pieces) > 0 {
		if pieces[0].Columns > uint64(t.columns) {
			if err := t.wide(ctx, pieces[0]); err != nil {
				return err
			}
			pieces = pieces[1:]
			continue
		}
		var group []twin.LCSPiece
		columns := int64(0)
		for _, q := range pieces {
			wide := lcsChunks(q.Columns) * 32
			if len(group) > 0 && columns+wide > t.columns {
				break
			}
			group = append(group, twin.LCSPiece{A: q.A, Rows: q.Rows, B: q.B, Columns: q.Columns,
				Values: uint64(columns * t.p.rows / 32), Walk: uint64(len(group)), Mode: twin.LCSWalk})
			columns += wide
		}
		rows := make([]uint64, len(group))
		for i := range rows {
			rows[i] = group[i].Rows
		}
		if err := t.launches(ctx, group, []int{len(group)}, rows, columns, 0); err != nil {
			return err
		}
		pieces = pieces[len(group):]
	}
	return nil
}

// wide walks back over a piece with too many columns to store: it goes over all
// of them, keeping where parts begin, and then over each part again, from the last
// to the first.
func (t *lcsTracing) wide(ctx context.Context, q twin.LCSProblem) error {
	var launches []twin.LCSPiece
	parts := uint64(ceilDiv(int64(q.Columns), t.columns))
	part := func(k, mode uint64) twin.LCSPiece {
		from := k * uint64(t.columns)
		return twin.LCSPiece{A: q.A, Rows: q.Rows, B: q.B + from, Columns: min(q.Columns-from, uint64(t.columns)), State: k, Mode: mode}
	}
	for k := range parts - 1 {
		launches = append(launches, part(k, twin.LCSSave))
	}
	for k := parts; k > 0; k-- {
		launches = append(launches, part(k-1, twin.LCSWalk))
	}
	counts := make([]int, len(launches))
	for i := range counts {
		counts[i] = 1
	}
	return t.launches(ctx, launches, counts, []uint64{q.Rows}, lcsChunks(uint64(t.columns))*32, int64(parts)+1)
}

// launches runs groups of pieces one behind the other. rows are where walks
// begin, columns those that are stored, states those of rows in between.
func (t *lcsTracing) launches(ctx context.Context, pieces []twin.LCSPiece, groups []int, rows []uint64, columns, states int64) error {
	p := t.p
	size := sizeOf[twin.LCSPiece]()
	rowsAt := align256(int64(len(pieces)) * size)
	statesAt := rowsAt + align256(int64(len(rows))*8)
	valuesAt := statesAt + align256(states*p.rows/8)
	at, err := p.s.alloc(valuesAt + columns*p.rows/8)
	if err != nil {
		return err
	}
	defer p.s.free(at)
	place := func(offset int64) driver.Ptr { return at + driver.Ptr(offset) }
	if err := cmp.Or(p.s.upload(ctx, at, bytesOf(pieces)), p.s.upload(ctx, place(rowsAt), bytesOf(rows))); err != nil {
		return err
	}
	first := int64(0)
	for _, n := range groups {
		args := driver.NewArgs().Ptr(p.a).Ptr(p.b).Ptr(place(first * size)).Ptr(place(valuesAt)).Ptr(place(statesAt)).Ptr(place(rowsAt)).
			Ptr(t.aMarks).Ptr(t.bMarks)
		if err := p.s.launch(p.trace, uint64(n), columns, args); err != nil {
			return err
		}
		first += int64(n)
	}
	return nil
}
