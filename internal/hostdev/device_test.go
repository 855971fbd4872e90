package hostdev

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// testBackend has the same kernels in every module.
type testBackend struct {
	kernels  map[string]*testKernel
	loadErr  error
	unloads  atomic.Int32
	mu       sync.Mutex
	observed []driver.Ptr
}

func (b *testBackend) Load(driver.Image, *Space) (Module, error) {
	if b.loadErr != nil {
		return nil, b.loadErr
	}
	return testModule{b}, nil
}

func (b *testBackend) Wrote(dst, src driver.Ptr, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observed = append(b.observed, dst, src, driver.Ptr(bytes))
}

type testModule struct{ b *testBackend }

func (m testModule) Kernel(name string) Kernel {
	if k := m.b.kernels[name]; k != nil {
		return k
	}
	return nil
}

func (m testModule) Close() error { m.b.unloads.Add(1); return nil }

type testKernel struct {
	run    func(c driver.Config, a *driver.Args) error
	params []driver.Param
	attr   driver.KernelAttributes
}

func (k *testKernel) Attributes() driver.KernelAttributes       { return k.attr }
func (k *testKernel) Params() []driver.Param                    { return k.params }
func (k *testKernel) Occupancy(int, int64) int                  { return 3 }
func (k *testKernel) Run(c driver.Config, a *driver.Args) error { return k.run(c, a) }
func kernelFunc(f func() error) *testKernel {
	return &testKernel{run: func(driver.Config, *driver.Args) error { return f() }}
}

var testInfo = driver.Info{
	Kind: driver.KindEmu, MaxThreadsPerBlock: 1024, MaxGridX: 1<<31 - 1,
	SharedPerBlock: 48 << 10, SharedPerBlockMax: 100 << 10, TotalMemory: 1 << 30,
}

var shape = driver.Config{Grid: driver.D1(1), Block: driver.D1(32), N: 5}

// rig is a device with one stream and kernels.
type rig struct {
	testing.TB
	*Device
	b    *testBackend
	s    driver.Stream
	m    driver.Module
	args *driver.Args
}

func newRig(t testing.TB, kernels map[string]*testKernel) *rig {
	b := &testBackend{kernels: kernels}
	d, err := New(testInfo, b, WithPoison())
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	m, err := d.Load(driver.Image{Name: "mod"})
	require.NoError(t, err)
	t.Cleanup(func() {
		if !d.closed.Load() {
			assert.NoError(t, d.Close())
		}
	})
	return &rig{TB: t, Device: d, b: b, s: s, m: m, args: driver.NewArgs()}
}

func (r *rig) kernel(name string) driver.Kernel {
	k, err := r.m.Kernel(name)
	require.NoError(r, err)
	return k
}

func (r *rig) launch(s driver.Stream, name string) {
	require.NoError(r, s.Launch(r.kernel(name), shape, r.args))
}

func (r *rig) alloc(bytes int64) driver.Ptr {
	p, err := r.Alloc(bytes)
	require.NoError(r, err)
	return p
}

func (r *rig) stream() driver.Stream {
	s, err := r.NewStream()
	require.NoError(r, err)
	return s
}

func (r *rig) event(timing bool) driver.Event {
	e, err := r.NewEvent(timing)
	require.NoError(r, err)
	return e
}

// gate is a kernel that waits until it is opened.
type gate struct {
	started, open chan struct{}
}

func newGate() gate { return gate{make(chan struct{}, 100), make(chan struct{})} }

func (g gate) kernel() *testKernel {
	return kernelFunc(func() error { g.started <- struct{}{}; <-g.open; return nil })
}

