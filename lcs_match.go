package ptxrun

import "math/bits"

// Match is a span of a common subsequence: a[A:A+Len] is b[B:B+Len].
type Match struct{ A, B, Len int }

// matchesOf pairs the elements that are marked in two sequences, in order: as
// many in the one as in the other.
func matchesOf(aMarks, bMarks []uint32) []Match {
	a, b := markedRuns{words: aMarks, word: -1}, markedRuns{words: bMarks, word: -1}
	// Every match ends a run.
	matches := make([]Match, 0, markedRunCount(aMarks)+markedRunCount(bMarks))
	for {
		if a.len == 0 {
			a.advance()
		}
		if b.len == 0 {
			b.advance()
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

// markedRunCount is how many runs of ones there are in words of 32 bits.
func markedRunCount(words []uint32) (count int) {
	before := uint32(0)
	for _, w := range words {
		count += bits.OnesCount32(w &^ (w<<1 | before))
		before = w >> 31
	}
	return count
}

// markedRuns goes over the runs of ones in words of 32 bits.
type markedRuns struct {
	words   []uint32
	word    int    // that rest is of
	rest    uint32 // its bits behind the run
	at, len int
}

// advance goes to the run behind this one; its length is 0 if there is none.
func (r *markedRuns) advance() {
	for r.rest == 0 {
		if r.word++; r.word >= len(r.words) {
			r.len = 0
			return
		}
		r.rest = r.words[r.word]
	}
	start := bits.TrailingZeros32(r.rest)
	r.at = r.word*32 + start
	open := ^(r.rest | (1<<start - 1)) // what is not of the run
	for open == 0 && r.word+1 < len(r.words) {
		r.word++
		r.rest = r.words[r.word]
		open = ^r.rest
	}
	end := bits.TrailingZeros32(open)
	r.rest &= uint32(^uint64(0) << end)
	r.len = r.word*32 + end - r.at
}
