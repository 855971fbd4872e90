package ptxrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/internal/twin"
)

const parentRoom = 300 // elements of a child of the parents in parents.cu

// parentChild is what thread i of a parent asks for; ok is false if it is nothing.
func parentChild(i int) (c driver.Config, ok bool) {
	c = driver.Config{Grid: driver.D1(uint32(i % 4)), Block: driver.D1(uint32(1 + i*7%70)), Shared: int64(i % 5 * 16)}
	return c, i%3 != 1
}

// twinParent is parent_grid.
func twinParent(l *driver.TwinLaunch) error {
	q, out, n, threshold := l.Args.Ptr(), l.Args.Ptr(), int(l.Args.Uint32()), uint64(l.Args.Uint32())
	for i := range n {
		c, ok := parentChild(i)
		if !ok {
			continue
		}
		n := c.Grid.Count() * c.Block.Count()
		a := driver.NewArgs().Ptr(out + driver.Ptr(4*parentRoom*i)).Uint32(uint32(n)).Uint32(uint32(i))
		var err error
		if n < threshold {
			err = twinAdded(&driver.TwinLaunch{Config: c, Args: a.Reader(), Mem: l.Mem})
		} else {
			err = RecordChild(l, q, c, a)
		}
		a.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func twinSplit(l *driver.TwinLaunch) error {
	q, counts, node, nodes := l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint32(), l.Args.Uint32()
	v, err := driver.Slice[uint32](l.Mem, counts+driver.Ptr(4*node), 1)
	if err != nil {
		return err
	}
	v[0]++
	for child := 2*node + 1; child < min(2*node+3, nodes); child++ {
		a := driver.NewArgs().Ptr(q).Ptr(counts).Uint32(child).Uint32(nodes)
		err := RecordChild(l, q, driver.Config{Grid: driver.D1(1), Block: driver.D1(2 + node%40)}, a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func twinWrong(l *driver.TwinLaunch) error {
	a := driver.NewArgs().Uint64(1)
	defer a.Release()
	return RecordChild(l, l.Args.Ptr(), driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, a)
}

func twinLarge(l *driver.TwinLaunch) error {
	q, out := l.Args.Ptr(), l.Args.Ptr()
	dim := func() driver.Dim3 { return driver.Dim3{X: l.Args.Uint32(), Y: l.Args.Uint32(), Z: l.Args.Uint32()} }
	large := driver.Config{Grid: dim(), Block: dim()}
	a := driver.NewArgs().Ptr(out).Uint32(1).Uint32(1)
	defer a.Release()
	one := driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}
	return errors.Join(RecordChild(l, q, one, a), RecordChild(l, q, large, a), RecordChild(l, q, one, a))
}

func twinEven(l *driver.TwinLaunch) error {
	q, out, n, blocks := l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint32(), l.Args.Uint32()
	for i := range n {
		a := driver.NewArgs().Ptr(out + driver.Ptr(16*i*blocks)).Uint32(4 * blocks).Uint32(i)
		err := RecordChild(l, q, driver.Config{Grid: driver.D1(blocks), Block: driver.D1(4)}, a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// evenChildren is what the children of parent_even make of zeros.
func evenChildren(n, blocks int) []uint32 {
	out := make([]uint32, n*blocks*4)
	for i := range out {
		out[i] = uint32(i/(4*blocks) + i%(4*blocks)/4)
	}
	return out
}

var parentTwins = []ModuleOption{WithTwin("add", twinAdded), WithTwin("split", twinSplit), WithTwin("parent_wrong", twinWrong),
	WithTwin("parent_large", twinLarge), WithTwin("parent_even", twinEven),
	WithTwin("parent_grid", twinParent), WithTwin("parent_block", twinParent), WithTwin("parent_warp", twinParent)}

func loadParents(t testing.TB, rt *Runtime) *Module {
	return loadTest(t, rt, "parents.ptx", parentTwins...)
}

// loadFixed is loadParents with an entry that is compiled for blocks of that many
// threads.
func loadFixed(t testing.TB, rt *Runtime, entry string, threads int) *Module {
	return loadBounded(t, rt, entry, ".reqntid", threads)
}

// loadBounded is loadParents with such a directive at an entry.
func loadBounded(t testing.TB, rt *Runtime, entry, directive string, threads int) *Module {
	text, err := os.ReadFile("ptx/aggregate/testdata/parents.ptx")
	require.NoError(t, err)
	head, tail, found := strings.Cut(string(text), ".visible .entry "+entry+"(")
	require.True(t, found)
	params, body, found := strings.Cut(tail, ")")
	require.True(t, found)
	bounded := fmt.Sprintf("%s.visible .entry %s(%s)\n%s %d\n%s", head, entry, params, directive, threads, body)
	m, err := rt.LoadModule([]byte(bounded), parentTwins...)
	require.NoError(t, err)
	return m
}

func kernelOf(t testing.TB, m *Module, name string) *Kernel {
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

// newTestQueue is a queue for a kernel of the parents' module, and what it needs.
func newTestQueue(t *testing.T, rt *Runtime, kernel string, capacity int) (*Module, *Aggregator, *Stream, *Queue) {
	m := loadParents(t, rt)
	a, err := rt.Aggregate(kernelOf(t, m, kernel))
	require.NoError(t, err)
	s, err := NewStream(rt)
	require.NoError(t, err)
	q, err := a.NewQueue(capacity)
	require.NoError(t, err)
	return m, a, s, q
}

// TestQueue launches what a parent's threads have recorded, at each granularity,
// and compares it with the children launched from the host.
func TestQueue(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadParents(t, rt)
		add := kernelOf(t, m, "add")
		a, err := rt.Aggregate(add)
		require.NoError(t, err)
		coarse, err := rt.Aggregate(add, WithCoarsening(3))
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		for _, n := range []int{0, 1, 2, 33, 250} {
			for name, threshold := range map[string]int{"parent_grid": 0, "parent_block": 0, "parent_warp": 40} {
				want := newGuarded[uint32](t, s, n*parentRoom, 0)
				got := newGuarded[uint32](t, s, n*parentRoom, 0)
				children := int64(0)
				for i := range n {
					c, ok := parentChild(i)
					threads := c.Grid.Count() * c.Block.Count()
					if !ok || threads == 0 {
						continue
					}
					if threads >= uint64(threshold) {
						children++
					}
					require.NoError(t, s.Launch(add, c, want.Ptr()+driver.Ptr(4*parentRoom*i), uint32(threads), uint32(i)))
				}
				of := a
				if n == 33 {
					of = coarse
				}
				q, err := of.NewQueue(max(int(children), 1))
				require.NoError(t, err)
				parent := driver.Config{Grid: driver.D1(uint32(n/100 + 1)), Block: driver.D1(100)}
				require.NoError(t, s.Launch(kernelOf(t, m, name), parent, q.Ptr(), got.Ptr(), uint32(n), uint32(threshold)))
				launched, err := q.Launch(s)
				require.NoError(t, err)
				require.Equal(t, children, launched)
				again, err := q.Launch(s)
				require.NoError(t, err)
				require.Zero(t, again, "the queue is empty")
				requireSame(t, want.check(t, s, name), got.check(t, s, name), "%s of %d", name, n)
				require.NoError(t, q.Close())
				require.ErrorIs(t, q.Close(), driver.ErrClosed)
			}
		}
		closeAll(t, a, coarse, m, s)
	})
}

// TestQueueAhead launches one queue again and again with children more and fewer,
// larger and smaller than the last, beyond the blocks that it has room for and beyond
// those whose owners a warp notes, so that the launch ahead is enough, too large, too
// small and of no use.
func TestQueueAhead(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadParents(t, rt)
		s, err := NewStream(rt)
		require.NoError(t, err)
		even, grid := kernelOf(t, m, "parent_even"), kernelOf(t, m, "parent_grid")
		for _, opts := range [][]AggregateOption{nil, {WithCoarsening(2)}} {
			a, err := rt.Aggregate(kernelOf(t, m, "add"), opts...)
			require.NoError(t, err)
			q, err := a.NewQueue(64)
			require.NoError(t, err)
			for _, c := range []struct{ n, blocks int }{{40, 1}, {40, 1}, {64, 2}, {3, 1}, {40, 0}, {40, 1}, {64, 9}, {64, 9}, {64, 10}, {1, 800}, {64, 5}, {1, 1<<16 + 1}, {1, 1<<16 + 1}, {2, 3}} {
				out := newGuarded[uint32](t, s, max(c.n*c.blocks*4, 1), 0)
				require.NoError(t, s.s.Fill(out.Ptr(), 0, int64(4*c.n*c.blocks*4)))
				require.NoError(t, s.Launch(even, driver.Config{Grid: driver.D1(2), Block: driver.D1(40)}, q.Ptr(), out.Ptr(), uint32(c.n), uint32(c.blocks)))
				launched, err := q.Launch(s)
				require.NoError(t, err)
				if c.blocks == 0 {
					require.Zero(t, launched)
					out.check(t, s, "")
					continue
				}
				require.EqualValues(t, c.n, launched)
				requireSame(t, evenChildren(c.n, c.blocks), out.check(t, s, ""), "%d children of %d blocks", c.n, c.blocks)
			}
			// Blocks of more threads than the last had.
			out := newGuarded[uint32](t, s, 30*parentRoom, 0)
			require.NoError(t, s.Launch(grid, driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(30), uint32(0)))
			_, err = q.Launch(s)
			require.NoError(t, err)
			want := newGuarded[uint32](t, s, 30*parentRoom, 0)
			for i := range 30 {
				if c, ok := parentChild(i); ok && c.Grid.Count() > 0 {
					require.NoError(t, s.Launch(kernelOf(t, m, "add"), c, want.Ptr()+driver.Ptr(4*parentRoom*i), uint32(c.Grid.Count()*c.Block.Count()), uint32(i)))
				}
			}
			requireSame(t, want.check(t, s, ""), out.check(t, s, ""), "after even ones")
			closeAll(t, q, a)
		}
		closeAll(t, m, s)
	})
}

// TestQueueStart has the children of a second, equal parent complete before Wait, and
// those that the launch ahead is too small for after it.
func TestQueueStart(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, a, s, q := newTestQueue(t, rt, "add", 64)
		_, err := q.Wait()
		require.ErrorIs(t, err, driver.ErrNotReady)
		for _, c := range []struct {
			n, blocks int
			ahead     int // children that are done before Wait
		}{{40, 2, 0}, {40, 2, 40}, {60, 2, 40}, {20, 2, 20}} {
			out := newGuarded[uint32](t, s, 4*c.n*c.blocks, 0)
			require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_even"), driver.Config{Grid: driver.D1(2), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(c.n), uint32(c.blocks)))
			require.NoError(t, q.Start(s))
			require.ErrorIs(t, q.Start(s), driver.ErrNotReady)
			_, err := q.LaunchEach(s)
			require.ErrorIs(t, err, driver.ErrNotReady)
			want := evenChildren(c.n, c.blocks)
			before, written, all := make([]uint32, len(want)), 0, 0
			require.NoError(t, s.s.CopyToHost(bytesOf(before), out.Ptr()))
			for i, v := range before {
				written += min(int(v), 1)
				all += min(int(want[i]), 1)
			}
			require.Equal(t, c.ahead > 0, written > 0, "%v", c)
			require.Equal(t, c.ahead == c.n, written == all, "%v", c)
			n, err := q.Wait()
			require.NoError(t, err)
			require.EqualValues(t, c.n, n)
			requireSame(t, want, out.check(t, s, ""), "%v", c)
		}
		other, err := NewStream(rt)
		require.NoError(t, err)
		parent := func(s *Stream, n int) guarded[uint32] {
			out := newGuarded[uint32](t, s, 4*n, 0)
			require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_even"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(n), uint32(1)))
			return out
		}
		lost := parent(s, 30)
		require.NoError(t, q.Start(s))
		require.NoError(t, s.Close())
		_, err = q.Wait()
		require.ErrorIs(t, err, driver.ErrClosed)
		_, err = q.Wait()
		require.ErrorIs(t, err, driver.ErrNotReady)
		out := parent(other, 20)
		n, err := q.Launch(other)
		require.NoError(t, err, "in a stream that is open")
		require.EqualValues(t, 20, n)
		requireSame(t, evenChildren(20, 1), out.check(t, other, ""), "after the stream was closed")
		lost.check(t, other, "")
		closeAll(t, q, a, m, other)
	})
}

// TestQueueOfMostThreads has a child refused whose block is larger than the kernel
// takes and not than the launch ahead has, which is of whole warps: none has run.
func TestQueueOfMostThreads(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadBounded(t, rt, "add", ".maxntid", 40)
		s, err := NewStream(rt)
		require.NoError(t, err)
		a, err := rt.Aggregate(kernelOf(t, m, "add"))
		require.NoError(t, err)
		q, err := a.NewQueue(8)
		require.NoError(t, err)
		for _, n := range []int{6, 7, 3, 7, 6, 6} { // of at most 36, 43 and 15 threads
			out := newGuarded[uint32](t, s, n*parentRoom, 0)
			require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_grid"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(n), uint32(0)))
			_, err := q.Launch(s)
			ran := slices.Max(out.check(t, s, "")) > 0
			if n == 7 {
				require.ErrorIs(t, err, driver.ErrInvalidValue)
				require.False(t, ran, "no child has run")
				continue
			}
			require.NoError(t, err)
			require.True(t, ran)
		}
		closeAll(t, q, a, m, s)
	})
}

