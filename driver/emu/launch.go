package emu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// Blocks run on a worker a core. They start in the order of their index, and a
// worker keeps to its block until the block ends, or only waits. Then it turns
// to the next block that has begun, or begins another. So a block that waits for
// one that started before it always sees that one run, however few the cores.
//
// A block that waits is parked once its state has come back with memory
// unchanged in between: it is going to repeat itself until memory changes, which
// the epoch counts. When every block that has begun is parked in the present
// epoch, and no more may begin, nothing in the launch can ever move again.
// Memory could still be changed from outside, by the host or by another stream,
// so the launch is given up only after it has stood still for a while.

// launch is one run of a kernel.
type launch struct {
	device  *backend
	space   *hostdev.Space
	program *program
	kernel  *function
	config  driver.Config
	params  []byte
	checks  checks
	extra   []lanes // constants and special registers that all threads share
	began   time.Time

	sharedBytes int64
	total       uint64 // blocks
	resident    int    // blocks that may have begun at a time
	races       *globalRaces

	epoch  *atomic.Uint64 // the device's: copies and other kernels count, too
	parked atomic.Int32   // blocks in the queue that are stuck

	mu      sync.Mutex
	wake    sync.Cond
	next    uint64 // block to begin
	active  int    // blocks that have begun and not ended
	running int    // blocks that a worker runs
	queue   []*block
	idle    []*block  // contexts to use again
	waits   int       // turns since a block moved
	still   time.Time // when all blocks were stuck, none having moved since
	failure error
	failed  uint64 // number of the block that failed
	profile *counts
}

// signal tells the blocks that wait that memory has changed.
func (l *launch) signal() {
	l.epoch.Add(1)
	if l.parked.Load() > 0 {
		l.mu.Lock()
		l.wake.Broadcast()
		l.mu.Unlock()
	}
}

func (l *launch) run() error {
	l.wake.L = &l.mu
	l.began = time.Now()
	workers := min(uint64(l.device.workers), l.total)
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(l.work)
	}
	l.work()
	wg.Wait()
	return l.failure
}

// work runs blocks until none is left.
func (l *launch) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.failure == nil {
		b := l.choose()
		if b == nil {
			if l.active == 0 && l.next == l.total {
				l.wake.Broadcast()
				return
			}
			if l.running > 0 {
				l.wake.Wait()
			} else {
				l.stand()
			}
			continue
		}
		l.running++
		l.mu.Unlock()
		t, err := l.turn(b)
		l.mu.Lock()
		l.running--
		l.settle(b, t, err)
		l.wake.Broadcast()
	}
}

// choose returns a block to run, or nil if none can.
func (l *launch) choose() *block {
	epoch := l.epoch.Load()
	// Blocks that have begun go first, unless all they do is wait.
	if l.waits <= len(l.queue) || l.next == l.total || l.active >= l.resident {
		for i, b := range l.queue {
			if b.stuck.held && b.stuck.at == epoch {
				continue
			}
			if b.stuck.held {
				b.stuck.held = false
				l.parked.Add(-1)
			}
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return b
		}
	}
	if l.next == l.total || l.active >= l.resident {
		return nil
	}
	var b *block
	if n := len(l.idle); n > 0 {
		b = l.idle[n-1]
		l.idle = l.idle[:n-1]
	} else {
		b = newBlock(l)
	}
	b.start(l.next)
	l.next++
	l.active++
	l.waits = 0
	return b
}

// turn runs b; a fault comes back as an error.
func (l *launch) turn(b *block) (t turn, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(*driver.Error); ok {
				err = e
			} else {
				err = hostdev.AsPanic(r)
			}
		}
	}()
	return b.turn(), nil
}

// settle does what follows a block's turn.
func (l *launch) settle(b *block, t turn, err error) {
	switch {
	case err != nil:
		if l.failure == nil || b.number < l.failed {
			l.failure, l.failed = err, b.number
		}
		return
	case t == turnEnded:
		l.active--
		if b.counts != nil {
			l.profile.add(b.counts)
		}
		l.idle = append(l.idle, b)
	case t == turnWaited:
		b.waits(l.epoch.Load())
		if b.stuck.held {
			l.parked.Add(1)
		}
		l.queue = append(l.queue, b)
		l.waits++
	default:
		l.queue = append(l.queue, b)
	}
	if t != turnWaited {
		l.waits, l.still = 0, time.Time{}
	}
}

// stand is called when every block that has begun is stuck. It gives the world
// outside some time to change memory, and then gives up.
func (l *launch) stand() {
	now := time.Now()
	if l.still.IsZero() {
		l.still = now
	}
	if now.Sub(l.still) >= l.device.patience {
		b := l.queue[0]
		why := "no thread can go on: all that have begun wait for memory to change"
		if l.next < l.total {
			why += ", and no more blocks fit beside them"
		}
		l.failure = b.stalled(why)
		l.wake.Broadcast()
		return
	}
	l.mu.Unlock()
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	// The host writes to page-locked memory without telling: look again.
	for _, b := range l.queue {
		if b.stuck.held {
			b.stuck.held = false
			l.parked.Add(-1)
		}
	}
}