func TestCopies(t *testing.T) {
	r := newRig(t, nil)
	p, q := r.alloc(100), r.alloc(100)
	src := []byte("some bytes")
	require.NoError(t, r.s.Fill(p, 'x', 100))
	require.NoError(t, r.s.CopyToDevice(p+3, src))
	require.NoError(t, r.s.Copy(q+1, p+2, 20))
	dst := make([]byte, 22)
	require.NoError(t, r.s.CopyToHost(dst, q))
	assert.Equal(t, "xsome bytesxxxxxxxxx", string(dst[1:21]))
	assert.EqualValues(t, newByte, dst[0])
	assert.EqualValues(t, newByte, dst[21])
	assert.Equal(t, []driver.Ptr{p, 0, 100, p + 3, 0, 10, q + 1, p + 2, 20}, r.b.observed)

	for name, empty := range map[string]func() error{
		"to device": func() error { return r.s.CopyToDevice(0, nil) },
		"to host":   func() error { return r.s.CopyToHost(nil, 0) },
		"copy":      func() error { return r.s.Copy(0, 0, 0) },
		"fill":      func() error { return r.s.Fill(0, 1, 0) },
	} {
		assert.NoError(t, empty(), name)
	}
	require.NoError(t, r.Free(p))
	require.NoError(t, r.Free(q))
}

func TestBadCopies(t *testing.T) {
	r := newRig(t, nil)
	p, q := r.alloc(100), r.alloc(100)
	b := make([]byte, 101)
	for want, errs := range map[driver.Code][]error{
		driver.ErrIllegalAddress: {
			r.s.CopyToDevice(0, b), r.s.CopyToDevice(p, b), r.s.CopyToDevice(p+100, b[:1]),
			r.s.CopyToHost(b, p), r.s.CopyToHost(b[:1], 1),
			r.s.Copy(p, q, 101), r.s.Copy(p, 7, 1), r.s.Copy(7, p, 1), r.s.Copy(p, q, 1<<63-1),
			r.s.Fill(p+50, 0, 51), r.s.Fill(0, 0, 1),
		},
		driver.ErrInvalidValue: {r.s.Copy(p, q, -1), r.s.Fill(p, 0, -1)},
		driver.ErrOverlap:      {r.s.Copy(p, p, 1), r.s.Copy(p, p+9, 10), r.s.Copy(p+9, p, 10)},
	} {
		for i, err := range errs {
			assert.ErrorIs(t, err, want, i)
		}
	}
	require.NoError(t, r.s.Copy(p+10, p, 10))
	require.NoError(t, r.s.Synchronize(), "a refused call leaves no error behind")
	require.NoError(t, r.Free(p))
	require.NoError(t, r.Free(q))
}

// TestPinnedCopies checks which copies wait for the stream and which do not.
func TestPinnedCopies(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	p := r.alloc(4)
	h, err := r.AllocHost(4)
	require.NoError(t, err)
	k, err := r.AllocHost(4)
	require.NoError(t, err)
	copy(h.Bytes, "pins")
	copy(k.Bytes, "....")

	r.launch(r.s, "gate")
	require.NoError(t, r.s.CopyToDevice(p, h.Bytes))
	require.NoError(t, r.s.CopyToHost(k.Bytes, p))
	done, err := r.s.Query()
	require.NoError(t, err)
	assert.False(t, done)
	assert.Equal(t, "....", string(k.Bytes), "the copy waits for the kernel, not the caller for the copy")

	pageable := make([]byte, 4)
	copied := make(chan error)
	go func() { copied <- r.s.CopyToHost(pageable, p) }()
	select {
	case <-copied:
		t.Fatal("the copy to pageable memory overtook the kernel")
	case <-time.After(10 * time.Millisecond):
	}
	close(g.open)
	require.NoError(t, <-copied)
	assert.Equal(t, "pins", string(pageable))
	require.NoError(t, r.s.Synchronize())
	assert.Equal(t, "pins", string(k.Bytes))
	done, err = r.s.Query()
	require.NoError(t, err)
	assert.True(t, done)

	b, err := r.Space().Resolve(h.Ptr, 4)
	require.NoError(t, err)
	assert.Same(t, &h.Bytes[0], &b[0], "kernels see the host's own bytes")
	require.NoError(t, r.Free(p))
	require.NoError(t, r.FreeHost(h))
	require.NoError(t, r.FreeHost(k))
	require.ErrorIs(t, r.FreeHost(k), driver.ErrInvalidValue)
	require.ErrorIs(t, r.FreeHost(driver.HostMemory{}), driver.ErrInvalidValue)
}

