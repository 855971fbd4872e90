package ptxrun

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
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
	header *Buffer[byte]
	sides  [2]queueSide // children run from one and record to the other
	side   int          // that is recorded to
}

// queueHeader is ChildQueue in aggregate.cuh.
type queueHeader struct {
	Count, Blocks, Groups, Capacity uint64
	Threads, Shared                 uint32
	ArgBytes, Wrong                 uint32
	Configs, Starts, Args, Group    driver.Ptr
}

// childGroup is ChildGroup in aggregate.cuh.
type childGroup struct {
	First, Blocks          uint64
	Count, Threads, Shared uint32
	_                      uint32
}

// queueSide is the memory of one level's children.
type queueSide struct {
	configs, args *Buffer[byte]
	starts        *Buffer[uint64]
	groups        *Buffer[childGroup]
}

const queueHeaderBytes = int64(unsafe.Sizeof(queueHeader{}))

// NewQueue returns an empty queue for up to capacity children at a time. It takes
// twice 72 bytes and the kernel's parameters for each. Close it.
//
// Errors: ErrInvalidValue for a capacity that is not in [1, 2^31), ErrOutOfMemory,
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
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "a capacity of %d", capacity)
	}
	q := &Queue{a: a, capacity: int64(capacity)}
	align := int64(1)
	for _, p := range a.kernel.entry.Params {
		align = max(align, int64(p.Align))
	}
	q.stride = max((int64(a.kernel.entry.Bytes())+align-1)&^(align-1), 1) // as Args.StructSize
	err := q.alloc()
	if err == nil {
		err = q.reset(nil)
	}
	if err != nil {
		return nil, errors.Join(named(op, err), q.free())
	}
	return q, nil
}

