//go:build cuda && cgo && linux && (amd64 || arm64)

// Package gputest holds the tests of driver/cuda that need a GPU. They skip
// where there is none.
package gputest

import (
	"bytes"
	"debug/elf"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
)

//go:embed kernels.ptx
var kernels []byte

func open(t testing.TB) driver.Device {
	t.Helper()
	d, err := cuda.Open(0)
	if errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrNoDevice) {
		t.Skipf("needs a GPU: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			assert.ErrorIs(t, err, driver.ErrClosed)
		}
	})
	return d
}

func newStream(t testing.TB, d driver.Device) driver.Stream {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	return s
}

func alloc(t testing.TB, d driver.Device, bytes int64) driver.Ptr {
	t.Helper()
	p, err := d.Alloc(bytes)
	require.NoError(t, err)
	return p
}

func kernel(t testing.TB, d driver.Device, name string) driver.Kernel {
	t.Helper()
	m, err := d.Load(driver.Image{Name: "kernels.ptx", PTX: kernels})
	require.NoError(t, err)
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

var single = driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}

func TestInfo(t *testing.T) {
	d := open(t)
	i := d.Info()
	t.Logf("%+v", i)
	assert.Equal(t, driver.KindCUDA, i.Kind)
	assert.NotEmpty(t, i.Name)
	assert.GreaterOrEqual(t, i.Capability, 70)
	assert.Positive(t, i.Multiprocessors)
	assert.Equal(t, 32, i.WarpSize)
	assert.Equal(t, 1024, i.MaxThreadsPerBlock)
	assert.Equal(t, int64(math.MaxInt32), i.MaxGridX)
	assert.GreaterOrEqual(t, i.SharedPerBlock, int64(48<<10))
	assert.Greater(t, i.SharedPerBlockMax, i.SharedPerBlock)
	assert.Positive(t, i.L2)
	assert.GreaterOrEqual(t, i.DriverVersion, 11000)

	free, total, err := d.MemInfo()
	require.NoError(t, err)
	assert.Positive(t, free)
	assert.LessOrEqual(t, free, total)
	assert.LessOrEqual(t, total, i.TotalMemory)

	all, err := cuda.Devices()
	require.NoError(t, err)
	assert.Equal(t, i, all[0])
	_, err = cuda.Open(len(all))
	assert.ErrorIs(t, err, driver.ErrInvalidDevice)
}

// The library that is loaded exports all that the binding can call.
func TestSymbols(t *testing.T) {
	open(t)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	path := regexp.MustCompile(`/\S*libcuda\.so\S*`).Find(maps)
	require.NotNil(t, path)
	file, err := elf.Open(string(path))
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, s := range symbols {
		exported[s.Name] = true
	}
	list, err := os.ReadFile("../symbols.inc")
	require.NoError(t, err)
	var missing []string
	for _, m := range regexp.MustCompile(`SYMBOL\(\d+, (\w+)\)`).FindAllSubmatch(list, -1) {
		if !exported[string(m[1])] {
			missing = append(missing, string(m[1]))
		}
	}
	assert.Empty(t, missing, "not in %s", path)
}

func TestMemory(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	for _, size := range []int64{1, 255, 4097, 1<<20 + 3, 1 << 26} {
		p, q := alloc(t, d, size), alloc(t, d, size)
		assert.Zero(t, p%256)
		src := make([]byte, size)
		for i := range src {
			src[i] = byte(i*7 + i>>8)
		}
		want := bytes.Clone(src)
		require.NoError(t, s.CopyToDevice(p, src))
		clear(src) // it may be reused at once
		require.NoError(t, s.Copy(q, p, size))
		require.NoError(t, s.Fill(p, 0x5a, size))
		got := make([]byte, size)
		require.NoError(t, s.CopyToHost(got, q))
		assert.True(t, bytes.Equal(want, got), "%d bytes", size)
		require.NoError(t, s.CopyToHost(got, p))
		assert.Equal(t, int(size), bytes.Count(got, []byte{0x5a}))
		require.NoError(t, d.Free(p))
		require.NoError(t, d.Free(q))
	}
	_, err := d.Alloc(1 << 50)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.NoError(t, d.Free(alloc(t, d, 1<<20)))
}

func TestStreamOrderedMemory(t *testing.T) {
	d := open(t)
	s := newStream(t, d)
	for range 100 {
		p, err := s.Alloc(1 << 20)
		require.NoError(t, err)
		assert.Zero(t, p%256)
		require.NoError(t, s.Fill(p, 1, 1<<20))
		require.NoError(t, s.Free(p))
	}
	p := alloc(t, d, 64)
	require.NoError(t, s.Fill(p, 1, 64))
	require.NoError(t, s.Free(p))
	p, err := s.Alloc(64)
	require.NoError(t, err)
	require.NoError(t, d.Free(p))
	require.NoError(t, s.Synchronize())
	_, err = s.Alloc(1 << 50)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.NoError(t, s.Synchronize())
}