// TestPageableSourceIsFreeAfterwards overwrites the source right after the call,
// while the stream was busy.
func TestPageableSourceIsFreeAfterwards(t *testing.T) {
	r := newRig(t, map[string]*testKernel{"slow": kernelFunc(func() error { time.Sleep(2 * time.Millisecond); return nil })})
	p := r.alloc(1)
	r.launch(r.s, "slow")
	src := []byte{1}
	require.NoError(t, r.s.CopyToDevice(p, src))
	src[0] = 2
	dst := make([]byte, 1)
	require.NoError(t, r.s.CopyToHost(dst, p))
	assert.Equal(t, []byte{1}, dst)
	require.NoError(t, r.Free(p))
}

func TestStreamOrder(t *testing.T) {
	var order []uint32 // unguarded: the race detector watches that nothing overlaps
	r := newRig(t, map[string]*testKernel{"note": {run: func(_ driver.Config, a *driver.Args) error {
		in := a.Reader()
		order = append(order, in.Uint32())
		return nil
	}}})
	k := r.kernel("note")
	for i := range uint32(1000) {
		a := driver.NewArgs().Uint32(i)
		require.NoError(t, r.s.Launch(k, shape, a))
		a.Release()
	}
	require.NoError(t, r.s.Synchronize())
	require.Len(t, order, 1000)
	for i, v := range order {
		require.EqualValues(t, i, v)
	}
}

// TestStreamFromManyGoroutines gives work by launches and by inline copies at
// the same time; each must run alone.
func TestStreamFromManyGoroutines(t *testing.T) {
	count := 0
	r := newRig(t, map[string]*testKernel{"count": kernelFunc(func() error { count++; return nil })})
	k := r.kernel("count")
	p := r.alloc(8)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b := make([]byte, 8)
			for range 300 {
				assert.NoError(t, r.s.Launch(k, shape, r.args))
				assert.NoError(t, r.s.CopyToDevice(p, b))
				_, err := r.s.Query()
				assert.NoError(t, err)
			}
			assert.NoError(t, r.s.Synchronize())
		})
	}
	wg.Wait()
	assert.Equal(t, 1200, count)
	require.NoError(t, r.Free(p))
}

func TestStreamsRunIndependently(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel(), "nop": kernelFunc(func() error { return nil })})
	r.launch(r.s, "gate")
	other := r.stream()
	r.launch(other, "nop")
	require.NoError(t, other.Synchronize())
	close(g.open)
	require.NoError(t, other.Close())
}

func TestStreamOrderedFree(t *testing.T) {
	g := newGate()
	var seen error
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	p, err := r.s.Alloc(10)
	require.NoError(t, err)
	r.b.kernels["use"] = kernelFunc(func() error { _, seen = r.Space().Resolve(p, 10); return nil })
	r.launch(r.s, "gate")
	require.NoError(t, r.s.Fill(p, 1, 10))
	r.launch(r.s, "use")
	require.NoError(t, r.s.Free(p))
	for name, err := range map[string]error{
		"fill":         r.s.Fill(p, 1, 10),
		"copy to host": r.s.CopyToHost(make([]byte, 1), p),
		"copy from":    r.s.Copy(1, p, 1),
		"copy to":      r.s.CopyToDevice(p, []byte{1}),
	} {
		assert.ErrorIs(t, err, driver.ErrIllegalAddress, name)
	}
	require.ErrorIs(t, r.s.Free(p), driver.ErrInvalidValue)
	require.ErrorIs(t, r.Free(p), driver.ErrInvalidValue)
	close(g.open)
	require.NoError(t, r.s.Synchronize())
	require.NoError(t, seen, "work given before the free still reaches the memory")
	count, _ := r.Space().Usage()
	assert.Zero(t, count)

	_, err = r.s.Alloc(0)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	p, err = r.s.Alloc(1)
	require.NoError(t, err)
	require.NoError(t, r.s.Free(p), "idle streams free at once")
	assert.Nil(t, r.Space().Find(p))
}

// TestFreedOnAnotherStream frees what work accepted earlier is going to use.
func TestFreedOnAnotherStream(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	p := r.alloc(10)
	other := r.stream()
	r.launch(r.s, "gate")
	require.NoError(t, r.s.Fill(p, 1, 10))
	require.NoError(t, other.Free(p))
	close(g.open)
	err := r.s.Synchronize()
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
	assert.ErrorContains(t, err, "Fill")
	assert.ErrorContains(t, err, "used after free")
}

