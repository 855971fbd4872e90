package ptxrun

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx"
)

// EnvDevice is the environment variable that chooses the device where no
// option does.
const EnvDevice = "PTXRUN_DEVICE"

// Runtime is one open device with the library's kernels on it. All functions
// that take one may be called by any number of goroutines at a time; each call
// on host slices runs on a stream of its own.
type Runtime struct {
	dev      driver.Device
	fallback error

	retiring sync.WaitGroup // streams whose work is still running
	rewrites sync.Map       // rewritten kernels, by rewriteKey

	mu     sync.Mutex
	closed bool
	// calls are those in flight: Close waits for them instead of pulling the
	// device from under them.
	calls   int
	ended   sync.Cond                // calls is zero
	idle    []*Stream                // streams of finished calls on host slices
	modules map[string]*loadedModule // by ModuleSpec.Name
	buffers map[driver.Ptr]int64     // allocations of NewBuffer and their bytes
}

// Option changes what [Open] does.
type Option func(*openConfig)

type openConfig struct {
	device  string
	preload bool
}

// WithDevice chooses the device: "cuda", "cuda:1", "cpu", "emu", or "auto" for
// the first GPU if there is one and the cpu otherwise. It wins over
// PTXRUN_DEVICE; "" chooses nothing.
func WithDevice(name string) Option { return func(c *openConfig) { c.device = name } }

// WithPreload makes Open load every embedded module, so that a kernel that this
// device's driver refuses fails there, and no later call pays for compiling
// PTX. Without it a module is loaded, and all its kernels resolved, by the first
// call that needs it.
func WithPreload() Option { return func(c *openConfig) { c.preload = true } }

// Open opens a device: the one that WithDevice or the environment variable
// PTXRUN_DEVICE names, else the first CUDA GPU, else the host's processor.
// When it falls back to the processor, [Runtime.Fallback] says why.
//
// Errors: ErrUnknownDevice for a name that is none; ErrNoDriver, ErrNoDevice,
// ErrInvalidDevice or the driver's own when a GPU was asked for by name and
// cannot be had.
func Open(opts ...Option) (*Runtime, error) {
	var c openConfig
	for _, o := range opts {
		if o == nil {
			return nil, driver.Errorf("Open", driver.ErrNil, "option")
		}
		o(&c)
	}
	asked := strconv.Quote(c.device)
	if c.device == "" {
		c.device = os.Getenv(EnvDevice)
		asked = EnvDevice + "=" + c.device
	}
	var dev driver.Device
	var err, fallback error
	if c.device == "" || c.device == "auto" {
		if dev, fallback = cuda.Open(0); fallback != nil {
			dev, err = cpu.Open()
		}
	} else {
		dev, err = openDevice(c.device, asked)
	}
	if err != nil {
		return nil, err
	}
	rt := NewRuntime(dev)
	rt.fallback = fallback
	if c.preload {
		for _, m := range moduleTable {
			if capability := dev.Info().Capability; capability > 0 && m.Targets[0] > capability {
				continue // for newer GPUs
			}
			if _, err := rt.module(m.Name); err != nil {
				return nil, errors.Join(err, rt.Close())
			}
		}
	}
	return rt, nil
}

// NewRuntime is a runtime on a device that the caller opened, with options of
// that device's own. The device is the runtime's from then on, and is closed by
// it. On a nil device every call returns ErrNil.
func NewRuntime(dev driver.Device) *Runtime {
	rt := &Runtime{dev: dev, modules: map[string]*loadedModule{}, buffers: map[driver.Ptr]int64{}}
	rt.ended.L = &rt.mu
	return rt
}

