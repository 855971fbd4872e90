package hostdev

import (
	"sync"
	"sync/atomic"

	"github.com/ptxrun/ptxrun/driver"
)

// module is a loaded image.
type module struct {
	dev    *Device
	name   string
	loaded Module
	closed atomic.Bool

	mu      sync.Mutex
	kernels map[string]*kernel // those asked for
}

func (d *Device) Load(img driver.Image) (driver.Module, error) {
	if err := d.open("Load"); err != nil {
		return nil, err
	}
	loaded, err := d.backend.Load(img, d.space)
	if err != nil {
		return nil, err
	}
	m := &module{dev: d, name: img.Name, loaded: loaded, kernels: map[string]*kernel{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open("Load"); err != nil {
		_ = loaded.Close()
		return nil, err
	}
	d.modules[m] = struct{}{}
	return m, nil
}

func (m *module) usable(op string) error {
	if err := m.dev.open(op); err != nil {
		return err
	}
	if m.closed.Load() {
		return driver.Errorf(op, driver.ErrClosed, "module %s", m.name)
	}
	return nil
}

func (m *module) Kernel(name string) (driver.Kernel, error) {
	if err := m.usable("Kernel"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.kernels[name]; k != nil {
		return k, nil
	}
	entry := m.loaded.Kernel(name)
	if entry == nil {
		return nil, driver.Errorf("Kernel", driver.ErrNotFound, "module %s has no kernel %q", m.name, name)
	}
	k := &kernel{module: m, name: name, entry: entry, attributes: entry.Attributes(), params: entry.Params()}
	m.kernels[name] = k
	return k, nil
}

// Close waits for the device's work, as unloading a module on a GPU does.
func (m *module) Close() error {
	if err := m.usable("Module.Close"); err != nil {
		return err
	}
	d := m.dev
	d.mu.Lock()
	_, mine := d.modules[m]
	delete(d.modules, m)
	d.mu.Unlock()
	if !mine {
		return driver.Errorf("Module.Close", driver.ErrClosed, "module %s", m.name)
	}
	m.closed.Store(true)
	d.drain()
	return m.unload()
}

func (m *module) unload() error {
	m.closed.Store(true)
	return m.loaded.Close()
}
