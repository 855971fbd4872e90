package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// open returns a device whose memory is checked when the test ends.
func open(t testing.TB, opts ...Option) driver.Device {
	d, err := Open(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

func loadKernel(t testing.TB, d driver.Device, twin driver.Twin) driver.Kernel {
	m, err := d.Load(driver.Image{Name: "test", Twins: map[string]driver.Twin{"k": twin}})
	require.NoError(t, err)
	k, err := m.Kernel("k")
	require.NoError(t, err)
	return k
}

func stream(t testing.TB, d driver.Device) driver.Stream {
	s, err := d.NewStream()
	require.NoError(t, err)
	return s
}

var shape = driver.Config{Grid: driver.D1(1), Block: driver.D1(32), N: 7}

func TestInfo(t *testing.T) {
	d := open(t)
	info := d.Info()
	assert.Equal(t, driver.KindCPU, info.Kind)
	assert.NotEmpty(t, info.Name)
	assert.Equal(t, runtime.GOMAXPROCS(0), info.Multiprocessors)
	assert.Zero(t, info.Capability)
	assert.False(t, info.StreamOrderedAlloc)
	free, total, err := d.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, info.TotalMemory, total)
	assert.Positive(t, free)
	assert.Less(t, free, total)
}

func TestMemoryLimit(t *testing.T) {
	d := open(t, WithMemoryLimit(1<<20))
	_, err := d.Alloc(1<<20 + 1)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	none, err := Open(WithMemoryLimit(0))
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	require.True(t, none == nil, "an interface that holds a nil pointer is not nil")
}

func TestMemoryChecks(t *testing.T) {
	d, err := Open(WithMemoryChecks())
	require.NoError(t, err)
	_, err = d.Alloc(100)
	require.NoError(t, err)
	err = d.Close()
	require.ErrorIs(t, err, driver.ErrLeak)
	assert.ErrorContains(t, err, "100 bytes in 1 allocations")
	assert.ErrorContains(t, err, "cpu_test.go:")
}

func TestImageWithoutTwins(t *testing.T) {
	d := open(t)
	_, err := d.Load(driver.Image{Name: "only ptx", PTX: []byte(".version 6.0")})
	require.ErrorIs(t, err, driver.ErrInvalidImage)
	assert.ErrorContains(t, err, "only ptx")
	_, err = d.Load(driver.Image{Name: "m", Twins: map[string]driver.Twin{"k": nil}})
	require.ErrorIs(t, err, driver.ErrNil)
}

func TestKernel(t *testing.T) {
	d := open(t)
	m, err := d.Load(driver.Image{Name: "mod", Twins: map[string]driver.Twin{"k": func(*driver.TwinLaunch) error { return nil }}})
	require.NoError(t, err)
	_, err = m.Kernel("other")
	require.ErrorIs(t, err, driver.ErrNotFound)
	assert.ErrorContains(t, err, `module mod has no kernel "other"`)
	k, err := m.Kernel("k")
	require.NoError(t, err)
	assert.Equal(t, "k", k.Name())
	attr, err := k.Attributes()
	require.NoError(t, err)
	assert.Equal(t, 1024, attr.MaxThreads)
	blocks, err := k.Occupancy(256, 0)
	require.NoError(t, err)
	assert.Equal(t, 1, blocks)
}

// TestLaunch runs a twin that reads every kind of argument.
func TestLaunch(t *testing.T) {
	d := open(t)
	k := loadKernel(t, d, func(l *driver.TwinLaunch) error {
		out, n, x, v := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Uint32(), l.Args.Bytes(2)
		o, err := driver.Slice[uint32](l.Mem, out, n)
		if err != nil {
			return err
		}
		l.Parallel(n, func(i int64) { o[i] = uint32(i) + x + uint32(v[0]) + l.Grid.X })
		return nil
	})
	s := stream(t, d)
	const n = 10_000
	p, err := d.Alloc(4 * n)
	require.NoError(t, err)
	h, err := d.AllocHost(4 * n)
	require.NoError(t, err)
	a := driver.NewArgs().Ptr(p).Uint64(n).Uint32(1000).Bytes([]byte{5, 0}, 2)
	require.NoError(t, s.Launch(k, shape, a))
	a.Release() // copied by the launch
	require.NoError(t, s.CopyToHost(h.Bytes, p))
	require.NoError(t, s.Synchronize())
	got, err := driver.Slice[uint32](d.(*hostdev.Device).Space(), h.Ptr, n)
	require.NoError(t, err)
	for i, v := range got {
		require.Equal(t, uint32(i)+1006, v)
	}
	require.NoError(t, d.Free(p))
	require.NoError(t, d.FreeHost(h))
}

func TestTwinErrors(t *testing.T) {
	d := open(t)
	s := stream(t, d)
	args := driver.NewArgs()
	defer args.Release()

	illegal := loadKernel(t, d, func(l *driver.TwinLaunch) error {
		_, err := driver.Slice[uint32](l.Mem, 64, 1)
		return err
	})
	require.NoError(t, s.Launch(illegal, shape, args))
	err := s.Synchronize()
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
	assert.ErrorContains(t, err, "kernel k, grid 1×1×1, block 32×1×1, n 7")

	panics := loadKernel(t, d, func(l *driver.TwinLaunch) error {
		l.Parallel(1000, func(i int64) {
			if i == 500 {
				panic("went wrong")
			}
		})
		return nil
	})
	require.NoError(t, s.Launch(panics, shape, args))
	err = s.Synchronize()
	require.ErrorIs(t, err, driver.ErrLaunchFailed)
	assert.ErrorContains(t, err, "went wrong")
	assert.ErrorContains(t, err, "cpu_test.go:")

	misreads := loadKernel(t, d, func(l *driver.TwinLaunch) error {
		l.Args.Uint64()
		return nil
	})
	require.NoError(t, s.Launch(misreads, shape, args))
	require.ErrorIs(t, s.Synchronize(), driver.ErrLaunchFailed)
	require.NoError(t, s.Synchronize(), "an error is reported once")
}

func TestParallel(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 3, 15, 16, 17, 1000, 4097} {
		seen := make([]atomic.Int32, n)
		parallel(n, func(i int64) { seen[i].Add(1) })
		for i := range seen {
			require.EqualValues(t, 1, seen[i].Load(), "index %d of %d", i, n)
		}
	}
}

