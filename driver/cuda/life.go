//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

import (
	"sync"

	"github.com/ptxrun/ptxrun/driver"
)

// life keeps an object open while calls use it. Unlike a read-write lock,
// entering never waits, so that a call may enter several objects in any order.
type life struct {
	mu     sync.Mutex
	idle   sync.Cond
	users  int
	closed bool
}

// enter reports false when the object is closed; if true, leave must follow.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.users++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.closed && l.users == 0 {
		l.idle.Broadcast()
	}
}

// close makes enter fail and waits until nobody is inside. It reports whether
// this call was the one that closed.
func (l *life) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.closed
	l.closed = true
	l.idle.L = &l.mu
	for l.users > 0 {
		l.idle.Wait()
	}
	return first
}

// resource is an object of the driver that a device holds for its user: a
// stream, an event or a module.
type resource struct {
	life
	dev     *device
	kind    string
	destroy func() error // gives it back to the driver; may be called again if it failed
	reap    func() error // frees what a stream was left to free and has got to; or nil

	releasing sync.Mutex
	released  bool
}

// begin starts the call op; unless it returns an error, leave must follow.
func (r *resource) begin(op string) error {
	if r.enter() {
		return nil
	}
	return r.errClosed(op)
}

func (r *resource) errClosed(op string) error {
	return driver.Errorf(op, driver.ErrClosed, "the %s, or its device, is closed", r.kind)
}

// Close refuses calls from now on, waits for those in flight and gives the
// object back.
func (r *resource) Close() error {
	if !r.close() {
		return r.errClosed("Close")
	}
	return r.release()
}

// release gives the object back once; what fails is tried again when the device
// is closed.
func (r *resource) release() error {
	r.releasing.Lock()
	defer r.releasing.Unlock()
	if r.released {
		return nil
	}
	if err := r.destroy(); err != nil {
		return err
	}
	r.released = true
	r.dev.forget(r)
	return nil
}