func TestLaunch(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, d, "fill")
	const n = 100_000
	p := alloc(t, d, 4*n)
	a := driver.NewArgs().Ptr(p).Uint32(n).Uint32(42)
	c := driver.Config{Grid: driver.D1((n + 255) / 256), Block: driver.D1(256), N: n}
	require.NoError(t, s.Launch(k, c, a))
	a.Release()
	got := make([]byte, 4*n)
	require.NoError(t, s.CopyToHost(got, p))
	for i := range uint32(n) {
		if v := binary.LittleEndian.Uint32(got[4*i:]); v != 42+i {
			require.Equal(t, 42+i, v, "element %d", i)
		}
	}
}

// Kernels read and write page-locked memory in place.
func TestMappedMemory(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, d, "fill")
	h, err := d.AllocHost(4 * 1000)
	require.NoError(t, err)
	require.NoError(t, s.Launch(k, driver.Config{Grid: driver.D1(8), Block: driver.D1(128)}, driver.NewArgs().Ptr(h.Ptr).Uint32(1000).Uint32(5)))
	require.NoError(t, s.Synchronize())
	for i := range uint32(1000) {
		require.Equal(t, 5+i, binary.LittleEndian.Uint32(h.Bytes[4*i:]))
	}
	assert.NoError(t, d.FreeHost(h))
}

func TestArgumentPacking(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, d, "pack")
	p := alloc(t, d, 80)
	a := driver.NewArgs().Ptr(p).Bytes([]byte{0x11}, 1).Bytes([]byte{0x22, 0x23}, 2).Bytes([]byte{0x33}, 1).
		Uint32(0x44454647).Uint64(0x5152535455565758).Float32(1.5).Float64(-2.25).
		Bytes([]byte("twelve bytes"), 4).Bytes([]byte("sixteen bytes at"), 16).Bytes([]byte{0x99}, 1)
	require.NoError(t, s.Launch(k, single, a))
	got := make([]byte, 80)
	require.NoError(t, s.CopyToHost(got, p))
	for i, want := range []uint64{
		0x11, 0x2322, 0x33, 0x44454647, 0x5152535455565758, uint64(math.Float32bits(1.5)), math.Float64bits(-2.25),
		uint64(binary.LittleEndian.Uint32([]byte("ytes"))), binary.LittleEndian.Uint64([]byte("bytes at")), 0x99,
	} {
		assert.Equal(t, want, binary.LittleEndian.Uint64(got[8*i:]), "parameter %d", i+1)
	}
}

func TestArgumentMismatch(t *testing.T) {
	d := open(t)
	if v := d.Info().DriverVersion; v < 12040 {
		t.Skipf("the driver (CUDA %d.%d) does not tell parameters; 12.4 does", v/1000, v%1000/10)
	}
	s, k := newStream(t, d), kernel(t, d, "fill")
	p := alloc(t, d, 64)
	for _, a := range []*driver.Args{
		driver.NewArgs(), driver.NewArgs().Ptr(p).Uint32(1), driver.NewArgs().Ptr(p).Uint64(1),
		driver.NewArgs().Ptr(p).Uint32(1).Uint32(2).Uint32(3),
	} {
		assert.ErrorIs(t, s.Launch(k, single, a), driver.ErrArguments)
	}
	assert.NoError(t, s.Launch(k, single, driver.NewArgs().Ptr(p).Uint32(1).Uint32(2)))
	assert.NoError(t, s.Synchronize())
}

