package hostdev

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// newTestSpace returns a space that must be empty and undamaged in the end.
func newTestSpace(t testing.TB, opts ...Option) *Space {
	s, err := NewSpace(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.Empty(t, s.Close("Close")) })
	return s
}

func mustAlloc(t testing.TB, s *Space, bytes int64) *Allocation {
	a, err := s.Alloc("Alloc", bytes, ForDevice)
	require.NoError(t, err)
	return a
}

func mustFree(t testing.TB, s *Space, a *Allocation) {
	require.NoError(t, s.Free("Free", a.Base(), a.Kind()))
}

func TestAlloc(t *testing.T) {
	s := newTestSpace(t)
	last := SpaceBase
	for _, n := range []int64{1, 2, 255, 256, 257, 4095, 4096, 4097, mappedFrom - 1, mappedFrom, 10<<20 + 1} {
		a := mustAlloc(t, s, n)
		assert.Equal(t, n, a.Size())
		assert.Len(t, a.Bytes(), int(n))
		assert.Equal(t, int(n), cap(a.Bytes()), "a slice must not reach the canary")
		assert.Zero(t, uint64(a.Base())%Align)
		assert.Zero(t, uintptr(unsafe.Pointer(&a.Bytes()[0]))%Align)
		assert.GreaterOrEqual(t, a.Base(), last)
		last = a.Base() + driver.Ptr(n) + Guard
		b, err := s.Resolve(a.Base(), n)
		require.NoError(t, err)
		b[0], b[n-1] = 1, 2
		assert.Same(t, a, s.Find(a.Base()+driver.Ptr(n)-1))
		assert.Nil(t, s.Find(a.Base()+driver.Ptr(n)))
		count, bytes := s.Usage()
		assert.Equal(t, 1, count)
		assert.Equal(t, n, bytes)
		mustFree(t, s, a)
	}
}

func TestAllocRefused(t *testing.T) {
	s := newTestSpace(t, WithLimit(1<<20))
	for _, n := range []int64{0, -1, -1 << 63} {
		_, err := s.Alloc("Alloc", n, ForDevice)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
	}
	for _, n := range []int64{1<<20 + 1, 1 << 40, 1<<63 - 1} {
		_, err := s.Alloc("Alloc", n, ForDevice)
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
	}
	a := mustAlloc(t, s, 700<<10)
	_, err := s.Alloc("Alloc", 700<<10, ForDevice)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.EqualValues(t, 1<<20-700<<10, s.free())
	mustFree(t, s, a)
	mustFree(t, s, mustAlloc(t, s, 700<<10))
	assert.EqualValues(t, 1<<20, s.free())
}

func TestDefaultLimit(t *testing.T) {
	s := newTestSpace(t)
	assert.Less(t, s.free(), TotalMemory())
	_, err := s.Alloc("Alloc", TotalMemory(), ForDevice)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
}

func TestFreeRefused(t *testing.T) {
	s := newTestSpace(t)
	a := mustAlloc(t, s, 1000)
	h, err := s.Alloc("AllocHost", 1000, ForHost)
	require.NoError(t, err)
	for _, c := range []struct {
		p    driver.Ptr
		want string
	}{
		{0, "was never allocated"},
		{a.Base() + 2000, "1000 bytes past the end of the device allocation of 1000 bytes"},
		{a.Base() + 8, "is inside the device allocation of 1000 bytes"},
		{h.Base(), "is a host allocation of 1000 bytes"},
	} {
		err := s.Free("Free", c.p, ForDevice)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		assert.ErrorContains(t, err, c.want)
	}
	require.ErrorIs(t, s.Free("FreeHost", a.Base(), ForHost), driver.ErrInvalidValue)
	mustFree(t, s, a)
	mustFree(t, s, h)
	err = s.Free("Free", a.Base(), ForDevice)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	assert.ErrorContains(t, err, "freed already")
}

func TestIllegalNamesTheAllocation(t *testing.T) {
	s := newTestSpace(t)
	_, err := s.Resolve(8, 4)
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
	assert.ErrorContains(t, err, "nothing is allocated")

	a, b := mustAlloc(t, s, 1000), mustAlloc(t, s, 2000)
	gone := mustAlloc(t, s, 3000)
	mustFree(t, s, gone)
	for _, c := range []struct {
		p    driver.Ptr
		n    int64
		want string
	}{
		{a.Base() - 16, 8, "16 bytes before the device allocation of 1000 bytes"},
		{a.Base() + 996, 8, "from 996 bytes into the device allocation of 1000 bytes"},
		{a.Base(), 1<<63 - 1, "from 0 bytes into the device allocation of 1000 bytes"},
		{a.Base(), -1, "from 0 bytes into the device allocation of 1000 bytes"},
		{a.Base() + 1010, 8, "10 bytes past the end of the device allocation of 1000 bytes"},
		{b.Base() - 100, 8, "100 bytes before the device allocation of 2000 bytes"},
		{gone.Base() + 12, 8, "used after free: 12 bytes into the freed device allocation of 3000 bytes"},
		{1<<64 - 1, 8, "past the end of the freed device allocation of 3000 bytes"},
	} {
		_, err := s.Resolve(c.p, c.n)
		require.ErrorIs(t, err, driver.ErrIllegalAddress)
		assert.ErrorContains(t, err, c.want)
	}
	mustFree(t, s, a)
	mustFree(t, s, b)
}

