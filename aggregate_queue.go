package ptxrun

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
)

// Queue holds launches of an aggregator's kernel that other kernels ask for. A
// parent kernel takes the queue's address and records children by the functions of
// aggregate.cuh, one of the headers of [github.com/ptxrun/ptxrun/ptx.Headers];
// [Queue.Launch] launches them. A child that takes the address may record children
// again.
//
// A queue belongs to one parent at a time, and its calls to one goroutine. It needs
// its aggregator to be open.
type Queue struct {
	a        *Aggregator
	capacity int64
	stride   int64 // bytes of a child's arguments

	mu     sync.Mutex
	closed bool
	header *Buffer[queueHeader]
	empty  *Buffer[queueHeader] // one for each side
	gates  *Buffer[byte]
	sides  [2]queueSide // children run from one and record to the other
	side   int          // that is recorded to
	room   int64        // blocks whose owners a side has memory for
	held   []func() error

	seen driver.HostMemory // see aggregate.Taking
	mark uint32            // of the last launch

	stream  *Stream      // of the last launch
	started *Stream      // of a Start without its Wait
	behind  driver.Event // what that stream had when another was used

	// last is the shape of the last launch, which the next is made with ahead of
	// what it needs being known.
	last launchShape
}

// queueHeader and childGroup are in aggregate.cuh.
type (
	queueHeader = twin.ChildQueue
	takenQueue  struct {
		queueHeader
		ahead, _ uint32 // blocks that the launch ahead runs
	}
	childGroup struct {
		First, Blocks          uint64
		Count, Threads, Shared uint32
		_                      uint32
	}
)

// queueSide is the memory of one level's children.
type queueSide struct {
	configs, args *Buffer[byte]
	starts        *Buffer[uint64]
	groups        *Buffer[childGroup]
	owners        *Buffer[uint32]
}

// launchShape is a launch of so many blocks; of none where there was none.
type launchShape struct {
	blocks          uint64
	threads, shared uint32
}

const (
	// roomForChild is the blocks of a child, on average, that a new queue has room
	// for, at 4 bytes each beside 72 and the arguments. The benchmark's children, of
	// 512 threads on average, have 4.5. A queue with more is launched by a search, once:
	// it has more room afterwards.
	roomForChild = 8
	// mostRoom bounds that memory to 64 MiB a side.
	mostRoom = 1 << 24
	// mostAhead is the blocks of a launch ahead. On an H200 they take 40 µs if they
	// have nothing to do, as 589,281 empty ones take 357, and else longer: the host
	// needs 11 µs to see what 1024 parents record and launch the rest (bench/NOTES.md).
	mostAhead = 1 << 16
)

// NewQueue returns an empty queue for up to capacity children at a time. It takes
// twice 104 bytes and the kernel's parameters for each, more where children have more
// than 8 blocks on average. Close it.
//
// Errors: ErrInvalidValue for a capacity that is not in [1, 2^31), ErrNotSupported for
// a kernel that is compiled for an architecture before sm_70, ErrOutOfMemory,
// ErrClosed.
func (a *Aggregator) NewQueue(capacity int) (*Queue, error) {
	const op = "Aggregator.NewQueue"
	if err := a.there(op); err != nil {
		return nil, err
	}
	if err := a.hold(op); err != nil {
		return nil, err
	}
	defer a.running.Done()
	if capacity < 1 || capacity > maxChildren {
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "a capacity of %d; it is from 1 to %d", capacity, maxChildren)
	}
	if !a.launch.entry.Ahead {
		return nil, driver.Errorf(op, driver.ErrNotSupported, "kernel %s is compiled for an architecture before sm_70", a.kernel.Name())
	}
	q := &Queue{a: a, capacity: int64(capacity), room: min(int64(capacity)*roomForChild, mostRoom)}
	align := int64(1)
	for _, p := range a.kernel.entry.Params {
		align = max(align, int64(p.Align))
	}
	q.stride = max((int64(a.kernel.entry.Bytes())+align-1)&^(align-1), 1) // as Args.StructSize
	err := q.alloc()
	if err == nil {
		err = a.rt.onStream(op, func(s *Stream) error {
			if err := s.s.Fill(q.gates.Ptr(), 0, aggregate.GateBytes); err != nil {
				return err
			}
			if err := q.reset(s); err != nil {
				return err
			}
			return s.s.Synchronize()
		})
	}
	if err != nil {
		return nil, errors.Join(named(op, err), q.free())
	}
	return q, nil
}

