package ptxrun

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// referenceLCS is the lengths of a and every prefix of b, and the matches of the
// walk back that LCSMatches documents, from the whole table.
func referenceLCS[T Token](a, b []T) (prefixes []uint32, matches []Match) {
	table := make([][]uint32, len(a)+1)
	table[0] = make([]uint32, len(b)+1)
	for i, x := range a {
		row := make([]uint32, len(b)+1)
		for j, y := range b {
			if row[j+1] = max(table[i][j+1], row[j]); x == y {
				row[j+1] = table[i][j] + 1
			}
		}
		table[i+1] = row
	}
	var back []Match
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case table[i-1][j] == table[i][j]:
			i--
		case a[i-1] == b[j-1]:
			i, j = i-1, j-1
			if k := len(back) - 1; k >= 0 && back[k].A == i+1 && back[k].B == j+1 {
				back[k] = Match{i, j, back[k].Len + 1}
			} else {
				back = append(back, Match{i, j, 1})
			}
		default:
			j--
		}
	}
	for k := range back {
		matches = append(matches, back[len(back)-1-k])
	}
	return table[len(a)], matches
}

func randomTokens[T Token](r *rand.Rand, n, letters int) []T {
	s := make([]T, n)
	for i := range s {
		// Spread over all bits, so that no part of a token decides.
		x := r.Uint64N(uint64(letters))
		s[i] = T(x * 0x9e3779b97f4a7c15 >> 3)
		if letters <= 256 && sizeOf[T]() == 1 {
			s[i] = T(x)
		}
	}
	return s
}

func checkLCS[T Token](t *testing.T, rt *Runtime, a, b []T, format string, args ...any) {
	t.Helper()
	name := fmt.Sprintf(format, args...)
	prefixes, matches := referenceLCS(a, b)
	length, err := LCSLength(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	require.Equal(t, int(prefixes[len(b)]), length, name)
	got, err := LCSPrefixes(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	requireSame(t, prefixes, got, "%s: prefixes", name)
	gotMatches, err := LCSMatches(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	requireSame(t, matches, gotMatches, "%s: matches", name)
	common, err := LCS(t.Context(), rt, a, b)
	require.NoError(t, err, name)
	require.Len(t, common, length, name)
}

func testLCSTokens[T Token](t *testing.T, d testDevice, rt *Runtime) {
	r := rand.New(rand.NewPCG(uint64(sizeOf[T]()), 6))
	band := int(lcsRows(int(sizeOf[T]())))
	sizes := [][2]int{{0, 5}, {5, 0}, {1, 1}, {31, 33}, {33, 31}, {64, 65}, {band - 1, 70}, {band, 31}, {band + 1, 257}, {2*band + 17, 300}}
	if !d.slow {
		sizes = append(sizes, [2]int{4097, 1000}, [2]int{1000, 4097}, [2]int{5*band + 1, 2000}, [2]int{3 * band, 3 * band})
	}
	for _, size := range sizes {
		for _, letters := range []int{1, 4, 200, 5000} {
			if d.slow && letters != 4 && letters != 5000 && size[0] > 100 {
				continue
			}
			a, b := randomTokens[T](r, size[0], letters), randomTokens[T](r, size[1], letters)
			checkLCS(t, rt, a, b, "%d × %d, %d letters", size[0], size[1], letters)
		}
	}
}

func TestLCSBitParallel(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		t.Run("u8", func(t *testing.T) { testLCSTokens[uint8](t, d, rt) })
		t.Run("i16", func(t *testing.T) { testLCSTokens[int16](t, d, rt) })
		t.Run("u32", func(t *testing.T) { testLCSTokens[uint32](t, d, rt) })
		t.Run("u64", func(t *testing.T) { testLCSTokens[uint64](t, d, rt) })
	})
}
