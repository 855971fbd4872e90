package ptxrun

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// An operator that ends its goroutine, as a test's FailNow does, fails its call and
// no more: on the stream's own goroutine (one tile) and on helpers (many).
func TestOperatorEndsGoroutine(t *testing.T) {
	rt := openCPU(t)
	for _, n := range []int{2, 5000, 300_001} {
		exits := true
		op, err := NewOperator(rt, OperatorSpec[uint32]{Name: "exits", Combine: func(a, b uint32) uint32 {
			if exits {
				runtime.Goexit()
			}
			return a + b
		}})
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		src := make([]uint32, n)
		src[0] = 3
		for range 3 {
			exits = true
			got := make([]uint32, n)
			require.ErrorIs(t, op.InclusiveScan(t.Context(), got, src), driver.ErrLaunchFailed, "n %d", n)
			require.Equal(t, uint32(0), got[0], "dst is untouched")

			b, err := NewBufferFrom(s, src)
			require.NoError(t, err)
			require.NoError(t, op.InclusiveScanBuffer(s, b, b))
			err = s.Synchronize()
			require.ErrorIs(t, err, driver.ErrLaunchFailed)
			require.ErrorContains(t, err, "runtime.Goexit was called")

			exits = false
			require.NoError(t, b.CopyFrom(s, src))
			require.NoError(t, op.InclusiveScanBuffer(s, b, b))
			require.NoError(t, b.CopyTo(s, got))
			require.Equal(t, uint32(3), got[n-1])
			require.NoError(t, b.Free())
		}
		require.NoError(t, s.Close())
		require.NoError(t, op.Close())
	}
}