func TestKernelQueries(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, d, "shared")
	a, err := k.Attributes()
	require.NoError(t, err)
	t.Logf("%+v", a)
	assert.Positive(t, a.MaxThreads)
	assert.Positive(t, a.Registers)
	assert.Zero(t, a.SharedStatic)
	assert.Equal(t, 70, a.PTXVersion)
	assert.Equal(t, d.Info().Capability, a.BinaryVersion)

	few, err := k.Occupancy(1024, 0)
	require.NoError(t, err)
	many, err := k.Occupancy(64, 0)
	require.NoError(t, err)
	assert.Positive(t, few)
	assert.Greater(t, many, few)

	limit := d.Info().SharedPerBlockMax
	p := alloc(t, d, 4)
	c := single
	c.Shared = limit
	args := driver.NewArgs().Ptr(p).Uint32(uint32(limit))
	assert.Error(t, s.Launch(k, c, args), "more shared memory than a block gets without asking")
	assert.ErrorIs(t, k.SetMaxDynamicShared(limit+1), driver.ErrTooLarge)
	require.NoError(t, k.SetMaxDynamicShared(limit))
	require.NoError(t, s.Launch(k, c, args))
	got := make([]byte, 4)
	require.NoError(t, s.CopyToHost(got, p))
	assert.Equal(t, uint32(1234567), binary.LittleEndian.Uint32(got))
	one, err := k.Occupancy(64, limit)
	require.NoError(t, err)
	assert.Equal(t, 1, one)

	c = driver.Config{Grid: driver.D1(1), Block: driver.D1(2048), N: 9}
	err = s.Launch(k, c, args)
	assert.ErrorIs(t, err, driver.ErrInvalidValue)
	assert.ErrorContains(t, err, "[kernel shared, grid 1×1×1, block 2048×1×1, n 9]")
}

func TestRefusedModules(t *testing.T) {
	d := open(t)
	load := func(ptx string) *driver.Error {
		_, err := d.Load(driver.Image{Name: "bad.ptx", PTX: []byte(ptx)})
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		t.Log(err)
		return e
	}
	text := string(kernels)
	e := load(strings.Replace(text, "mad.lo.u32", "mad.no.such", 1))
	assert.Equal(t, driver.ErrInvalidPTX, e.Code)
	assert.NotEmpty(t, e.Log)
	e = load("no PTX at all")
	assert.NotZero(t, e.Code)

	e = load(strings.Replace(text, ".version 6.0", ".version 99.0", 1))
	assert.Equal(t, driver.ErrPTXVersion, e.Code)
	assert.Contains(t, e.Error(), "update the NVIDIA driver")

	m, err := d.Load(driver.Image{Name: "kernels.ptx", PTX: kernels})
	require.NoError(t, err)
	_, err = m.Kernel("nothing")
	assert.ErrorIs(t, err, driver.ErrNotFound)
	assert.ErrorContains(t, err, `kernel "nothing" in image "kernels.ptx"`)
	assert.NoError(t, m.Close())
}

// What is given to a stream runs later and in order; what waits for an event
// runs after it.
func TestStreamOrder(t *testing.T) {
	d := open(t)
	s, other := newStream(t, d), newStream(t, d)
	spin, fill := kernel(t, d, "spin"), kernel(t, d, "fill")
	h, err := d.AllocHost(4)
	require.NoError(t, err)
	p := alloc(t, d, 4)
	begin, err := d.NewEvent(true)
	require.NoError(t, err)
	end, err := d.NewEvent(true)
	require.NoError(t, err)

	const ns = 300_000_000
	start := time.Now()
	require.NoError(t, s.Record(begin))
	require.NoError(t, s.Launch(spin, single, driver.NewArgs().Uint64(ns)))
	require.NoError(t, s.Launch(fill, single, driver.NewArgs().Ptr(p).Uint32(1).Uint32(77)))
	require.NoError(t, s.Record(end))
	require.NoError(t, other.Wait(end))
	require.NoError(t, other.CopyToHost(h.Bytes, p))
	assert.Less(t, time.Since(start), ns*time.Nanosecond, "nothing of this waits")
	for _, query := range []func() (bool, error){s.Query, other.Query, end.Query} {
		done, err := query()
		assert.NoError(t, err)
		assert.False(t, done)
	}
	require.NoError(t, other.Synchronize())
	assert.Equal(t, uint32(77), binary.LittleEndian.Uint32(h.Bytes))
	ms, err := end.Since(begin)
	require.NoError(t, err)
	assert.InDelta(t, ns/1e6, ms, 100)

	// Memory that is not page-locked is complete when the call returns.
	require.NoError(t, s.Launch(spin, single, driver.NewArgs().Uint64(ns)))
	require.NoError(t, s.Launch(fill, single, driver.NewArgs().Ptr(p).Uint32(1).Uint32(78)))
	got := make([]byte, 4)
	require.NoError(t, s.CopyToHost(got, p))
	assert.Equal(t, uint32(78), binary.LittleEndian.Uint32(got))

	// Close leaves the work to finish, and the device waits for it.
	require.NoError(t, s.Launch(spin, single, driver.NewArgs().Uint64(ns)))
	require.NoError(t, s.Close())
	start = time.Now()
	require.NoError(t, d.Close())
	assert.Greater(t, time.Since(start), ns/2*time.Nanosecond)
}

