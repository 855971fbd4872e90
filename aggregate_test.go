package ptxrun

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// twinAdded is the kernel added of ptx/aggregate/testdata: out, n, by.
func twinAdded(l *driver.TwinLaunch) error {
	p, n, by := l.Args.Ptr(), int64(l.Args.Uint32()), l.Args.Uint32()
	out, err := driver.Slice[uint32](l.Mem, p, n)
	if err != nil {
		return err
	}
	for i := range out[:min(n, int64(l.Grid.Count()*l.Block.Count()))] {
		out[i] += by + uint32(i)/l.Block.X
	}
	return nil
}

// loadTest loads a program of ptx/aggregate/testdata.
func loadTest(t testing.TB, rt *Runtime, file string, twins ...ModuleOption) *Module {
	text, err := os.ReadFile("ptx/aggregate/testdata/" + file)
	require.NoError(t, err)
	m, err := rt.LoadModule(text, append(twins, WithModuleName(file))...)
	require.NoError(t, err)
	return m
}

func loadAdded(t testing.TB, rt *Runtime, opts ...AggregateOption) (*Module, *Kernel, *Aggregator) {
	m := loadTest(t, rt, "children.ptx", WithTwin("added", twinAdded))
	k, err := m.Kernel("added")
	require.NoError(t, err)
	a, err := rt.Aggregate(k, opts...)
	require.NoError(t, err)
	return m, k, a
}

func closeAll(t testing.TB, closers ...interface{ Close() error }) {
	for _, c := range closers {
		require.NoError(t, c.Close())
	}
}

// TestAggregateFromManyGoroutines launches children of mixed sizes from
// goroutines, with flushes for every reason there is, and requires what separate
// launches give.
func TestAggregateFromManyGoroutines(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		for name, opts := range map[string][]AggregateOption{
			"asked":   {WithFlushAfter(0)},
			"count":   {WithFlushAfter(0), WithFlushCount(7), WithFlushesInFlight(2)},
			"bytes":   {WithFlushAfter(0), WithFlushBytes(500)},
			"after":   {WithFlushAfter(time.Millisecond / 4)},
			"coarse":  {WithCoarsening(3)},
			"one":     {WithCoarsening(math.MaxInt32)}, // block takes all
			"default": nil,
		} {
			m, k, a := loadAdded(t, rt, opts...)
			const goroutines, each, room = 6, 8, 300
			want := newGuarded[uint32](t, s, goroutines*each*room, 0)
			got := newGuarded[uint32](t, s, goroutines*each*room, 0)
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 3))
					var pending []Pending
					for i := range each {
						c := driver.Config{Grid: driver.D1(r.Uint32N(4)), Block: driver.D1(1 + r.Uint32N(80))}
						n := uint32(c.Grid.Count() * c.Block.Count())
						by, at := r.Uint32(), driver.Ptr(4*room*(g*each+i))
						if n > 0 {
							assert.NoError(t, s.Launch(k, c, want.Ptr()+at, n, by))
						}
						p, err := a.Launch(c, got.Ptr()+at, n, by)
						assert.NoError(t, err)
						if n == 0 {
							assert.Equal(t, Pending{}, p)
						}
						pending = append(pending, p)
					}
					if name != "after" {
						assert.NoError(t, a.Flush(context.Background()))
					}
					for _, p := range pending {
						assert.NoError(t, p.Wait(context.Background()))
						<-p.Done()
					}
				})
			}
			wg.Wait()
			requireSame(t, want.check(t, s, name), got.check(t, s, name), "%s", name)
			closeAll(t, a, m)
		}
		require.NoError(t, s.Close())
	})
}

