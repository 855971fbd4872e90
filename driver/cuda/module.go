//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #cgo noescape ptxrun_cu_load
// #cgo nocallback ptxrun_cu_load
// #cgo noescape ptxrun_cu_param_info
// #cgo nocallback ptxrun_cu_param_info
// #include "supplement.h"
import "C"

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

// logBytes is how much of the PTX compiler's error log an error keeps.
const logBytes = 16 << 10

type module struct {
	resource
	name string
	m    cu.Module

	mu      sync.Mutex // guards kernels
	kernels map[string]*kernel
}

func (d *device) Load(img driver.Image) (driver.Module, error) {
	const op = "cuModuleLoadDataEx"
	ptx := bytes.TrimSuffix(img.PTX, []byte{0})
	if len(ptx) == 0 {
		return nil, driver.Errorf(op, driver.ErrInvalidImage, "image %q holds no PTX", img.Name)
	}
	if i := bytes.IndexByte(ptx, 0); i >= 0 {
		return nil, driver.Errorf(op, driver.ErrInvalidImage, "image %q: NUL at byte %d of the PTX", img.Name, i)
	}
	if err := d.begin(op); err != nil {
		return nil, err
	}
	defer d.leave()

	text := append(bytes.Clone(ptx), 0)
	log := make([]byte, logBytes)
	var loaded C.CUmodule
	err := d.fail(op, driver.Code(C.ptxrun_cu_load(d.raw, &loaded,
		(*C.char)(unsafe.Pointer(&text[0])), (*C.char)(unsafe.Pointer(&log[0])), logBytes)))
	if err != nil {
		e := err.(*driver.Error)
		e.Detail = fmt.Sprintf("image %q (%s)", img.Name, d.target(ptx))
		log, _, _ = bytes.Cut(log, []byte{0})
		e.Log = string(log)
		return nil, e
	}
	m := &module{
		resource: resource{dev: d, kind: "module"}, name: img.Name,
		m: *(*cu.Module)(unsafe.Pointer(&loaded)), kernels: map[string]*kernel{},
	}
	m.destroy = func() error { return d.call("cuModuleUnload", m.m.Unload) }
	d.hold(&m.resource)
	return m, nil
}

var directive = regexp.MustCompile(`(?m)^\s*\.(version|target)\s+(\S+)`)

// target says what the PTX was written for and what this device is, the two
// things that decide whether it can be loaded.
func (d *device) target(ptx []byte) string {
	var b strings.Builder
	for _, m := range directive.FindAllSubmatch(ptx, 2) {
		fmt.Fprintf(&b, ".%s %s, ", m[1], bytes.TrimRight(m[2], ","))
	}
	v := d.info.DriverVersion
	fmt.Fprintf(&b, "device sm_%d, driver for CUDA %d.%d", d.info.Capability, v/1000, v%1000/10)
	return b.String()
}

func (m *module) Kernel(name string) (driver.Kernel, error) {
	const op = "cuModuleGetFunction"
	if err := m.begin(op); err != nil {
		return nil, err
	}
	defer m.leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.kernels[name]; ok {
		return k, nil
	}
	notFound := driver.Errorf(op, driver.ErrNotFound, "kernel %q in image %q", name, m.name)
	if strings.IndexByte(name, 0) >= 0 {
		return nil, notFound
	}
	k := &kernel{mod: m, name: name}
	err := m.dev.call(op, func() (err error) {
		k.f, err = m.m.Function(name)
		return err
	})
	if err != nil {
		if err.(*driver.Error).Code == driver.ErrNotFound {
			err = notFound
		}
		return nil, err
	}
	k.raw = C.CUfunction(handle(k.f))
	if k.params, k.known, err = m.dev.params(k.raw); err != nil {
		return nil, err
	}
	m.kernels[name] = k
	return k, nil
}

// params asks the driver for a kernel's parameters. Drivers before CUDA 12.4
// cannot tell; known is false then.
func (d *device) params(f C.CUfunction) (params []driver.Param, known bool, err error) {
	for {
		var offset, size C.size_t
		code := driver.Code(C.ptxrun_cu_param_info(d.raw, f, C.size_t(len(params)), &offset, &size))
		switch code {
		case 0:
			params = append(params, driver.Param{Offset: int(offset), Size: int(size)})
		case driver.ErrInvalidValue: // there is no parameter of that index
			return params, true, nil
		case errNoSymbol, driver.ErrNotSupported:
			return nil, false, nil
		default:
			return nil, false, d.fail("cuFuncGetParamInfo", code)
		}
	}
}
