package hostdev

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ptxrun/ptxrun/driver"
)

// Device is a [driver.Device] made of host memory and a backend.
type Device struct {
	info     driver.Info
	backend  Backend
	observer Observer // backend's, or nil
	space    *Space
	closed   atomic.Bool

	mu      sync.Mutex
	streams map[*stream]struct{}
	modules map[*module]struct{}
}

var _ driver.Device = (*Device)(nil)

// New returns a device that runs kernels by backend.
func New(info driver.Info, backend Backend, opts ...Option) (*Device, error) {
	space, err := NewSpace(opts...)
	if err != nil {
		return nil, err
	}
	d := &Device{
		info:    info,
		backend: backend,
		space:   space,
		streams: map[*stream]struct{}{},
		modules: map[*module]struct{}{},
	}
	d.observer, _ = backend.(Observer)
	return d, nil
}

func (d *Device) Info() driver.Info { return d.info }

// Space is the device's memory.
func (d *Device) Space() *Space { return d.space }

func (d *Device) open(op string) error {
	if d.closed.Load() {
		return driver.Errorf(op, driver.ErrClosed, "device")
	}
	return nil
}

// MemInfo counts the bytes of live allocations, not the blocks kept for reuse.
func (d *Device) MemInfo() (free, total int64, err error) {
	if err := d.open("MemInfo"); err != nil {
		return 0, 0, err
	}
	return d.space.free(), d.info.TotalMemory, nil
}

func (d *Device) Alloc(bytes int64) (driver.Ptr, error) {
	return d.alloc("Alloc", bytes)
}

func (d *Device) alloc(op string, bytes int64) (driver.Ptr, error) {
	if err := d.open(op); err != nil {
		return 0, err
	}
	a, err := d.space.Alloc(op, bytes, ForDevice)
	if err != nil {
		return 0, err
	}
	return a.base, nil
}

func (d *Device) Free(p driver.Ptr) error {
	if err := d.open("Free"); err != nil {
		return err
	}
	a, err := d.space.Freeing("Free", p, ForDevice)
	if err != nil {
		return err
	}
	d.drain()
	return d.space.Release("Free", a)
}

func (d *Device) AllocHost(bytes int64) (driver.HostMemory, error) {
	if err := d.open("AllocHost"); err != nil {
		return driver.HostMemory{}, err
	}
	a, err := d.space.Alloc("AllocHost", bytes, ForHost)
	if err != nil {
		return driver.HostMemory{}, err
	}
	return driver.HostMemory{Bytes: a.data, Ptr: a.base}, nil
}

func (d *Device) FreeHost(m driver.HostMemory) error {
	if err := d.open("FreeHost"); err != nil {
		return err
	}
	return d.space.Free("FreeHost", m.Ptr, ForHost)
}

func (d *Device) NewStream() (driver.Stream, error) {
	s := newStream(d)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open("NewStream"); err != nil {
		return nil, err
	}
	d.streams[s] = struct{}{}
	return s, nil
}

func (d *Device) NewEvent(timing bool) (driver.Event, error) {
	if err := d.open("NewEvent"); err != nil {
		return nil, err
	}
	return &event{dev: d, timing: timing}, nil
}

// drain waits for the work that all streams have been given.
func (d *Device) drain() {
	d.mu.Lock()
	streams := make([]*stream, 0, len(d.streams))
	for s := range d.streams {
		streams = append(streams, s)
	}
	d.mu.Unlock()
	for _, s := range streams {
		_ = s.drained() // the stream's own calls return it
	}
}

// Close waits for work in flight and releases everything. Memory that was still
// allocated is an ErrLeak that lists it, damage to the bytes around an
// allocation an ErrIllegalAddress.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed.Swap(true) {
		d.mu.Unlock()
		return driver.Errorf("Close", driver.ErrClosed, "device")
	}
	streams, modules := d.streams, d.modules
	d.streams, d.modules = nil, nil
	d.mu.Unlock()

	for s := range streams {
		s.shut()
	}
	var errs []error
	for s := range streams {
		errs = append(errs, s.drained())
	}
	for m := range modules {
		errs = append(errs, m.unload())
	}
	return errors.Join(slices.Concat(errs, d.space.Close("Close"))...)
}
