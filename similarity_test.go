package ptxrun

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestSimilarity(t *testing.T) {
	for _, c := range []struct {
		s        Similarity
		ratio    float64
		distance int
		indel    float64
	}{
		{Similarity{0, 0, 0}, 1, 0, 0},
		{Similarity{0, 5, 0}, 0, 5, 1},
		{Similarity{0, 0, 3}, 0, 3, 1},
		{Similarity{0, 4, 4}, 0, 8, 1},
		{Similarity{7, 7, 7}, 1, 0, 0},
		{Similarity{3, 4, 8}, 0.5, 6, 0.5},
		{Similarity{math.MaxInt, math.MaxInt, math.MaxInt}, 1, 0, 0},
		{Similarity{1 << 61, 1 << 62, 1 << 62}, 0.5, 1 << 62, 0.5},
	} {
		require.Equal(t, c.ratio, c.s.Ratio(), "%+v", c.s)
		require.Equal(t, c.distance, c.s.IndelDistance(), "%+v", c.s)
		require.Equal(t, c.indel, c.s.NormalizedIndel(), "%+v", c.s)
	}
}

func TestSimilarityRougeL(t *testing.T) {
	for _, c := range []struct {
		s    Similarity
		beta float64
		want RougeScore
	}{
		{Similarity{0, 0, 0}, 1, RougeScore{}},
		{Similarity{0, 3, 0}, 1, RougeScore{}},
		{Similarity{0, 0, 3}, 1, RougeScore{}},
		{Similarity{0, 3, 3}, 1, RougeScore{}},
		{Similarity{3, 3, 3}, 1, RougeScore{1, 1, 1}},
		{Similarity{3, 3, 3}, 1.2, RougeScore{1, 1, 1}},
		{Similarity{2, 2, 4}, 1, RougeScore{1, 0.5, 2. / 3}},
		{Similarity{2, 2, 4}, 0, RougeScore{1, 0.5, 1}},
		{Similarity{2, 2, 4}, 2, RougeScore{1, 0.5, 5 * 0.5 / 4.5}},
		{Similarity{2, 2, 4}, math.Inf(1), RougeScore{1, 0.5, 0.5}},
		{Similarity{2, 2, 4}, math.MaxFloat64, RougeScore{1, 0.5, 0.5}},
	} {
		got, err := c.s.RougeL(c.beta)
		require.NoError(t, err)
		require.InDelta(t, c.want.Precision, got.Precision, 1e-15, "%+v", c)
		require.InDelta(t, c.want.Recall, got.Recall, 1e-15, "%+v", c)
		require.InDelta(t, c.want.F, got.F, 1e-15, "%+v", c)
	}
	for _, beta := range []float64{-1, math.Inf(-1), math.NaN()} {
		_, err := Similarity{2, 2, 4}.RougeL(beta)
		require.ErrorIs(t, err, driver.ErrInvalidValue, "beta %v", beta)
	}
}

// The sentences of Lin 2004, section 3.1, and the scores printed there.
func TestRougeLPaper(t *testing.T) {
	score := func(t *testing.T, rt *Runtime, candidate, reference string, beta float64) (RougeScore, error) {
		c, r := Renumber(strings.Fields(candidate), strings.Fields(reference))
		return RougeL(t.Context(), rt, c, r, beta)
	}
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		const reference = "police killed the gunman"
		for candidate, want := range map[string]float64{
			"police kill the gunman":   0.75,
			"the gunman kill police":   0.5,
			"the gunman police killed": 0.5,
		} {
			got, err := score(t, rt, candidate, reference, 1)
			require.NoError(t, err)
			require.InDelta(t, want, got.F, 1e-15, candidate)
		}
		empty, err := score(t, rt, "", reference, 1)
		require.NoError(t, err)
		require.Zero(t, empty)
		_, err = score(t, nil, reference, reference, 1)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = score(t, rt, reference, reference, -1)
		require.ErrorIs(t, err, driver.ErrInvalidValue)

		s, err := LCSSimilarity(t.Context(), rt, []byte("wavefront"), []byte("waterfront"))
		require.NoError(t, err)
		require.Equal(t, Similarity{8, 9, 10}, s)
	})
}