// TestStreamLaunch passes every kind of argument.
func TestStreamLaunch(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		type counts struct{ n, by uint32 }
		m := loadTest(t, rt, "children.ptx", WithTwin("added", twinAdded))
		k, err := m.Kernel("added")
		require.NoError(t, err)
		assert.Equal(t, "added", k.Name())
		assert.Equal(t, []driver.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}, {Offset: 12, Size: 4}}, k.Params())
		b, err := NewBufferFrom(s, []uint32{1, 2, 3})
		require.NoError(t, err)
		c := driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}
		type word uint32
		require.NoError(t, s.Launch(k, c, b, int32(3), float32(0)))
		require.NoError(t, s.Launch(k, c, b.Ptr(), [1]uint32{3}, word(5)))
		got := make([]uint32, 3)
		require.NoError(t, b.CopyTo(s, got))
		assert.Equal(t, []uint32{6, 7, 8}, got)

		other, err := d.open()
		require.NoError(t, err)
		foreign, err := NewBuffer[uint32](other, 1)
		require.NoError(t, err)
		type volume struct {
			rt *Runtime
			*Buffer[uint32]
			width, height int
		}
		a, err := rt.Aggregate(k)
		require.NoError(t, err)
		for _, bad := range []struct {
			args []any
			code driver.Code
			text string
		}{
			{[]any{b, 3}, driver.ErrArguments, "2 arguments for 3 parameters"},
			{[]any{b, 3, uint32(1)}, driver.ErrArguments, "argument 1 for the parameter added_param_1 of 4 bytes: int has 8 bytes: convert it, say to uint32"},
			{[]any{b, uint32(3), counts{}}, driver.ErrArguments, "argument 2"},
			{[]any{b, uint32(3), nil}, driver.ErrNil, "argument 2"},
			{[]any{"text", uint32(3), uint32(1)}, driver.ErrElementType, "string holds pointers"},
			{[]any{[]uint32{1}, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{*b, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{&b, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{volume{rt: rt, Buffer: b}, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{&volume{rt: rt, Buffer: b}, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{&struct{ *Buffer[uint32] }{}, uint32(3), uint32(1)}, driver.ErrElementType, "argument 0"},
			{[]any{foreign, uint32(3), uint32(1)}, driver.ErrWrongDevice, "argument 0"},
			{[]any{(*Buffer[int8])(nil), uint32(3), uint32(1)}, driver.ErrNil, "argument 0"},
		} {
			err := s.Launch(k, c, bad.args...)
			require.ErrorIs(t, err, bad.code)
			require.ErrorContains(t, err, bad.text)
			_, err = a.Launch(c, bad.args...)
			require.ErrorIs(t, err, bad.code)
		}
		_, err = m.Kernel("none")
		require.ErrorIs(t, err, driver.ErrNotFound)
		require.ErrorIs(t, s.Launch(nil, c), driver.ErrNil)
		require.ErrorIs(t, s.Launch(&Kernel{}, c), driver.ErrNil)
		_, err = rt.LoadModule([]byte(".version 9"))
		require.ErrorIs(t, err, driver.ErrInvalidPTX)
		_, err = other.Aggregate(k)
		require.ErrorIs(t, err, driver.ErrWrongDevice)
		closeAll(t, a, closer(foreign.Free), other, closer(b.Free), m, s)
		require.ErrorIs(t, s.Launch(k, c), driver.ErrClosed)
	})
}

// TestDynamicSharedOfOneEntry launches an entry that was found twice: what one
// launch asks for takes nothing from a larger one.
func TestDynamicSharedOfOneEntry(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadTest(t, rt, "children.ptx", WithTwin("added", twinAdded))
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBufferFrom(s, []uint32{1, 2, 3})
		require.NoError(t, err)
		first, second := kernelOf(t, m, "added"), kernelOf(t, m, "added")
		most := rt.Info().SharedPerBlockMax
		launch := func(k *Kernel, shared int64) error {
			return s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(32), Shared: shared}, b, uint32(3), uint32(1))
		}
		require.NoError(t, launch(first, most))
		require.NoError(t, launch(second, rt.Info().SharedPerBlock+1))
		require.NoError(t, launch(first, most))
		require.ErrorIs(t, launch(first, most+1), driver.ErrTooLarge)
		require.NoError(t, s.Synchronize())
		closeAll(t, closer(b.Free), m, s)
	})
}