// TestParallelPieces checks that each goroutine goes upwards.
func TestParallelPieces(t *testing.T) {
	j := &job{n: 100, piece: 7}
	last := int64(-1)
	j.f = func(i int64) {
		assert.Equal(t, last+1, i)
		last = i
	}
	j.work()
	assert.EqualValues(t, 99, last)
}

func TestParallelPanic(t *testing.T) {
	for range 50 {
		assert.Panics(t, func() { parallel(100, func(i int64) { panic(i) }) })
	}
	var calls atomic.Int32
	assert.Panics(t, func() {
		parallel(1000, func(i int64) {
			calls.Add(1)
			if i == 0 {
				panic(i)
			}
			time.Sleep(100 * time.Microsecond)
		})
	})
	assert.Less(t, calls.Load(), int32(900), "pieces begin after the panic")
	parallel(100, func(int64) {}) // a recycled job has forgotten the panic
}

// TestLaunchAllocatesNothing covers the path from Launch to the twin and back.
func TestLaunchAllocatesNothing(t *testing.T) {
	d := open(t)
	k := loadKernel(t, d, func(l *driver.TwinLaunch) error {
		l.Args.Uint64()
		return nil
	})
	s := stream(t, d)
	a := driver.NewArgs().Uint64(1)
	defer a.Release()
	allocs := testing.AllocsPerRun(1000, func() {
		if s.Launch(k, shape, a) != nil || s.Synchronize() != nil {
			t.Fatal("launch failed")
		}
	})
	if raceEnabled {
		t.Log("the race detector empties pools at random: allocations are not asserted")
		return
	}
	assert.Less(t, allocs, 1.0)
}

func BenchmarkLaunchSync(b *testing.B) {
	d := open(b)
	k := loadKernel(b, d, func(*driver.TwinLaunch) error { return nil })
	s := stream(b, d)
	a := driver.NewArgs().Uint64(1)
	defer a.Release()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Launch(k, shape, a)
		_ = s.Synchronize()
	}
}

func BenchmarkParallel(b *testing.B) {
	b.ReportAllocs()
	f := func(int64) {}
	for b.Loop() {
		parallel(2, f)
	}
}
