package hostdev

import (
	"slices"
	"sync"

	"github.com/ptxrun/ptxrun/driver"
)

// stream runs its work in order on a goroutine that lives only while there is
// work. Work that the caller waits for anyway runs on the caller when the
// stream is idle.
//
// The first failure is kept and returned by every call until Synchronize or
// Close has returned it. Until then, copies, fills and launches that were
// already accepted are skipped, for what they depend on may be missing. A stream
// that waits for an event behind the failure fails with it.
type stream struct {
	dev *Device
	run func() // s.work, bound once so that starting it allocates nothing

	mu     sync.Mutex
	done   sync.Cond // finished has grown
	queue  []op
	spare  []op // the queue's other buffer
	busy   bool // somebody runs the stream's work
	closed bool
	err    error
	failed uint64 // the number of the work that err is of
	// given and finished count the work accepted and completed; work number n
	// is complete when finished >= n.
	given, finished uint64
}

// op is a piece of work.
type op struct {
	what     opKind
	dst, src driver.Ptr
	host     []byte // the host's side of a copy
	bytes    int64
	value    byte

	alloc  *Allocation
	kernel *kernel
	config driver.Config
	args   *driver.Args

	event *event
	// other and seq are the point in another stream that opWait waits for;
	// seq is also the number of an opRecord.
	other *stream
	seq   uint64
}

type opKind uint8

const (
	opToDevice opKind = iota
	opToHost
	opCopy
	opFill
	opLaunch
	opFree
	opRecord
	opWait
)

func (k opKind) String() string {
	return [...]string{"CopyToDevice", "CopyToHost", "Copy", "Fill", "Launch", "Free", "Record", "Wait"}[k]
}

func newStream(d *Device) *stream {
	s := &stream{dev: d}
	s.done.L = &s.mu
	s.run = s.work
	return s
}

// usable returns why the stream takes no work; s.mu is held.
func (s *stream) usable(name string) error {
	if s.closed {
		return driver.Errorf(name, driver.ErrClosed, "stream")
	}
	return s.err
}

// add accepts o; s.mu is held.
func (s *stream) add(o op) {
	s.given++
	if o.what == opRecord {
		o.seq = s.given
	}
	s.queue = append(s.queue, o)
	if !s.busy {
		s.busy = true
		go s.run()
	}
}

func (s *stream) idle() bool { return !s.busy && len(s.queue) == 0 }

// enqueue accepts o and returns.
func (s *stream) enqueue(name string, o op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(name); err != nil {
		return err
	}
	s.add(o)
	return nil
}

// complete accepts o and returns when it is done, with its error or that of
// the work before it.
func (s *stream) complete(name string, o op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(name); err != nil {
		return err
	}
	if !s.idle() {
		s.add(o)
		s.wait(s.given)
		return s.err
	}
	s.busy = true
	s.given++
	s.mu.Unlock()
	err := s.exec(&o)
	s.mu.Lock()
	s.finished++
	s.done.Broadcast()
	if len(s.queue) > 0 {
		go s.run()
	} else {
		s.busy = false
	}
	return err
}

// work runs what is queued until nothing is. Where a caller's Go form of a kernel
// ends the goroutine, with runtime.Goexit or a test's FailNow, the launch has
// failed, and another goroutine goes on behind it.
func (s *stream) work() {
	s.mu.Lock()
	var left []op // of the batch, the one that runs first
	defer func() {
		if len(left) > 0 {
			s.mu.Lock()
			s.lost(left)
		}
		s.mu.Unlock()
	}()
	for len(s.queue) > 0 {
		batch := s.queue
		s.queue = s.spare[:0]
		for i := range batch {
			o := &batch[i]
			left = batch[i:]
			skip := s.err != nil && o.what < opFree
			s.mu.Unlock()
			var err error
			if !skip {
				err = s.exec(o)
			}
			if o.args != nil {
				o.args.Release()
			}
			*o = op{}
			s.mu.Lock()
			left = nil
			s.finish(err)
		}
		s.spare = batch
	}
	s.busy = false
}