// TestQueueBetweenFailedStreams goes from a stream that has failed, and to one: the
// error comes once, and the queue is empty then.
func TestQueueBetweenFailedStreams(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		if rt.Info().Kind == driver.KindCUDA {
			return // where no call would succeed again
		}
		m := loadParents(t, rt)
		first, err := NewStream(rt)
		require.NoError(t, err)
		second, err := NewStream(rt)
		require.NoError(t, err)
		a, err := rt.Aggregate(kernelOf(t, m, "add"))
		require.NoError(t, err)
		q, err := a.NewQueue(64)
		require.NoError(t, err)
		one := driver.Config{Grid: driver.D1(1), Block: driver.D1(64)}
		fail := func(s *Stream) {
			require.NoError(t, s.Launch(kernelOf(t, m, "add"), one, driver.Ptr(64), uint32(1), uint32(1)))
			require.Eventually(t, func() bool { _, err := s.s.Query(); return err != nil }, time.Minute, time.Millisecond)
		}
		good := func(s *Stream) {
			out := newGuarded[uint32](t, s, 4*20, 0)
			require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_even"), one, q.Ptr(), out.Ptr(), uint32(20), uint32(1)))
			n, err := q.Launch(s)
			require.NoError(t, err)
			require.EqualValues(t, 20, n)
			requireSame(t, evenChildren(20, 1), out.check(t, s, ""), "after failures")
		}
		good(first)

		// From one that has failed. What the second's parent recorded is not launched.
		out := newGuarded[uint32](t, first, 4*20, 0)
		require.NoError(t, first.s.Fill(out.Ptr(), 0, 4*out.n))
		fail(first)
		require.NoError(t, second.Launch(kernelOf(t, m, "parent_even"), one, q.Ptr(), out.Ptr(), uint32(20), uint32(1)))
		_, err = q.Launch(second)
		require.ErrorIs(t, err, driver.ErrIllegalAddress)
		n, err := q.Launch(second)
		require.NoError(t, err)
		require.Zero(t, n)
		requireSame(t, make([]uint32, 4*20), out.check(t, second, ""), "no child has run")
		require.ErrorIs(t, first.Synchronize(), driver.ErrIllegalAddress, "the stream's own error is still there")
		good(second)
		good(first)

		// To one that has failed.
		fail(second)
		_, err = q.Launch(second)
		require.ErrorIs(t, err, driver.ErrIllegalAddress)
		require.NoError(t, second.Synchronize(), "Launch has returned it")
		good(second)
		closeAll(t, q, a, m, first, second)
	})
}

