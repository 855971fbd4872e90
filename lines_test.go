package ptxrun

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffLinesMovesChanges(t *testing.T) {
	rt := openCPU(t)
	for _, c := range []struct{ name, a, b, want string }{
		{"an inserted function begins at its start",
			"func a() {\n}\n\nfunc b() {\n}\n", "func a() {\n}\n\nfunc x() {\n}\n\nfunc b() {\n}\n",
			"@@ -3,0 +4,3 @@\n+func x() {\n+}\n+\n"},
		{"a deletion joins the one above",
			"1\nx\nx\n2\n", "x\n2\n",
			"@@ -1,2 +0,0 @@\n-1\n-x\n"},
		{"an insertion joins a deletion below",
			"1\nx\n2\n", "1\nx\nx\n3\n",
			"@@ -3 +3,2 @@\n-2\n+x\n+3\n"},
		{"repeated lines grow at their end",
			"1\nx\nx\n2\n", "1\nx\nx\nx\n2\n",
			"@@ -3,0 +4 @@\n+x\n"},
	} {
		require.Equal(t, "--- a\n+++ b\n"+c.want, unifiedDiff(t, rt, c.a, c.b, WithDiffContext(0)), c.name)
	}
}

func TestSlide(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 2000 {
		a := splitLines(randomText(r, r.IntN(60)))
		b := splitLines(randomText(r, r.IntN(60)))
		_, before := referenceLCS(Renumber(a, b))
		after := slide(append([]Match(nil), before...), a, b)
		from, err := Edits(before, len(a), len(b))
		require.NoError(t, err)
		to, err := Edits(after, len(a), len(b))
		require.NoError(t, err)
		require.Equal(t, requireScript(t, from, a, b), requireScript(t, to, a, b), "lines kept")
		require.LessOrEqual(t, changes(to), changes(from))
		for i := range len(after) {
			next := Match{len(a), len(b), 0}
			if i+1 < len(after) {
				next = after[i+1]
			}
			_, down := moves(after[i], next, a, b)
			require.Zero(t, down, "the change after match %d of %v goes further down", i, after)
		}
	}
}

// changes counts the stretches of a script that keep nothing.
func changes(edits []Edit) (n int) {
	before := EditEqual
	for _, e := range edits {
		if before == EditEqual && e.Op != EditEqual {
			n++
		}
		before = e.Op
	}
	return n
}
