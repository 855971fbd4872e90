package ptxrun

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// requireScript requires that edits are what [Edits] documents, and returns how
// many elements they keep.
func requireScript[T comparable](t testing.TB, edits []Edit, a, b []T) (common int) {
	t.Helper()
	i, j := 0, 0
	before := editOps
	for n, e := range edits {
		require.True(t, e.AStart == i && e.BStart == j && e.AStart <= e.AEnd && e.BStart <= e.BEnd, "edit %d is %+v after %d, %d", n, e, i, j)
		require.False(t, e.Op == before || e.Op == EditDelete && before == EditInsert, "edit %d is %v after %v", n, e.Op, before)
		require.Equal(t, e.Op != EditInsert, e.AStart < e.AEnd, "edit %d is %+v", n, e)
		require.Equal(t, e.Op != EditDelete, e.BStart < e.BEnd, "edit %d is %+v", n, e)
		if e.Op == EditEqual {
			require.True(t, slices.Equal(a[e.AStart:e.AEnd], b[e.BStart:e.BEnd]), "edit %d keeps what differs", n)
			common += e.AEnd - e.AStart
		}
		i, j, before = e.AEnd, e.BEnd, e.Op
	}
	require.True(t, i == len(a) && j == len(b), "the script ends at %d, %d of %d, %d", i, j, len(a), len(b))
	return common
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		matches []Match
		a, b    int
		want    []Edit
	}{
		{nil, 0, 0, nil},
		{nil, 2, 0, []Edit{{EditDelete, 0, 2, 0, 0}}},
		{nil, 0, 3, []Edit{{EditInsert, 0, 0, 0, 3}}},
		{nil, 2, 3, []Edit{{EditDelete, 0, 2, 0, 0}, {EditInsert, 2, 2, 0, 3}}},
		{[]Match{{0, 0, 4}}, 4, 4, []Edit{{EditEqual, 0, 4, 0, 4}}},
		{[]Match{{0, 0, 1}, {1, 1, 3}}, 4, 4, []Edit{{EditEqual, 0, 4, 0, 4}}},
		{[]Match{{1, 0, 2}, {3, 4, 1}}, 5, 6, []Edit{
			{EditDelete, 0, 1, 0, 0}, {EditEqual, 1, 3, 0, 2}, {EditInsert, 3, 3, 2, 4},
			{EditEqual, 3, 4, 4, 5}, {EditDelete, 4, 5, 5, 5}, {EditInsert, 5, 5, 5, 6}}},
	} {
		got, err := Edits(c.matches, c.a, c.b)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v of %d and %d", c.matches, c.a, c.b)
	}
	for _, c := range []struct {
		matches []Match
		a, b    int
	}{
		{nil, -1, 0},
		{nil, 0, math.MinInt},
		{[]Match{{0, 0, 0}}, 4, 4},
		{[]Match{{0, 0, -1}}, 4, 4},
		{[]Match{{-1, 0, 2}}, 4, 4},
		{[]Match{{0, -1, 2}}, 4, 4},
		{[]Match{{2, 2, 3}}, 4, 9},
		{[]Match{{2, 2, 3}}, 9, 4},
		{[]Match{{math.MaxInt, 0, 1}}, 4, 4},
		{[]Match{{0, 0, math.MaxInt}}, 4, 4},
		{[]Match{{0, 0, 2}, {1, 2, 1}}, 4, 4},
		{[]Match{{0, 0, 2}, {2, 1, 1}}, 4, 4},
	} {
		got, err := Edits(c.matches, c.a, c.b)
		require.ErrorIs(t, err, driver.ErrInvalidValue, "%v of %d and %d", c.matches, c.a, c.b)
		require.Nil(t, got)
	}
	require.Equal(t, "equal delete insert unknown edit", EditEqual.String()+" "+EditDelete.String()+" "+EditInsert.String()+" "+editOps.String())
}

func TestEditsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		a, b := randomTokens[byte](r, r.IntN(40), 4), randomTokens[byte](r, r.IntN(40), 4)
		prefixes, matches := referenceLCS(a, b)
		edits, err := Edits(matches, len(a), len(b))
		require.NoError(t, err)
		require.EqualValues(t, prefixes[len(b)], requireScript(t, edits, a, b))
	}
}

func TestLCSEdits(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(5, 6))
		cases := 200
		if d.slow {
			cases = 10
		}
		for range cases {
			a, b := randomTokens[byte](r, r.IntN(100), 3), randomTokens[byte](r, r.IntN(100), 3)
			edits, err := LCSEdits(t.Context(), rt, a, b)
			require.NoError(t, err)
			prefixes, _ := referenceLCS(a, b)
			require.EqualValues(t, prefixes[len(b)], requireScript(t, edits, a, b))
		}
		_, err := LCSEdits(t.Context(), nil, []byte("a"), []byte("b"))
		require.ErrorIs(t, err, driver.ErrNil)
	})
}

// Whatever the matches are, Edits refuses them or gives a script from end to end.
func FuzzEdits(f *testing.F) {
	f.Add([]byte{0, 0, 2, 3, 2, 1}, 5, 4)
	f.Fuzz(func(t *testing.T, data []byte, lenA, lenB int) {
		var matches []Match
		common := 0
		for m := range slices.Chunk(data, 3) {
			if len(m) == 3 {
				matches = append(matches, Match{int(int8(m[0])), int(int8(m[1])), int(int8(m[2]))})
				common += int(int8(m[2]))
			}
		}
		edits, err := Edits(matches, lenA, lenB)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			return
		}
		i, j := 0, 0
		for _, e := range edits {
			require.True(t, e.AStart == i && e.BStart == j)
			i, j = e.AEnd, e.BEnd
			if e.Op == EditEqual {
				require.Equal(t, e.AEnd-e.AStart, e.BEnd-e.BStart)
				common -= e.AEnd - e.AStart
			}
		}
		require.True(t, i == lenA && j == lenB && common == 0)
	})
}
