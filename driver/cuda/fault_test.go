//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

func TestErrorCodes(t *testing.T) {
	codes := []driver.Code{1, 2, 3, 4, 5, 46, 100, 101, 200, 201, 205, 209, 214, 218, 220, 221, 222, 300, 304,
		400, 401, 500, 700, 701, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 800, 801, 802, 803, 804, 900, 909, 999, 9999}
	for _, code := range codes {
		t.Run(fmt.Sprint(int(code)), func(t *testing.T) {
			d := open(t)
			s := newStream(t, d)
			fake.FailAt(1, "cuMemsetD8Async", code) // through the binding
			err := s.Fill(alloc(t, d, 8), 0, 8)
			fails(t, err, code, fmt.Sprintf("cuMemsetD8Async: %s (CUDA error %d)", code, int(code)))
			fake.FailAt(1, "cuMemcpyHtoDAsync_v2", code) // through the supplement
			fails(t, s.CopyToDevice(alloc(t, d, 8), make([]byte, 8)), code, "cuMemcpyHtoDAsync")
		})
	}
}

// A fault of a kernel loses the context: all that follows says so, and what is
// held goes with the context.
func TestLostContext(t *testing.T) {
	for _, code := range []driver.Code{driver.ErrIllegalAddress, driver.ErrLaunchFailed, driver.ErrAssert, driver.ErrMisaligned} {
		d := open(t)
		s, k := newStream(t, d), kernel(t, load(t, d), "none")
		p := alloc(t, d, 8)
		fake.LoseContexts(code)
		err := s.Synchronize()
		fails(t, err, code, "cuStreamSynchronize")
		assert.NotContains(t, err.Error(), "was lost before")
		_, err = d.Alloc(8)
		fails(t, err, code, "was lost before, as cuStreamSynchronize reported; start the process anew")
		err = s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.NewArgs())
		fails(t, err, code, "was lost before")
		fails(t, d.Free(p), code, "was lost before")
		fails(t, s.Close(), code, "was lost before")

		fails(t, d.Close(), code, "was lost before")
		assert.Zero(t, fake.Now().Contexts, "the context is released")
		again, err := cuda.Open(0)
		require.NoError(t, err)
		alloc(t, again, 8)
		assert.NoError(t, again.Close())
		fake.Reset() // what was in the lost context
	}
}

// scenario uses every call once, frees some of what it takes and leaves the rest
// to Close. It stops at the first error, and says how many calls came before the
// device was closed.
func scenario() (before int, err error) {
	d, err := cuda.Open(0)
	if err != nil {
		return fake.Calls(), err
	}
	defer func() {
		before = fake.Calls()
		if e := d.Close(); err == nil {
			err = e
		}
	}()
	try := func(e error) bool {
		if err == nil {
			err = e
		}
		return err == nil
	}
	var (
		s, s2  driver.Stream
		e1, e2 driver.Event
		m      driver.Module
		k      driver.Kernel
		h      driver.HostMemory
		p      [4]driver.Ptr
	)
	host := make([]byte, 64)
	config := driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}
	for _, step := range []func() error{
		func() (e error) { _, _, e = d.MemInfo(); return },
		func() (e error) { s, e = d.NewStream(); return },
		func() (e error) { s2, e = d.NewStream(); return },
		func() (e error) { e1, e = d.NewEvent(true); return },
		func() (e error) { e2, e = d.NewEvent(true); return },
		func() (e error) { h, e = d.AllocHost(64); return },
		func() (e error) { _, e = d.AllocHost(64); return },
		func() (e error) { p[0], e = d.Alloc(64); return },
		func() (e error) { p[1], e = d.Alloc(64); return },
		func() (e error) { p[2], e = s.Alloc(64); return },
		func() (e error) { p[3], e = s.Alloc(64); return },
		func() (e error) { m, e = d.Load(driver.Image{Name: "a", PTX: []byte(ptx)}); return },
		func() (e error) { _, e = d.Load(driver.Image{Name: "b", PTX: []byte(ptx)}); return },
		func() (e error) { k, e = m.Kernel("copy"); return },
		func() (e error) { _, e = k.Attributes(); return },
		func() (e error) { _, e = k.Occupancy(32, 0); return },
		func() error { return k.SetMaxDynamicShared(1024) },
		func() error { return s.Record(e1) },
		func() error { return s.CopyToDevice(p[0], host) },
		func() error { return s.CopyToDevice(p[0], h.Bytes) },
		func() error { return s.Launch(k, config, driver.NewArgs().Ptr(p[0]).Uint64(1).Uint32(2)) },
		func() error { return s.Copy(p[1], p[0], 64) },
		func() error { return s.Fill(p[1], 0, 64) },
		func() error { return s.CopyToHost(host, p[1]) },
		func() error { return s.CopyToHost(h.Bytes, p[1]) },
		func() error { return s.Record(e2) },
		func() error { return s2.Wait(e2) },
		func() (e error) { _, e = s.Query(); return },
		func() (e error) { _, e = e2.Query(); return },
		func() error { return e2.Synchronize() },
		func() error { return s.Synchronize() },
		func() (e error) { _, e = e2.Since(e1); return },
		func() error { return s.Free(p[0]) },
		func() error { return d.Free(p[1]) },
		func() error { return s.Free(p[2]) },
		func() error { return d.FreeHost(h) },
		func() error { return e1.Close() },
		func() error { return m.Close() },
		func() error { return s.Close() },
	} {
		if !try(step()) {
			return before, err
		}
	}
	return before, err
}

