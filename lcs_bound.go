package ptxrun

// Cells of a pair, for each counter of a sequence, from which on the host compares
// counters, which takes 1 ns for each: a multiprocessor of an H200 computes 366 in
// that time (lcs/all/1000 in bench/results), a core 50 to 90 (lcs/cpu). Variables,
// for tests.
var (
	lcsCellsOnGPU float64 = 512 // a multiprocessor
	lcsCellsOnCPU float64 = 64  // a core
)

// lcsBound tells by how often letters occur that a pair of sequences cannot reach
// a ratio: of each letter a common subsequence has no more than the sequence with
// fewer of them.
type lcsBound[T Token] struct {
	cutoff  float64
	cells   float64     // of the smallest pairs for which that pays
	n       int         // counters of a sequence
	numbers [256]uint16 // of bytes that occur in rows; the others' is 0
}

// newLCSBound is the bound for pairs of a and b, or nil where it pays for none.
func newLCSBound[T Token](s *Stream, a, b [][]T, cutoff float64) *lcsBound[T] {
	if cutoff == 0 {
		return nil
	}
	q := &lcsBound[T]{cutoff: cutoff, n: 256}
	if sizeOf[T]() == 1 {
		q.number(a)
	}
	info := s.rt.dev.Info()
	each := lcsCellsOnGPU
	if info.Capability == 0 {
		each = lcsCellsOnCPU
	}
	q.cells = each * float64(info.Multiprocessors) * float64(q.n)
	if float64(longest(a))*float64(longest(b)) < q.cells {
		return nil
	}
	return q
}

func longest[T any](s [][]T) (n int) {
	for _, x := range s {
		n = max(n, len(x))
	}
	return n
}

// number numbers the bytes of rows.
func (q *lcsBound[T]) number(a [][]T) {
	var seen [256]bool
	for _, x := range a {
		for _, c := range bytesOf(x) {
			seen[c] = true
		}
	}
	q.n = 1
	for c, occurs := range seen {
		if occurs {
			q.numbers[c] = uint16(q.n)
			q.n++
		}
	}
}

// count is how often each letter occurs in a sequence; wide ones with the same hash
// count as one, which can only raise the bound.
func (q *lcsBound[T]) count(seq []T) []uint32 {
	counts := make([]uint32, q.n)
	if sizeOf[T]() == 1 {
		for _, c := range bytesOf(seq) {
			counts[q.numbers[c]]++
		}
		return counts
	}
	for _, x := range seq {
		counts[uint64(x)*0x9e3779b97f4a7c15>>56]++
	}
	return counts
}

// pays reports whether a pair of sequences of m and n letters is worth comparing
// counters for.
func (q *lcsBound[T]) pays(m, n int) bool { return q != nil && float64(m)*float64(n) >= q.cells }

// reachable reports whether a pair may reach the cutoff. It counts the letters of
// sequences when they first pay to be counted.
func (q *lcsBound[T]) reachable(x, y *lcsItem[T]) bool {
	if !q.pays(len(x.seq), len(y.seq)) {
		return true
	}
	for _, item := range []*lcsItem[T]{x, y} {
		if item.counts == nil {
			item.counts = q.count(item.seq)
		}
	}
	common, others := 0, y.counts[:len(x.counts)]
	for i, n := range x.counts {
		common += int(min(n, others[i]))
	}
	return lcsRatio(common, len(x.seq), len(y.seq)) >= q.cutoff
}