// alloc takes the queue's memory, and free returns what of it is there.
func (q *Queue) alloc() error {
	var err error
	allocInto(q, &err, &q.header, 1)
	allocInto(q, &err, &q.empty, int64(len(q.sides)))
	allocInto(q, &err, &q.gates, aggregate.GateBytes)
	for i := range q.sides {
		s := &q.sides[i]
		allocInto(q, &err, &s.configs, q.capacity*aggregate.ConfigBytes)
		allocInto(q, &err, &s.args, q.capacity*q.stride)
		allocInto(q, &err, &s.starts, q.capacity)
		allocInto(q, &err, &s.groups, q.capacity)
		allocInto(q, &err, &s.owners, q.room)
	}
	if err != nil {
		return err
	}
	dev := q.a.rt.dev
	if q.seen, err = dev.AllocHost(8 * aggregate.SeenWords); err != nil {
		return err
	}
	q.held = append(q.held, func() error { return dev.FreeHost(q.seen) })
	clear(q.seen.Bytes)
	if q.behind, err = dev.NewEvent(false); err == nil {
		q.held = append(q.held, q.behind.Close)
	}
	return err
}

// allocInto makes b a buffer of n elements, unless there was an error. The queue frees
// what b is when it is closed.
func allocInto[T any](q *Queue, err *error, b **Buffer[T], n int64) {
	if *err != nil {
		return
	}
	if *b, *err = NewBuffer[T](q.a.rt, int(n)); *err == nil {
		q.held = append(q.held, func() error { return (*b).Free() })
	}
}

