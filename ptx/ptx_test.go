package ptx

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestSourceChoosesTheHighestTarget(t *testing.T) {
	for capability, want := range map[int]int{70: 70, 75: 70, 80: 80, 86: 80, 89: 80, 90: 90, 103: 90, 120: 90} {
		text, target, err := Source("scan_sum_u32", capability)
		require.NoError(t, err)
		assert.Equal(t, want, target, "capability %d", capability)
		assert.NotEmpty(t, text)
	}
	// A module without newer variants serves all from its oldest.
	_, target, err := Source("lcs", 120)
	require.NoError(t, err)
	assert.Equal(t, 70, target)
}

func TestSourceErrors(t *testing.T) {
	_, _, err := Source("scan_sum_u32", 61)
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
