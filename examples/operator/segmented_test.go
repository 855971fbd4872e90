package operator

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
)

// Segments keep the order of their operands, forwards and in reverse, and nothing
// joins across a head.
func TestSegmentsKeepOrder(t *testing.T) {
	onDevices(t, func(t *testing.T, rt *ptxrun.Runtime) {
		op, err := New(rt)
		require.NoError(t, err)
		for _, n := range []int{1, 33, 257, tile - 1, tile, tile + 1, 3*tile + 5, 9*tile + 100} {
			for _, length := range []int{1, 2, 64, 63, 65, tile/8 - 1, tile, tile + 1, n} {
				src, heads := consecutive(n), make([]bool, n)
				for i := 0; i < n; i += length {
					heads[i] = true
				}
				for _, reverse := range []bool{false, true} {
					var opts []ptxrun.ScanOption
					if reverse {
						slices.Reverse(src)
						opts = append(opts, ptxrun.WithScanReverse())
					}
					inclusive, exclusive := make([]Range, n), make([]Range, n)
					require.NoError(t, op.InclusiveSegmentedScan(context.Background(), inclusive, src, ptxrun.SegmentHeads(heads), opts...))
					require.NoError(t, op.ExclusiveSegmentedScan(context.Background(), exclusive, src, ptxrun.SegmentHeads(heads), opts...))
					for i := range n {
						first := src[i-i%length]
						if reverse {
							first = src[min(n, i-i%length+length)-1]
						}
						want, before := Range{first.Lo, src[i].Hi}, Range{first.Lo, src[i].Lo}
						if first == src[i] {
							before = Empty
						}
						if inclusive[i] != want || exclusive[i] != before {
							require.Equal(t, []Range{want, before}, []Range{inclusive[i], exclusive[i]}, "%d of %d, segments of %d, reverse %v", i, n, length, reverse)
						}
					}
				}
			}
			src, dst := consecutive(n), make([]Range, n)
			slices.Reverse(src)
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src, ptxrun.WithScanReverse()))
			for i := range n {
				require.Equal(t, Range{10, src[i].Hi}, dst[i], "%d of %d, in reverse", i, n)
			}
		}
		require.NoError(t, op.Close())
	})
}
