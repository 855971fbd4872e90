package ptxrun

import "math/bits"

// Match is a span of a common subsequence: a[A:A+Len] is b[B:B+Len].
type Match struct{ A, B, Len int }

// matchesOf pairs the elements that are marked in two sequences, in order: as
// many in the one as in the other.
func matchesOf(aMarks, bMarks []uint32) (matches []Match) {
	a, b := markedRuns{words: aMarks}, markedRuns{words: bMarks}
	for {
		if a.len == 0 {
			a.next()
		}
		if b.len == 0 {
			b.next()
		}
		n := min(a.len, b.len)
		if n == 0 {
			return matches
		}
		matches = append(matches, Match{a.at, b.at, n})
		a.at, a.len = a.at+n, a.len-n
		b.at, b.len = b.at+n, b.len-n
	}
}

// markedRuns goes over the runs of ones in words of 32 bits.
type markedRuns struct {
	words   []uint32
	at, len int
}

// next goes to the first run behind this one; its length is 0 if there is none.
func (r *markedRuns) next() {
	end := len(r.words) * 32
	r.at = r.find(r.at, 0)
	r.len = r.find(min(r.at, end), ^uint32(0)) - r.at
}

// find returns the first place from at on whose bit differs from flip's.
func (r *markedRuns) find(at int, flip uint32) int {
	for w := at / 32; w < len(r.words); w++ {
		bit := (r.words[w] ^ flip) & (^uint32(0) << max(0, at-w*32))
		if bit != 0 {
			return w*32 + bits.TrailingZeros32(bit)
		}
	}
	return len(r.words) * 32
}