func TestDeviceFreeWaits(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	p := r.alloc(10)
	r.launch(r.s, "gate")
	freed := make(chan error)
	go func() { freed <- r.Free(p) }()
	select {
	case <-freed:
		t.Fatal("freed under a running kernel")
	case <-time.After(10 * time.Millisecond):
	}
	assert.False(t, r.Space().Find(p).Freed())
	close(g.open)
	require.NoError(t, <-freed)
}

func TestFailureSticks(t *testing.T) {
	ran := 0
	r := newRig(t, map[string]*testKernel{
		"fail": kernelFunc(func() error { return errors.New("boom") }),
		"next": kernelFunc(func() error { ran++; return nil }),
	})
	g := newGate()
	r.b.kernels["gate"] = g.kernel()
	p := r.alloc(10)
	e := r.event(false)
	r.launch(r.s, "gate")
	r.launch(r.s, "fail")
	r.launch(r.s, "next")
	require.NoError(t, r.s.Record(e))
	close(g.open)
	for {
		done, err := r.s.Query()
		if err != nil {
			require.ErrorIs(t, err, driver.ErrLaunchFailed)
			assert.ErrorContains(t, err, "boom [kernel fail, grid 1×1×1, block 32×1×1, n 5]")
			break
		}
		require.False(t, done, "the failure must be seen before the end of the work")
	}
	require.ErrorIs(t, e.Synchronize(), driver.ErrLaunchFailed)
	_, err := e.Query()
	require.ErrorIs(t, err, driver.ErrLaunchFailed)
	for name, err := range map[string]error{
		"launch": r.s.Launch(r.kernel("next"), shape, r.args),
		"copy":   r.s.CopyToDevice(p, []byte{1}),
		"fill":   r.s.Fill(p, 1, 1),
		"record": r.s.Record(e),
		"wait":   r.s.Wait(e),
	} {
		assert.ErrorIs(t, err, driver.ErrLaunchFailed, name)
	}
	_, err = r.s.Alloc(1)
	require.ErrorIs(t, err, driver.ErrLaunchFailed)
	require.NoError(t, r.s.Free(p), "memory can be freed on a failed stream")
	require.ErrorIs(t, r.s.Synchronize(), driver.ErrLaunchFailed)
	assert.Zero(t, ran, "work behind a failure is skipped")

	require.NoError(t, r.s.Synchronize(), "Synchronize has returned it")
	r.launch(r.s, "next")
	require.NoError(t, r.s.Synchronize())
	assert.Equal(t, 1, ran)

	r.launch(r.s, "fail")
	require.ErrorIs(t, r.s.Close(), driver.ErrLaunchFailed)
}

// TestFailureReachesWaitingStreams: through an event behind the failing work,
// and not through one before it.
func TestFailureReachesWaitingStreams(t *testing.T) {
	g := newGate()
	ran := 0
	r := newRig(t, map[string]*testKernel{
		"gate": g.kernel(),
		"fail": kernelFunc(func() error { return errors.New("boom") }),
		"next": kernelFunc(func() error { ran++; return nil }),
	})
	before, behind := r.event(false), r.event(false)
	early, late, later := r.stream(), r.stream(), r.stream()
	r.launch(r.s, "gate")
	require.NoError(t, r.s.Record(before))
	r.launch(r.s, "fail")
	require.NoError(t, r.s.Record(behind))
	require.NoError(t, early.Wait(before))
	require.NoError(t, late.Wait(behind))
	r.launch(late, "next")
	close(g.open)
	require.NoError(t, before.Synchronize())
	require.ErrorIs(t, behind.Synchronize(), driver.ErrLaunchFailed)
	require.NoError(t, later.Wait(behind))
	require.NoError(t, early.Synchronize())
	require.ErrorIs(t, late.Synchronize(), driver.ErrLaunchFailed)
	require.ErrorIs(t, later.Synchronize(), driver.ErrLaunchFailed)
	assert.Zero(t, ran)
	done, err := before.Query()
	require.NoError(t, err)
	assert.True(t, done)
	require.ErrorIs(t, r.s.Synchronize(), driver.ErrLaunchFailed)
}