// finish counts a piece of work as done; s.mu is held.
func (s *stream) finish(err error) {
	s.finished++
	if s.err == nil && err != nil {
		s.err, s.failed = err, s.finished
	}
	s.done.Broadcast()
}

// lost fails the first of what is left of a batch, whose goroutine ends in it, and
// has the others done; s.mu is held.
func (s *stream) lost(left []op) {
	o := &left[0]
	var err error = driver.Errorf(o.what.String(), driver.ErrLaunchFailed, "%s", Goexit)
	if o.what == opLaunch {
		err = o.kernel.failure(o.config, &Panic{Goexit, "unknown place"})
	}
	if o.args != nil {
		o.args.Release()
	}
	s.finish(err)
	s.queue, s.spare = append(slices.Clone(left[1:]), s.queue...), nil
	go s.run()
}

// wait blocks until work number n is complete; s.mu is held.
func (s *stream) wait(n uint64) {
	for s.finished < n {
		s.done.Wait()
	}
}

// drained blocks until everything given so far is complete, and returns the
// failure.
func (s *stream) drained() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait(s.given)
	return s.err
}

// reached blocks until work number n is complete, and returns the failure, if
// it is of work up to there.
func (s *stream) reached(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait(n)
	return s.failure(n)
}

// isReached is reached without waiting.
func (s *stream) isReached(n uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished < n {
		return false, nil
	}
	return true, s.failure(n)
}

// failure is that of work up to number n; s.mu is held.
func (s *stream) failure(n uint64) error {
	if s.err == nil || s.failed > n {
		return nil
	}
	return s.err
}

func (s *stream) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// exec does one piece of work on this goroutine.
func (s *stream) exec(o *op) error {
	switch o.what {
	case opFree:
		return s.dev.space.Release("Stream.Free", o.alloc)
	case opRecord:
		o.event.reached(s, o.seq)
		return nil
	case opWait:
		return o.other.reached(o.seq)
	}
	space := s.dev.space
	defer space.arena.end(space.arena.begin())
	if o.what == opLaunch {
		return o.kernel.launch(o.config, o.args)
	}
	return s.move(o)
}

// move does a copy or a fill. Addresses are looked up again, since they may
// have been freed on another stream after the call.
func (s *stream) move(o *op) error {
	dst, src := o.host, o.host
	var err error
	if o.dst != 0 {
		if dst, err = s.dev.space.resolve(o.what.String(), o.dst, o.bytes); err != nil {
			return err
		}
	}
	if o.src != 0 {
		if src, err = s.dev.space.resolve(o.what.String(), o.src, o.bytes); err != nil {
			return err
		}
	}
	if o.what == opFill {
		fillBytes(dst, o.value)
	} else {
		copy(dst, src)
	}
	if w := s.dev.observer; w != nil && o.dst != 0 {
		w.Wrote(o.dst, o.src, o.bytes)
	}
	return nil
}

// reachable checks an address of a call: it must be allocated, and not given to
// a Free before.
func (s *stream) reachable(name string, p driver.Ptr, bytes int64) error {
	space := s.dev.space
	if a := space.Find(p); a == nil || !a.Contains(p, bytes) || a.state.Load() != stateLive {
		return space.Illegal(name, p, bytes)
	}
	return nil
}

func (s *stream) ready(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable(name)
}

func (s *stream) Alloc(bytes int64) (driver.Ptr, error) {
	if err := s.ready("Stream.Alloc"); err != nil {
		return 0, err
	}
	return s.dev.alloc("Stream.Alloc", bytes)
}

// Free works on a stream that has failed, too: memory is not lost to an error
// that Synchronize is going to return.
func (s *stream) Free(p driver.Ptr) error {
	const name = "Stream.Free"
	s.mu.Lock()
	if s.closed {
		defer s.mu.Unlock()
		return s.usable(name)
	}
	s.mu.Unlock()
	a, err := s.dev.space.Freeing(name, p, ForDevice)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed || s.idle() {
		s.mu.Unlock()
		return s.dev.space.Release(name, a)
	}
	s.add(op{what: opFree, alloc: a})
	s.mu.Unlock()
	return nil
}