func (q *Queue) free() error {
	var errs []error
	for _, free := range q.held {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}

// Ptr is the queue's address, an argument of the parent kernel. Zero if the queue
// is nil.
func (q *Queue) Ptr() driver.Ptr {
	if q == nil {
		return 0
	}
	return q.header.Ptr()
}

// reset empties the queue in stream order.
func (q *Queue) reset(s *Stream) error {
	var empty [2]queueHeader
	for i := range empty {
		side := &q.sides[i]
		empty[i] = queueHeader{Capacity: uint64(q.capacity), ArgBytes: twin.QueueArgs(q.stride), Room: uint64(q.room),
			Configs: side.configs.Ptr(), Starts: side.starts.Ptr(), Args: side.args.Ptr(), Group: side.groups.Ptr(), Owners: side.owners.Ptr()}
	}
	if err := s.s.CopyToDevice(q.empty.Ptr(), bytesOf(empty[:])); err != nil {
		return err
	}
	return s.s.CopyToDevice(q.header.Ptr(), bytesOfValue(&empty[q.side]))
}

// Launch waits for the stream's earlier work, a parent, and launches the children
// that it has recorded, which it does not wait for. It returns their number. The
// queue is empty then, ready for what the children record. It is [Queue.Start] and
// [Queue.Wait].
//
// Errors: those of both.
func (q *Queue) Launch(s *Stream) (int64, error) {
	return q.take("Queue.Launch", s, true, q.launch)
}

// LaunchEach is Launch with a launch of the kernel for each child, for comparison.
func (q *Queue) LaunchEach(s *Stream) (int64, error) {
	return q.take("Queue.LaunchEach", s, false, q.launchEach)
}

// Start gives the stream, behind its earlier work, a launch of the children that
// this records, and waits for nothing. That is made like the last one, before it is
// seen what is recorded: the more alike successive launches are, the more of the
// children it runs, of a queue's first use none. The others are launched by
// [Queue.Wait], which must follow, before the stream is closed. Between the two
// nothing but the children records to the queue. When the queue is used with another
// stream, that waits for what the last one has.
//
// Errors: ErrNotReady for a second Start without a Wait; ErrClosed for a queue or an
// aggregator that is closed: what was recorded is never launched then; those of the
// launch, after which the queue is empty.
func (q *Queue) Start(s *Stream) error {
	const op = "Queue.Start"
	return q.locked(op, func() error {
		return q.on(op, s, func() error { return q.start(op, s, q.last) })
	})
}

// Wait waits until the work before Start, a parent, is complete, and launches those
// of the children that Start's launch is too small for, behind what the stream was
// given meanwhile. It returns the number of all. The queue is empty then, ready for
// what the children record.
//
// Errors: ErrTooSmall, with the capacity needed in Error.Need, if more children
// were recorded than the queue holds; ErrArguments if the parent records the
// arguments of another kernel, or was compiled with another version of aggregate.cuh;
// ErrInvalidValue, with the thread of the parent and what it asked for, if a child
// has a grid, a block or shared memory that the kernel and the device do not take, or
// more than 2^32 blocks; those of the parent. No child is launched then, and the queue
// is empty.
// ErrNotReady without a Start; ErrClosed, for a stream that was closed since Start
// as well: what Start's launch was too small for is not launched, and the queue is
// empty.
func (q *Queue) Wait() (children int64, err error) {
	const op = "Queue.Wait"
	err = q.locked(op, func() error {
		s := q.started
		if s == nil {
			return driver.Errorf(op, driver.ErrNotReady, "there was no Start")
		}
		if s.closed.Load() {
			return q.abandon(op, s)
		}
		return q.on(op, s, func() (err error) {
			children, err = q.finish(op, s, q.launch)
			return err
		})
	})
	return children, err
}

// abandon empties the queue after a Start in a stream that is closed.
func (q *Queue) abandon(op string, s *Stream) error {
	s.mu.Lock() // Close waits for the stream's work
	defer s.mu.Unlock()
	q.started = nil
	err := q.a.rt.onStream(op, func(s *Stream) error {
		if err := q.reset(s); err != nil {
			return err
		}
		return s.s.Synchronize()
	})
	return errors.Join(driver.Errorf(op, driver.ErrClosed, "stream"), err)
}

// launcher launches the children that side holds, of whose blocks the first are done.
type launcher func(s *Stream, side *queueSide, h *queueHeader, done uint64) error

// take is Start and Wait, with a launch ahead only if that is wanted.
func (q *Queue) take(op string, s *Stream, ahead bool, launch launcher) (children int64, err error) {
	err = q.locked(op, func() error {
		return q.on(op, s, func() (err error) {
			var shape launchShape
			if ahead {
				shape = q.last
			}
			if err = q.start(op, s, shape); err == nil {
				children, err = q.finish(op, s, launch)
			}
			return err
		})
	})
	return children, err
}

// locked calls f while nobody else uses the queue, and it is open.
func (q *Queue) locked(op string, f func() error) error {
	if q == nil || q.a == nil {
		return driver.Errorf(op, driver.ErrNil, "queue")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return driver.Errorf(op, driver.ErrClosed, "queue")
	}
	if err := q.a.hold(op); err != nil {
		return err
	}
	defer q.a.running.Done()
	return f()
}

// on calls f while nobody else uses the stream, and it is open.
func (q *Queue) on(op string, s *Stream, f func() error) error {
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	if s.rt != q.a.rt {
		return driver.Errorf(op, driver.ErrWrongDevice, "stream")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (q *Queue) start(op string, s *Stream, shape launchShape) error {
	if q.started != nil {
		return driver.Errorf(op, driver.ErrNotReady, "a Start without its Wait")
	}
	if err := q.follow(s); err != nil {
		return q.failed(op, s, err)
	}
	if err := q.launchAhead(s, shape); err != nil {
		return q.failed(op, s, err)
	}
	q.started = s
	return nil
}

func (q *Queue) finish(op string, s *Stream, launch launcher) (int64, error) {
	q.started = nil
	taken, err := q.look(s)
	if err != nil {
		return 0, q.failed(op, s, err)
	}
	h, side := &taken.queueHeader, &q.sides[q.side]
	q.side = 1 - q.side
	if h.Count == 0 && h.Wrong == 0 {
		return 0, nil
	}
	if err := q.check(op, s, side, h); err != nil {
		return 0, err
	}
	if err := launch(s, side, h, uint64(taken.ahead)); err != nil {
		return 0, named(op, err)
	}
	return int64(h.Count), nil
}

// failed empties the queue: what comes next in the stream finds neither the error
// nor what was recorded.
func (q *Queue) failed(op string, s *Stream, err error) error {
	_ = s.s.Synchronize()
	return errors.Join(named(op, err), q.reset(s))
}

// follow makes s, from now on the queue's stream, wait for what the last one has.
func (q *Queue) follow(s *Stream) error {
	last := q.stream
	q.stream = s
	if last == nil || last == s {
		return nil
	}
	switch err := last.s.Record(q.behind); {
	case errors.Is(err, driver.ErrClosed): // and was waited for
		return nil
	case err != nil: // has failed, and runs nothing more
		return err
	}
	err := s.s.Wait(q.behind)
	if err != nil {
		_ = s.s.Synchronize() // which returns the same, and lets s wait
		_ = s.s.Wait(q.behind)
	}
	return err
}

// launchAhead makes a launch that empties the queue and runs as many of its
// children's blocks as the shape has, which may be none.
func (q *Queue) launchAhead(s *Stream, shape launchShape) error {
	q.mark++
	l := q.owned(&q.sides[q.side])
	l.End = shape.blocks
	l.Taking = aggregate.Taking{Queue: q.header.Ptr(), Empty: q.empty.Ptr() + driver.Ptr((1-q.side)*int(unsafe.Sizeof(queueHeader{}))),
		Gates: q.gates.Ptr(), Seen: q.seen.Ptr, Mark: q.mark}
	c := driver.Config{Grid: driver.D1(1), Block: driver.D1(1), Shared: int64(shape.shared)}
	if shape.blocks > 0 {
		c.Grid.X, c.Block.X = uint32(ceilDiv(int64(shape.blocks), int64(q.a.c.coarse))), shape.threads
	} else if q.fixed() {
		c.Block.X = uint32(q.a.kernel.entry.Block.Count())
	}
	return q.a.launch.launchOne(s, &l, c)
}

// look returns what the queue held once all of it has the mark. It does not wait
// for an event, which takes longer, and for as long keeps a core busy.
func (q *Queue) look(s *Stream) (taken takenQueue, err error) {
	seen := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(q.seen.Bytes))), aggregate.SeenWords)
	words := (*[unsafe.Sizeof(taken) / 4]uint32)(unsafe.Pointer(&taken))
	start, complete := time.Now(), false
	for i := range seen {
		for {
			v := atomic.LoadUint64(&seen[i])
			if uint32(v>>32) == q.mark {
				words[i] = uint32(v)
				break
			}
			if complete {
				return taken, driver.Errorf("", driver.ErrLaunchFailed, "the queue was not taken")
			}
			waited := time.Since(start)
			if waited < spinning {
				continue
			}
			// The device may have failed, or have much to do.
			if complete, err = s.s.Query(); err != nil {
				return taken, err
			}
			if !complete {
				pause(waited)
			}
		}
	}
	return taken, nil
}