func TestFailureReachesACopy(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel(), "fail": kernelFunc(func() error { return driver.Errorf("x", driver.ErrHang, "y") })})
	p := r.alloc(1)
	r.launch(r.s, "gate")
	r.launch(r.s, "fail")
	time.AfterFunc(time.Millisecond, func() { close(g.open) })
	dst := []byte{9}
	require.ErrorIs(t, r.s.CopyToHost(dst, p), driver.ErrHang)
	assert.Equal(t, []byte{9}, dst)
	require.ErrorIs(t, r.s.Synchronize(), driver.ErrHang)
	require.NoError(t, r.Free(p))
}

func TestPanicBecomesAnError(t *testing.T) {
	r := newRig(t, map[string]*testKernel{"panic": kernelFunc(func() error {
		var s []int
		return errors.New(string(rune(s[len(s)])))
	})})
	r.launch(r.s, "panic")
	err := r.s.Synchronize()
	require.ErrorIs(t, err, driver.ErrLaunchFailed)
	assert.ErrorContains(t, err, "index out of range")
	assert.ErrorContains(t, err, "device_test.go:")
}

func TestLaunchRefused(t *testing.T) {
	nop := func(driver.Config, *driver.Args) error { return nil }
	r := newRig(t, map[string]*testKernel{
		"any":   {run: nop},
		"small": {run: nop, attr: driver.KernelAttributes{MaxThreads: 128, SharedStatic: 1 << 10}},
		"typed": {run: nop, params: []driver.Param{{Offset: 0, Size: 4}, {Offset: 8, Size: 8}}},
	})
	other := newRig(t, map[string]*testKernel{"any": {run: nop}})
	block := func(x, y, z uint32) driver.Config {
		return driver.Config{Grid: driver.D1(1), Block: driver.Dim3{X: x, Y: y, Z: z}}
	}
	grid := func(x, y, z uint32) driver.Config {
		return driver.Config{Grid: driver.Dim3{X: x, Y: y, Z: z}, Block: driver.D1(1)}
	}
	shared := func(n int64) driver.Config { return driver.Config{Grid: driver.D1(1), Block: driver.D1(1), Shared: n} }
	args := driver.NewArgs
	var nilKernel *kernel
	for name, c := range map[string]struct {
		kernel driver.Kernel
		config driver.Config
		args   *driver.Args
		code   driver.Code
		text   string
	}{
		"nil kernel":      {nil, shape, args(), driver.ErrNil, "kernel"},
		"nil in kernel":   {nilKernel, shape, args(), driver.ErrNil, "kernel"},
		"foreign kernel":  {other.kernel("any"), shape, args(), driver.ErrWrongDevice, "kernel any"},
		"nil args":        {r.kernel("any"), shape, nil, driver.ErrNil, "arguments"},
		"zero config":     {r.kernel("any"), driver.Config{}, args(), driver.ErrInvalidValue, "a grid of no blocks"},
		"grid.y 0":        {r.kernel("any"), grid(1, 0, 1), args(), driver.ErrInvalidValue, "a grid of no blocks"},
		"grid.z 0":        {r.kernel("any"), grid(1, 1, 0), args(), driver.ErrInvalidValue, "a grid of no blocks"},
		"grid.x large":    {r.kernel("any"), grid(1<<31, 1, 1), args(), driver.ErrInvalidValue, "larger than 2147483647×65535×65535"},
		"grid.y large":    {r.kernel("any"), grid(1, 1<<16, 1), args(), driver.ErrInvalidValue, "larger than"},
		"grid.z large":    {r.kernel("any"), grid(1, 1, 1<<16), args(), driver.ErrInvalidValue, "larger than"},
		"block.x 0":       {r.kernel("any"), block(0, 1, 1), args(), driver.ErrInvalidValue, "a block of no threads"},
		"block.y 0":       {r.kernel("any"), block(1, 0, 1), args(), driver.ErrInvalidValue, "a block of no threads"},
		"block.z 0":       {r.kernel("any"), block(1, 1, 0), args(), driver.ErrInvalidValue, "a block of no threads"},
		"block too large": {r.kernel("any"), block(33, 32, 1), args(), driver.ErrInvalidValue, "more than 1024 threads"},
		"block.z large":   {r.kernel("any"), block(1, 1, 65), args(), driver.ErrInvalidValue, "more than 64 in z"},
		"block wraps":     {r.kernel("any"), block(1<<31, 1<<31, 4), args(), driver.ErrInvalidValue, "more than 1024 threads"},
		"kernel's bound":  {r.kernel("small"), block(129, 1, 1), args(), driver.ErrLaunchResources, "at most 128 threads"},
		"shared":          {r.kernel("small"), shared(47<<10 + 1), args(), driver.ErrInvalidValue, "at most 48128"},
		"negative shared": {r.kernel("any"), shared(-1), args(), driver.ErrInvalidValue, "-1 bytes"},
		"few args":        {r.kernel("typed"), shape, args().Uint32(1), driver.ErrArguments, "1 arguments for 2 parameters"},
		"wrong args":      {r.kernel("typed"), shape, args().Uint32(1).Uint32(2), driver.ErrArguments, "argument 1 has 4 bytes at offset 4, the parameter 8 at 8"},
	} {
		err := r.s.Launch(c.kernel, c.config, c.args)
		if assert.ErrorIs(t, err, c.code, name) {
			assert.ErrorContains(t, err, c.text, name)
		}
	}
	require.NoError(t, r.s.Launch(r.kernel("typed"), shape, args().Uint32(1).Uint64(2)))
	require.NoError(t, r.s.Launch(r.kernel("small"), shared(47<<10), args()))

	small := r.kernel("small")
	require.ErrorIs(t, small.SetMaxDynamicShared(99<<10+1), driver.ErrTooLarge)
	require.ErrorIs(t, small.SetMaxDynamicShared(-1), driver.ErrInvalidValue)
	require.NoError(t, small.SetMaxDynamicShared(99<<10))
	require.NoError(t, r.s.Launch(r.kernel("small"), shared(99<<10), args()))
	require.NoError(t, r.s.Synchronize())

	for _, c := range []struct {
		threads int
		shared  int64
		want    int
	}{{128, 99 << 10, 3}, {129, 0, 0}, {1, 99<<10 + 1, 0}} {
		n, err := small.Occupancy(c.threads, c.shared)
		require.NoError(t, err)
		assert.Equal(t, c.want, n)
	}
	_, err := small.Occupancy(0, 0)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
}