// openDevice opens the device of that name, which was asked for as asked says.
func openDevice(name, asked string) (driver.Device, error) {
	kind, index, indexed := strings.Cut(name, ":")
	ordinal := 0
	if indexed {
		var err error
		if ordinal, err = strconv.Atoi(index); err != nil || strings.Trim(index, "0123456789") != "" {
			return nil, driver.Errorf("Open", driver.ErrUnknownDevice, "%s: the part after the colon is not a device index", asked)
		}
	}
	switch {
	case kind == driver.KindCUDA:
		return cuda.Open(ordinal)
	case ordinal != 0 && (kind == driver.KindCPU || kind == driver.KindEmu):
		return nil, driver.Errorf("Open", driver.ErrInvalidDevice, "%s: there is one %s device", asked, kind)
	case kind == driver.KindCPU:
		return cpu.Open()
	case kind == driver.KindEmu:
		return emu.Open()
	}
	return nil, driver.Errorf("Open", driver.ErrUnknownDevice, "%s: known are cuda, cuda:N, cpu, emu and auto", asked)
}

// Close refuses new calls, waits for those in flight, then releases the device and everything on
// it. It reports ErrLeak if memory was still allocated, which is released all
// the same; host devices list it. Later calls return ErrClosed, a second Close nil.
func (rt *Runtime) Close() error {
	const op = "Runtime.Close"
	if rt == nil || rt.dev == nil {
		return driver.Errorf(op, driver.ErrNil, "runtime")
	}
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return nil
	}
	rt.closed = true
	for rt.calls > 0 {
		rt.ended.Wait()
	}
	rt.mu.Unlock()
	rt.retiring.Wait()
	var errs []error
	for _, s := range rt.idle {
		errs = append(errs, s.release())
	}
	err := rt.dev.Close()
	if n := len(rt.buffers); n > 0 && !errors.Is(err, driver.ErrLeak) { // a host device knows more
		var bytes int64
		for _, b := range rt.buffers {
			bytes += b
		}
		errs = append(errs, driver.Errorf(op, driver.ErrLeak, "%d bytes in %d allocations, of buffers, queues and aggregators", bytes, n))
	}
	return errors.Join(append(errs, err)...)
}

// Hold keeps the device open until Release, as a call in flight does: Close
// waits. It is for callers that use memory, streams or kernels of [Runtime.Device]
// on their own. Errors: ErrNil, ErrClosed.
func (rt *Runtime) Hold() error { return rt.begin("Runtime.Hold") }

// Release ends what one successful Hold began.
func (rt *Runtime) Release() { rt.end() }

// Info describes the open device; it is zero for a nil runtime.
func (rt *Runtime) Info() driver.Info {
	if rt == nil || rt.dev == nil {
		return driver.Info{}
	}
	return rt.dev.Info()
}

// Device is the open device, for callers that load modules and launch kernels
// of their own. Closing it is the runtime's work. It is nil for a nil runtime.
func (rt *Runtime) Device() driver.Device {
	if rt == nil {
		return nil
	}
	return rt.dev
}

// Fallback is why Open took the cpu although no device was asked for by name,
// or nil if it did not.
func (rt *Runtime) Fallback() error {
	if rt == nil {
		return nil
	}
	return rt.fallback
}

// begin starts a call named op: the runtime stays open until end.
func (rt *Runtime) begin(op string) error {
	if rt == nil || rt.dev == nil {
		return driver.Errorf(op, driver.ErrNil, "runtime")
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return driver.Errorf(op, driver.ErrClosed, "runtime")
	}
	rt.calls++
	return nil
}

// beginHost starts a call on host slices.
func (rt *Runtime) beginHost(ctx context.Context, op string) error {
	if ctx == nil {
		return driver.Errorf(op, driver.ErrNil, "context")
	}
	return rt.begin(op)
}

func (rt *Runtime) end() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.calls--; rt.calls == 0 {
		rt.ended.Broadcast()
	}
}

// DeviceStatus is what [Devices] found at one place.
type DeviceStatus struct {
	Name string      // as WithDevice takes it
	Info driver.Info // if Err is nil
	Err  error       // why it cannot be used
}

// Devices lists the devices that this build knows and which of them this
// machine has.
func Devices() []DeviceStatus {
	var all []DeviceStatus
	gpus, err := cuda.Devices()
	if err == nil && len(gpus) == 0 {
		err = driver.Errorf("Open", driver.ErrNoDevice, "")
	}
	if err != nil {
		all = append(all, DeviceStatus{Name: driver.KindCUDA, Err: err})
	}
	for i, info := range gpus {
		all = append(all, DeviceStatus{Name: driver.KindCUDA + ":" + strconv.Itoa(i), Info: info})
	}
	for _, name := range []string{driver.KindCPU, driver.KindEmu} {
		s := DeviceStatus{Name: name}
		d, err := openDevice(name, name)
		if s.Err = err; err == nil {
			s.Info = d.Info()
			s.Err = d.Close()
		}
		all = append(all, s)
	}
	return all
}