// TestQueueBetweenStreams goes to another stream while, in the first, the launch ahead
// of a Launch that found nothing is still on its way: it finds nothing later either.
func TestQueueBetweenStreams(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadParents(t, rt)
		first, err := NewStream(rt)
		require.NoError(t, err)
		second, err := NewStream(rt)
		require.NoError(t, err)
		a, err := rt.Aggregate(kernelOf(t, m, "add"))
		require.NoError(t, err)
		q, err := a.NewQueue(mostAhead / roomForChild)
		require.NoError(t, err)
		const n, blocks = 4, mostAhead / 8 // more than are run at a time, by far
		out := newGuarded[uint32](t, first, 4*n*blocks, 0)
		run := func(s *Stream, n, blocks int, launch func(*Stream) (int64, error)) {
			require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_even"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(n), uint32(blocks)))
			launched, err := launch(s)
			require.NoError(t, err)
			require.EqualValues(t, n, launched)
		}
		run(first, n, blocks, q.Launch)
		require.NoError(t, first.Synchronize())
		launched, err := q.Launch(first)
		require.NoError(t, err)
		require.Zero(t, launched)
		run(second, 1, 1, q.LaunchEach)
		run(second, n, blocks, q.Launch)
		require.NoError(t, second.Synchronize())
		require.NoError(t, first.Synchronize())
		requireSame(t, evenChildren(n, blocks), out.check(t, second, ""), "each child runs once")
		closeAll(t, q, a, m, first, second)
	})
}

