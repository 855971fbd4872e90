//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #cgo noescape ptxrun_cu_alloc_async
// #cgo nocallback ptxrun_cu_alloc_async
// #cgo noescape ptxrun_cu_copy_to_device
// #cgo nocallback ptxrun_cu_copy_to_device
// #cgo noescape ptxrun_cu_copy_to_host
// #cgo nocallback ptxrun_cu_copy_to_host
// #include "supplement.h"
import "C"

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

type stream struct {
	resource
	s   cu.Stream
	raw C.CUstream

	mu      sync.Mutex // guards pending
	pending []pendingFree
}

// pendingFree is memory to be freed when the stream has reached an event. Only
// memory that is not from a pool is freed in this way.
type pendingFree struct {
	ptr  driver.Ptr // 0 when freed and only the event is left
	done cu.Event
}

func (d *device) NewStream() (driver.Stream, error) {
	const op = "cuStreamCreate"
	if err := d.begin(op); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &stream{resource: resource{dev: d, kind: "stream"}}
	err := d.call(op, func() (err error) {
		s.s, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.raw = C.CUstream(unsafe.Pointer(s.s.C()))
	s.destroy, s.reap = s.end, s.freeReached
	d.hold(&s.resource)
	return s, nil
}

// end destroys the stream, which finishes its work by itself; only memory left
// to be freed has to be waited for.
func (s *stream) end() error {
	if s.hasPending() {
		if err := s.dev.call("cuStreamSynchronize", s.s.Synchronize); err != nil {
			return err
		}
		if err := s.freeReached(); err != nil {
			return err
		}
	}
	h := s.s // the binding clears the handle even when destroying fails
	return s.dev.call("cuStreamDestroy", func() error { return h.Destroy() })
}

// do runs f, which calls the binding, while the stream is held open.
func (s *stream) do(op string, f func() error) error {
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.leave()
	return s.dev.call(op, f)
}

func (s *stream) Alloc(bytes int64) (driver.Ptr, error) {
	const op = "cuMemAllocAsync"
	if err := checkSize(op, bytes); err != nil {
		return 0, err
	}
	if err := s.begin(op); err != nil {
		return 0, err
	}
	defer s.leave()
	d := s.dev
	if !d.info.StreamOrderedAlloc {
		if err := s.freeReached(); err != nil {
			return 0, err
		}
		return d.allocate(allocation{bytes: bytes}, func() (driver.Ptr, error) { return d.memAlloc(bytes) })
	}
	return d.allocate(allocation{bytes: bytes, pooled: true}, func() (driver.Ptr, error) {
		var p C.CUdeviceptr
		code := C.ptxrun_cu_alloc_async(d.raw, &p, C.size_t(bytes), s.raw)
		return driver.Ptr(p), d.fail(op, driver.Code(code))
	})
}

func (s *stream) Free(p driver.Ptr) error {
	const op = "cuMemFreeAsync"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.leave()
	a, err := s.dev.take(op, p)
	if err != nil {
		return err
	}
	if a.pooled {
		err = s.dev.fail(op, driver.Code(C.ptxrun_cu_free_async(s.dev.raw, C.CUdeviceptr(p), s.raw)))
	} else {
		err = s.freeLater(p)
	}
	if err != nil {
		s.dev.put(p, a)
		return err
	}
	return s.freeReached()
}

func (s *stream) freeLater(p driver.Ptr) error {
	f := pendingFree{ptr: p}
	err := s.dev.call("cuEventCreate", func() (err error) {
		f.done, err = cu.MakeEvent(cu.DisableTiming)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.dev.call("cuEventRecord", func() error { return f.done.Record(s.s) }); err != nil {
		s.dev.destroyEvent(f.done)
		return err
	}
	s.pending = append(s.pending, f)
	return nil
}

func (s *stream) hasPending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) > 0
}

// freeReached frees the pending memory that the stream has passed.
func (s *stream) freeReached() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) > 0 {
		f := &s.pending[0]
		if f.ptr != 0 {
			done, err := completed(s.dev.call("cuEventQuery", f.done.Query))
			if !done {
				return err
			}
			if err := s.dev.call("cuMemFree", func() error { return cu.MemFree(cu.DevicePtr(f.ptr)) }); err != nil {
				return err
			}
			f.ptr = 0
		}
		if err := s.dev.destroyEvent(f.done); err != nil {
			return err
		}
		s.pending = s.pending[1:]
	}
	return nil
}

