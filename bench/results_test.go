package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/sample.md and sample.svg anew")

func TestSaveAndLoad(t *testing.T) {
	r := Results{
		Machine: map[string]string{"gpu": "a"},
		Rows: []Row{
			{ID: "x", N: 1 << 40, OursMS: 0.25, Rate: 10, Unit: "GB/s", Peer: "p", PeerMS: 0.5, Ratio: 2, OfCeiling: 0.5, Commit: "c"},
			{ID: "y", N: 1, OursMS: 1, Rate: 1, Unit: "GCUPS"},
		},
	}
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, r.save(path))
	got, err := load(path)
	require.NoError(t, err)
	assert.Equal(t, r, got)

	var raw struct {
		Machine map[string]any
		Rows    []map[string]any
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &raw))
	assert.Equal(t, map[string]any{"id": "x", "n": float64(1 << 40), "ours_ms": 0.25, "rate": 10.0, "unit": "GB/s", "peer": "p",
		"peer_ms": 0.5, "ratio": 2.0, "of_ceiling": 0.5, "commit": "c"}, raw.Rows[0])

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = load(path)
	assert.ErrorContains(t, err, path)
}

func TestCeilingIsTheFasterCopy(t *testing.T) {
	rows := func(peerMS float64) Results {
		r := Results{Rows: []Row{{ID: "copy/2^30", OursMS: 2, Rate: 100, Unit: "GB/s", PeerMS: peerMS}, {ID: "s", Rate: 50, Unit: "GB/s"}, {ID: "l", Rate: 50, Unit: "GCUPS"}}}
		r.setCeiling()
		return r
	}
	assert.Equal(t, 0.5, rows(0).Rows[1].OfCeiling)
	assert.Equal(t, 0.5, rows(4).Rows[1].OfCeiling, "the peer's copy is slower")
	assert.Equal(t, 0.25, rows(1).Rows[1].OfCeiling, "the peer's copy is faster")
	assert.Equal(t, 0.5, rows(1).Rows[0].OfCeiling)
	assert.Zero(t, rows(1).Rows[2].OfCeiling, "another unit")
}

// TestExamplesAreTheGeometricMean has a mean of all examples, and none of some.
func TestExamplesAreTheGeometricMean(t *testing.T) {
	r := Results{}
	for i, e := range exampleProblems {
		ours, peer := 1.0, 4.0
		if i%2 == 1 {
			ours, peer = 4, 64
		}
		r.Rows = append(r.Rows, Row{ID: "agg/examples/" + e.name, OursMS: ours, Peer: "p", PeerMS: peer}, Row{ID: "agg/plain/" + e.name, OursMS: 9})
	}
	n := len(r.Rows)
	for range 2 { // the second time there is one already
		r.setExamples()
		require.Len(t, r.Rows, n+1)
		assert.Equal(t, Row{ID: "agg/examples", N: 6, OursMS: 2, Rate: 500, Unit: "calls/s", Peer: "p", PeerMS: 16, Ratio: 8}, *r.row("agg/examples"))
	}
	r.row("agg/examples/bezier").Peer = ""
	r.setExamples()
	assert.Nil(t, r.row("agg/examples"), "one has no peer")
	r.Rows = r.Rows[:4]
	r.setExamples()
	assert.Len(t, r.Rows, 4)
}

func TestKeep(t *testing.T) {
	before := Results{Machine: map[string]string{"gpu": "a"}, Rows: []Row{{ID: "x", N: 1}, {ID: "y", N: 1}}}
	now := Results{Machine: map[string]string{"gpu": "a"}, Rows: []Row{{ID: "z", N: 2}, {ID: "y", N: 2}}}
	require.NoError(t, now.keep(before))
	assert.Equal(t, []Row{{ID: "x", N: 1}, {ID: "y", N: 2}, {ID: "z", N: 2}}, now.Rows)
	now.Machine["gpu"] = "b"
	assert.ErrorContains(t, now.keep(before), "gpu")
}