// TestTwoAggregatorsOfOneKernel launch one entry, loaded once, with their own
// bytes of dynamic shared memory. That it is asked for twice changes nothing.
func TestTwoAggregatorsOfOneKernel(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadTest(t, rt, "children.ptx", WithTwin("added", twinAdded), WithAggregated("added", "added"))
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBufferFrom(s, []uint32{1, 2, 3})
		require.NoError(t, err)
		k := kernelOf(t, m, "added")
		var of [2]*Aggregator
		for i := range of {
			of[i], err = rt.Aggregate(k, WithFlushAfter(0))
			require.NoError(t, err)
		}
		most := of[0].launch.shared
		for i, shared := range []int64{most, most - 1024, most, most - 1024, 0, most} {
			a := of[i%2]
			_, err = a.Launch(driver.Config{Grid: driver.D1(1), Block: driver.D1(32), Shared: shared}, b, uint32(3), uint32(1))
			require.NoError(t, err)
			require.NoError(t, a.Flush(context.Background()))
		}
		got := make([]uint32, 3)
		require.NoError(t, b.CopyTo(s, got))
		assert.Equal(t, []uint32{7, 8, 9}, got)
		closeAll(t, of[0], of[1], closer(b.Free), m, s)
	})
}

type closer func() error

func (f closer) Close() error { return f() }