func (s *stream) CopyToDevice(dst driver.Ptr, src []byte) error {
	return s.copyHost("cuMemcpyHtoDAsync", src,
		func(src unsafe.Pointer, bytes int64) error {
			return cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, bytes, s.s)
		},
		func(src *C.uchar, bytes C.size_t) C.CUresult {
			return C.ptxrun_cu_copy_to_device(s.dev.raw, C.CUdeviceptr(dst), src, bytes, s.raw)
		})
}

func (s *stream) CopyToHost(dst []byte, src driver.Ptr) error {
	return s.copyHost("cuMemcpyDtoHAsync", dst,
		func(dst unsafe.Pointer, bytes int64) error {
			return cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), bytes, s.s)
		},
		func(dst *C.uchar, bytes C.size_t) C.CUresult {
			return C.ptxrun_cu_copy_to_host(s.dev.raw, dst, C.CUdeviceptr(src), bytes, s.raw)
		})
}

// copyHost copies between the device and b: with pinned if b is page-locked
// memory, which the driver goes on to use after the call, else with paged, which
// is done with b when it returns.
func (s *stream) copyHost(op string, b []byte,
	pinned func(unsafe.Pointer, int64) error, paged func(*C.uchar, C.size_t) C.CUresult) error {
	d := s.dev
	switch {
	case len(b) == 0:
		return s.nothing(op)
	case d.host.contains(b):
		return s.do(op, func() error { return pinned(unsafe.Pointer(&b[0]), int64(len(b))) })
	}
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.leave()
	return d.fail(op, driver.Code(paged((*C.uchar)(unsafe.Pointer(&b[0])), C.size_t(len(b)))))
}

// nothing is a call of op that has nothing to do.
func (s *stream) nothing(op string) error {
	if err := s.begin(op); err != nil {
		return err
	}
	s.leave()
	return nil
}

func (s *stream) Copy(dst, src driver.Ptr, bytes int64) error {
	const op = "cuMemcpyDtoDAsync"
	switch {
	case bytes == 0:
		return s.nothing(op)
	case bytes < 0:
		return checkSize(op, bytes)
	case dst < src+driver.Ptr(bytes) && src < dst+driver.Ptr(bytes):
		return driver.Errorf(op, driver.ErrOverlap, "%d bytes from %#x to %#x", bytes, uint64(src), uint64(dst))
	}
	return s.do(op, func() error {
		return cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), bytes, s.s)
	})
}

func (s *stream) Fill(dst driver.Ptr, value byte, bytes int64) error {
	const op = "cuMemsetD8Async"
	switch {
	case bytes == 0:
		return s.nothing(op)
	case bytes < 0:
		return checkSize(op, bytes)
	}
	return s.do(op, func() error { return cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, s.s) })
}

func (s *stream) Record(e driver.Event) error {
	const op = "cuEventRecord"
	ev, err := s.dev.event(op, e)
	if err != nil {
		return err
	}
	if err := ev.begin(op); err != nil {
		return err
	}
	defer ev.leave()
	return s.do(op, func() error { return ev.e.Record(s.s) })
}

func (s *stream) Wait(e driver.Event) error {
	const op = "cuStreamWaitEvent"
	ev, err := s.dev.event(op, e)
	if err != nil {
		return err
	}
	if err := ev.begin(op); err != nil {
		return err
	}
	defer ev.leave()
	return s.do(op, func() error { return s.s.Wait(ev.e, 0) })
}

func (s *stream) Query() (bool, error) {
	return completed(s.do("cuStreamQuery", s.s.Query))
}

// completed turns the answer of a query into one.
func completed(err error) (bool, error) {
	if errors.Is(err, driver.ErrNotReady) {
		return false, nil
	}
	return err == nil, err
}

func (s *stream) Synchronize() error {
	const op = "cuStreamSynchronize"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.leave()
	if err := s.dev.call(op, s.s.Synchronize); err != nil {
		return err
	}
	return s.freeReached()
}