// check refuses what cannot be launched whole.
func (q *Queue) check(op string, s *Stream, side *queueSide, h *queueHeader) error {
	refuse := func(code driver.Code, need int64, format string, args ...any) error {
		e := driver.Errorf(op, code, format, args...)
		e.Kernel, e.Need = q.a.kernel.Name(), need
		return e
	}
	switch {
	case h.Wrong != 0 && h.Wrong&^twin.QueueMaxArgs != twin.QueueArgs(0):
		return refuse(driver.ErrArguments, 0, "a parent was compiled with version %d of aggregate.cuh, this is version %d: compile it again, "+
			"as go generate and the command ptxrun ptx do", h.Wrong/(twin.QueueMaxArgs+1), twin.QueueVersion)
	case h.Wrong != 0:
		return refuse(driver.ErrArguments, 0, "a parent records %d bytes of arguments, the kernel takes %d", h.Wrong&twin.QueueMaxArgs, q.stride)
	case h.Count > uint64(q.capacity):
		return refuse(driver.ErrTooSmall, int64(h.Count), "%d children are recorded, the queue holds %d", h.Count, q.capacity)
	case int64(h.Threads) <= int64(q.a.threads) && int64(h.Shared) <= q.a.launch.shared && !q.fixed():
		return nil
	}
	configs, err := q.configs(s, side, h)
	if err != nil {
		return named(op, err)
	}
	for i := range int64(h.Count) {
		b := configs[i*aggregate.ConfigBytes:]
		c := aggregate.GetConfig(b)
		if e, bad := errors.AsType[*driver.Error](q.a.checkConfig(op, &c)); bad {
			by := ""
			if p := aggregate.Parent(b); p != aggregate.NoParent {
				by = ", of the parent's thread " + decimal(int64(p))
			}
			e.Detail = "child " + decimal(i) + by + ": " + e.Detail
			return e
		}
	}
	return nil
}

// fixed is whether the kernel is compiled for blocks of one size.
func (q *Queue) fixed() bool { return q.a.kernel.entry.Block != (driver.Dim3{}) }

// configs are the children's configurations.
func (q *Queue) configs(s *Stream, side *queueSide, h *queueHeader) ([]byte, error) {
	b := make([]byte, h.Count*aggregate.ConfigBytes)
	return b, q.read(s, side.configs.Ptr(), b)
}

