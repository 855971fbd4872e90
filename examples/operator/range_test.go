package operator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// tile is the elements that a block scans: 16 KiB of them.
const tile = 16384 / 8

// sizes are those at which warps, tiles and levels of recursion begin.
func sizes(kind string) []int {
	s := []int{0, 1, 2, 31, 32, 33, 255, 256, 257, tile - 1, tile, tile + 1, 3*tile + 5, 100_000}
	if kind != driver.KindEmu { // where millions of elements take seconds
		s = append(s, tile*tile-1, tile*tile, tile*tile+1)
	}
	return s
}

// onDevices runs f on every device of this machine, cpu at least, and requires
// that it leaves no device memory.
func onDevices(t *testing.T, f func(t *testing.T, rt *ptxrun.Runtime)) {
	for _, d := range ptxrun.Devices() {
		if d.Err != nil {
			require.NotEqual(t, driver.KindCPU, d.Name, "%v", d.Err)
			t.Logf("not on %s: %v", d.Name, d.Err)
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			rt, err := ptxrun.Open(ptxrun.WithDevice(d.Name))
			require.NoError(t, err)
			f(t, rt)
			require.NoError(t, rt.Close(), "Close says what is left")
		})
	}
}

// consecutive is n ranges of one number each, from 10 on.
func consecutive(n int) []Range {
	r := make([]Range, n)
	for i := range r {
		r[i] = Range{uint32(10 + i), uint32(11 + i)}
	}
	return r
}

func TestScanKeepsOrder(t *testing.T) {
	onDevices(t, func(t *testing.T, rt *ptxrun.Runtime) {
		op, err := New(rt)
		require.NoError(t, err)
		for _, n := range sizes(rt.Info().Kind) {
			src, dst := consecutive(n), make([]Range, n)
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src))
			for i, r := range dst {
				if want := (Range{10, uint32(11 + i)}); r != want {
					require.Equal(t, want, r, "inclusive, %d of %d", i, n)
				}
			}
			require.NoError(t, op.ExclusiveScan(context.Background(), dst, src))
			for i, r := range dst {
				want := Range{10, uint32(10 + i)}
				if i == 0 {
					want = Empty
				}
				if r != want {
					require.Equal(t, want, r, "exclusive, %d of %d", i, n)
				}
			}
		}
		require.NoError(t, op.Close())
	})
}

// One pair out of order is seen, wherever it stands, and from there on.
func TestScanSeesDisorder(t *testing.T) {
	const n = 2*tile + 100
	onDevices(t, func(t *testing.T, rt *ptxrun.Runtime) {
		op, err := New(rt)
		require.NoError(t, err)
		for _, at := range []int{0, 1, 31, 32, 255, tile - 1, tile, 2*tile - 1, n - 2} {
			src, dst := consecutive(n), make([]Range, n)
			src[at], src[at+1] = src[at+1], src[at]
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src))
			want := make([]Range, 0, n)
			total := Empty
			for _, r := range src {
				total = Join(total, r)
				want = append(want, total)
			}
			require.True(t, slices.Equal(want, dst), "swapped at %d", at)
			require.Equal(t, Broken, dst[n-1])
		}
		require.NoError(t, op.Close())
	})
}

// CUDA aligns its own vectors, a uint2 say, to their size, and Go a struct of the
// same members to its members.
func TestScanOfAlignedValues(t *testing.T) {
	aligned := bytes.ReplaceAll(ptx, []byte(".param .align 4 .b8 scan_"), []byte(".param .align 8 .b8 scan_"))
	require.NotEqual(t, ptx, aligned)
	onDevices(t, func(t *testing.T, rt *ptxrun.Runtime) {
		op, err := ptxrun.NewOperator(rt, ptxrun.OperatorSpec[Range]{Name: "range", PTX: [][]byte{aligned}, Identity: Empty, Combine: Join})
		require.NoError(t, err)
		for _, n := range []int{100, 2*tile + 1} {
			src, dst := consecutive(n), make([]Range, n)
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src))
			require.Equal(t, Range{10, uint32(10 + n)}, dst[n-1])
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src, ptxrun.WithScanStrategy(ptxrun.ScanRecursive)))
			require.Equal(t, Range{10, uint32(10 + n)}, dst[n-1])
			slices.Reverse(src)
			require.NoError(t, op.InclusiveScan(context.Background(), dst, src, ptxrun.WithScanReverse()))
			require.Equal(t, Range{10, uint32(10 + n)}, dst[0])
		}
		require.NoError(t, op.Close())
	})
}

func TestJoinIsAssociative(t *testing.T) {
	values := []Range{Empty, Broken, {1, 2}, {2, 3}, {3, 4}, {2, 2}, {1, 4}}
	for _, a := range values {
		for _, b := range values {
			for _, c := range values {
				assert.Equal(t, Join(Join(a, b), c), Join(a, Join(b, c)), fmt.Sprint(a, b, c))
			}
		}
	}
}