func TestCanaries(t *testing.T) {
	s := newTestSpace(t)
	for _, n := range []int64{1, 256, 5000, 1 << 20} {
		a := mustAlloc(t, s, n)
		*(*byte)(unsafe.Add(unsafe.Pointer(&a.data[0]), n)) = 0
		err := s.Free("Free", a.Base(), ForDevice)
		require.ErrorIs(t, err, driver.ErrIllegalAddress)
		assert.ErrorContains(t, err, fmt.Sprintf("wrote to byte %d of the device allocation of %[1]d bytes", n))

		a = mustAlloc(t, s, n)
		*(*byte)(unsafe.Add(unsafe.Pointer(&a.data[0]), -3)) = 0
		err = s.Free("Free", a.Base(), ForDevice)
		require.ErrorIs(t, err, driver.ErrIllegalAddress)
		assert.ErrorContains(t, err, "wrote to byte -3 of")
	}
}

func TestCloseReports(t *testing.T) {
	s, err := NewSpace(WithSites())
	require.NoError(t, err)
	a := mustAlloc(t, s, 100)
	mustAlloc(t, s, 200)
	_, err = s.Alloc("Load", 300, ForModule)
	require.NoError(t, err)
	*(*byte)(unsafe.Add(unsafe.Pointer(&a.data[0]), 100)) = 0
	errs := s.Close("Close")
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[0], driver.ErrIllegalAddress)
	require.ErrorIs(t, errs[1], driver.ErrLeak)
	assert.ErrorContains(t, errs[1], "300 bytes in 2 allocations")
	assert.ErrorContains(t, errs[1], "device allocation of 200 bytes")
	assert.ErrorContains(t, errs[1], "from space_test.go:")
	assert.NotContains(t, errs[1].Error(), EnvMemory)
	_, err = s.Alloc("Alloc", 1, ForDevice)
	require.ErrorIs(t, err, driver.ErrClosed)
	_, err = s.Resolve(a.Base(), 1)
	require.ErrorIs(t, err, driver.ErrIllegalAddress)
}

func TestPoison(t *testing.T) {
	s := newTestSpace(t, WithPoison())
	a := mustAlloc(t, s, 100_000)
	for _, b := range a.Bytes() {
		require.EqualValues(t, newByte, b)
	}
	data := a.Bytes()
	mustFree(t, s, a)
	for _, b := range data {
		require.EqualValues(t, freedByte, b)
	}
}

// TestAddressesAreNotReused frees more allocations than are remembered: the
// memory comes back, addresses do not, and the youngest stay known by name.
func TestAddressesAreNotReused(t *testing.T) {
	s := newTestSpace(t)
	kept := mustAlloc(t, s, 50)
	seen := map[driver.Ptr]bool{}
	blocks := map[*byte]bool{}
	var last driver.Ptr
	for range 10 * knownFreed {
		a := mustAlloc(t, s, 100)
		require.False(t, seen[a.Base()])
		seen[a.Base()] = true
		blocks[&a.data[0]] = true
		last = a.Base()
		mustFree(t, s, a)
	}
	assert.Len(t, blocks, 1)
	assert.LessOrEqual(t, len(*s.table.Load()), 2*knownFreed+2)
	_, err := s.Resolve(last, 1)
	assert.ErrorContains(t, err, "used after free")
	assert.Same(t, kept, s.Find(kept.Base()+49))
	mustFree(t, s, kept)
}

// TestMemoryInUseIsNotRecycled frees a block while work that may use it runs.
func TestMemoryInUseIsNotRecycled(t *testing.T) {
	s := newTestSpace(t)
	first := s.arena.begin()
	a := mustAlloc(t, s, 1<<20)
	block := &a.block[0]
	mustFree(t, s, a)
	second := s.arena.begin()
	b := mustAlloc(t, s, 1<<20)
	assert.NotSame(t, block, &b.block[0])
	s.arena.end(first)
	third := s.arena.begin()
	c := mustAlloc(t, s, 1<<20)
	assert.NotSame(t, block, &c.block[0], "second began before the block was known to be unused")
	s.arena.end(second)
	d := mustAlloc(t, s, 1<<20)
	assert.Same(t, block, &d.block[0], "third began after the block was freed")
	s.arena.end(third)
	for _, x := range []*Allocation{b, c, d} {
		mustFree(t, s, x)
	}
	assert.Equal(t, [2]int{}, s.arena.working)
}