func TestEvents(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel(), "sleep": kernelFunc(func() error { time.Sleep(3 * time.Millisecond); return nil })})
	begin, end := r.event(true), r.event(true)
	done, err := begin.Query()
	require.NoError(t, err)
	assert.True(t, done, "an event never recorded counts as reached")
	require.NoError(t, begin.Synchronize())
	require.NoError(t, r.s.Wait(begin))
	_, err = end.Since(begin)
	require.ErrorIs(t, err, driver.ErrInvalidHandle)

	require.NoError(t, r.s.Record(begin))
	r.launch(r.s, "gate")
	r.launch(r.s, "sleep")
	require.NoError(t, r.s.Record(end))
	done, err = begin.Query()
	require.NoError(t, err)
	assert.True(t, done)
	done, err = end.Query()
	require.NoError(t, err)
	assert.False(t, done)
	_, err = end.Since(begin)
	require.ErrorIs(t, err, driver.ErrNotReady)
	close(g.open)
	require.NoError(t, end.Synchronize())
	ms, err := end.Since(begin)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, ms, 3.0)
	assert.Less(t, ms, 3000.0)

	untimed := r.event(false)
	require.NoError(t, r.s.Record(untimed))
	_, err = end.Since(untimed)
	require.ErrorIs(t, err, driver.ErrInvalidHandle)
	_, err = untimed.Since(begin)
	require.ErrorIs(t, err, driver.ErrInvalidHandle)
	_, err = end.Since(nil)
	require.ErrorIs(t, err, driver.ErrNil)

	require.NoError(t, untimed.Close())
	require.ErrorIs(t, untimed.Close(), driver.ErrClosed)
	require.ErrorIs(t, r.s.Record(untimed), driver.ErrClosed)
	require.ErrorIs(t, r.s.Wait(untimed), driver.ErrClosed)
	require.ErrorIs(t, untimed.Synchronize(), driver.ErrClosed)
	_, err = untimed.Query()
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, r.s.Record(nil), driver.ErrNil)
	require.ErrorIs(t, r.s.Wait(nil), driver.ErrNil)
	foreign := newRig(t, nil).event(false)
	require.ErrorIs(t, r.s.Record(foreign), driver.ErrWrongDevice)
	require.ErrorIs(t, r.s.Wait(foreign), driver.ErrWrongDevice)
}

