package ptxrun

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// lcsGap is the steps of texts that are worth another slice to leave them out: with
// 26 letters the beginning of one takes the instructions of 56 (lcs_many_u8).
const lcsGap = 64

// Steps that a slice of texts has, cut so that blocks have four each. A band's
// beginning is a fifth of the least, which is worth it where blocks would be idle, and
// less than a hundredth of the most.
const (
	lcsSliceLeast = 4 * lcsGap
	lcsSliceMost  = 128 * lcsGap
)

// lcsProblems is the pairs of long sequences that are given to a launch.
const lcsProblems = 1 << 14

// lcsItem is a sequence of a batch: its row or column in the results, of rows the
// first column that is wanted, and how often letters occur, once a bound has counted
// them.
type lcsItem[T Token] struct {
	seq    []T
	at     int
	from   int
	counts []uint32
}

// lcsBatch is rows and columns of a matrix of lengths, both from the shortest to
// the longest.
type lcsBatch[T Token] struct {
	rows, columns []lcsItem[T]
	stride        int
	cutoff        float64      // pairs whose lengths rule this ratio out may be left at 0
	bound         *lcsBound[T] // and those whose letters do; nil for none
	where         uint32       // LCSByRow, and for a matrix that is its own mirror LCSByColumn
}

// byLength are the numbers of sequences from the shortest to the longest.
func byLength[T any](s [][]T) []int {
	order := make([]int, len(s))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(len(s[i]), len(s[j])) })
	return order
}

// wholeBatch is all pairs of a and b, or with self each pair once.
func wholeBatch[T Token](a, b [][]T, self bool) lcsBatch[T] {
	batch := lcsBatch[T]{stride: len(b), where: twin.LCSByRow}
	if self {
		batch.where |= twin.LCSByColumn
	}
	for k, i := range byLength(a) {
		item := lcsItem[T]{seq: a[i], at: i}
		if self {
			item.from = k
		}
		batch.rows = append(batch.rows, item)
	}
	for _, j := range byLength(b) {
		batch.columns = append(batch.columns, lcsItem[T]{seq: b[j], at: j})
	}
	return batch
}

// run gives the stream the work of a batch. Results that are not written must be
// zero.
func (b *lcsBatch[T]) run(ctx context.Context, s *Stream, out driver.Ptr) error {
	rows := int(lcsRows(int(sizeOf[T]())))
	short := func(items []lcsItem[T]) int {
		return sort.Search(len(items), func(i int) bool { return len(items[i].seq) > rows })
	}
	shortRows, shortColumns := short(b.rows), short(b.columns)
	err := b.flow(ctx, s, out, b.rows[:shortRows], b.columns, b.where)
	if longRows := b.rows[shortRows:]; err == nil && len(longRows) > 0 {
		// Of a batch with itself, all columns that long rows want are long.
		if b.rows[len(b.rows)-1].from == 0 {
			err = b.flow(ctx, s, out, b.columns[:shortColumns], longRows, twin.LCSByColumn)
		}
		if err == nil {
			err = b.chain(ctx, s, out, longRows, b.columns, shortColumns)
		}
	}
	return err
}

// reach are the lengths that a sequence of n elements can reach the cutoff with.
func (b *lcsBatch[T]) reach(n int) (least, most float64) {
	if b.cutoff == 0 {
		return 0, math.Inf(1)
	}
	// 2·min/(n+m) is at least the cutoff, but for rounding.
	r := (2 - b.cutoff) / b.cutoff * (1 + 1e-9)
	return float64(n) / r, float64(n) * r
}

// flow gives the stream the short sequences of patterns with all of texts.
func (b *lcsBatch[T]) flow(ctx context.Context, s *Stream, out driver.Ptr, patterns, texts []lcsItem[T], where uint32) error {
	for len(patterns) > 0 && len(patterns[0].seq) == 0 {
		patterns = patterns[1:]
	}
	if len(patterns) == 0 || len(texts) == 0 {
		return nil
	}
	f := b.layout(patterns, texts)
	p, err := newLCSBits(s, sizeOf[T](), lcsDistinct(f.letters))
	if err != nil {
		return err
	}
	f.slice(p.blocks, b, patterns, texts)
	if len(f.slices) == 0 {
		return nil
	}
	parts := [][]byte{bytesOf(f.letters), bytesOf(f.stream), bytesOf(f.lanes), bytesOf(f.slices), f.counts, bytesOf(f.columns)}
	total := int64(0)
	for _, x := range parts {
		total += align256(int64(len(x)))
	}
	at, err := s.alloc(total)
	if err != nil {
		return err
	}
	defer s.free(at)
	args := driver.NewArgs()
	place := at
	for _, x := range parts {
		if err := s.upload(ctx, place, x); err != nil {
			args.Release()
			return err
		}
		args.Ptr(place)
		place += driver.Ptr(align256(int64(len(x))))
	}
	args.Ptr(out).Uint64(uint64(b.stride)).Uint32(where)
	return s.launch(p.many, uint64(len(f.slices)), int64(len(patterns))*int64(len(texts)), args)
}

