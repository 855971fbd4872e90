package ptxrun

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// Close waits for who holds the runtime, and refuses whoever comes then.
func TestHold(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	require.NoError(t, rt.Hold())
	m, err := rt.Device().AllocHost(4096)
	require.NoError(t, err)
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	for rt.Hold() == nil { // until Close has begun
		rt.Release()
		time.Sleep(time.Millisecond)
	}
	select {
	case <-closed:
		t.Fatal("closed while it was held")
	case <-time.After(20 * time.Millisecond):
	}
	m.Bytes[4095] = 1
	require.NoError(t, rt.Device().FreeHost(m))
	rt.Release()
	require.NoError(t, <-closed)
	require.ErrorIs(t, rt.Hold(), driver.ErrClosed)
	require.ErrorIs(t, (*Runtime)(nil).Hold(), driver.ErrNil)
}