// Whichever call fails, its error comes back and nothing stays live. What fails
// in Close itself is the one thing that may: there is nobody to try again.
func TestEveryCallFails(t *testing.T) {
	for _, busy := range []bool{false, true} {
		fake.Reset()
		_, err := scenario()
		require.NoError(t, err)
		total := fake.Calls()
		require.Equal(t, fake.Live{}, fake.Now())
		for n := 1; n <= total; n++ {
			fake.Reset()
			fake.SetBusy(busy)
			fake.FailAt(n, "", driver.ErrUnknown)
			before, err := scenario()
			call := fmt.Sprintf("call %d of %d (%s)", n, total, fake.Failed())
			if fake.Failed() == "" {
				continue // fewer calls than when nothing is busy
			}
			assert.ErrorIs(t, err, driver.ErrUnknown, call)
			live, mayStay := fake.Now(), 0
			if n > before {
				mayStay = 1
			}
			assert.LessOrEqual(t, live.Objects(), mayStay, "%s: %+v", call, live)
			if !strings.Contains(fake.Failed(), "PrimaryCtxRelease") {
				assert.Zero(t, live.Contexts, call)
			}
			assert.Zero(t, fake.WrongContext(), call)
		}
	}
	fake.Reset()
}

// Goroutines move between threads, and others in the process set contexts of
// their own: every call must be made in the device's context.
func TestThreads(t *testing.T) {
	d := open(t)
	m := load(t, d)
	stop := make(chan struct{})
	var others, users sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := cu.SetCurrentContext(cu.CUContext{}); err != nil {
						panic(err)
					}
					runtime.Gosched()
				}
			}
		})
	}
	for g := range 8 {
		users.Go(func() {
			for i := range 50 {
				if err := use(d, m, byte(g*50+i)); err != nil {
					assert.NoError(t, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	users.Wait()
	close(stop)
	others.Wait()
	assert.Zero(t, fake.WrongContext())
	assert.Equal(t, fake.Live{Contexts: 1, Modules: 1}, fake.Now())
}

// use is a job of its own on a shared device.
func use(d driver.Device, m driver.Module, value byte) error {
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	p, err := s.Alloc(256)
	if err != nil {
		return err
	}
	k, err := m.Kernel("copy")
	if err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(p).Uint64(2).Uint32(3)
	defer a.Release()
	if err := s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, a); err != nil {
		return err
	}
	if err := s.Fill(p, value, 256); err != nil {
		return err
	}
	host := make([]byte, 256)
	if err := s.CopyToHost(host, p); err != nil {
		return err
	}
	for _, b := range host {
		if b != value {
			return fmt.Errorf("%d instead of %d", b, value)
		}
	}
	if err := s.Free(p); err != nil {
		return err
	}
	return s.Close()
}

// Closing under load lets calls in flight finish and refuses the others.
func TestCloseUnderLoad(t *testing.T) {
	for range 20 {
		d := open(t)
		m := load(t, d)
		s, e := newStream(t, d), newEvent(t, d, true)
		var users sync.WaitGroup
		started := make(chan struct{}, 8)
		for range 4 {
			users.Go(func() {
				for i := 0; ; i++ {
					if err := use(d, m, 1); err != nil {
						assert.ErrorIs(t, err, driver.ErrClosed)
						return
					}
					if i == 1 {
						started <- struct{}{}
					}
				}
			})
			users.Go(func() {
				for i := 0; ; i++ {
					if err := s.Record(e); err != nil {
						assert.ErrorIs(t, err, driver.ErrClosed)
						return
					}
					if i == 1 {
						started <- struct{}{}
					}
				}
			})
		}
		for range 8 {
			<-started
		}
		users.Go(func() {
			if err := s.Close(); err != nil {
				assert.ErrorIs(t, err, driver.ErrClosed)
			}
		})
		assert.NoError(t, d.Close())
		users.Wait()
	}
}