// lcsLayout is a batch as the kernel reads it.
type lcsLayout[T Token] struct {
	letters []T            // of patterns, one behind the other
	lanes   []twin.LCSLane // of bands
	bands   [][]int        // patterns
	stream  []T            // of texts, in whole steps
	counts  []uint8        // of letters in steps
	starts  []int          // of texts, in steps, and one more
	columns []uint32       // of texts in the results, and one more
	slices  []twin.LCSSlice
}

func (b *lcsBatch[T]) layout(patterns, texts []lcsItem[T]) *lcsLayout[T] {
	f := &lcsLayout[T]{}
	perBand := int(lcsLanes(int(sizeOf[T]())))
	// Patterns by the lanes that they take; a band takes the widest that still fit.
	byLanes := make([][]int, perBand+1)
	for i := range patterns {
		n := (len(patterns[i].seq) + 31) / 32
		byLanes[n] = append(byLanes[n], i)
	}
	for left := len(patterns); left > 0; {
		band := make([]twin.LCSLane, 0, perBand)
		var held []int
		for n := perBand; n > 0; {
			if n = min(n, perBand-len(band)); n > 0 && len(byLanes[n]) > 0 {
				last := len(byLanes[n]) - 1
				i := byLanes[n][last]
				byLanes[n] = byLanes[n][:last]
				held = append(held, i)
				p := patterns[i]
				for k := range n {
					lane := twin.LCSLane{Letters: uint64(len(f.letters) + 32*k), Row: uint64(p.at), Count: uint32(min(32, len(p.seq)-32*k)), From: uint64(p.from)}
					if k == 0 {
						lane.Flags |= twin.LCSFirst
					}
					if k == n-1 {
						lane.Flags |= twin.LCSLast
					}
					band = append(band, lane)
				}
				f.letters = append(f.letters, p.seq...)
				left--
				continue
			}
			n--
		}
		f.lanes = append(f.lanes, band[:perBand]...)
		f.bands = append(f.bands, held)
	}
	for _, t := range texts {
		f.starts = append(f.starts, len(f.counts))
		steps := max(1, (len(t.seq)+twin.LCSStep-1)/twin.LCSStep)
		f.stream = append(f.stream, t.seq...)
		f.stream = append(f.stream, make([]T, steps*twin.LCSStep-len(t.seq))...)
		for k := range steps {
			f.counts = append(f.counts, uint8(min(twin.LCSStep, len(t.seq)-k*twin.LCSStep)))
		}
		f.counts[len(f.counts)-1] |= twin.LCSTextEnd
		f.columns = append(f.columns, uint32(t.at))
	}
	f.starts = append(f.starts, len(f.counts))
	f.columns = append(f.columns, 0)
	return f
}

// slice cuts the texts that each band is wanted with into slices.
func (f *lcsLayout[T]) slice(blocks int64, b *lcsBatch[T], patterns, texts []lcsItem[T]) {
	each := int(max(lcsSliceLeast, min(lcsSliceMost, int64(len(f.counts))*int64(len(f.bands))/(4*blocks))))
	for k, held := range f.bands {
		from, least, most := len(texts), math.Inf(1), 0.0
		for _, i := range held {
			lo, hi := b.reach(len(patterns[i].seq))
			from, least, most = min(from, patterns[i].from), min(least, lo), max(most, hi)
		}
		length := func(i int) float64 { return float64(len(texts[i].seq)) }
		first := max(from, sort.Search(len(texts), func(i int) bool { return length(i) >= least }))
		end := sort.Search(len(texts), func(i int) bool { return length(i) > most })
		for _, r := range f.reachable(b, held, patterns, texts, first, end) {
			for first, end := r[0], r[1]; first < end; {
				next := first + 1
				for next < end && f.starts[next+1]-f.starts[first] <= each {
					next++
				}
				f.slices = append(f.slices, twin.LCSSlice{Band: uint64(k), Step: uint64(f.starts[first]), Steps: uint64(f.starts[next] - f.starts[first]), Text: uint64(first)})
				first = next
			}
		}
	}
}

