//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

func TestStreamsAndEvents(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, load(t, d), "none")
	begin, end, plain := newEvent(t, d, true), newEvent(t, d, true), newEvent(t, d, false)

	done, err := end.Query()
	assert.NoError(t, err)
	assert.True(t, done, "an event never recorded counts as reached")

	fake.SetBusy(true)
	require.NoError(t, s.Record(begin))
	require.NoError(t, s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.NewArgs()))
	require.NoError(t, s.Record(end))
	require.NoError(t, s.Record(plain))
	require.NoError(t, s.Wait(plain))
	done, err = s.Query()
	assert.NoError(t, err)
	assert.False(t, done)
	done, err = end.Query()
	assert.NoError(t, err)
	assert.False(t, done)
	_, err = end.Since(begin)
	fails(t, err, driver.ErrNotReady, "cuEventElapsedTime")

	require.NoError(t, end.Synchronize())
	require.NoError(t, s.Synchronize())
	done, err = s.Query()
	assert.NoError(t, err)
	assert.True(t, done)
	ms, err := end.Since(begin)
	assert.NoError(t, err)
	assert.Positive(t, ms)
	_, err = end.Since(plain)
	fails(t, err, driver.ErrInvalidHandle, "without timing")
	_, err = plain.Since(begin)
	fails(t, err, driver.ErrInvalidHandle, "without timing")
}

type foreignEvent struct{ driver.Event }

func TestForeignEvents(t *testing.T) {
	d := open(t)
	other, err := cuda.Open(0)
	require.NoError(t, err)
	s, e := newStream(t, d), newEvent(t, d, true)
	for _, x := range []driver.Event{foreignEvent{}, newEvent(t, other, true)} {
		fails(t, s.Record(x), driver.ErrWrongDevice, "the event")
		fails(t, s.Wait(x), driver.ErrWrongDevice, "the event")
		_, err := e.Since(x)
		fails(t, err, driver.ErrWrongDevice, "the event")
	}
	fails(t, s.Record(nil), driver.ErrNil, "the event")
	fails(t, s.Wait(nil), driver.ErrNil, "the event")
	_, err = e.Since(nil)
	fails(t, err, driver.ErrNil, "the event")
	assert.NoError(t, other.Close())
}

// everything calls each method of what a device gave out.
func everything(d driver.Device, s driver.Stream, e driver.Event, m driver.Module, k driver.Kernel, h driver.HostMemory) map[string]error {
	one := func(_ any, err error) error { return err }
	_, _, memInfo := d.MemInfo()
	buffer := make([]byte, 8)
	return map[string]error{
		"Device.MemInfo": memInfo, "Device.Alloc": one(d.Alloc(8)), "Device.Free": d.Free(8),
		"Device.AllocHost": one(d.AllocHost(8)), "Device.FreeHost": d.FreeHost(h),
		"Device.NewStream": one(d.NewStream()), "Device.NewEvent": one(d.NewEvent(false)),
		"Device.Load": one(d.Load(driver.Image{PTX: []byte(ptx)})), "Device.Close": d.Close(),
		"Stream.Alloc": one(s.Alloc(8)), "Stream.Free": s.Free(8), "Stream.CopyToDevice": s.CopyToDevice(8, buffer),
		"Stream.CopyToHost": s.CopyToHost(buffer, 8), "Stream.Copy": s.Copy(8, 800, 8), "Stream.Fill": s.Fill(8, 1, 8),
		"Stream.Launch": s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.NewArgs()),
		"Stream.Record": s.Record(e), "Stream.Wait": s.Wait(e), "Stream.Query": one(s.Query()),
		"Stream.Synchronize": s.Synchronize(), "Stream.Close": s.Close(),
		"Stream.CopyToDevice of nothing": s.CopyToDevice(8, nil), "Stream.CopyToHost of nothing": s.CopyToHost(nil, 8),
		"Stream.Copy of nothing": s.Copy(8, 8, 0), "Stream.Fill of nothing": s.Fill(8, 0, 0),
		"Event.Query": one(e.Query()), "Event.Synchronize": e.Synchronize(), "Event.Since": one(e.Since(e)), "Event.Close": e.Close(),
		"Module.Kernel": one(m.Kernel("none")), "Module.Close": m.Close(),
		"Kernel.Attributes": one(k.Attributes()), "Kernel.Occupancy": one(k.Occupancy(32, 0)), "Kernel.SetMaxDynamicShared": k.SetMaxDynamicShared(0),
	}
}

func TestClosedDevice(t *testing.T) {
	d := open(t)
	s, e, m := newStream(t, d), newEvent(t, d, true), load(t, d)
	k := kernel(t, m, "none")
	h, err := d.AllocHost(8)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	assert.Empty(t, since(func() {
		for call, err := range everything(d, s, e, m, k, h) {
			fails(t, err, driver.ErrClosed, "closed")
			assert.Error(t, err, call)
		}
	}))
}

func TestClosedObjects(t *testing.T) {
	d := open(t)
	s, e, m := newStream(t, d), newEvent(t, d, true), load(t, d)
	k := kernel(t, m, "none")
	c, a := driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.NewArgs()
	require.NoError(t, e.Close())
	assert.ErrorIs(t, e.Close(), driver.ErrClosed)
	assert.ErrorIs(t, s.Record(e), driver.ErrClosed)
	assert.ErrorIs(t, s.Wait(e), driver.ErrClosed)
	_, err := newEvent(t, d, true).Since(e)
	fails(t, err, driver.ErrClosed, "the event")
	require.NoError(t, m.Close())
	assert.ErrorIs(t, m.Close(), driver.ErrClosed)
	fails(t, s.Launch(k, c, a), driver.ErrClosed, "the module")
	require.NoError(t, s.Close())
	assert.ErrorIs(t, s.Close(), driver.ErrClosed)
	fails(t, s.Launch(k, c, a), driver.ErrClosed, "the stream")
	_, err = d.Alloc(8)
	assert.NoError(t, err, "the device is open")
}

// Close gives back all that the user left, and waits for the work first.
func TestCloseReleases(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	newEvent(t, d, false)
	load(t, d)
	alloc(t, d, 8)
	_, err := s.Alloc(8)
	require.NoError(t, err)
	_, err = d.AllocHost(8)
	require.NoError(t, err)
	assert.Equal(t, fake.Live{Contexts: 1, Streams: 1, Events: 1, Modules: 1, Allocations: 2, HostBlocks: 1}, fake.Now())
	calls := since(func() { require.NoError(t, d.Close()) })
	assert.Equal(t, "cuCtxSynchronize", calls[0])
	assert.Equal(t, "cuDevicePrimaryCtxRelease_v2", calls[len(calls)-1])
	assert.Equal(t, fake.Live{}, fake.Now())
}