func TestThreads(t *testing.T) {
	d := open(t)
	k := kernel(t, d, "fill")
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 50 {
				if err := job(d, k, uint32(g*1000+i)); err != nil {
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func job(d driver.Device, k driver.Kernel, value uint32) error {
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	p, err := s.Alloc(4 * 512)
	if err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(p).Uint32(512).Uint32(value)
	defer a.Release()
	if err := s.Launch(k, driver.Config{Grid: driver.D1(4), Block: driver.D1(128)}, a); err != nil {
		return err
	}
	got := make([]byte, 4*512)
	if err := s.CopyToHost(got, p); err != nil {
		return err
	}
	for i := range uint32(512) {
		if v := binary.LittleEndian.Uint32(got[4*i:]); v != value+i {
			return fmt.Errorf("%d instead of %d", v, value+i)
		}
	}
	if err := s.Free(p); err != nil {
		return err
	}
	return s.Close()
}

// Closing gives back what a device held, its pool's memory included.
func TestLeaks(t *testing.T) {
	watch := open(t)
	use := func() {
		d, err := cuda.Open(0)
		require.NoError(t, err)
		s := newStream(t, d)
		alloc(t, d, 64<<20)
		_, err = s.Alloc(64 << 20)
		require.NoError(t, err)
		p, err := s.Alloc(64 << 20)
		require.NoError(t, err)
		require.NoError(t, s.Free(p))
		_, err = d.AllocHost(1 << 20)
		require.NoError(t, err)
		require.NoError(t, s.Launch(kernel(t, d, "fill"), single, driver.NewArgs().Ptr(p).Uint32(0).Uint32(0)))
		require.NoError(t, d.Close())
	}
	use()
	before, _, err := watch.MemInfo()
	require.NoError(t, err)
	for range 20 {
		use()
	}
	after, _, err := watch.MemInfo()
	require.NoError(t, err)
	// The watching device keeps the pool's memory, which is reused each time.
	assert.InDelta(t, before, after, 128<<20)

	require.NoError(t, watch.Close())
	watch = open(t)
	closed, _, err := watch.MemInfo()
	require.NoError(t, err)
	t.Logf("free bytes: %d, after 20 rounds %d, opened anew %d", before, after, closed)
	assert.GreaterOrEqual(t, closed, before)
}

// A fault loses the context, not the process: the device can be opened again.
// It runs in a process of its own, so that other tests are not harmed.
func TestLostContext(t *testing.T) {
	d := open(t)
	const env = "PTXRUN_TEST_FAULT"
	if os.Getenv(env) == "" {
		require.NoError(t, d.Close())
		cmd := exec.Command(os.Args[0], "-test.run=^TestLostContext$", "-test.v")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		assert.NoError(t, err)
		return
	}
	s, k := newStream(t, d), kernel(t, d, "fault")
	alloc(t, d, 1<<20)
	require.NoError(t, s.Launch(k, single, driver.NewArgs()))
	err := s.Synchronize()
	assert.ErrorIs(t, err, driver.ErrIllegalAddress)
	t.Log(err)
	_, err = d.Alloc(8)
	assert.ErrorIs(t, err, driver.ErrIllegalAddress)
	assert.ErrorContains(t, err, "was lost before")
	assert.ErrorIs(t, d.Close(), driver.ErrIllegalAddress)

	// The driver keeps the fault for the rest of the process (seen with CUDA 13.0).
	_, err = cuda.Open(0)
	assert.ErrorIs(t, err, driver.ErrIllegalAddress)
}

func TestLaunchAllocatesNothing(t *testing.T) {
	d := open(t)
	s, k := newStream(t, d), kernel(t, d, "fill")
	a := driver.NewArgs().Ptr(0).Uint32(0).Uint32(0)
	var err error
	assert.Zero(t, testing.AllocsPerRun(100, func() { err = errors.Join(err, s.Launch(k, single, a)) }))
	assert.NoError(t, err)
	assert.NoError(t, s.Synchronize())
}

func BenchmarkLaunch(b *testing.B) {
	d := open(b)
	s, k := newStream(b, d), kernel(b, d, "fill")
	a := driver.NewArgs().Ptr(0).Uint32(0).Uint32(0)
	for b.Loop() {
		if err := s.Launch(k, single, a); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Synchronize(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLaunchSynchronize(b *testing.B) {
	d := open(b)
	s, k := newStream(b, d), kernel(b, d, "fill")
	a := driver.NewArgs().Ptr(0).Uint32(0).Uint32(0)
	for b.Loop() {
		if err := errors.Join(s.Launch(k, single, a), s.Synchronize()); err != nil {
			b.Fatal(err)
		}
	}
}
