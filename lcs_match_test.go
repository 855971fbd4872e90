package ptxrun

import (
	"fmt"
	"math/rand/v2"
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
	for range 500 {
		set := r.IntN(300)
		aMarks, a := marked(r, set+r.IntN(1+r.IntN(300)), set)
		bMarks, b := marked(r, set+r.IntN(1+r.IntN(300)), set)
		want := []Match{}
		for k := range a {
			if k > 0 && a[k] == a[k-1]+1 && b[k] == b[k-1]+1 {
				want[len(want)-1].Len++
			} else {
				want = append(want, Match{a[k], b[k], 1})
			}
		}
		require.Equal(t, want, matchesOf(aMarks, bMarks), "%v and %v", a, b)
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