// TestNestedChildren visits a tree: each child records its own.
func TestNestedChildren(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m := loadParents(t, rt)
		a, err := rt.Aggregate(kernelOf(t, m, "split"))
		require.NoError(t, err)
		s, err := NewStream(rt)
		require.NoError(t, err)
		const nodes = 300
		counts := newGuarded[uint32](t, s, nodes, 0)
		q, err := a.NewQueue(256)
		require.NoError(t, err)
		require.NoError(t, s.s.Fill(counts.Ptr(), 0, 4*nodes))
		require.NoError(t, s.Launch(kernelOf(t, m, "split"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), counts.Ptr(), uint32(0), uint32(nodes)))
		children, levels, err := q.Drain(s)
		require.NoError(t, err)
		assert.EqualValues(t, nodes-1, children)
		assert.Equal(t, 8, levels)
		for i, v := range counts.check(t, s, "") {
			require.EqualValues(t, 1, v, i)
		}
		closeAll(t, q, a, m, s)
	})
}

// TestQueueRefusals launches no child, and leaves an empty queue.
func TestQueueRefusals(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, a, s, q := newTestQueue(t, rt, "add", 20)
		const n = 64
		out := newGuarded[uint32](t, s, n*parentRoom, 0)
		one := driver.Config{Grid: driver.D1(1), Block: driver.D1(64)}
		for _, name := range []string{"parent_grid", "parent_block", "parent_warp"} {
			require.NoError(t, s.Launch(kernelOf(t, m, name), one, q.Ptr(), out.Ptr(), uint32(n), uint32(0)))
			_, err := q.Launch(s)
			require.ErrorIs(t, err, driver.ErrTooSmall)
			var e *driver.Error
			require.ErrorAs(t, err, &e)
			require.EqualValues(t, 32, e.Need)
			require.ErrorContains(t, err, "Queue.Launch: output too small: 32 children are recorded, the queue holds 20 [kernel add")
		}
		require.NoError(t, s.Launch(kernelOf(t, m, "parent_wrong"), one, q.Ptr()))
		_, err := q.Launch(s)
		require.ErrorIs(t, err, driver.ErrArguments)
		require.ErrorContains(t, err, "a parent records 8 bytes of arguments, the kernel takes 16")
		for _, bad := range []struct {
			grid, block driver.Dim3
			want        string
		}{
			{one.Grid, driver.D1(2000), "a block of more threads than the kernel and the device take, 1024 and at most 64 in z [kernel add, grid 1×1×1, block 2000×1×1]"},
			{one.Grid, driver.Dim3{X: 1, Y: 1, Z: 65}, "a block of more threads than the kernel and the device take, 1024 and at most 64 in z [kernel add, grid 1×1×1, block 1×1×65]"},
			{one.Grid, driver.D1(0), "a block of no threads [kernel add, grid 1×1×1, block 0×1×1]"},
			{driver.Dim3{X: 1, Y: 1 << 16, Z: 1}, driver.D1(1), "the grid is larger than the device takes [kernel add, grid 1×65536×1, block 1×1×1]"},
			{driver.D1(1 << 31), driver.D1(1), "the grid is larger than the device takes [kernel add, grid 2147483648×1×1, block 1×1×1]"},
			{driver.Dim3{X: 1 << 31, Y: 1 << 31, Z: 4}, driver.D1(1), "the grid is larger than the device takes [kernel add, grid 2147483648×2147483648×4, block 1×1×1]"},
			{driver.Dim3{X: 1<<31 - 1, Y: 65535, Z: 65535}, driver.D1(1), "the grid has more than 2^32 blocks [kernel add, grid 2147483647×65535×65535, block 1×1×1]"},
		} {
			g, b := bad.grid, bad.block
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_large"), one, q.Ptr(), out.Ptr(), g.X, g.Y, g.Z, b.X, b.Y, b.Z))
			_, err = q.Launch(s)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			by := ", of the parent's thread 1"
			if rt.Info().Kind == driver.KindCPU {
				by = "" // where no thread has asked
			}
			require.ErrorContains(t, err, "child 1"+by+": "+bad.want)
		}
		if rt.Info().Kind != driver.KindCPU { // whose twins record at one
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_mixed"), one, q.Ptr(), out.Ptr()))
			_, err = q.Launch(s)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			require.ErrorContains(t, err, "1 children are recorded in groups and 1 without")
		}
		children, err := q.Launch(s)
		require.NoError(t, err)
		require.Zero(t, children)
		for _, v := range out.check(t, s, "") {
			require.EqualValues(t, canary, v, "no child has run")
		}
		if rt.Info().Kind != driver.KindCUDA { // where no call would succeed again
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_grid"), one, q.Ptr(), driver.Ptr(64), uint32(n), uint32(1<<31)))
			_, err = q.Launch(s)
			require.ErrorIs(t, err, driver.ErrIllegalAddress, "the parent's error")
			require.ErrorContains(t, err, "Queue.Launch: ")
			require.ErrorContains(t, err, "[kernel parent_grid")
			require.NoError(t, s.Synchronize())
		}
		for _, capacity := range []int{0, -1, 1 << 31} {
			_, err = a.NewQueue(capacity)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
		}
		for _, none := range []*Queue{nil, {}} {
			_, err = none.Launch(s)
			require.ErrorIs(t, err, driver.ErrNil)
			_, _, err = none.Drain(s)
			require.ErrorIs(t, err, driver.ErrNil)
			require.ErrorIs(t, none.Close(), driver.ErrNil)
			require.Zero(t, none.Ptr())
		}
		closeAll(t, q)
		_, err = q.Launch(s)
		require.ErrorIs(t, err, driver.ErrClosed)
		require.NoError(t, a.Flush(context.Background()))
		closeAll(t, a, m, s)
	})
}

