//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

import (
	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

type event struct {
	resource
	e      cu.Event
	timing bool
}

func (d *device) NewEvent(timing bool) (driver.Event, error) {
	const op = "cuEventCreate"
	if err := d.begin(op); err != nil {
		return nil, err
	}
	defer d.leave()
	flags := cu.DisableTiming
	if timing {
		flags = cu.DefaultEvent
	}
	e := &event{resource: resource{dev: d, kind: "event"}, timing: timing}
	err := d.call(op, func() (err error) {
		e.e, err = cu.MakeEvent(flags)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.destroy = func() error { return d.destroyEvent(e.e) }
	d.hold(&e.resource)
	return e, nil
}

// destroyEvent takes the handle by value: the binding clears it even when
// destroying fails.
func (d *device) destroyEvent(e cu.Event) error {
	return d.call("cuEventDestroy", func() error { return cu.DestroyEvent(&e) })
}

// event returns e as one of this device's.
func (d *device) event(op string, e driver.Event) (*event, error) {
	ev, ok := e.(*event)
	switch {
	case e == nil || ok && ev == nil:
		return nil, driver.Errorf(op, driver.ErrNil, "the event")
	case !ok || ev.dev != d:
		return nil, driver.Errorf(op, driver.ErrWrongDevice, "the event")
	}
	return ev, nil
}

func (e *event) do(op string, f func() error) error {
	if err := e.begin(op); err != nil {
		return err
	}
	defer e.leave()
	return e.dev.call(op, f)
}

func (e *event) Query() (bool, error) { return completed(e.do("cuEventQuery", e.e.Query)) }

func (e *event) Synchronize() error { return e.do("cuEventSynchronize", e.e.Synchronize) }

func (e *event) Since(start driver.Event) (ms float64, err error) {
	const op = "cuEventElapsedTime"
	from, err := e.dev.event(op, start)
	if err != nil {
		return 0, err
	}
	if !e.timing || !from.timing {
		return 0, driver.Errorf(op, driver.ErrInvalidHandle, "an event was made without timing")
	}
	if err := from.begin(op); err != nil {
		return 0, err
	}
	defer from.leave()
	err = e.do(op, func() (err error) {
		ms, err = from.e.Elapsed(e.e)
		return err
	})
	return ms, err
}