// launch launches the children's blocks behind those that are done.
func (q *Queue) launch(s *Stream, side *queueSide, h *queueHeader, done uint64) error {
	q.last = launchShape{}
	switch {
	case h.Groups > 0:
		return q.launchGroups(s, side, h)
	case h.Blocks > h.Room:
		return q.launchSearched(s, side, h)
	}
	shape := launchShape{h.Blocks, h.Threads, h.Shared}
	if err := q.launchOwned(s, side, shape, done); err != nil {
		return err
	}
	// Children of fixed blocks are looked at first. A launch ahead has blocks of whole
	// warps and takes children of as many threads, which the kernel must take as well.
	if !q.fixed() && wholeWarps(h.Threads) <= uint32(q.a.threads) {
		q.last = shape
		q.last.blocks = min(shape.blocks, mostAhead)
	}
	return nil
}

// launchOwned launches the blocks from first on of children of one kernel, whose
// owners are known, as one.
func (q *Queue) launchOwned(s *Stream, side *queueSide, shape launchShape, first uint64) error {
	l := q.owned(side)
	return q.a.launch.launchBlocks(s, &l, first, shape.blocks, driver.Config{Block: driver.D1(shape.threads), Shared: int64(shape.shared)}, q.a.c.coarse)
}

// owned are the children of one kernel, whose owners are known.
func (q *Queue) owned(side *queueSide) aggregate.Launch {
	l := q.columns(side, 0)
	l.Starts, l.Owners = side.starts.Ptr(), side.owners.Ptr()
	return l
}

// columns are where the children from one on lie.
func (q *Queue) columns(side *queueSide, first uint64) aggregate.Launch {
	at := driver.Ptr(first)
	l := aggregate.Launch{Configs: aggregate.Column{Base: side.configs.Ptr() + aggregate.ConfigBytes*at, Stride: aggregate.ConfigBytes}}
	for _, p := range q.a.kernel.entry.Params {
		l.Args = append(l.Args, aggregate.Column{Base: side.args.Ptr() + at*driver.Ptr(q.stride) + driver.Ptr(p.Offset), Stride: uint32(q.stride)})
	}
	return l
}

// launchSearched launches children of more blocks than there is room for owners,
// with sums that their blocks search in, and makes room for as many.
func (q *Queue) launchSearched(s *Stream, side *queueSide, h *queueHeader) error {
	configs, err := q.configs(s, side, h)
	if err != nil {
		return err
	}
	starts, blocks := make([]uint64, h.Count), uint64(0)
	for i := range starts {
		starts[i] = blocks
		blocks += aggregate.GetConfig(configs[i*aggregate.ConfigBytes:]).Grid.Count()
	}
	if err := s.s.CopyToDevice(side.starts.Ptr(), bytesOf(starts)); err != nil {
		return err
	}
	if err := q.makeRoom(s, h.Blocks); err != nil {
		return err
	}
	return q.launchGroup(s, side, childGroup{Blocks: blocks, Count: uint32(h.Count), Threads: h.Threads, Shared: h.Shared})
}

// makeRoom is called while no kernel uses the owners of either side. Without the
// memory for it all goes on as it is.
func (q *Queue) makeRoom(s *Stream, blocks uint64) error {
	room := int64(min(blocks+blocks/4, mostRoom))
	if room <= q.room {
		return nil
	}
	first, err := NewBuffer[uint32](q.a.rt, int(room))
	if err != nil {
		return nil
	}
	second, err := NewBuffer[uint32](q.a.rt, int(room))
	if err != nil {
		return first.Free()
	}
	old := [2]*Buffer[uint32]{q.sides[0].owners, q.sides[1].owners}
	q.sides[0].owners, q.sides[1].owners, q.room = first, second, room
	return errors.Join(old[0].Free(), old[1].Free(), q.reset(s))
}