// TestChildLimits: a parent leaves for the queue to refuse what an aggregator refuses,
// at each limit of a grid and a block, and where products of sizes wrap around.
func TestChildLimits(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, a, s, q := newTestQueue(t, rt, "add", 4)
		one, refused := driver.D1(1), 0
		for _, c := range []driver.Config{
			{Grid: driver.D1(1<<31 - 1), Block: one}, {Grid: driver.D1(1 << 31), Block: one},
			{Grid: driver.Dim3{X: 1, Y: 65535, Z: 1}, Block: one}, {Grid: driver.Dim3{X: 1, Y: 65536, Z: 1}, Block: one},
			{Grid: driver.Dim3{X: 1, Y: 1, Z: 65535}, Block: one}, {Grid: driver.Dim3{X: 1, Y: 1, Z: 65536}, Block: one},
			{Grid: driver.Dim3{X: 1 << 16, Y: 1 << 15, Z: 2}, Block: one}, {Grid: driver.Dim3{X: 1<<16 + 1, Y: 1 << 15, Z: 2}, Block: one},
			{Grid: driver.Dim3{X: 1 << 31, Y: 1 << 31, Z: 4}, Block: one}, {Grid: driver.Dim3{X: 1<<31 - 1, Y: 65535, Z: 65535}, Block: one},
			{Grid: one, Block: driver.D1(1024)}, {Grid: one, Block: driver.D1(1025)},
			{Grid: one, Block: driver.Dim3{X: 1, Y: 1024, Z: 1}}, {Grid: one, Block: driver.Dim3{X: 1, Y: 1025, Z: 1}},
			{Grid: one, Block: driver.Dim3{X: 1, Y: 1, Z: 64}}, {Grid: one, Block: driver.Dim3{X: 1, Y: 1, Z: 65}},
			{Grid: one, Block: driver.Dim3{X: 32, Y: 32, Z: 1}}, {Grid: one, Block: driver.Dim3{X: 32, Y: 32, Z: 2}},
			{Grid: one, Block: driver.Dim3{X: 1, Y: 0, Z: 1}}, {Grid: one, Block: driver.Dim3{X: 1 << 31, Y: 1 << 31, Z: 4}},
		} {
			g, b := c.Grid, c.Block
			require.NoError(t, s.Launch(kernelOf(t, m, "parent_large"), driver.Config{Grid: one, Block: driver.D1(32)}, q.Ptr(), driver.Ptr(0), g.X, g.Y, g.Z, b.X, b.Y, b.Z))
			var h queueHeader
			require.NoError(t, s.s.CopyToHost(bytesOfValue(&h), q.header.Ptr()))
			require.NoError(t, q.reset(s))
			require.EqualValues(t, 3, h.Count, c)
			wrong := a.checkConfig("", &c) != nil
			require.Equal(t, wrong, h.Threads > 1024, c)
			if wrong {
				refused++
			}
		}
		require.Equal(t, 12, refused)
		closeAll(t, q, a, m, s)
	})
}