func TestPeer(t *testing.T) {
	results := func() Results {
		return Results{Machine: map[string]string{}, Rows: []Row{{ID: "x", N: 8, OursMS: 2, check: 7}, {ID: "y", N: 8, OursMS: 2, check: 7, Peer: "other", PeerMS: 9}}}
	}
	for name, c := range map[string]struct{ printed, want string }{
		"another size":   {`{"id":"x","n":9,"ms":3,"check":7}`, "at 9, ours is at 8"},
		"other data":     {`{"id":"x","n":8,"ms":3,"check":6}`, "the data differ"},
		"no time":        {`{"id":"x","n":8,"ms":0,"check":7}`, "0 ms"},
		"not JSON":       {`hello`, `printed "hello"`},
		"a second peer":  {`{"id":"y","n":8,"ms":3,"check":7}`, "other and p both"},
		"fails":          {`"; exit 3; "`, "exit status 3"},
		"unknown, right": {`{"id":"z","n":8,"ms":3,"check":7}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := results()
			command := "echo '" + c.printed + "' #"
			if name == "fails" {
				command = "exit 3 #"
			}
			err := peer{"p", command}.measure(t.Context(), &r, 0, 0, io.Discard)
			if c.want != "" {
				assert.ErrorContains(t, err, c.want)
			} else {
				assert.NoError(t, err)
			}
			assert.Equal(t, results().Rows, r.Rows)
		})
	}

	// A figure counts, though the peer fails after it.
	r := results()
	err := peer{"p", `f() { echo '{"about":"P 1.0"}'; echo '{"id":"x","n":8,"ms":3,"check":7}'; test "$*" = "-device 1 -scale 4 x y" && exit 3; }; f`}.measure(t.Context(), &r, 1, 4, io.Discard)
	assert.ErrorContains(t, err, "exit status 3")
	assert.Equal(t, Row{ID: "x", N: 8, OursMS: 2, check: 7, Peer: "p", PeerMS: 3, Ratio: 1.5}, r.Rows[0])
	assert.Equal(t, "P 1.0", r.Machine["peer p"])

	// Also if it is interrupted after it, wherever it then is.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r = results()
	began := time.Now()
	err = peer{"p", `f() { echo '{"id":"x","n":8,"ms":3,"check":7}'; sleep 60; }; f`}.measure(ctx, &r, 0, 0, io.Discard)
	assert.ErrorContains(t, err, "killed")
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.Equal(t, 1.5, r.Rows[0].Ratio)

	// Without ids a peer would measure all that it has.
	none := Results{}
	assert.NoError(t, peer{"p", "exit 3 #"}.measure(t.Context(), &none, 0, 0, io.Discard))
}

func TestPeerFlag(t *testing.T) {
	var l peerList
	require.NoError(t, l.Set("CUB=./cub -x=1"))
	assert.Equal(t, peerList{{"CUB", "./cub -x=1"}}, l)
	for _, bad := range []string{"", "CUB", "=x", "CUB="} {
		assert.Error(t, l.Set(bad), bad)
	}
}

// The page and the picture are what the results give, in testdata and in
// results.
func TestRender(t *testing.T) {
	if *update {
		require.NoError(t, renderFiles("testdata/sample.json"))
	}
	files, err := filepath.Glob("results/*.json")
	require.NoError(t, err)
	for _, path := range append(files, "testdata/sample.json") {
		t.Run(path, func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			copied := filepath.Join(t.TempDir(), filepath.Base(path))
			require.NoError(t, os.WriteFile(copied, text, 0o600))
			require.NoError(t, renderFiles(copied))
			for _, ext := range []string{".md", ".svg"} {
				want, err := os.ReadFile(path[:len(path)-len(".json")] + ext)
				require.NoError(t, err)
				got, err := os.ReadFile(copied[:len(copied)-len(".json")] + ext)
				require.NoError(t, err)
				assert.Equal(t, string(want), string(got), "bench -render %s makes it", path)
			}
		})
	}
}

func TestRenderNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, Results{}.save(path))
	assert.ErrorContains(t, renderFiles(path), "nothing to draw")
}

func TestNumbersForPeople(t *testing.T) {
	assert.Equal(t, []string{"", "1000", "2^10", "2^28", "2^40"}, []string{count(0), count(1000), count(1024), count(1 << 28), count(1 << 40)})
	assert.Equal(t, []string{"0.2365 µs", "12.35 µs", "1 ms", "1235 ms"}, []string{duration(0.0002365), duration(0.012345), duration(1), duration(1234.6)})
	assert.Equal(t, 1.23457, rounded(1.23456789))
	assert.Equal(t, `a\|b &lt;c`, escape("a|b <c"))
}