func (q *Queue) launchEach(s *Stream, side *queueSide, h *queueHeader, _ uint64) error {
	configs, err := q.configs(s, side, h)
	if err != nil {
		return err
	}
	args := make([]byte, int64(h.Count)*q.stride)
	if err := q.read(s, side.args.Ptr(), args); err != nil {
		return err
	}
	if err := q.a.kernel.allow(int64(h.Shared)); err != nil {
		return err
	}
	for i := range int64(h.Count) {
		a := driver.NewArgs()
		for _, p := range q.a.kernel.entry.Params {
			a.Bytes(args[i*q.stride+int64(p.Offset):][:p.Size], p.Align)
		}
		err := s.s.Launch(q.a.kernel.k, aggregate.GetConfig(configs[i*aggregate.ConfigBytes:]), a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// launchGroups makes a launch for each warp or block that has recorded.
func (q *Queue) launchGroups(s *Stream, side *queueSide, h *queueHeader) error {
	groups := make([]childGroup, h.Groups)
	if err := q.read(s, side.groups.Ptr(), bytesOf(groups)); err != nil {
		return err
	}
	var children uint64
	for _, g := range groups {
		children += uint64(g.Count)
	}
	if children != h.Count {
		return driver.Errorf("", driver.ErrInvalidValue, "%d children are recorded in groups and %d without: a queue takes one granularity", children, h.Count-children)
	}
	for _, g := range groups {
		if err := q.launchGroup(s, side, g); err != nil {
			return err
		}
	}
	return nil
}

// launchGroup launches children that lie one behind the other, as one, whose
// starts are the sums of the blocks of those before.
func (q *Queue) launchGroup(s *Stream, side *queueSide, g childGroup) error {
	l := q.columns(side, g.First)
	l.Children, l.Starts = g.Count, side.starts.Ptr()+8*driver.Ptr(g.First)
	return q.a.launch.launchBlocks(s, &l, 0, g.Blocks, driver.Config{Block: driver.D1(g.Threads), Shared: int64(g.Shared)}, q.a.c.coarse)
}

// read waits for the stream's work and copies device memory.
func (q *Queue) read(s *Stream, from driver.Ptr, to []byte) error {
	err := s.s.CopyToHost(to, from)
	if err != nil {
		_ = s.s.Synchronize() // which returns the same, and would to the next caller
	}
	return err
}

// Drain launches children, and the children that those record, level by level
// until none is left, and waits for the last. It returns the number of children
// and of levels. Errors: as Launch; the levels before are complete.
func (q *Queue) Drain(s *Stream) (children int64, levels int, err error) {
	for {
		n, err := q.Launch(s)
		if err != nil || n == 0 {
			return children, levels, err
		}
		children += n
		levels++
	}
}

// Close frees the queue after the work that uses it. A second Close is ErrClosed.
func (q *Queue) Close() error {
	const op = "Queue.Close"
	if q == nil || q.a == nil {
		return driver.Errorf(op, driver.ErrNil, "queue")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return driver.Errorf(op, driver.ErrClosed, "queue")
	}
	q.closed = true
	return named(op, q.free())
}

// RecordChild is what a twin of a parent kernel does to record a child in the
// queue at p, with the child kernel's arguments. Children of twins are of the
// granularity of the grid, and are recorded by one goroutine. Arguments of another
// size than the child kernel's are an error of [Queue.Launch].
func RecordChild(l *driver.TwinLaunch, p driver.Ptr, c driver.Config, args *driver.Args) error {
	header, err := driver.Slice[queueHeader](l.Mem, p, 1)
	if err != nil {
		return err
	}
	h := &header[0]
	bytes := int64(args.StructSize())
	if n := twin.QueueArgs(bytes); n != h.ArgBytes {
		h.Wrong = n
		return nil
	}
	if c.Grid.Empty() {
		return nil
	}
	place, first := driver.Ptr(h.Count), h.Blocks
	h.Count++
	h.Blocks += c.Grid.Count()
	threads := c.Block.Count()
	if c.Block.Empty() || !c.Block.FitsBlock() || !c.Grid.FitsGrid() || c.Grid.Count() > maxBlocks {
		threads = 1<<32 - 1 // left for the queue to refuse
	}
	shared := min(uint64(c.Shared), 1<<32-1) // which no device has, as for what is negative
	h.Threads, h.Shared = max(h.Threads, uint32(threads)), max(h.Shared, uint32(shared))
	if h.Count > h.Capacity {
		return nil
	}
	config, err := l.Mem.Resolve(h.Configs+place*aggregate.ConfigBytes, aggregate.ConfigBytes)
	if err != nil {
		return err
	}
	aggregate.PutConfig(config, c)
	starts, err := driver.Slice[uint64](l.Mem, h.Starts+8*place, 1)
	if err != nil {
		return err
	}
	starts[0] = first
	to, err := l.Mem.Resolve(h.Args+place*driver.Ptr(bytes), bytes)
	if err != nil {
		return err
	}
	copy(to, args.Buffer())
	return nil
}
