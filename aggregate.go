package ptxrun

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
)

// Aggregator turns many launches of one kernel into few. What is given to Launch
// is recorded on the host, and a flush launches all of it at once: a kernel made
// from the PTX at load time, in which each block finds the launch that it belongs
// to. Source: El Hajj et al., KLAP, MICRO 2016; see [aggregate].
//
// The launches of a flush, its children, run at a time and in no order, as
// launches on different streams do; so do different flushes. A child sees its own
// grid, block, indices, arguments and dynamic shared memory. An argument that is
// equal for all children of a flush is kept once. Every flush gives its blocks the
// threads of its largest, rounded up to whole warps, and its most dynamic shared
// memory.
//
// An aggregator is safe for concurrent use, and allocates nothing for a launch
// once it has seen flushes of the same size.
type Aggregator struct {
	rt     *Runtime
	kernel *Kernel
	launch *Kernel       // the aggregated entry
	mod    driver.Module // of launch alone, or nil
	c      aggregateConfig

	maxGrid uint64
	threads int // that a child's block can have

	slots   chan struct{}  // taken by flushes that run
	running sync.WaitGroup // flushes that are begun

	mu     sync.Mutex
	closed bool
	types  []accepted // last for each parameter
	open   *recording // nil while nothing is recorded
	begun  []*flushed // that have not ended
	idle   []*recording
	timer  *time.Timer
}

// accepted is a type that was found right for a parameter.
type accepted struct {
	typ  uintptr
	kind argumentKind
}

type aggregateConfig struct {
	count, inFlight int
	bytes           int64
	after           time.Duration
	coarse          int
}

// AggregateOption changes what [Runtime.Aggregate] does.
type AggregateOption func(*aggregateConfig)

// WithFlushCount flushes when that many children are recorded, 1 to 2^31-1. The
// default is 8192.
func WithFlushCount(n int) AggregateOption { return func(c *aggregateConfig) { c.count = n } }

// WithFlushBytes flushes when arguments and configurations take that many bytes, 1 or
// more. The default is 1 MiB.
func WithFlushBytes(n int64) AggregateOption { return func(c *aggregateConfig) { c.bytes = n } }

// WithFlushAfter flushes when the oldest child was recorded that long ago. The
// default is a millisecond; with 0 only count, bytes and Flush do.
func WithFlushAfter(d time.Duration) AggregateOption { return func(c *aggregateConfig) { c.after = d } }

// WithFlushesInFlight bounds the flushes that run at a time. A Launch that makes
// one flush too many waits for one to end. n is 1 or more, by default 4.
func WithFlushesInFlight(n int) AggregateOption { return func(c *aggregateConfig) { c.inFlight = n } }

// WithCoarsening gives each block of an aggregated launch about n blocks of
// children, one after the other; n is from 1 to 2^31-1. It pays where blocks do
// little. The kernel must have no barriers and no shared memory, and its module no
// variables in global memory.
func WithCoarsening(n int) AggregateOption { return func(c *aggregateConfig) { c.coarse = n } }

// check names the option that makes no sense.
func (c *aggregateConfig) check(op string) error {
	refuse := func(format string, args ...any) error {
		return driver.Errorf(op, driver.ErrInvalidValue, format, args...)
	}
	switch {
	case c.count < 1 || c.count > maxChildren:
		return refuse("WithFlushCount(%d); it is from 1 to %d", c.count, maxChildren)
	case c.bytes < 1:
		return refuse("WithFlushBytes(%d); it is 1 or more", c.bytes)
	case c.after < 0:
		return refuse("WithFlushAfter(%v); it is 0 or more", c.after)
	case c.inFlight < 1:
		return refuse("WithFlushesInFlight(%d); it is 1 or more", c.inFlight)
	case c.coarse < 1 || c.coarse > maxCoarse:
		return refuse("WithCoarsening(%d); it is from 1 to %d", c.coarse, maxCoarse)
	}
	return nil
}