func TestArenaKeepsLittle(t *testing.T) {
	s := newTestSpace(t, WithLimit(64<<20))
	for range 20 {
		var held []*Allocation
		for range 20 {
			held = append(held, mustAlloc(t, s, 1+rand.Int64N(3<<20)))
		}
		for _, a := range held {
			mustFree(t, s, a)
		}
		assert.LessOrEqual(t, s.arena.kept, s.arena.most)
		assert.Zero(t, s.arena.taken)
	}
	require.Empty(t, s.Close("Close"))
	assert.Zero(t, s.arena.kept)
}

func TestBlockSize(t *testing.T) {
	for _, n := range []int64{1, 255, 256, 257, 4095, 4096, 4097, 1<<20 + 1, 1<<32 + 1, 1<<40 - 1} {
		size := blockSize(n)
		assert.GreaterOrEqual(t, size, n)
		assert.LessOrEqual(t, size, n+max(256, n/8), "at most an eighth is wasted")
		assert.Equal(t, size, blockSize(size))
	}
}

func TestPinned(t *testing.T) {
	s := newTestSpace(t)
	var hosts []*Allocation
	for range 5 {
		h, err := s.Alloc("AllocHost", 100, ForHost)
		require.NoError(t, err)
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		assert.True(t, s.pinned(h.Bytes()))
		assert.True(t, s.pinned(h.Bytes()[10:20]))
	}
	assert.False(t, s.pinned(make([]byte, 100)))
	d := mustAlloc(t, s, 100)
	assert.False(t, s.pinned(d.Bytes()), "device memory is not the host's")
	mustFree(t, s, d)
	data := hosts[2].Bytes()
	for _, h := range hosts {
		mustFree(t, s, h)
	}
	assert.False(t, s.pinned(data))
}

func TestShadow(t *testing.T) {
	s := newTestSpace(t)
	a := mustAlloc(t, s, 1)
	assert.Equal(t, 1, a.Shadow(func() any { return 1 }))
	assert.Equal(t, 1, a.Shadow(func() any { return 2 }))
	mustFree(t, s, a)
}

// TestSpaceConcurrently has lookups beside allocation and freeing; it is for the
// race detector.
func TestSpaceConcurrently(t *testing.T) {
	s := newTestSpace(t, WithPoison())
	anchor := mustAlloc(t, s, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				kind := Kind(rand.IntN(2))
				a, err := s.Alloc("Alloc", 1+rand.Int64N(5000), kind)
				if !assert.NoError(t, err) {
					return
				}
				s.pinned(a.Bytes())
				b, err := s.Resolve(a.Base(), a.Size())
				assert.NoError(t, err)
				b[0]++
				assert.Same(t, anchor, s.Find(anchor.Base()))
				assert.NoError(t, s.Free("Free", a.Base(), kind))
			}
		})
	}
	wg.Wait()
	mustFree(t, s, anchor)
}

func TestFillBytes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, 16<<10 - 1, 16 << 10, 16<<10 + 1, 100_000} {
		for _, v := range []byte{0, 7} {
			b := make([]byte, n+1)
			for i := range b {
				b[i] = 99
			}
			fillBytes(b[:n], v)
			for _, x := range b[:n] {
				require.Equal(t, v, x)
			}
			require.EqualValues(t, 99, b[n])
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv(EnvMemory, "poison, sites")
	s := newTestSpace(t)
	assert.True(t, s.poison)
	assert.True(t, s.sites)
	t.Setenv(EnvMemory, "poisson")
	_, err := NewSpace()
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	assert.ErrorContains(t, err, `"poisson" is neither poison nor sites`)
	_, err = New(driver.Info{}, &testBackend{})
	require.ErrorIs(t, err, driver.ErrInvalidValue)
}

func BenchmarkAllocFree(b *testing.B) {
	s := newTestSpace(b)
	for b.Loop() {
		a, _ := s.Alloc("Alloc", 1<<20, ForDevice)
		_ = s.Free("Free", a.Base(), ForDevice)
	}
}

func BenchmarkResolve(b *testing.B) {
	s := newTestSpace(b)
	var held []*Allocation
	for range 100 {
		held = append(held, mustAlloc(b, s, 100))
	}
	for b.Loop() {
		_, _ = s.Resolve(held[50].Base(), 100)
	}
	for _, a := range held {
		mustFree(b, s, a)
	}
}
