//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #cgo CFLAGS: -I${SRCDIR}/include -std=c11 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include "library.h"
// #include "supplement.h"
import "C"

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

// Built reports whether this build has CUDA support.
const Built = true

// device is an open GPU: its primary context, which it shares with whatever
// else in the process uses that, and what its user holds in it.
type device struct {
	life
	info driver.Info
	dev  cu.Device
	ctx  cu.CUContext
	raw  C.CUcontext // ctx, for the supplement
	lost atomic.Pointer[string]

	mu     sync.Mutex // guards what follows
	held   map[*resource]struct{}
	allocs map[driver.Ptr]allocation

	host hostTable
}

// initialise makes the real cuInit and returns the driver's API version and the
// number of GPUs.
func initialise() (version, gpus int, err error) {
	if err := failure("cuInit", driver.Code(C.ptxrun_cu_init())); err != nil {
		return 0, 0, err
	}
	if version = cu.Version(); version <= 0 {
		return 0, 0, failure("cuDriverGetVersion", driver.ErrUnknown)
	}
	if gpus, err = cu.NumDevices(); err != nil {
		return 0, 0, failure("cuDeviceGetCount", codeOf(err))
	}
	return version, gpus, nil
}

// Devices describes the GPUs of this machine in the order of their ordinals,
// without opening them.
func Devices() ([]driver.Info, error) {
	version, n, err := initialise()
	if err != nil {
		return nil, err
	}
	infos := make([]driver.Info, n)
	for i := range infos {
		if _, infos[i], err = describe(i, version); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Open opens the GPU with the given ordinal. Devices of one ordinal share the
// primary context, so that memory of one can be used on the other; each still
// refuses to free what the other allocated.
func Open(ordinal int) (driver.Device, error) {
	d, err := open(ordinal)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func open(ordinal int) (*device, error) {
	version, n, err := initialise()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, failure("cuDeviceGetCount", driver.ErrNoDevice)
	}
	if ordinal < 0 || ordinal >= n {
		return nil, driver.Errorf("Open", driver.ErrInvalidDevice, "cuda:%d, but this machine has %d (from cuda:0)", ordinal, n)
	}
	dev, info, err := describe(ordinal, version)
	if err != nil {
		return nil, err
	}
	ctx, err := dev.RetainPrimaryCtx()
	if err != nil {
		return nil, failure("cuDevicePrimaryCtxRetain", codeOf(err))
	}
	d := &device{
		info: info, dev: dev, ctx: ctx, raw: C.CUcontext(handle(ctx)),
		held: map[*resource]struct{}{}, allocs: map[driver.Ptr]allocation{},
	}
	if info.StreamOrderedAlloc {
		if err := retainPool(d); err != nil {
			dev.ReleasePrimaryCtx()
			return nil, err
		}
	}
	return d, nil
}

// describe finds a GPU and reads its properties.
func describe(ordinal, version int) (cu.Device, driver.Info, error) {
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return 0, driver.Info{}, failure("cuDeviceGet", codeOf(err))
	}
	i := driver.Info{Kind: driver.KindCUDA, Ordinal: ordinal, DriverVersion: version}
	if i.Name, err = dev.Name(); err != nil {
		return 0, driver.Info{}, failure("cuDeviceGetName", codeOf(err))
	}
	if i.TotalMemory, err = dev.TotalMem(); err != nil {
		return 0, driver.Info{}, failure("cuDeviceTotalMem", codeOf(err))
	}
	attribute := func(a cu.DeviceAttribute) int {
		v, e := dev.Attribute(a)
		err = cmp.Or(err, e)
		return v
	}
	// A driver older than an attribute calls it an invalid value.
	optional := func(a cu.DeviceAttribute) int {
		v, e := dev.Attribute(a)
		if e != nil && codeOf(e) != driver.ErrInvalidValue {
			err = cmp.Or(err, e)
		}
		return v
	}
	i.Capability = 10*attribute(cu.ComputeCapabilityMajor) + attribute(cu.ComputeCapabilityMinor)
	i.Multiprocessors = attribute(cu.MultiprocessorCount)
	i.WarpSize = attribute(cu.WarpSize)
	i.MaxThreadsPerBlock = attribute(cu.MaxThreadsPerBlock)
	i.MaxGridX = int64(attribute(cu.MaxGridDimX))
	i.SharedPerBlock = int64(attribute(cu.MaxSharedMemoryPerBlock))
	i.SharedPerBlockMax = max(i.SharedPerBlock, int64(optional(C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)))
	i.L2 = int64(attribute(cu.L2CacheSize))
	i.StreamOrderedAlloc = has("cuMemAllocAsync") && optional(C.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0
	if err != nil {
		return 0, driver.Info{}, failure("cuDeviceGetAttribute", codeOf(err))
	}
	return dev, i, nil
}

func has(symbol string) bool {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	return C.ptxrun_cu_has(name) != 0
}

// handle is the driver's handle in one of the binding's types, each of which is
// a struct of nothing else.
func handle[T cu.CUContext | cu.Function | cu.Module](v T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&v))
}

// call runs f, which calls the binding, with d's context current on its thread.
func (d *device) call(op string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(d.ctx); err != nil {
		return d.fail("cuCtxSetCurrent", codeOf(err))
	}
	if err := f(); err != nil {
		return d.fail(op, codeOf(err))
	}
	return nil
}

// begin starts the call op; unless it returns an error, leave must follow.
func (d *device) begin(op string) error {
	if d.enter() {
		return nil
	}
	return d.errClosed(op)
}

func (d *device) errClosed(op string) error {
	return driver.Errorf(op, driver.ErrClosed, "device cuda:%d is closed", d.info.Ordinal)
}

func (d *device) Info() driver.Info { return d.info }

func (d *device) MemInfo() (free, total int64, err error) {
	const op = "cuMemGetInfo"
	if err := d.begin(op); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	err = d.call(op, func() (err error) {
		free, total, err = cu.MemInfo()
		return err
	})
	return free, total, err
}

// hold registers a new object with the device, which releases it at the latest
// when it is closed itself.
func (d *device) hold(r *resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[r] = struct{}{}
}

func (d *device) forget(r *resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, r)
}

func (d *device) holding() []*resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*resource, 0, len(d.held))
	for r := range d.held {
		all = append(all, r)
	}
	return all
}

// Close goes on after a failure, to release as much as it can, and returns the
// first one.
func (d *device) Close() error {
	if !d.close() {
		return d.errClosed("Close")
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	held := d.holding()
	for _, r := range held {
		r.close()
	}
	note(d.call("cuCtxSynchronize", cu.Synchronize))
	for _, r := range held {
		if r.reap != nil {
			note(r.reap())
		}
		note(r.release())
	}
	for p := range d.allocs {
		note(d.call("cuMemFree", func() error { return cu.MemFree(cu.DevicePtr(p)) }))
	}
	for _, b := range d.host.all() {
		note(d.call("cuMemFreeHost", func() error { return cu.MemFreeHost(b.base) }))
	}
	if d.info.StreamOrderedAlloc {
		note(releasePool(d))
	}
	if err := d.dev.ReleasePrimaryCtx(); err != nil {
		note(d.fail("cuDevicePrimaryCtxRelease", codeOf(err)))
	}
	return first
}