func (s *stream) CopyToDevice(dst driver.Ptr, src []byte) error {
	return s.hostCopy(op{what: opToDevice, dst: dst, host: src}, dst)
}

func (s *stream) CopyToHost(dst []byte, src driver.Ptr) error {
	return s.hostCopy(op{what: opToHost, src: src, host: dst}, src)
}

func (s *stream) hostCopy(o op, p driver.Ptr) error {
	name := o.what.String()
	if err := s.ready(name); err != nil {
		return err
	}
	o.bytes = int64(len(o.host))
	if o.bytes > 0 {
		if err := s.reachable(name, p, o.bytes); err != nil {
			return err
		}
		if s.dev.space.pinned(o.host) {
			return s.enqueue(name, o)
		}
	}
	return s.complete(name, o)
}

func (s *stream) Copy(dst, src driver.Ptr, bytes int64) error {
	const name = "Copy"
	if err := s.ready(name); err != nil || bytes == 0 {
		return err
	}
	if bytes < 0 {
		return driver.Errorf(name, driver.ErrInvalidValue, "%d bytes", bytes)
	}
	if err := s.reachable(name, dst, bytes); err != nil {
		return err
	}
	if err := s.reachable(name, src, bytes); err != nil {
		return err
	}
	if n := driver.Ptr(bytes); dst < src+n && src < dst+n {
		return driver.Errorf(name, driver.ErrOverlap, "%d bytes from %#x to %#x", bytes, uint64(src), uint64(dst))
	}
	return s.enqueue(name, op{what: opCopy, dst: dst, src: src, bytes: bytes})
}

func (s *stream) Fill(dst driver.Ptr, value byte, bytes int64) error {
	const name = "Fill"
	if err := s.ready(name); err != nil || bytes == 0 {
		return err
	}
	if bytes < 0 {
		return driver.Errorf(name, driver.ErrInvalidValue, "%d bytes", bytes)
	}
	if err := s.reachable(name, dst, bytes); err != nil {
		return err
	}
	return s.enqueue(name, op{what: opFill, dst: dst, bytes: bytes, value: value})
}

func (s *stream) Launch(k driver.Kernel, c driver.Config, a *driver.Args) error {
	if err := s.ready("Launch"); err != nil {
		return err
	}
	kern, err := s.dev.launchable(k, c, a)
	if err != nil {
		return err
	}
	o := op{what: opLaunch, kernel: kern, config: c, args: a.Clone()}
	if err := s.enqueue("Launch", o); err != nil {
		o.args.Release()
		return err
	}
	return nil
}

func (s *stream) Record(e driver.Event) error {
	ev, err := s.dev.event("Record", e)
	if err != nil {
		return err
	}
	return ev.record(s)
}

func (s *stream) Wait(e driver.Event) error {
	const name = "Wait"
	ev, err := s.dev.event(name, e)
	if err != nil {
		return err
	}
	other, seq := ev.point()
	if other == nil || other == s {
		return s.ready(name)
	}
	if reached, err := other.isReached(seq); reached && err == nil {
		return s.ready(name)
	}
	return s.enqueue(name, op{what: opWait, other: other, seq: seq})
}

func (s *stream) Query() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("Query"); err != nil {
		return false, err
	}
	return s.finished == s.given, nil
}

func (s *stream) Synchronize() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.usable("Synchronize")
	}
	s.wait(s.given)
	return s.forgive()
}

// Close waits for the stream's work.
func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		defer s.mu.Unlock()
		return s.usable("Stream.Close")
	}
	s.closed = true
	s.wait(s.given)
	err := s.forgive()
	s.mu.Unlock()
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	return err
}

// forgive returns the stream's failure for the last time; s.mu is held.
func (s *stream) forgive() error {
	err := s.err
	s.err = nil
	return err
}