// Aggregate makes an aggregator of a kernel. Rewriting the PTX is cached by its
// content for as long as the runtime is open.
//
// Errors: ErrNotSupported, with the PTX line and the reason, for kernels that
// cannot be aggregated, which are those that use clusters, depend on other
// launches, synchronise their grid as a whole, or take a parameter's address where
// it cannot be kept, and for those of a module with variables in global memory that
// was not loaded [WithAggregated]; ErrInvalidValue for options that make no sense; ErrNil,
// ErrClosed, ErrWrongDevice, and those of loading.
func (rt *Runtime) Aggregate(k *Kernel, opts ...AggregateOption) (*Aggregator, error) {
	const op = "Runtime.Aggregate"
	if err := rt.begin(op); err != nil {
		return nil, err
	}
	defer rt.end()
	if k == nil || k.m == nil {
		return nil, driver.Errorf(op, driver.ErrNil, "kernel")
	}
	if k.m.rt != rt {
		return nil, driver.Errorf(op, driver.ErrWrongDevice, "kernel %s", k.Name())
	}
	c := aggregateConfig{count: 8192, bytes: 1 << 20, after: time.Millisecond, inFlight: 4, coarse: 1}
	for _, o := range opts {
		if o == nil {
			return nil, driver.Errorf(op, driver.ErrNil, "option")
		}
		o(&c)
	}
	if err := c.check(op); err != nil {
		return nil, err
	}
	launch, mod, err := k.m.aggregated(k.Name(), c.coarse > 1)
	if err != nil {
		return nil, named(op, err)
	}
	a := &Aggregator{rt: rt, kernel: k, launch: launch, mod: mod, c: c, slots: make(chan struct{}, c.inFlight),
		types: make([]accepted, len(k.entry.Params)), maxGrid: uint64(rt.dev.Info().MaxGridX),
		threads: min(k.threads, launch.threads)} // the aggregated kernel may need more registers
	if c.after > 0 {
		a.timer = time.AfterFunc(c.after, a.expired)
		a.timer.Stop()
	}
	return a, nil
}

// maxChildren is how many children an aggregated launch can tell apart.
const maxChildren = 1<<31 - 1

// maxBlocks bounds a child's grid, so that the blocks of so many are counted in 64
// bits; as most_blocks in aggregate.cuh.
const maxBlocks = 1 << 32

// maxCoarse keeps the child blocks of the largest grid countable.
const maxCoarse = 1<<31 - 1

// childError names the child whose launch failed.
func childError(err error, child int64, c driver.Config) error {
	e := driver.Error{Op: "Launch", Code: driver.ErrLaunchFailed, Detail: err.Error()}
	if de, ok := errors.AsType[*driver.Error](err); ok {
		e = *de
	}
	e.Detail = "child " + decimal(child) + ": " + e.Detail
	e.Grid, e.Block = c.Grid, c.Block
	return &e
}