// TestQueueVersion refuses a parent that was compiled with an earlier or a later
// header, which reads nothing of a queue that it does not know.
func TestQueueVersion(t *testing.T) {
	text, err := os.ReadFile("ptx/aggregate/testdata/parents.ptx")
	require.NoError(t, err)
	const bytes = 16 // of add's arguments
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		if rt.Info().Kind == driver.KindCPU {
			return // its parents are twins, compiled with the queue
		}
		s, err := NewStream(rt)
		require.NoError(t, err)
		for _, version := range []int64{twin.QueueVersion - 1, twin.QueueVersion + 1} {
			present, other := decimal(int64(twin.QueueArgs(bytes))), decimal(bytes+version*(twin.QueueMaxArgs+1))
			require.Contains(t, string(text), present)
			m, err := rt.LoadModule([]byte(strings.ReplaceAll(string(text), present, other)))
			require.NoError(t, err)
			a, err := rt.Aggregate(kernelOf(t, m, "add"))
			require.NoError(t, err)
			q, err := a.NewQueue(4)
			require.NoError(t, err)
			out := newGuarded[uint32](t, s, 4*parentRoom, 0)
			for _, name := range []string{"parent_grid", "parent_block", "parent_warp"} {
				require.NoError(t, s.Launch(kernelOf(t, m, name), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(4), uint32(0)))
				_, err = q.Launch(s)
				require.ErrorIs(t, err, driver.ErrArguments)
				require.ErrorContains(t, err, "a parent was compiled with version "+decimal(version)+" of aggregate.cuh, this is version "+decimal(twin.QueueVersion)+": compile it again")
			}
			for _, v := range out.check(t, s, "") {
				require.EqualValues(t, canary, v, "no child has run")
			}
			closeAll(t, q, a, m)
		}
		closeAll(t, s)
	})
}

