package ptxrun

import "math/bits"

// Match is a span of a common subsequence: a[A:A+Len] is b[B:B+Len].
type Match struct{ A, B, Len int }

// matchesOf pairs the elements that are marked in two sequences, in order: as
// many in the one as in the other.
func matchesOf(aMarks, bMarks []uint64) []Match {
	// Every match ends a run; the first place is before all matches.
	matches := make([]Match, 1+markedRunCount(aMarks)+markedRunCount(bMarks))
	last, length, aEnd, bEnd := 0, 0, -1, -1
	var a, b uint64 // marks that are left of the words taken
	aFrom, bFrom := -64, -64
	for {
		for ; a == 0; aFrom += 64 {
			if len(aMarks) == 0 {
				return matches[1 : last+1]
			}
			a, aMarks = aMarks[0], aMarks[1:]
		}
		for ; b == 0; bFrom += 64 {
			if len(bMarks) == 0 {
				return matches[1 : last+1]
			}
			b, bMarks = bMarks[0], bMarks[1:]
		}
		for a != 0 && b != 0 {
			// What begins at both first marks and lies in these words.
			i, j := bits.TrailingZeros64(a), bits.TrailingZeros64(b)
			n := bits.TrailingZeros64(^(a >> i & (b >> j)))
			a &= ^uint64(0) << (i + n)
			b &= ^uint64(0) << (j + n)
			i, j = aFrom+i, bFrom+j
			// Without a branch: whether a match goes on is not to be foretold.
			starts := 0
			if (i-aEnd)|(j-bEnd) != 0 {
				starts = 1
			}
			last += starts
			length = length&(starts-1) + n
			aEnd, bEnd = i+n, j+n
			matches[last] = Match{aEnd - length, bEnd - length, length}
		}
	}
}

// markedRunCount is how many runs of ones there are in words of 64 bits.
func markedRunCount(words []uint64) (count int) {
	before := uint64(0)
	for _, w := range words {
		count += bits.OnesCount64(w &^ (w<<1 | before))
		before = w >> 63
	}
	return count
}
