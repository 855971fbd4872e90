package ptxrun

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/internal/hostdev"
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

// What was asked for, and where, is in the error; an empty name asks for nothing.
func TestOpenNamesWhatWasAsked(t *testing.T) {
	_, err := Open(WithDevice("nope"))
	require.ErrorIs(t, err, driver.ErrUnknownDevice)
	require.ErrorContains(t, err, `"nope": known are`)
	t.Setenv(EnvDevice, "emu:1")
	_, err = Open(WithDevice(""))
	require.ErrorIs(t, err, driver.ErrInvalidDevice)
	require.ErrorContains(t, err, "PTXRUN_DEVICE=emu:1: there is one")
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	require.NoError(t, rt.Close())
}

// A leaked buffer hides nothing of what the device tells when it is closed.
func TestCloseTellsAll(t *testing.T) {
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	require.NoError(t, err)
	rt := NewRuntime(dev)
	b, err := NewBuffer[uint32](rt, 100)
	require.NoError(t, err)
	_, err = dev.Alloc(77)
	require.NoError(t, err)
	_, err = dev.AllocHost(78)
	require.NoError(t, err)
	writeBehind(t, rt, b)
	err = rt.Close()
	require.ErrorIs(t, err, driver.ErrLeak)
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
	for _, part := range []string{
		"wrote to byte 405 of the device allocation of 400 bytes", "555 bytes in 3 allocations",
		"device allocation of 77 bytes", "host allocation of 78 bytes", "from runtime_test.go:",
	} {
		require.ErrorContains(t, err, part)
	}
}

// silent is a device that, as CUDA does, tells nothing of what is still held.
type silent struct{ driver.Device }

func (d silent) Close() error {
	d.Device.Close()
	return nil
}

func TestCloseCountsBuffers(t *testing.T) {
	dev, err := cpu.Open()
	require.NoError(t, err)
	rt := NewRuntime(silent{dev})
	_, err = NewBuffer[uint32](rt, 100)
	require.NoError(t, err)
	err = rt.Close()
	require.ErrorIs(t, err, driver.ErrLeak)
	require.ErrorContains(t, err, "Runtime.Close: memory still held: 400 bytes in 1 allocations, of buffers,")
}

// A buffer is gone when the device has told that something wrote beside it.
func TestFreeOfDamaged(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	b, err := NewBuffer[uint32](rt, 1)
	require.NoError(t, err)
	writeBehind(t, rt, b)
	require.ErrorIs(t, b.Free(), driver.ErrIllegalAddress)
	require.ErrorIs(t, b.Free(), driver.ErrClosed)
	s, err := NewStream(rt)
	require.NoError(t, err)
	require.ErrorIs(t, InclusiveScanBuffer(s, b, b, Sum), driver.ErrClosed)
	require.NoError(t, s.Close())
	require.NoError(t, rt.Close())
}

// writeBehind writes to the sixth byte behind b.
func writeBehind(t *testing.T, rt *Runtime, b *Buffer[uint32]) {
	m, err := rt.Device().(*hostdev.Device).Space().Resolve(b.Ptr(), 4)
	require.NoError(t, err)
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(m)), 4*b.Len()+5)) = 1
}

// Nil and zero values are refused, or are nothing, without a panic.
func TestNilValues(t *testing.T) {
	var rt *Runtime
	require.Zero(t, rt.Info())
	require.Nil(t, rt.Device())
	require.NoError(t, rt.Fallback())
	require.ErrorIs(t, rt.Close(), driver.ErrNil)
	rt = NewRuntime(nil)
	require.Zero(t, rt.Info())
	_, err := LCSLength(context.Background(), rt, []byte{1}, []byte{1})
	require.ErrorIs(t, err, driver.ErrNil)
	require.ErrorIs(t, rt.Close(), driver.ErrNil)
	require.ErrorIs(t, new(Buffer[byte]).Free(), driver.ErrNil)
}