// TestQueueOfFixedBlock takes children of the block that their kernel is compiled
// for and refuses others, larger or smaller.
func TestQueueOfFixedBlock(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		m := loadFixed(t, rt, "split", 2)
		split := kernelOf(t, m, "split")
		a, err := rt.Aggregate(split)
		require.NoError(t, err)
		q, err := a.NewQueue(8)
		require.NoError(t, err)
		for _, nodes := range []uint32{3, 7} {
			counts := newGuarded[uint32](t, s, 7, 0)
			require.NoError(t, s.s.Fill(counts.Ptr(), 0, 4*7))
			require.NoError(t, s.Launch(split, driver.Config{Grid: driver.D1(1), Block: driver.D1(2)}, q.Ptr(), counts.Ptr(), uint32(0), nodes))
			children, levels, err := q.Drain(s)
			if nodes == 3 {
				require.NoError(t, err)
			} else { // the second level's blocks are larger
				require.ErrorIs(t, err, driver.ErrInvalidValue)
			}
			require.EqualValues(t, 2, children)
			require.Equal(t, 1, levels)
			require.Equal(t, []uint32{1, 1, 1, 0, 0, 0, 0}, counts.check(t, s, ""))
		}
		closeAll(t, q, a, m)

		m = loadFixed(t, rt, "add", 64)
		a, err = rt.Aggregate(kernelOf(t, m, "add"))
		require.NoError(t, err)
		q, err = a.NewQueue(8)
		require.NoError(t, err)
		out := newGuarded[uint32](t, s, 4*parentRoom, 0)
		for _, name := range []string{"parent_grid", "parent_block", "parent_warp"} {
			for _, launch := range []func(*Stream) (int64, error){q.Launch, q.LaunchEach} {
				require.NoError(t, s.Launch(kernelOf(t, m, name), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(4), uint32(0)))
				_, err = launch(s)
				require.ErrorIs(t, err, driver.ErrInvalidValue)
				require.ErrorContains(t, err, "the kernel is compiled for 64×1×1")
			}
		}
		for _, v := range out.check(t, s, "") {
			require.EqualValues(t, canary, v, "no child has run")
		}
		closeAll(t, q, a, m, s)
	})
}