// TestBadChildrenAreRefusedAlone and leave the others of their flush alone.
func TestBadChildrenAreRefusedAlone(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, k, a := loadAdded(t, rt, WithFlushAfter(0))
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBufferFrom(s, make([]uint32, 4))
		require.NoError(t, err)
		one := driver.Config{Grid: driver.D1(1), Block: driver.D1(4)}
		good, err := a.Launch(one, b, uint32(4), uint32(9))
		require.NoError(t, err)
		bad := func(c driver.Config, code driver.Code, args ...any) {
			t.Helper()
			_, err := a.Launch(c, args...)
			require.ErrorIs(t, err, code)
			require.ErrorContains(t, err, "kernel added")
		}
		bad(one, driver.ErrArguments, b, uint32(4))
		bad(one, driver.ErrArguments, b, uint32(4), uint64(9))
		bad(one, driver.ErrElementType, b, uint32(4), "x")
		bad(driver.Config{Grid: driver.D1(1), Block: driver.D1(1025)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		bad(driver.Config{Grid: driver.D1(1), Block: driver.D1(0)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		none, err := a.Launch(driver.Config{Grid: driver.D1(0), Block: driver.D1(1)}, b, uint32(4), uint32(9))
		require.NoError(t, err)
		require.NoError(t, none.Wait(context.Background()))
		bad(driver.Config{Block: driver.D1(1)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		bad(driver.Config{Grid: driver.Dim3{X: 1}, Block: driver.D1(1)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		bad(driver.Config{Grid: driver.Dim3{X: 1, Y: 65536, Z: 1}, Block: driver.D1(1)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		for _, g := range []driver.Dim3{{X: 1 << 31, Y: 1 << 31, Z: 4}, {X: 1<<16 + 1, Y: 1 << 15, Z: 2}} { // of 2^64 blocks, and just over 2^32
			bad(driver.Config{Grid: g, Block: driver.D1(1)}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		}
		bad(driver.Config{Grid: driver.D1(1), Block: driver.D1(1), Shared: 1 << 30}, driver.ErrInvalidValue, b, uint32(4), uint32(9))
		expired, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, good.Wait(expired), context.Canceled)
		require.NoError(t, a.Flush(context.Background()))
		require.NoError(t, good.Wait(context.Background()))
		require.NoError(t, a.Flush(context.Background()), "nothing is recorded")
		got := make([]uint32, 4)
		require.NoError(t, b.CopyTo(s, got))
		assert.Equal(t, []uint32{9, 9, 9, 9}, got)

		// A child that fails on the device fails its whole flush, and no other.
		if rt.Info().Kind != driver.KindCUDA { // where no call would succeed again
			var flush []Pending
			for _, p := range []driver.Ptr{b.Ptr(), 64, b.Ptr()} {
				child, err := a.Launch(one, p, uint32(4), uint32(1))
				require.NoError(t, err)
				flush = append(flush, child)
			}
			err = a.Flush(context.Background())
			require.ErrorIs(t, err, driver.ErrIllegalAddress)
			require.ErrorContains(t, err, "child 1: ")
			require.ErrorContains(t, err, "[kernel added, grid 1×1×1, block 4×1×1")
			for _, p := range flush {
				require.Equal(t, err, p.Wait(context.Background()))
			}
			after, err := a.Launch(one, b, uint32(4), uint32(1))
			require.NoError(t, err)
			require.NoError(t, a.Flush(context.Background()))
			require.NoError(t, after.Wait(context.Background()))
		}
		for says, o := range map[string]AggregateOption{
			"WithFlushCount(0);": WithFlushCount(0), "WithFlushBytes(-2);": WithFlushBytes(-2), "WithFlushAfter(-1ms);": WithFlushAfter(-time.Millisecond),
			"WithFlushesInFlight(0);": WithFlushesInFlight(0), "WithCoarsening(0);": WithCoarsening(0), "WithCoarsening(-1);": WithCoarsening(-1),
			"WithCoarsening(2147483648);": WithCoarsening(math.MaxInt32 + 1), "WithCoarsening(9223372036854775807);": WithCoarsening(math.MaxInt),
		} {
			_, err = rt.Aggregate(k, o)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			require.ErrorContains(t, err, says)
		}
		for _, none := range []*Kernel{nil, {}} {
			_, err = rt.Aggregate(none)
			require.ErrorIs(t, err, driver.ErrNil)
		}
		for _, none := range []*Aggregator{nil, {}} {
			_, err = none.Launch(one)
			require.ErrorIs(t, err, driver.ErrNil)
			_, err = none.NewQueue(1)
			require.ErrorIs(t, err, driver.ErrNil)
			require.ErrorIs(t, none.Flush(context.Background()), driver.ErrNil)
			require.ErrorIs(t, none.Close(), driver.ErrNil)
		}
		closeAll(t, a, a)
		_, err = a.Launch(one, b, uint32(4), uint32(1))
		require.ErrorIs(t, err, driver.ErrClosed)
		require.ErrorIs(t, a.Flush(context.Background()), driver.ErrClosed)
		closeAll(t, closer(b.Free), m, s)
	})
}

// TestModulesWithVariables share them between a kernel and its aggregated form.
func TestModulesWithVariables(t *testing.T) {
	const text = `.version 6.0
.target sm_70
.address_size 64
.visible .global .u32 total;
.visible .entry count(.param .u64 out) {
	.reg .b32 %r<3>; .reg .b64 %d<3>;
	ld.param.u64 %d1, [out];
	atom.global.add.u32 %r1, [total], 1;
	mov.u32 %r2, %ctaid.x;
	mad.wide.u32 %d1, %r2, 4, %d1;
	st.global.u32 [%d1], %r1;
	ret;
}
.visible .entry clustered() { .reg .b32 %r<3>; mov.u32 %r1, %cluster_ctarank; ret; }
`
	for _, capability := range []int{70, 90} {
		dev, err := emu.Open(emu.WithCapability(capability))
		require.NoError(t, err)
		rt := NewRuntime(dev)
		_, err = rt.LoadModule([]byte(text), WithAggregated("count", "clustered"))
		require.ErrorIs(t, err, driver.ErrNotSupported)
		require.ErrorContains(t, err, "Runtime.LoadModule: not supported: PTX:14:")
		require.ErrorContains(t, err, "clusters (%cluster_ctarank)")
		m, err := rt.LoadModule([]byte(text))
		require.NoError(t, err)
		_, err = rt.Aggregate(kernelOf(t, m, "count"))
		require.ErrorIs(t, err, driver.ErrNotSupported)
		require.ErrorContains(t, err, "Aggregate: not supported: PTX:4:23: total is in global memory")
		closeAll(t, m)

		m, err = rt.LoadModule([]byte(text), WithAggregated("count"))
		require.NoError(t, err)
		k := kernelOf(t, m, "count")
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBuffer[uint32](rt, 4)
		require.NoError(t, err)
		a, err := rt.Aggregate(k)
		require.NoError(t, err)
		one := driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}
		for i := range 4 {
			if i%2 == 0 {
				require.NoError(t, s.Launch(k, one, b.Ptr()+driver.Ptr(4*i)))
				require.NoError(t, s.Synchronize())
				continue
			}
			_, err := a.Launch(one, b.Ptr()+driver.Ptr(4*i))
			require.NoError(t, err)
			require.NoError(t, a.Flush(context.Background()))
		}
		got := make([]uint32, 4)
		require.NoError(t, b.CopyTo(s, got))
		assert.Equal(t, []uint32{0, 1, 2, 3}, got)

		_, err = rt.Aggregate(k, WithCoarsening(2))
		require.ErrorIs(t, err, driver.ErrNotSupported)
		closeAll(t, a, closer(b.Free), m, s, rt)
	}
}

// TestAggregatorClose launches, flushes and closes at the same time: every launch
// that was taken completes.
func TestAggregatorClose(t *testing.T) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	s, err := NewStream(rt)
	require.NoError(t, err)
	for round := range 20 {
		m, _, a := loadAdded(t, rt, WithFlushCount(5), WithFlushAfter(50*time.Microsecond))
		b, err := NewBufferFrom(s, make([]uint32, 400))
		require.NoError(t, err)
		var taken [4]int
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 100 {
					p, err := a.Launch(driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, b.Ptr()+driver.Ptr(4*(100*g+i)), uint32(1), uint32(1))
					if err != nil {
						assert.ErrorIs(t, err, driver.ErrClosed)
						return
					}
					taken[g]++
					if i%17 == 0 {
						if err := a.Flush(context.Background()); err != nil {
							assert.ErrorIs(t, err, driver.ErrClosed)
						}
						assert.NoError(t, p.Wait(context.Background()))
					}
				}
			})
		}
		time.Sleep(time.Duration(round) * 20 * time.Microsecond)
		require.NoError(t, a.Close())
		wg.Wait()
		got := make([]uint32, 400)
		require.NoError(t, b.CopyTo(s, got))
		for g, n := range taken {
			for i := range 100 {
				require.EqualValues(t, flag(i < n), got[100*g+i])
			}
		}
		closeAll(t, m, closer(b.Free))
	}
	m, _, a := loadAdded(t, rt, WithFlushAfter(0))
	p, err := a.Launch(driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, driver.Ptr(0), uint32(0), uint32(1))
	require.NoError(t, err)
	closeAll(t, m, s, rt)
	require.ErrorIs(t, a.Close(), driver.ErrClosed, "the runtime went first, and what was recorded has failed")
	require.ErrorIs(t, p.Wait(context.Background()), driver.ErrClosed)
}

func launchMany(t testing.TB, a *Aggregator, p driver.Ptr, n int) {
	for i := range uint32(n) {
		if _, err := a.Launch(driver.Config{Grid: driver.D1(1), Block: driver.D1(64)}, p, i, i+1000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rt, err := Open(WithDevice("cpu"))
	require.NoError(t, err)
	m, _, a := loadAdded(t, rt, WithFlushAfter(0))
	b, err := NewBuffer[uint32](rt, 1<<13)
	require.NoError(t, err)
	launchMany(t, a, b.Ptr(), 4000)
	require.NoError(t, a.Flush(context.Background()))
	launchMany(t, a, b.Ptr(), 10)
	assert.Zero(t, testing.AllocsPerRun(10, func() { launchMany(t, a, b.Ptr(), 300) }))
	closeAll(t, a, m, closer(b.Free), rt)
}

// BenchmarkAggregatorLaunch is the time of a recorded launch.
func BenchmarkAggregatorLaunch(b *testing.B) {
	rt, err := Open(WithDevice("cpu"))
	require.NoError(b, err)
	m := loadTest(b, rt, "children.ptx", WithTwin("added", func(*driver.TwinLaunch) error { return nil }))
	k, err := m.Kernel("added")
	require.NoError(b, err)
	a, err := rt.Aggregate(k, WithFlushAfter(0), WithFlushCount(100000), WithFlushBytes(1<<30))
	require.NoError(b, err)
	i := uint32(0)
	for b.Loop() {
		i++
		if _, err := a.Launch(driver.Config{Grid: driver.D1(1), Block: driver.D1(64)}, driver.Ptr(256), i, uint32(64)); err != nil {
			b.Fatal(err)
		}
	}
	closeAll(b, a, m, rt)
}
