package rlefile

import (
	"errors"
	"sync"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Pool keeps the memory of frames, page-locked and of the device, from one Writer,
// Reader or File to the next that [WithPool] gives it to: locking pages takes longer
// than encoding what fits in them. It holds as many frames as were worked on at a
// time, each as large as it became. Safe for concurrent use.
type Pool struct {
	rt     *ptxrun.Runtime
	mu     sync.Mutex
	free   map[int][]*slot // by width
	closed bool
}

// NewPool returns an empty pool for rt. Close it before rt. Errors: ErrNil,
// ErrClosed.
func NewPool(rt *ptxrun.Runtime) (*Pool, error) {
	if err := hold(rt); err != nil {
		return nil, err
	}
	defer rt.Release()
	return &Pool{rt: rt, free: map[int][]*slot{}}, nil
}

// WithPool takes frames' memory from p and gives it back on Close. By default, and
// with nil, it is allocated and freed. p is of the same runtime, else opening returns
// ErrInvalidValue.
func WithPool(p *Pool) Option { return func(c *config) { c.pool = p } }

// Close frees what is in the pool; what is in use is freed when it comes back. A
// second Close does nothing. Error: ErrNil.
func (p *Pool) Close() error {
	if p == nil {
		return driver.Errorf("rlefile", driver.ErrNil, "pool")
	}
	p.mu.Lock()
	free := p.free
	p.free, p.closed = nil, true
	p.mu.Unlock()
	var errs []error
	for _, slots := range free {
		for _, s := range slots {
			errs = append(errs, s.release())
		}
	}
	return errors.Join(errs...)
}

// take returns a slot that has no frame, or nil.
func (p *Pool) take(width int) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := p.free[width]
	if len(slots) == 0 {
		return nil
	}
	last := len(slots) - 1
	p.free[width] = slots[:last]
	return slots[last]
}

// give takes back a slot without work.
func (p *Pool) give(s *slot) error {
	s.number, s.bytes = -1, nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return s.release()
	}
	p.free[s.width] = append(p.free[s.width], s)
	return nil
}