// TestQueueOfClosedAggregator launches nothing and says so.
func TestQueueOfClosedAggregator(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		m, a, s, q := newTestQueue(t, rt, "add", 64)
		out := newGuarded[uint32](t, s, 4*parentRoom, 0)
		require.NoError(t, s.Launch(kernelOf(t, m, "parent_grid"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(4), uint32(0)))
		closeAll(t, a)
		for _, launch := range []func(*Stream) (int64, error){q.Launch, q.LaunchEach} {
			_, err := launch(s)
			require.ErrorIs(t, err, driver.ErrClosed)
			require.ErrorContains(t, err, "aggregator of add")
		}
		_, err := a.NewQueue(4)
		require.ErrorIs(t, err, driver.ErrClosed)
		for _, v := range out.check(t, s, "") {
			require.EqualValues(t, canary, v, "no child has run")
		}
		closeAll(t, q, m, s)
	})
}

// meagre is a device that gives memory and events left more times.
type meagre struct {
	driver.Device
	left int
}

func (d *meagre) take() error {
	if d.left == 0 {
		return driver.Errorf("", driver.ErrOutOfMemory, "there was enough for others")
	}
	d.left--
	return nil
}

func (d *meagre) Alloc(bytes int64) (driver.Ptr, error) {
	if err := d.take(); err != nil {
		return 0, err
	}
	return d.Device.Alloc(bytes)
}

func (d *meagre) AllocHost(bytes int64) (driver.HostMemory, error) {
	if err := d.take(); err != nil {
		return driver.HostMemory{}, err
	}
	return d.Device.AllocHost(bytes)
}

func (d *meagre) NewEvent(timing bool) (driver.Event, error) {
	if err := d.take(); err != nil {
		return nil, err
	}
	return d.Device.NewEvent(timing)
}

// TestQueueRunsOutOfMemory: whatever is missing, a new queue says so and leaves
// nothing, and one that is there does without more room.
func TestQueueRunsOutOfMemory(t *testing.T) {
	const plenty = 1 << 20
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	require.NoError(t, err)
	d := &meagre{dev, plenty}
	rt := NewRuntime(d)
	m := loadParents(t, rt)
	s, err := NewStream(rt)
	require.NoError(t, err)
	a, err := rt.Aggregate(kernelOf(t, m, "add"))
	require.NoError(t, err)
	var q *Queue
	needs := 0
	for err = driver.ErrOutOfMemory; err != nil; needs++ {
		require.ErrorIs(t, err, driver.ErrOutOfMemory, needs)
		d.left = needs
		q, err = a.NewQueue(4)
	}
	require.Greater(t, needs, 15)
	for left := range 3 {
		const n, blocks = 4, 2 * roomForChild
		d.left = plenty
		out := newGuarded[uint32](t, s, n*blocks*4, 0)
		require.NoError(t, s.s.Fill(out.Ptr(), 0, 4*out.n))
		require.NoError(t, s.Launch(kernelOf(t, m, "parent_even"), driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, q.Ptr(), out.Ptr(), uint32(n), uint32(blocks)))
		d.left = left
		children, err := q.Launch(s)
		require.NoError(t, err)
		require.EqualValues(t, n, children)
		require.Equal(t, left == 2, q.room > 4*roomForChild)
		requireSame(t, evenChildren(n, blocks), out.check(t, s, ""), "with memory for %d tables", left)
	}
	closeAll(t, q, a, m, s)
	require.NoError(t, rt.Close(), "nothing is left on the device")
}