// reachable are the ranges of texts, from first to end, without the gaps in which
// none of a band's patterns may reach the cutoff.
func (f *lcsLayout[T]) reachable(b *lcsBatch[T], held []int, patterns, texts []lcsItem[T], first, end int) [][2]int {
	// The first of a band's patterns is the longest, and so is the last text.
	pays := first + sort.Search(end-first, func(i int) bool { return b.bound.pays(len(patterns[held[0]].seq), len(texts[first+i].seq)) })
	ranges := [][2]int{{first, pays}}
	for t := pays; t < end; t++ {
		if !slices.ContainsFunc(held, func(i int) bool { return t >= patterns[i].from && b.bound.reachable(&patterns[i], &texts[t]) }) {
			continue
		}
		if last := &ranges[len(ranges)-1]; f.starts[t]-f.starts[last[1]] < lcsGap {
			last[1] = t + 1
		} else {
			ranges = append(ranges, [2]int{t, t + 1})
		}
	}
	return ranges
}

// chain gives the stream the pairs of long sequences, whose bands pass carries
// on: of rows with columns from the given one on.
func (b *lcsBatch[T]) chain(ctx context.Context, s *Stream, out driver.Ptr, rows, columns []lcsItem[T], from int) error {
	letters, rowAt := lcsJoin(rows)
	text, columnAt := lcsJoin(columns[from:])
	p, err := newLCSBits(s, sizeOf[T](), lcsDistinct(letters))
	if err != nil {
		return err
	}
	data, err := p.put(ctx, bytesOf(letters), bytesOf(text))
	if err != nil {
		return err
	}
	defer s.free(data)
	var problems []twin.LCSProblem
	var places []uint64
	bytes := int64(0)
	give := func() error {
		if len(problems) == 0 {
			return nil
		}
		err := b.chained(ctx, p, out, problems, places)
		problems, places, bytes = problems[:0], places[:0], 0
		return err
	}
	for i := range rows {
		least, most := b.reach(len(rows[i].seq))
		for j := max(from, rows[i].from); j < len(columns); j++ {
			if n := float64(len(columns[j].seq)); n < least || n > most || !b.bound.reachable(&rows[i], &columns[j]) {
				continue
			}
			q := p.whole(twin.LCSProblem{A: rowAt[i], Rows: uint64(len(rows[i].seq)), B: columnAt[j-from], Columns: uint64(len(columns[j].seq))})
			n := lcsRing(&q, p.blocks)
			if len(problems) == lcsProblems || bytes > 0 && bytes+n > lcsWorkspace {
				if err := give(); err != nil {
					return err
				}
			}
			bytes += n
			place := uint64(rows[i].at)*uint64(b.stride) + uint64(columns[j].at)
			mirror := place
			if b.where&twin.LCSByColumn != 0 {
				mirror = uint64(columns[j].at)*uint64(b.stride) + uint64(rows[i].at)
			}
			problems, places = append(problems, q), append(places, place, mirror)
		}
	}
	return give()
}

// chained gives the stream one launch of pairs and puts their lengths in place.
func (b *lcsBatch[T]) chained(ctx context.Context, p *lcsBits, out driver.Ptr, problems []twin.LCSProblem, places []uint64) error {
	w, at, err := p.run(ctx, problems)
	if err != nil {
		return err
	}
	defer p.s.free(at)
	placesAt, err := p.s.alloc(int64(len(places)) * 8)
	if err != nil {
		return err
	}
	defer p.s.free(placesAt)
	if err := p.s.upload(ctx, placesAt, bytesOf(places)); err != nil {
		return err
	}
	k, err := p.s.rt.kernel("lcs", "lcs_place")
	if err != nil {
		return err
	}
	args := driver.NewArgs().Ptr(at + driver.Ptr(w.lengthsAt)).Uint64(uint64(len(problems))).Ptr(placesAt).Ptr(out)
	return p.s.launch(k, k.tiles(int64(len(problems))), int64(len(problems)), args)
}

// lcsJoin is sequences one behind the other, and where each begins.
func lcsJoin[T Token](items []lcsItem[T]) (letters []T, at []uint64) {
	for _, x := range items {
		at = append(at, uint64(len(letters)))
		letters = append(letters, x.seq...)
	}
	return letters, at
}
