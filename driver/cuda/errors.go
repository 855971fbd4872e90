//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "library.h"
import "C"

import (
	"reflect"

	"github.com/ptxrun/ptxrun/driver"
)

// Codes that only this package sees: a slot without a library, without a symbol.
const (
	errNoLibrary driver.Code = C.CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
	errNoSymbol  driver.Code = C.CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
)

// codeOf returns the CUresult in an error of the binding, whose type for it is
// not exported: an integer.
func codeOf(err error) driver.Code {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return driver.Code(v.Int())
	}
	return driver.ErrUnknown
}

// failure makes the error of a driver call that returned code, nil for 0.
func failure(op string, code driver.Code) error {
	switch code {
	case 0:
		return nil
	case errNoLibrary:
		return driver.Errorf(op, driver.ErrNoDriver, "%s", C.GoString(C.ptxrun_cu_load_error()))
	case errNoSymbol:
		return driver.Errorf(op, driver.ErrNotSupported, "the driver library has no such function; a newer NVIDIA driver has it")
	case C.CUDA_ERROR_STUB_LIBRARY:
		return driver.Errorf(op, driver.ErrNoDriver, "the library found is the CUDA toolkit's stub, which is there to link with; install the NVIDIA driver")
	case driver.ErrNoDevice:
		return driver.Errorf(op, code, "the driver library is there, but it sees no GPU (is one hidden by CUDA_VISIBLE_DEVICES?)")
	}
	return &driver.Error{Op: op, Code: code}
}

// losesContext tells the codes after which every call in the context fails.
func losesContext(c driver.Code) bool {
	switch c {
	case C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		driver.ErrIllegalAddress, driver.ErrLaunchTimeout, driver.ErrAssert,
		driver.ErrIllegalInstr, driver.ErrMisaligned, driver.ErrLaunchFailed:
		return true
	}
	return false
}

// fail is failure for a call in d's context. It remembers that the context was
// lost, so that the errors that follow from it say so.
func (d *device) fail(op string, code driver.Code) error {
	if code == 0 {
		return nil
	}
	err := failure(op, code)
	if losesContext(code) {
		err.(*driver.Error).Detail = "the GPU is lost to this process, which must be started anew"
		if !d.lost.CompareAndSwap(nil, &op) {
			err.(*driver.Error).Detail = "the context was lost before, as " + *d.lost.Load() + " reported; start the process anew"
		}
	}
	return err
}