// TestEventOrdersStreams passes a value through streams by events alone; the
// race detector checks that the events order the accesses.
func TestEventOrdersStreams(t *testing.T) {
	value := 0
	r := newRig(t, map[string]*testKernel{"add": kernelFunc(func() error { value++; return nil })})
	streams := []driver.Stream{r.s, r.stream(), r.stream()}
	e := r.event(false)
	for i := range 300 {
		s := streams[i%3]
		require.NoError(t, s.Wait(e))
		r.launch(s, "add")
		require.NoError(t, s.Record(e))
	}
	require.NoError(t, e.Synchronize())
	assert.Equal(t, 300, value)
}

// TestWaitHoldsTheRecordOfItsTime: recording an event again does not move a wait
// that was given before.
func TestWaitHoldsTheRecordOfItsTime(t *testing.T) {
	first, second := newGate(), newGate()
	r := newRig(t, map[string]*testKernel{"first": first.kernel(), "second": second.kernel(), "nop": kernelFunc(func() error { return nil })})
	e := r.event(true)
	require.NoError(t, r.s.Record(e))
	other := r.stream()
	r.launch(r.s, "first")
	require.NoError(t, r.s.Record(e))
	require.NoError(t, other.Wait(e))
	r.launch(other, "nop")
	r.launch(r.s, "second")
	require.NoError(t, r.s.Record(e))
	done, err := other.Query()
	require.NoError(t, err)
	assert.False(t, done)
	close(first.open)
	require.NoError(t, other.Synchronize())
	done, err = e.Query()
	require.NoError(t, err)
	assert.False(t, done)
	_, err = e.Since(e)
	require.ErrorIs(t, err, driver.ErrNotReady)
	close(second.open)
	require.NoError(t, e.Synchronize())
}

func TestModules(t *testing.T) {
	g := newGate()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	_, err := r.m.Kernel("none")
	require.ErrorIs(t, err, driver.ErrNotFound)
	k := r.kernel("gate")
	assert.Same(t, k, r.kernel("gate"))
	r.launch(r.s, "gate")
	closed := make(chan error)
	go func() { closed <- r.m.Close() }()
	<-g.started
	time.Sleep(time.Millisecond)
	assert.Zero(t, r.b.unloads.Load(), "unloaded under a running kernel")
	close(g.open)
	require.NoError(t, <-closed)
	assert.EqualValues(t, 1, r.b.unloads.Load())
	require.ErrorIs(t, r.m.Close(), driver.ErrClosed)
	_, err = r.m.Kernel("gate")
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, r.s.Launch(k, shape, r.args), driver.ErrClosed)
	_, err = k.Attributes()
	require.ErrorIs(t, err, driver.ErrClosed)
	_, err = k.Occupancy(1, 0)
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, k.SetMaxDynamicShared(1), driver.ErrClosed)

	r.b.loadErr = driver.Errorf("Load", driver.ErrInvalidPTX, "line 3")
	_, err = r.Load(driver.Image{Name: "bad"})
	require.ErrorIs(t, err, driver.ErrInvalidPTX)
}

