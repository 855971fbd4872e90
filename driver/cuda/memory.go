//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #cgo noescape ptxrun_cu_host_alloc
// #cgo nocallback ptxrun_cu_host_alloc
// #include "supplement.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

// allocation is memory that the user holds.
type allocation struct {
	bytes  int64
	pooled bool // freed in stream order by the driver
}

func checkSize(op string, bytes int64) error {
	if bytes <= 0 {
		return driver.Errorf(op, driver.ErrInvalidValue, "%d bytes", bytes)
	}
	return nil
}

func (d *device) Alloc(bytes int64) (driver.Ptr, error) {
	const op = "cuMemAlloc"
	if err := checkSize(op, bytes); err != nil {
		return 0, err
	}
	if err := d.begin(op); err != nil {
		return 0, err
	}
	defer d.leave()
	return d.allocate(allocation{bytes: bytes}, func() (driver.Ptr, error) { return d.memAlloc(bytes) })
}

func (d *device) memAlloc(bytes int64) (p driver.Ptr, err error) {
	err = d.call("cuMemAlloc", func() error {
		q, err := cu.MemAlloc(bytes)
		p = driver.Ptr(q)
		return err
	})
	return p, err
}

// allocate takes memory with f and registers it. If there is none, memory that
// is only waiting to be reused is given back first, and f tried again.
func (d *device) allocate(a allocation, f func() (driver.Ptr, error)) (driver.Ptr, error) {
	p, err := f()
	if errors.Is(err, driver.ErrOutOfMemory) {
		if d.reclaim() == nil {
			p, err = f()
		}
	}
	if err != nil {
		if e := new(driver.Error); errors.As(err, &e) && e.Detail == "" {
			e.Detail = fmt.Sprintf("%d bytes", a.bytes)
		}
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allocs[p] = a
	return p, nil
}

// reclaim waits for all work, then frees what streams had left to free and what
// the pool keeps.
func (d *device) reclaim() error {
	if err := d.call("cuCtxSynchronize", cu.Synchronize); err != nil {
		return err
	}
	for _, r := range d.holding() {
		if r.reap != nil {
			if err := r.reap(); err != nil {
				return err
			}
		}
	}
	if d.info.StreamOrderedAlloc {
		return trimPool(d)
	}
	return nil
}

// take removes an allocation from the table, so that only one call can free it;
// put returns it there if that fails.
func (d *device) take(op string, p driver.Ptr) (allocation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.allocs[p]
	if !ok {
		return a, driver.Errorf(op, driver.ErrInvalidValue, "%#x is not the start of memory allocated on this device, or is freed already", uint64(p))
	}
	delete(d.allocs, p)
	return a, nil
}

func (d *device) put(p driver.Ptr, a allocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allocs[p] = a
}

func (d *device) Free(p driver.Ptr) error {
	const op = "cuMemFree"
	if err := d.begin(op); err != nil {
		return err
	}
	defer d.leave()
	a, err := d.take(op, p)
	if err != nil {
		return err
	}
	// The driver leaves it open whether freeing waits.
	waited := d.call("cuCtxSynchronize", cu.Synchronize)
	if err := d.call(op, func() error { return cu.MemFree(cu.DevicePtr(p)) }); err != nil {
		d.put(p, a)
		return err
	}
	return waited
}

// hostBlock is page-locked memory.
type hostBlock struct {
	base  unsafe.Pointer
	bytes int64
	ptr   driver.Ptr
}

// hostTable finds page-locked memory by address; copies ask it.
type hostTable struct {
	mu     sync.RWMutex
	blocks []hostBlock // by address
}

func (t *hostTable) search(addr uintptr) (int, bool) {
	return slices.BinarySearchFunc(t.blocks, addr, func(b hostBlock, addr uintptr) int {
		return cmp.Compare(uintptr(b.base), addr)
	})
}

func (t *hostTable) add(b hostBlock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, _ := t.search(uintptr(b.base))
	t.blocks = slices.Insert(t.blocks, i, b)
}

// remove takes out the block that m describes.
func (t *hostTable) remove(m driver.HostMemory) (hostBlock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.search(address(m.Bytes))
	if !ok || t.blocks[i].bytes != int64(len(m.Bytes)) || t.blocks[i].ptr != m.Ptr {
		return hostBlock{}, false
	}
	b := t.blocks[i]
	t.blocks = slices.Delete(t.blocks, i, i+1)
	return b, true
}

// contains tells whether all of b is page-locked memory of this device.
func (t *hostTable) contains(b []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, exact := t.search(address(b))
	if !exact {
		i--
	}
	return i >= 0 && address(b)+uintptr(len(b)) <= uintptr(t.blocks[i].base)+uintptr(t.blocks[i].bytes)
}

func (t *hostTable) all() []hostBlock {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.blocks)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (d *device) AllocHost(bytes int64) (driver.HostMemory, error) {
	const op = "cuMemHostAlloc"
	if err := checkSize(op, bytes); err != nil {
		return driver.HostMemory{}, err
	}
	if err := d.begin(op); err != nil {
		return driver.HostMemory{}, err
	}
	defer d.leave()
	var host unsafe.Pointer
	var ptr C.CUdeviceptr
	if err := d.fail(op, driver.Code(C.ptxrun_cu_host_alloc(d.raw, C.size_t(bytes), &host, &ptr))); err != nil {
		return driver.HostMemory{}, err
	}
	d.host.add(hostBlock{host, bytes, driver.Ptr(ptr)})
	return driver.HostMemory{Bytes: unsafe.Slice((*byte)(host), bytes), Ptr: driver.Ptr(ptr)}, nil
}

func (d *device) FreeHost(m driver.HostMemory) error {
	const op = "cuMemFreeHost"
	if err := d.begin(op); err != nil {
		return err
	}
	defer d.leave()
	b, ok := d.host.remove(m)
	if !ok {
		return driver.Errorf(op, driver.ErrInvalidValue, "%d bytes at %#x are not host memory allocated on this device, or are freed already", len(m.Bytes), uint64(m.Ptr))
	}
	if err := d.call(op, func() error { return cu.MemFreeHost(b.base) }); err != nil {
		d.host.add(b)
		return err
	}
	return nil
}