// loadedModule is an embedded or a user's module on the device, with its
// kernels resolved.
type loadedModule struct {
	mu      sync.Mutex
	mod     driver.Module // nil until it is loaded
	kernels []kernel
}

// kernel is a launchable kernel and the shape it is launched with.
type kernel struct {
	driver.Kernel // nil if the device has no use for it
	spec          *KernelSpec
	resident      uint64 // blocks that the device holds at a time, of a KernelSpec.Resident
}

// module returns an embedded module, loading it at its first use.
func (rt *Runtime) module(name string) (*loadedModule, error) {
	rt.mu.Lock()
	m := rt.modules[name]
	if m == nil {
		m = &loadedModule{}
		rt.modules[name] = m
	}
	rt.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mod != nil {
		return m, nil
	}
	// A failure, of memory for one, is not kept: the next call tries again.
	spec := moduleByName[name]
	if spec == nil {
		return nil, driver.Errorf("load", driver.ErrNotFound, "module %s", name)
	}
	img := driver.Image{Name: name}
	if capability := rt.dev.Info().Capability; capability > 0 {
		var err error
		if img.PTX, _, err = ptx.Source(name, capability); err != nil {
			return nil, err
		}
	}
	if err := rt.load(m, img, spec.Kernels); err != nil {
		return nil, err
	}
	return m, nil
}

// load puts an image on the device and resolves all its kernels.
func (rt *Runtime) load(m *loadedModule, img driver.Image, specs []KernelSpec) error {
	img.Twins = make(map[string]driver.Twin, len(specs))
	for i := range specs {
		img.Twins[specs[i].Name] = specs[i].Twin
	}
	mod, err := rt.dev.Load(img)
	if err != nil {
		return err
	}
	kernels := make([]kernel, len(specs))
	for i := range specs {
		if kernels[i], err = rt.resolve(mod, &specs[i]); err != nil {
			return errors.Join(err, mod.Close())
		}
	}
	m.mod, m.kernels = mod, kernels
	return nil
}

// resolve makes a kernel ready to be launched in its shape.
func (rt *Runtime) resolve(mod driver.Module, spec *KernelSpec) (k kernel, err error) {
	k.spec = spec
	info := rt.dev.Info()
	if spec.Target > info.Capability {
		return k, nil
	}
	if k.Kernel, err = mod.Kernel(spec.Name); err != nil {
		if spec.Target > 0 && errors.Is(err, driver.ErrNotFound) {
			// A caller's PTX is for an older target than the device is.
			return kernel{spec: spec}, nil
		}
		return k, err
	}
	if spec.Shared > 0 {
		if err := k.SetMaxDynamicShared(spec.Shared); err != nil {
			return k, err
		}
	}
	if spec.Resident {
		n, err := k.Occupancy(spec.Block, spec.Shared)
		if err != nil {
			return k, err
		}
		if n < 1 {
			return k, &driver.Error{Op: "load", Code: driver.ErrLaunchResources, Kernel: spec.Name, Block: driver.D1(uint32(spec.Block))}
		}
		k.resident = uint64(n * info.Multiprocessors)
	}
	return k, nil
}

// kernel returns a kernel of an embedded module.
func (rt *Runtime) kernel(module, name string) (kernel, error) {
	m, err := rt.module(module)
	if err != nil {
		return kernel{}, err
	}
	return m.kernel(name), nil
}

// kernel returns the kernel of that name in m.
func (m *loadedModule) kernel(name string) kernel {
	for _, k := range m.kernels {
		if k.spec.Name == name {
			return k
		}
	}
	// The names come from kernels.go on both sides.
	panic("ptxrun: kernel " + name + " is not in the module's list")
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
