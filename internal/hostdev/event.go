package hostdev

import (
	"sync"
	"time"

	"github.com/ptxrun/ptxrun/driver"
)

// event is a point in a stream: the work numbers up to seq.
type event struct {
	dev    *Device
	timing bool

	mu     sync.Mutex
	closed bool
	stream *stream // nil if never recorded
	seq    uint64
	at     time.Time // when the point was reached
}

// event checks an event of a call.
func (d *Device) event(op string, e driver.Event) (*event, error) {
	ev, ok := e.(*event)
	switch {
	case e == nil || ok && ev == nil:
		return nil, driver.Errorf(op, driver.ErrNil, "event")
	case !ok || ev.dev != d:
		return nil, driver.Errorf(op, driver.ErrWrongDevice, "event")
	}
	return ev, ev.usable(op)
}

func (e *event) usable(op string) error {
	if err := e.dev.open(op); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return driver.Errorf(op, driver.ErrClosed, "event")
	}
	return nil
}

// record makes the end of s's present work the event's point.
func (e *event) record(s *stream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("Record"); err != nil {
		return err
	}
	e.stream, e.at = s, time.Time{}
	if s.idle() {
		e.seq = s.finished
		e.at = time.Now()
		return nil
	}
	s.add(op{what: opRecord, event: e})
	e.seq = s.given
	return nil
}

// reached notes the time, unless the event was recorded again since.
func (e *event) reached(s *stream, seq uint64) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stream == s && e.seq == seq {
		e.at = now
	}
}

func (e *event) point() (*stream, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream, e.seq
}

// Query and Synchronize also return the failure of work before the event's
// point: what the event marks did not happen.
func (e *event) Query() (bool, error) {
	if err := e.usable("Event.Query"); err != nil {
		return false, err
	}
	s, seq := e.point()
	if s == nil {
		return true, nil
	}
	return s.isReached(seq)
}

func (e *event) Synchronize() error {
	if err := e.usable("Event.Synchronize"); err != nil {
		return err
	}
	s, seq := e.point()
	if s == nil {
		return nil
	}
	return s.reached(seq)
}

func (e *event) Since(start driver.Event) (float64, error) {
	const name = "Event.Since"
	if err := e.usable(name); err != nil {
		return 0, err
	}
	from, err := e.dev.event(name, start)
	if err != nil {
		return 0, err
	}
	begin, err := from.time(name)
	if err != nil {
		return 0, err
	}
	end, err := e.time(name)
	if err != nil {
		return 0, err
	}
	return float64(end.Sub(begin)) / float64(time.Millisecond), nil
}

func (e *event) time(op string) (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.timing:
		return e.at, driver.Errorf(op, driver.ErrInvalidHandle, "an event without timing")
	case e.stream == nil:
		return e.at, driver.Errorf(op, driver.ErrInvalidHandle, "an event that was never recorded")
	case e.at.IsZero():
		return e.at, driver.Errorf(op, driver.ErrNotReady, "the event is not complete")
	}
	return e.at, nil
}

func (e *event) Close() error {
	if err := e.usable("Event.Close"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}