func TestStreamClosed(t *testing.T) {
	r := newRig(t, map[string]*testKernel{"nop": kernelFunc(func() error { return nil })})
	p := r.alloc(1)
	e := r.event(false)
	require.NoError(t, r.s.Close())
	_, allocErr := r.s.Alloc(1)
	_, queryErr := r.s.Query()
	for i, err := range []error{
		allocErr, queryErr, r.s.Free(p), r.s.CopyToDevice(p, []byte{1}), r.s.CopyToHost([]byte{1}, p),
		r.s.Copy(p, p, 1), r.s.Fill(p, 1, 1), r.s.Launch(r.kernel("nop"), shape, r.args),
		r.s.Record(e), r.s.Wait(e), r.s.Synchronize(), r.s.Close(),
	} {
		assert.ErrorIs(t, err, driver.ErrClosed, i)
	}
	require.NoError(t, r.Free(p))
}

func TestDeviceClosed(t *testing.T) {
	g := newGate()
	before := runtime.NumGoroutine()
	r := newRig(t, map[string]*testKernel{"gate": g.kernel()})
	k, e := r.kernel("gate"), r.event(true)
	h, err := r.AllocHost(1)
	require.NoError(t, err)
	require.NoError(t, r.FreeHost(h))
	p := r.alloc(123)
	r.launch(r.s, "gate")
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	<-g.started
	select {
	case <-closed:
		t.Fatal("closed under a running kernel")
	case <-time.After(5 * time.Millisecond):
	}
	close(g.open)
	err = <-closed
	require.ErrorIs(t, err, driver.ErrLeak)
	assert.ErrorContains(t, err, "123 bytes in 1 allocations")
	assert.EqualValues(t, 1, r.b.unloads.Load())

	two := func(_ any, err error) error { return err }
	_, _, infoErr := r.MemInfo()
	_, attrErr := k.Attributes()
	_, sinceErr := e.Since(e)
	for i, err := range []error{
		r.Close(), infoErr, two(r.Alloc(1)), r.Free(p), two(r.AllocHost(1)), r.FreeHost(h), two(r.NewStream()),
		two(r.NewEvent(true)), two(r.Load(driver.Image{})), two(r.m.Kernel("gate")), r.m.Close(), attrErr,
		r.s.Launch(k, shape, r.args), r.s.Record(e), r.s.Wait(e), r.s.Synchronize(), two(r.s.Query()), two(r.s.Alloc(1)),
		r.s.Free(p), r.s.Fill(p, 1, 1), r.s.Close(), two(e.Query()), e.Synchronize(), sinceErr, e.Close(),
	} {
		assert.ErrorIs(t, err, driver.ErrClosed, i)
	}
	for deadline := time.Now().Add(time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines are left")
}

// TestCloseReportsFailure has a failure that nobody asked for.
func TestCloseReportsFailure(t *testing.T) {
	r := newRig(t, map[string]*testKernel{"fail": kernelFunc(func() error { return errors.New("boom") })})
	r.launch(r.s, "fail")
	require.ErrorIs(t, r.Close(), driver.ErrLaunchFailed)
}

func TestMemInfo(t *testing.T) {
	r := newRig(t, nil)
	free, total, err := r.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, testInfo.TotalMemory, total)
	p := r.alloc(1000)
	less, _, err := r.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, free-1000, less)
	require.NoError(t, r.Free(p))
	again, _, err := r.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, free, again)
}

func TestAllOperationsConcurrently(t *testing.T) {
	r := newRig(t, map[string]*testKernel{"nop": kernelFunc(func() error { return nil })})
	k := r.kernel("nop")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := r.NewStream()
			assert.NoError(t, err)
			for range 100 {
				p, err := s.Alloc(1000)
				assert.NoError(t, err)
				q, err := r.Alloc(1000)
				assert.NoError(t, err)
				assert.NoError(t, s.Fill(p, 3, 1000))
				assert.NoError(t, s.Copy(q, p, 1000))
				assert.NoError(t, s.Launch(k, shape, r.args))
				b := make([]byte, 1000)
				assert.NoError(t, s.CopyToHost(b, q))
				assert.EqualValues(t, 3, b[999])
				assert.NoError(t, s.Free(p))
				assert.NoError(t, r.Free(q))
			}
			assert.NoError(t, s.Close())
		})
	}
	wg.Wait()
	count, _ := r.Space().Usage()
	assert.Zero(t, count)
}
