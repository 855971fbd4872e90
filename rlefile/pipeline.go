package rlefile

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Option changes how a Writer, Reader or File works.
type Option func(*config)

type config struct {
	frame, buffers int
	pool           *Pool
}

// WithFrame sets the bytes that a Writer's frames decode to, between MinFrame
// and MaxFrame and a multiple of 8; the default is DefaultFrame. What is read
// with [File.ReadAt] is decoded in whole frames.
func WithFrame(bytes int) Option { return func(c *config) { c.frame = bytes } }

// WithBuffers sets how many frames are worked on at a time, at least 1. The
// default is the number of processors, within 2 and 16, and a quarter more for a
// Writer.
func WithBuffers(n int) Option { return func(c *config) { c.buffers = n } }

// A reader's buffers by default: decoded bytes stay in the processor's cache until
// they are checked and copied. On an H200's 16 cores, decoding 2^30 bytes of runs into
// a mapping took 47 ms with 16 buffers and 59 with 32, all begun early.
func readBuffers() int { return max(2, min(runtime.GOMAXPROCS(0), 16)) }

// A writer's: encoding 2^30 bytes of a file there took 29 to 30 ms with 16 buffers, 28
// to 29 with 20, 30 with 24, 32 with 32.
func writeBuffers() int { return (5*readBuffers() + 3) / 4 }

// configOf checks what is to be opened: the options, with so many buffers by default,
// and the reader or writer below, which has that name in errors.
func configOf(rt *ptxrun.Runtime, below any, name string, buffers int, opts []Option) (config, error) {
	c := config{frame: DefaultFrame, buffers: buffers}
	for _, o := range opts {
		if o == nil {
			return c, driver.Errorf("rlefile", driver.ErrNil, "option")
		}
		o(&c)
	}
	if c.frame < MinFrame || c.frame > MaxFrame || c.frame%8 != 0 {
		return c, driver.Errorf("rlefile", driver.ErrInvalidValue, "frames of %d bytes; %d to %d in steps of 8 are possible", c.frame, MinFrame, MaxFrame)
	}
	if c.buffers < 1 {
		return c, driver.Errorf("rlefile", driver.ErrInvalidValue, "%d buffers; at least 1", c.buffers)
	}
	if below == nil {
		return c, driver.Errorf("rlefile", driver.ErrNil, "%s", name)
	}
	if c.pool != nil && c.pool.rt != rt {
		return c, driver.Errorf("rlefile", driver.ErrInvalidValue, "the pool is of another runtime")
	}
	return c, nil
}

func (c config) pipeline(ctx context.Context, rt *ptxrun.Runtime, width int) pipeline {
	return pipeline{ctx: ctx, rt: rt, width: width, limit: c.buffers, pool: c.pool}
}

// pipeline is the frames that are worked on, in order. It is for one goroutine;
// the frames' work is done by others, which end when there is none.
type pipeline struct {
	ctx   context.Context
	rt    *ptxrun.Runtime
	width int
	limit int     // slots
	pool  *Pool   // or nil
	slots int     // that exist
	free  []*slot // without a frame
	busy  []*slot // frames in order, the oldest first

	mu      sync.Mutex // guards what follows
	queue   []*slot    // frames to begin
	begun   []*slot    // frames that the device works on, to be ended
	workers int        // goroutines that begin and end frames
}

// step is half of a frame's work: what comes before the device's, or after it.
type step func(ctx context.Context) error

// begin refuses work on what is missing or closed, and holds the runtime, so
// that memory which Close would free stays until end.
func begin(ctx context.Context, rt *ptxrun.Runtime) error {
	if ctx == nil {
		return driver.Errorf("rlefile", driver.ErrNil, "context")
	}
	return hold(rt)
}

// hold is the runtime's Hold, with the package in the error's place of the call.
func hold(rt *ptxrun.Runtime) error {
	err := rt.Hold()
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return driver.Errorf("rlefile", e.Code, "%s", e.Detail)
	}
	return err
}

// slot returns a slot without a frame, or nil if all have one.
func (p *pipeline) slot() (*slot, error) {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s, nil
	}
	if p.slots == p.limit {
		return nil, nil
	}
	return p.newSlot()
}

// newSlot takes a slot from the pool or makes one; there must be room for it.
func (p *pipeline) newSlot() (s *slot, err error) {
	if p.pool != nil {
		s = p.pool.take(p.width)
	}
	if s == nil {
		s, err = newSlot(p.rt, p.width)
	}
	if err == nil {
		p.slots++
	}
	return s, err
}

// start has the slot's frame begun, and ended once the device has done its part.
func (p *pipeline) start(s *slot, begin, end step) {
	s.begin, s.end = begin, end
	p.busy = append(p.busy, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, s)
	if p.workers < p.maxWorkers() {
		p.workers++
		go p.work()
	}
}

// maxWorkers is how many frames the host works on at a time: two of three. The others are
// the device's, so that nobody waits for it as long as there is a frame to begin.
func (p *pipeline) maxWorkers() int { return (2*p.limit + 2) / 3 }

// work begins and ends frames until there are none.
func (p *pipeline) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case len(p.queue) > 0 && len(p.begun) <= p.limit-p.maxWorkers():
			s := p.queue[0]
			p.queue = p.queue[1:]
			p.mu.Unlock()
			err := p.do(s.begin)
			if err != nil {
				s.done <- s.keep(err)
			}
			p.mu.Lock()
			if err == nil {
				p.begun = append(p.begun, s)
			}
		case len(p.begun) > 0:
			s := p.begun[0]
			p.begun = p.begun[1:]
			p.mu.Unlock()
			s.done <- s.keep(p.do(s.end))
			p.mu.Lock()
		default:
			p.workers--
			return
		}
	}
}

func (p *pipeline) do(f step) error {
	if err := hold(p.rt); err != nil {
		return err
	}
	defer p.rt.Release()
	return f(p.ctx)
}

// ready reports whether the oldest frame's work has ended.
func (p *pipeline) ready() bool { return len(p.busy) > 0 && len(p.busy[0].done) > 0 }

// oldest waits for the oldest frame and returns it. Its slot goes to put.
func (p *pipeline) oldest() (*slot, error) {
	s := p.busy[0]
	p.busy = p.busy[1:]
	return s, <-s.done
}

// wait waits for the work of all frames, which stay where they are.
func (p *pipeline) wait() {
	for _, s := range p.busy {
		s.done <- <-s.done
	}
}

// put takes a slot back. One whose stream may have work or a failure left is not
// used again.
func (p *pipeline) put(s *slot) {
	if s.failed {
		s.release() // its failure was reported
		p.slots--
		return
	}
	p.free = append(p.free, s)
}

// drop waits for the frames that are worked on and forgets them.
func (p *pipeline) drop() {
	for len(p.busy) > 0 {
		s, _ := p.oldest()
		p.put(s)
	}
}

// close ends all work and frees all slots, which are back, or gives them to the
// pool.
func (p *pipeline) close() error {
	p.drop()
	var errs []error
	for _, s := range p.free {
		if p.pool != nil {
			errs = append(errs, p.pool.give(s))
		} else {
			errs = append(errs, s.release())
		}
	}
	p.free, p.slots = nil, 0
	return errors.Join(errs...)
}