func dims(d driver.Dim3) string {
	return decimal(int64(d.X)) + "×" + decimal(int64(d.Y)) + "×" + decimal(int64(d.Z))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Pending is a launch that was given to an aggregator. The zero Pending is
// complete.
type Pending struct{ f *flushed }

// flushed is the outcome of one flush, for all its children.
type flushed struct {
	done chan struct{}
	err  error // valid once done is closed
}

// Wait blocks until the launch is complete and returns its error, or ctx's if
// that is done first; the launch goes on then. A launch whose flush failed on the
// device has failed, whichever of the flush's children was at fault.
func (p Pending) Wait(ctx context.Context) error {
	if ctx == nil {
		return driver.Errorf("Pending.Wait", driver.ErrNil, "context")
	}
	if p.f == nil {
		return nil
	}
	select {
	case <-p.f.done:
		return p.f.err
	default:
	}
	select {
	case <-p.f.done:
		return p.f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the launch is complete.
func (p Pending) Done() <-chan struct{} {
	if p.f == nil {
		return complete
	}
	return p.f.done
}

var complete = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Launch records a launch of the kernel, with arguments as for [Stream.Launch].
// The launch is complete when the Pending says so, and is made by a later flush:
// when the recorded launches have become many or old, or when asked. What it reads
// must be complete when Launch is called, and stay until it is. A launch of no
// blocks, of driver.D1(0), is complete at once.
//
// A bad launch is refused here, alone: ErrArguments, ErrElementType,
// ErrWrongDevice for its arguments; ErrInvalidValue for a grid or block that the
// device or the kernel does not take, and for more than 2^32 blocks; ErrClosed.
func (a *Aggregator) Launch(c driver.Config, args ...any) (Pending, error) {
	const op = "Aggregator.Launch"
	if err := a.there(op); err != nil {
		return Pending{}, err
	}
	if err := a.checkConfig(op, &c); err != nil {
		return Pending{}, err
	}
	if len(args) != len(a.types) {
		return Pending{}, a.kernel.argumentCount(op, len(args))
	}
	n := c.Grid.Count()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return Pending{}, a.errClosed(op)
	}
	for i := range args {
		last := &a.types[i]
		if typeOf(&args[i]) == last.typ && last.kind == argumentValue {
			continue
		}
		v, err := argument(a.rt, args[i])
		if err != nil || len(v) != a.kernel.entry.Params[i].Size {
			a.mu.Unlock()
			return Pending{}, a.kernel.badArgument(op, i, args[i], err)
		}
		*last = accepted{typeOf(&args[i]), kindOf(reflect.TypeOf(args[i]))}
	}
	if n == 0 {
		a.mu.Unlock()
		return Pending{}, nil
	}
	r := a.record()
	r.add(&c, n, a.types, args)
	p := Pending{r.f}
	due := r.children >= a.c.count || r.bytes() >= a.c.bytes
	if due {
		r = a.take()
	} else if r.children == 1 && a.timer != nil {
		a.timer.Reset(a.c.after)
	}
	a.mu.Unlock()
	if due {
		a.start(r)
	}
	return p, nil
}

func (a *Aggregator) there(op string) error {
	if a == nil || a.rt == nil {
		return driver.Errorf(op, driver.ErrNil, "aggregator")
	}
	return nil
}

func (a *Aggregator) errClosed(op string) error {
	return driver.Errorf(op, driver.ErrClosed, "aggregator of %s", a.kernel.Name())
}

// hold keeps the aggregated kernel loaded until a.running.Done.
func (a *Aggregator) hold(op string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed(op)
	}
	a.running.Add(1)
	return nil
}

// checkConfig refuses what the device or the kernel would.
func (a *Aggregator) checkConfig(op string, c *driver.Config) error {
	g, b, e := c.Grid, c.Block, a.kernel.entry
	var why string
	switch {
	case b.Empty():
		why = "a block of no threads"
	case !b.FitsBlock() || b.Count() > uint64(a.threads):
		why = "a block of more threads than the kernel and the device take, " + decimal(int64(a.threads)) + " and at most 64 in z"
	case e.Block != (driver.Dim3{}) && b != e.Block:
		why = "the kernel is compiled for " + dims(e.Block)
	case g.Y == 0 || g.Z == 0: // forgotten, unlike the 0 of D1
		why = "the grid " + dims(g) + " has a zero: use driver.D1"
	case !g.FitsGrid():
		why = "the grid is larger than the device takes"
	case g.Count() > maxBlocks:
		why = "the grid has more than 2^32 blocks"
	case c.Shared < 0 || c.Shared > a.launch.shared:
		why = decimal(c.Shared) + " bytes of dynamic shared memory; the most is " + decimal(a.launch.shared)
	default:
		return nil
	}
	return &driver.Error{Op: op, Code: driver.ErrInvalidValue, Detail: why, Kernel: a.kernel.Name(), Grid: g, Block: b}
}

// record returns the recording that is open, under mu.
func (a *Aggregator) record() *recording {
	if a.open == nil {
		if n := len(a.idle); n > 0 {
			a.open, a.idle = a.idle[n-1], a.idle[:n-1]
		} else {
			a.open = newRecording(a.kernel.entry)
		}
		a.open.reset()
	}
	return a.open
}

// take closes the recording that is open, under mu. start must follow.
func (a *Aggregator) take() *recording {
	r := a.open
	a.open = nil
	if r != nil {
		a.running.Add(1)
		a.begun = append(a.begun, r.f)
		if a.timer != nil {
			a.timer.Stop()
		}
	}
	return r
}

func (a *Aggregator) expired() {
	a.mu.Lock()
	r := a.take()
	a.mu.Unlock()
	if r != nil {
		a.start(r)
	}
}

// Flush launches what is recorded and waits until that, and every flush before it
// that still runs, is complete. It returns the error of the first that failed, or
// ctx's if that is done before they are; they go on then.
func (a *Aggregator) Flush(ctx context.Context) error {
	const op = "Aggregator.Flush"
	if err := a.there(op); err != nil {
		return err
	}
	if ctx == nil {
		return driver.Errorf(op, driver.ErrNil, "context")
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return a.errClosed(op)
	}
	r := a.take()
	begun := slices.Clone(a.begun)
	a.mu.Unlock()
	if r != nil {
		select {
		case a.slots <- struct{}{}:
			a.run(r)
		case <-ctx.Done():
			go a.start(r)
		}
	}
	var first error
	for _, f := range begun {
		err := Pending{f}.Wait(ctx)
		if err != nil && err == ctx.Err() {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// start runs a recording once few enough flushes run.
func (a *Aggregator) start(r *recording) {
	a.slots <- struct{}{}
	a.run(r)
}

// run gives a recording to the device and sees to its end. It has a slot.
func (a *Aggregator) run(r *recording) {
	if err := a.rt.begin("Aggregator.Flush"); err != nil {
		a.ended(r, err)
		return
	}
	s, err := a.rt.take()
	if err != nil {
		a.rt.end()
		a.ended(r, err)
		return
	}
	err = a.submit(s, r)
	go func() {
		err := errors.Join(err, s.s.Synchronize())
		if err != nil {
			a.rt.retire(s)
		} else {
			a.rt.give(s)
		}
		a.rt.end()
		a.ended(r, err)
	}()
}

// ended tells the children how their flush went.
func (a *Aggregator) ended(r *recording, err error) {
	<-a.slots
	if err != nil {
		err = a.blame(r, err)
	}
	f := r.f
	f.err = err
	a.mu.Lock()
	r.f = nil
	a.begun = slices.DeleteFunc(a.begun, func(b *flushed) bool { return b == f })
	if len(a.idle) < a.c.inFlight {
		a.idle = append(a.idle, r)
	}
	a.mu.Unlock()
	close(f.done)
	a.running.Done()
}

// blame names the kernel as the caller knows it and, where the device says which
// block went wrong, the child.
func (a *Aggregator) blame(r *recording, err error) error {
	err = named("Aggregator.Flush", err)
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	c := *e
	c.Kernel = a.kernel.Name()
	if c.At != nil && a.c.coarse == 1 && r.blocks <= a.maxGrid {
		block := uint64(c.At.X)
		child := int(block / r.each)
		if r.unequal {
			child = sort.Search(r.children, func(i int) bool { return binary.LittleEndian.Uint64(r.starts[8*i:]) > block }) - 1
		}
		if child >= 0 {
			return childError(&c, int64(child), r.configs.config(child))
		}
	}
	return &c
}

// submit copies a recording to the device and launches it, without waiting.
func (a *Aggregator) submit(s *Stream, r *recording) error {
	pieces := [][]byte{r.configs.data, r.starts}
	for i := range r.args {
		pieces = append(pieces, r.args[i].data)
	}
	offsets, total := make([]int64, len(pieces)), int64(0)
	for i, p := range pieces {
		offsets[i] = total
		total += align256(int64(len(p)))
	}
	host, err := s.mapped(total)
	if err != nil {
		return err
	}
	for i, p := range pieces {
		copy(host.Bytes[offsets[i]:], p)
	}
	p, err := s.alloc(total)
	if err != nil {
		return err
	}
	defer s.free(p)
	if err := s.s.CopyToDevice(p, host.Bytes[:total]); err != nil {
		return err
	}
	l := aggregate.Launch{Children: uint32(r.children), Blocks: r.each, Configs: r.configs.at(p + driver.Ptr(offsets[0]))}
	if r.unequal {
		l.Starts = p + driver.Ptr(offsets[1])
	}
	l.Args = make([]aggregate.Column, len(r.args))
	for i := range r.args {
		l.Args[i] = r.args[i].at(p + driver.Ptr(offsets[2+i]))
	}
	return a.launch.launchBlocks(s, &l, 0, r.blocks, driver.Config{Block: driver.D1(uint32(r.threads)), Shared: r.shared}, a.c.coarse)
}

// launchBlocks launches an aggregated entry over a range of its children's blocks,
// in as many launches as the device's grids make it. c is the largest of the
// children's blocks, in one dimension.
func (k *Kernel) launchBlocks(s *Stream, l *aggregate.Launch, first, end uint64, c driver.Config, coarse int) error {
	limit := uint64(s.rt.dev.Info().MaxGridX) * uint64(coarse)
	for l.First = first; l.First < end; l.First = l.End {
		l.End = l.First + min(end-l.First, limit)
		c.Grid = driver.D1(uint32(ceilDiv(int64(l.End-l.First), int64(coarse))))
		if err := k.launchOne(s, l, c); err != nil {
			return err
		}
	}
	return nil
}

func wholeWarps(threads uint32) uint32 { return (threads + 31) &^ 31 }

// launchOne is a launch of an aggregated entry.
func (k *Kernel) launchOne(s *Stream, l *aggregate.Launch, c driver.Config) error {
	if err := k.allow(c.Shared); err != nil {
		return err
	}
	c.Block.X = wholeWarps(c.Block.X)
	c.N = int64(l.Children)
	args := l.Pack()
	defer args.Release()
	return s.s.Launch(k.k, c, args)
}

// Close flushes what is recorded, waits for all flushes, and unloads the
// aggregated kernel. It returns the error of that last flush. Later launches, those
// of queues too, are ErrClosed, a second Close nil. What a queue holds is not
// launched: drain it before.
func (a *Aggregator) Close() error {
	if err := a.there("Aggregator.Close"); err != nil {
		return err
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	r := a.take()
	a.mu.Unlock()
	var err error
	if r != nil {
		f := r.f
		a.start(r)
		<-f.done
		err = f.err
	}
	a.running.Wait()
	if a.mod == nil || a.rt.begin("Aggregator.Close") != nil {
		return err // the module went, or goes, with its owner
	}
	defer a.rt.end()
	return errors.Join(err, named("Aggregator.Close", a.mod.Close()))
}
