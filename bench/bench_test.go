package main

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/bench/operator"
)

// published are the ids that results are compared by.
var published = []string{
	"copy/2^30", "fill/2^30",
	"scan/uint32/2^10", "scan/uint32/2^16", "scan/uint32/2^20", "scan/uint32/2^28", "scan/uint32/2^30",
	"scan/uint64/2^28", "scan/float64/2^28", "scan/uint16/2^28", "scan/uint8/2^28", "scan/uint8/2^33", "scan/uint8-uint32/2^28",
	"scan/max-uint32/2^28", "scan/user8/2^28", "scan/recursive/uint32/2^28",
	"scan/by-key/uint32/2^28", "scan/reverse/uint32/2^28",
	"select/flagged/uint32/2^28", "select/partition/uint32/2^28", "select/where/uint32/2^28", "select/unique/uint32/2^28",
	"call/empty", "call/scan/2^10",
	"rle/encode/1", "rle/encode/2", "rle/encode/16", "rle/encode/256", "rle/encode/65536",
	"rle/file/read", "rle/file/compress", "rle/file/write", "rle/file/decompress",
	"lcs/spin-wait/1000", "lcs/spin-wait/16384", "lcs/tiled/16384",
	"lcs/pair/4/2^20", "lcs/pair/256/2^20", "lcs/pair/256/10^4", "lcs/tokens/10^5", "lcs/string/4/2^20",
	"lcs/all/1000", "lcs/all/100", "lcs/cpu",
	"agg/rewrite", "agg/small1000", "agg/cdp/1024", "agg/cdp/16384", "agg/cdp/131072", "agg/call/1024", "agg/block/16384", "agg/warp/16384", "agg/hand/131072",
}

// A whole run, with a peer, on sizes that take seconds. Buffers that are left
// are an error of the run.
func TestTrialRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "r.json")
	var table bytes.Buffer
	err := run([]string{"-device", "cpu", "-scale", "17", "-commit", "abc", "-out", out,
		"-peer", `p=echo '{"id":"fill/2^30","n":8192,"ms":1,"check":92}' #`}, &table, io.Discard)
	require.NoError(t, err)
	r, err := load(out)
	require.NoError(t, err)
	for _, id := range published {
		row := r.row(id)
		if assert.NotNil(t, row, id) {
			assert.Positive(t, row.OursMS, id)
			assert.Positive(t, row.Rate, id)
			assert.Equal(t, "abc", row.Commit)
			assert.Contains(t, table.String(), id)
		}
	}
	assert.Equal(t, 1.0, r.row("fill/2^30").PeerMS)
	assert.Equal(t, "call/empty", r.row("call/scan/2^10").Peer)
	assert.Positive(t, r.row("scan/uint8/2^28").OfCeiling)
	require.NoError(t, renderFiles(out))

	// Rows can be measured anew one by one.
	require.NoError(t, run([]string{"-device", "cpu", "-scale", "17", "-commit", "def", "-out", out, "-add", "-run", "^scan/user8/"}, io.Discard, io.Discard))
	again, err := load(out)
	require.NoError(t, err)
	assert.Len(t, again.Rows, len(r.Rows))
	assert.Equal(t, "def", again.row("scan/user8/2^28").Commit)
	assert.Equal(t, "abc", again.row("scan/uint8/2^28").Commit)
}

func TestWrongUse(t *testing.T) {
	for _, args := range [][]string{
		{"-device", "nonsense"}, {"-device", "cpu", "-run", "("}, {"-device", "cpu", "-scale", "31"}, {"-device", "cpu", "extra"},
		{"-device", "cpu", "-add", "-out", "/nonexistent/r.json"}, {"-render", "/nonexistent/r.json"},
	} {
		assert.Error(t, run(args, io.Discard, io.Discard), args)
	}
}

// opened is a bencher on the cpu; at the end nothing may be left on it.
func opened(t *testing.T) *bencher {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	b := &bencher{rt: rt, match: regexp.MustCompile("."), scale: 14, log: io.Discard}
	require.NoError(t, b.open())
	t.Cleanup(func() {
		assert.NoError(t, b.close())
		assert.NoError(t, rt.Close())
	})
	return b
}

// Work that writes nothing, or a wrong element, is no figure.
func TestWrongResultsAreSeen(t *testing.T) {
	b := opened(t)
	c := scanCase[uint32, uint32]{
		id: "x", log: 28, batch: 1,
		element: number[uint32],
		combine: func(a, v uint32) uint32 { return a + v },
		scan:    func(_, _ *ptxrun.Buffer[uint32], _ ...ptxrun.ScanOption) error { return nil },
	}
	assert.ErrorContains(t, c.measure(b), "element 0 of copy 0 is 2880154539") // poison

	c.scan = func(dst, src *ptxrun.Buffer[uint32], o ...ptxrun.ScanOption) error {
		return ptxrun.ExclusiveScanBuffer(b.s, dst, src, ptxrun.Sum, o...)
	}
	assert.ErrorContains(t, c.measure(b), "element 0 of copy 0 is 0, want")
	assert.Empty(t, b.rows)

	slots := newCopies(300, 8, 10000)
	require.Greater(t, slots.count, 2)
	input, output := elements(slots.total(), c.element), make([]uint32, slots.total())
	for i, v := range input {
		if output[i] = v; i%slots.stride > 0 {
			output[i] += output[i-1]
		}
	}
	require.NoError(t, c.verify(slots, input, output))
	output[slots.stride+slots.n] = 1 // between slots
	require.NoError(t, c.verify(slots, input, output))
	output[2*slots.stride-slots.stride+slots.n-1]++
	assert.ErrorContains(t, c.verify(slots, input, output), "element 299 of copy 1")
}

// A call that the host takes long to queue is timed without the host.
func TestHostTimeIsLeftOut(t *testing.T) {
	b := opened(t)
	const slow = 3 * firstHold
	f := figure{id: "x", n: 1, amount: 1, unit: "GB/s", slots: 1, batch: 4, call: func(int) error {
		time.Sleep(slow)
		return b.holdFor(50 * time.Microsecond)
	}}
	ms, err := b.measure(f)
	require.NoError(t, err)
	assert.Greater(t, b.holdTime, 4*slow/2)
	assert.GreaterOrEqual(t, ms, 0.05)

	f.waits = true
	waiting, err := b.measure(f)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, waiting, float64(slow)/1e6)
	assert.Less(t, ms, waiting)
}

func TestComposeIsAssociativeAndDoesNotCommute(t *testing.T) {
	a, b, c := operator.Affine{M: 3, C: 5}, operator.Affine{M: 7, C: 11}, operator.Affine{M: 0x80000001, C: 0xffffffff}
	assert.Equal(t, operator.Compose(operator.Compose(a, b), c), operator.Compose(a, operator.Compose(b, c)))
	assert.NotEqual(t, operator.Compose(a, b), operator.Compose(b, a))
	assert.Equal(t, a, operator.Compose(operator.Identity, a))
	assert.Equal(t, a, operator.Compose(a, operator.Identity))
}