func (q *Queue) alloc() (err error) {
	rt := q.a.rt
	if q.header, err = NewBuffer[byte](rt, int(queueHeaderBytes)); err != nil {
		return err
	}
	for i := range q.sides {
		s := &q.sides[i]
		if s.configs, err = NewBuffer[byte](rt, int(q.capacity*aggregate.ConfigBytes)); err != nil {
			return err
		}
		if s.args, err = NewBuffer[byte](rt, int(q.capacity*q.stride)); err != nil {
			return err
		}
		if s.starts, err = NewBuffer[uint64](rt, int(q.capacity)); err != nil {
			return err
		}
		if s.groups, err = NewBuffer[childGroup](rt, int(q.capacity)); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) free() error {
	var errs []error
	free := func(b interface{ Free() error }, there bool) {
		if there {
			errs = append(errs, b.Free())
		}
	}
	free(q.header, q.header != nil)
	for _, s := range q.sides {
		free(s.configs, s.configs != nil)
		free(s.args, s.args != nil)
		free(s.starts, s.starts != nil)
		free(s.groups, s.groups != nil)
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

// reset empties the queue, in stream order, or at once where s is nil.
func (q *Queue) reset(s *Stream) error {
	side := &q.sides[q.side]
	h := queueHeader{Capacity: uint64(q.capacity), ArgBytes: uint32(q.stride),
		Configs: side.configs.Ptr(), Starts: side.starts.Ptr(), Args: side.args.Ptr(), Group: side.groups.Ptr()}
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.s.CopyToDevice(q.header.Ptr(), bytesOfValue(&h))
	}
	return q.a.rt.onStream("Aggregator.NewQueue", func(s *Stream) error {
		if err := s.s.CopyToDevice(q.header.Ptr(), bytesOfValue(&h)); err != nil {
			return err
		}
		return s.s.Synchronize()
	})
}

// Launch waits for the stream's earlier work, a parent, and launches the children
// that it has recorded, which it does not wait for. It returns their number. The
// queue is empty then, ready for what the children record.
//
// Errors: ErrTooSmall, with the capacity needed in Error.Need, if more children
// were recorded than the queue holds; ErrArguments if the parent records the
// arguments of another kernel; ErrInvalidValue if a child asks for more threads or
// shared memory than the kernel and the device have, or for another block than the
// one that the kernel is compiled for (.reqntid), for which the children's
// configurations are read back; those of the parent. No child is launched then, and
// the queue is empty. ErrClosed for a queue or an aggregator that is closed: what
// was recorded is never launched then.
func (q *Queue) Launch(s *Stream) (int64, error) {
	return q.take("Queue.Launch", s, q.launch)
}

// LaunchEach is Launch with a launch of the kernel for each child, for comparison.
func (q *Queue) LaunchEach(s *Stream) (int64, error) {
	return q.take("Queue.LaunchEach", s, q.launchEach)
}

// take empties the queue and has its children launched from the side that they were
// recorded to.
func (q *Queue) take(op string, s *Stream, launch func(*Stream, *queueSide, *queueHeader) error) (int64, error) {
	if q == nil || q.a == nil {
		return 0, driver.Errorf(op, driver.ErrNil, "queue")
	}
	if err := s.begin(op); err != nil {
		return 0, err
	}
	defer s.end()
	if s.rt != q.a.rt {
		return 0, driver.Errorf(op, driver.ErrWrongDevice, "stream")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, driver.Errorf(op, driver.ErrClosed, "queue")
	}
	if err := q.a.hold(op); err != nil {
		return 0, err
	}
	defer q.a.running.Done()
	var h queueHeader
	if err := q.read(s, q.header.Ptr(), bytesOfValue(&h)); err != nil {
		return 0, named(op, err)
	}
	if h.Count == 0 && h.Wrong == 0 {
		return 0, nil
	}
	side := &q.sides[q.side]
	q.side = 1 - q.side
	if err := q.reset(s); err != nil {
		return 0, named(op, err)
	}
	if err := q.check(op, s, side, &h); err != nil {
		return 0, err
	}
	if err := launch(s, side, &h); err != nil {
		return 0, named(op, err)
	}
	return int64(h.Count), nil
}

// check refuses what cannot be launched whole.
func (q *Queue) check(op string, s *Stream, side *queueSide, h *queueHeader) error {
	refuse := func(code driver.Code, need int64, format string, args ...any) error {
		e := driver.Errorf(op, code, format, args...)
		e.Kernel, e.Need = q.a.kernel.Name(), need
		return e
	}
	switch {
	case h.Wrong != 0:
		return refuse(driver.ErrArguments, 0, "a parent records %d bytes of arguments, the kernel takes %d", h.Wrong, q.stride)
	case h.Count > uint64(q.capacity):
		return refuse(driver.ErrTooSmall, int64(h.Count), "%d children are recorded, the queue holds %d", h.Count, q.capacity)
	case int64(h.Threads) > int64(q.a.threads):
		return refuse(driver.ErrInvalidValue, 0, "a child asks for a block that is not of 1 to %d threads", q.a.threads)
	case int64(h.Shared) > q.a.launch.shared:
		return refuse(driver.ErrInvalidValue, 0, "a child asks for %d bytes of dynamic shared memory; the most is %d", h.Shared, q.a.launch.shared)
	}
	block := q.a.kernel.entry.Block
	if block == (driver.Dim3{}) {
		return nil
	}
	configs, err := q.configs(s, side, h)
	if err != nil {
		return named(op, err)
	}
	for i := range int64(h.Count) {
		if c := aggregate.GetConfig(configs[i*aggregate.ConfigBytes:]); c.Block != block {
			return refuse(driver.ErrInvalidValue, 0, "a child asks for a block of %d×%d×%d, the kernel is compiled for %d×%d×%d",
				c.Block.X, c.Block.Y, c.Block.Z, block.X, block.Y, block.Z)
		}
	}
	return nil
}

// configs are the children's configurations.
func (q *Queue) configs(s *Stream, side *queueSide, h *queueHeader) ([]byte, error) {
	b := make([]byte, h.Count*aggregate.ConfigBytes)
	return b, q.read(s, side.configs.Ptr(), b)
}

func (q *Queue) launch(s *Stream, side *queueSide, h *queueHeader) error {
	if h.Groups > 0 {
		return q.launchGroups(s, side, h)
	}
	starts, err := side.starts.Slice(0, int(h.Count))
	if err != nil {
		return err
	}
	if err := ExclusiveScanBuffer(s, starts, starts, Sum); err != nil {
		return err
	}
	return q.launchGroup(s, side, childGroup{Blocks: h.Blocks, Count: uint32(h.Count), Threads: h.Threads, Shared: h.Shared})
}

func (q *Queue) launchEach(s *Stream, side *queueSide, h *queueHeader) error {
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
	s.mu.Lock()
	defer s.mu.Unlock()
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

// launchGroup launches children that lie one behind the other, as one.
func (q *Queue) launchGroup(s *Stream, side *queueSide, g childGroup) error {
	at := driver.Ptr(g.First)
	l := aggregate.Launch{
		Children: g.Count,
		Starts:   side.starts.Ptr() + 8*at,
		Configs:  aggregate.Column{Base: side.configs.Ptr() + aggregate.ConfigBytes*at, Stride: aggregate.ConfigBytes},
	}
	for _, p := range q.a.kernel.entry.Params {
		l.Args = append(l.Args, aggregate.Column{Base: side.args.Ptr() + at*driver.Ptr(q.stride) + driver.Ptr(p.Offset), Stride: uint32(q.stride)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.a.launch.launchBlocks(s, &l, 0, g.Blocks, driver.Config{Block: driver.D1(g.Threads), Shared: int64(g.Shared)}, q.a.c.coarse)
}

// read waits for the stream's work and copies device memory.
func (q *Queue) read(s *Stream, from driver.Ptr, to []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if n := uint32(args.StructSize()); n != h.ArgBytes {
		h.Wrong = n
		return nil
	}
	if c.Grid.Count() == 0 {
		return nil
	}
	place := driver.Ptr(h.Count)
	h.Count++
	h.Blocks += c.Grid.Count()
	threads := c.Block.Count()
	if threads == 0 || threads > 1024 {
		threads = 1<<32 - 1
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
	starts[0] = c.Grid.Count()
	to, err := l.Mem.Resolve(h.Args+place*driver.Ptr(h.ArgBytes), int64(h.ArgBytes))
	if err != nil {
		return err
	}
	copy(to, args.Buffer())
	return nil
}
