package ptxrun

import (
	"math/bits"
	"sync"
)

// Match is a span of a common subsequence: a[A:A+Len] is b[B:B+Len].
type Match struct{ A, B, Len int }

// matchPartWords is the words of marks from which on matches are paired by another core.
const matchPartWords = 1024

// matchPart is where matches begin that do not go on from those before: at a word of
// a's marks, and at what is left of the word before a word of b's.
type matchPart struct {
	a, b int
	left uint64
}

// matchesOf pairs the elements that are marked in two sequences, in order: as
// many in the one as in the other. Parts are counted first, so that each is written
// to its place.
func matchesOf(aMarks, bMarks []uint64) []Match {
	parts := matchParts(aMarks, bMarks)
	places := make([]int, len(parts)+1)
	each := func(f func(k int, p matchPart, a, b []uint64)) {
		var others sync.WaitGroup
		for k, p := range parts {
			end := len(aMarks)
			if k+1 < len(parts) {
				end = parts[k+1].a
				others.Go(func() { f(k, p, aMarks[p.a:end], bMarks[p.b:]) })
			} else {
				f(k, p, aMarks[p.a:end], bMarks[p.b:])
			}
		}
		others.Wait()
	}
	each(func(k int, p matchPart, a, b []uint64) {
		var last [1]Match
		places[k+1] = p.pair(a, b, last[:], 0)
	})
	for k := range parts {
		places[k+1] += places[k]
	}
	matches := make([]Match, places[len(parts)])
	each(func(k int, p matchPart, a, b []uint64) { p.pair(a, b, matches[places[k]:places[k+1]], -1) })
	return matches
}

// matchParts cuts marks where no run of a's goes on from one word to the next.
func matchParts(aMarks, bMarks []uint64) (parts []matchPart) {
	var p matchPart
	aBefore, bBefore := 0, 0 // marks of the words before
	for k, w := range aMarks {
		if k == 0 || k >= p.a+matchPartWords && w&1&(aMarks[k-1]>>63) == 0 {
			for p.a = k; bBefore < aBefore; p.b++ {
				p.left = bMarks[p.b]
				bBefore += bits.OnesCount64(p.left)
			}
			for bits.OnesCount64(p.left) > bBefore-aBefore {
				p.left &= p.left - 1
			}
			parts = append(parts, p)
		}
		aBefore += bits.OnesCount64(w)
	}
	return parts
}

// pair pairs the marks of a, whose first word is the part's, with as many of b, and
// returns how many matches they are. Match i is written to matches[i&mask].
func (p matchPart) pair(a, b []uint64, matches []Match, mask int) int {
	last, length, aEnd, bEnd := -1, 0, -1, -1
	aFrom, bFrom := (p.a-1)*64, (p.b-1)*64
	x, y := uint64(0), p.left // marks that are left of the words taken
	for {
		for ; x == 0; aFrom += 64 {
			if len(a) == 0 {
				return last + 1
			}
			x, a = a[0], a[1:]
		}
		for ; y == 0; bFrom += 64 {
			if len(b) == 0 {
				return last + 1
			}
			y, b = b[0], b[1:]
		}
		for x != 0 && y != 0 {
			// What begins at both first marks and lies in these words.
			i, j := bits.TrailingZeros64(x), bits.TrailingZeros64(y)
			n := bits.TrailingZeros64(^(x >> i & (y >> j)))
			x &= ^uint64(0) << (i + n)
			y &= ^uint64(0) << (j + n)
			i, j = aFrom+i, bFrom+j
			// Without a branch: whether a match goes on is not to be foretold.
			starts := 0
			if (i-aEnd)|(j-bEnd) != 0 {
				starts = 1
			}
			last += starts
			length = length&(starts-1) + n
			aEnd, bEnd = i+n, j+n
			matches[last&mask] = Match{aEnd - length, bEnd - length, length}
		}
	}
}
