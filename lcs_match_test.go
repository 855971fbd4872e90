package ptxrun

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// marked returns n bits, of which set at random places are ones, and the places.
func marked(r *rand.Rand, n, set int) (words []uint64, at []int) {
	words = make([]uint64, ceilDiv(int64(n), 64))
	for _, i := range r.Perm(n)[:set] {
		words[i/64] |= 1 << (i % 64)
	}
	for i := range n {
		if words[i/64]>>(i%64)&1 != 0 {
			at = append(at, i)
		}
	}
	return words, at
}

func TestMatchesOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 520 {
		most := 300
		if k >= 500 {
			most = 5 * matchPartWords * 64
		}
		set := r.IntN(most)
		aMarks, a := marked(r, set+r.IntN(1+r.IntN(most)), set)
		bMarks, b := marked(r, set+r.IntN(1+r.IntN(most)), set)
		want := []Match{}
		for k := range a {
			if k > 0 && a[k] == a[k-1]+1 && b[k] == b[k-1]+1 {
				want[len(want)-1].Len++
			} else {
				want = append(want, Match{a[k], b[k], 1})
			}
		}
		// Equal says what differs, at the length of both.
		if got := matchesOf(aMarks, bMarks); !slices.Equal(want, got) {
			require.Equal(t, want[:min(len(want), 300)], got[:min(len(got), 300)], "%d marks", set)
			require.Failf(t, "matches differ", "%d and %d matches of %d marks", len(want), len(got), set)
		}
	}
}

func BenchmarkMatchesOf(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	// A common subsequence of random letters of 4 has 0.654 of them.
	for _, set := range []int{n * 654 / 1000, n} {
		aMarks, _ := marked(r, n, set)
		bMarks, _ := marked(r, n, set)
		b.Run(fmt.Sprint(set), func(b *testing.B) {
			for b.Loop() {
				matchesOf(aMarks, bMarks)
			}
		})
	}
}
