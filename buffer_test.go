package ptxrun

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestView(t *testing.T) {
	rt := openCPU(t)
	s, err := NewStream(rt)
	require.NoError(t, err)
	whole, err := NewBufferFrom(s, []uint16{1, 2, 3, 4, 5, 6, 7})
	require.NoError(t, err)
	part, err := View[uint32](whole, 4, 2)
	require.NoError(t, err)
	got := make([]uint32, 2)
	require.NoError(t, part.CopyTo(s, got))
	assert.Equal(t, []uint32{3 | 4<<16, 5 | 6<<16}, got)
	assert.ErrorIs(t, part.Free(), driver.ErrInvalidValue)
	for _, offset := range []int{0, 1, 14} { // nothing is aligned to everything
		none, err := View[uint64](whole, offset, 0)
		require.NoError(t, err)
		assert.Zero(t, none.Ptr())
	}
	for _, c := range []struct{ offset, n int }{{-4, 1}, {0, -1}, {12, 1}, {16, 0}, {4, 3}, {0, 1 << 62}} {
		_, err = View[uint32](whole, c.offset, c.n)
		assert.ErrorIs(t, err, driver.ErrLength, c)
	}
	_, err = View[uint32](whole, 2, 2)
	assert.ErrorIs(t, err, driver.ErrInvalidValue)
	_, err = View[*byte](whole, 0, 1)
	assert.ErrorIs(t, err, driver.ErrElementType)
	_, err = View[byte, byte](nil, 0, 0)
	assert.ErrorIs(t, err, driver.ErrNil)
	require.NoError(t, whole.Free())
	assert.ErrorIs(t, part.CopyTo(s, got), driver.ErrClosed, "of memory that was freed")
	require.NoError(t, s.Close())
}
