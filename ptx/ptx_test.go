package ptx

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// TestSourceChoosesTheHighestTarget asks for every module at every capability.
func TestSourceChoosesTheHighestTarget(t *testing.T) {
	several := 0
	for module, all := range variants {
		if len(all) > 1 {
			several++
		}
		for _, capability := range []int{61, 70, 75, 80, 86, 89, 90, 103, 120} {
			want := 0
			for _, v := range all {
				if v.target <= capability {
					want = max(want, v.target)
				}
			}
			text, target, err := Source(module, capability)
			if want == 0 {
				require.ErrorIs(t, err, driver.ErrNoBinaryForGPU, "%s at %d", module, capability)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, want, target, "%s at %d", module, capability)
			assert.Contains(t, string(text), fmt.Sprintf(".target sm_%d", target))
		}
	}
	assert.Positive(t, several, "some module has a choice")
}

func TestSourceErrors(t *testing.T) {
	_, _, err := Source("lcs", 61)
	assert.ErrorIs(t, err, driver.ErrNoBinaryForGPU)
	assert.ErrorContains(t, err, "needs compute capability 7.0, the device has 6.1")
	_, _, err = Source("scan_sum_u128", 90)
	assert.ErrorIs(t, err, driver.ErrNotFound)
	assert.ErrorContains(t, err, "scan_sum_u128")
}

// TestSourceIsACopy: a caller that writes into the text harms nobody else.
func TestSourceIsACopy(t *testing.T) {
	a, _, err := Source("lcs", 70)
	require.NoError(t, err)
	a[0] = 'x'
	b, _, err := Source("lcs", 70)
	require.NoError(t, err)
	assert.Equal(t, byte('/'), b[0])
}

func TestHeaders(t *testing.T) {
	for _, name := range []string{"device.cuh", "op.cuh", "warp.cuh", "block.cuh", "scan.cuh"} {
		_, err := fs.Stat(Headers(), name)
		assert.NoError(t, err)
	}
}

func TestNewest(t *testing.T) {
	text := func(target string) []byte { return []byte("// x\n.version 6.0\n.target " + target + "\n") }
	old, new := text("sm_70"), text("sm_90")
	for capability, want := range map[int][]byte{70: old, 86: old, 90: new, 100: new} {
		got, err := Newest([][]byte{new, old}, capability)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "capability %d", capability)
	}
	_, err := Newest([][]byte{new, old}, 61)
	require.ErrorIs(t, err, driver.ErrNoBinaryForGPU)
	require.ErrorContains(t, err, "needs compute capability 7.0, the device has 6.1")
	got, err := Newest([][]byte{[]byte("not PTX")}, 70)
	require.NoError(t, err)
	require.Equal(t, "not PTX", string(got))
}
