package ptxrun

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSmallCallsAllocateNothing: once warm, a scan of a small slice allocates no
// Go memory from the call to the result.
func TestSmallCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	ctx := context.Background()
	src, dst := make([]uint32, 1000), make([]uint32, 1000)
	for _, opts := range [][]ScanOption{nil, {WithScanReverse()}} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := InclusiveScan(ctx, rt, dst, src, Sum, opts...); err != nil {
				t.Fatal(err)
			}
		}), "%d options", len(opts))
	}
	require.NoError(t, rt.Close())
}

func BenchmarkSmallScan(b *testing.B) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(b, err)
	defer rt.Close()
	ctx := context.Background()
	src, dst := make([]uint32, 1000), make([]uint32, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := InclusiveScan(ctx, rt, dst, src, Sum); err != nil {
			b.Fatal(err)
		}
	}
}
