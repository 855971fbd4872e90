//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #cgo noescape ptxrun_cu_launch
// #cgo nocallback ptxrun_cu_launch
// #include "supplement.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

type kernel struct {
	mod    *module
	name   string
	f      cu.Function
	raw    C.CUfunction
	params []driver.Param
	known  bool // params is what the driver says
}

func (k *kernel) Name() string { return k.name }

// named adds the kernel to an error.
func (k *kernel) named(err error) error {
	if e, ok := err.(*driver.Error); ok {
		e.Kernel = k.name
	}
	return err
}

func (k *kernel) do(op string, f func() error) error {
	if err := k.mod.begin(op); err != nil {
		return k.named(err)
	}
	defer k.mod.leave()
	return k.named(k.mod.dev.call(op, f))
}

func (k *kernel) Attributes() (a driver.KernelAttributes, err error) {
	err = k.do("cuFuncGetAttribute", func() (err error) {
		read := func(attribute cu.FunctionAttribute) (v int) {
			if err == nil {
				v, err = k.f.Attribute(attribute)
			}
			return v
		}
		a = driver.KernelAttributes{
			MaxThreads:    read(cu.FnMaxThreadsPerBlock),
			Registers:     read(cu.NumRegs),
			SharedStatic:  int64(read(cu.SharedSizeBytes)),
			Local:         int64(read(cu.LocalSizeBytes)),
			Const:         int64(read(cu.ConstSizeBytes)),
			PTXVersion:    read(cu.PtxVersion),
			BinaryVersion: read(cu.BinaryVersion),
		}
		return err
	})
	if err != nil {
		a = driver.KernelAttributes{}
	}
	return a, err
}

func (k *kernel) Occupancy(threads int, dynamicShared int64) (blocks int, err error) {
	const op = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	if threads <= 0 || threads > math.MaxInt32 || dynamicShared < 0 {
		return 0, k.named(driver.Errorf(op, driver.ErrInvalidValue, "%d threads, %d bytes of dynamic shared memory", threads, dynamicShared))
	}
	err = k.do(op, func() (err error) {
		blocks, err = k.f.MaxActiveBlocksPerMultiProcessor(threads, dynamicShared)
		return err
	})
	return blocks, err
}

func (k *kernel) SetMaxDynamicShared(bytes int64) error {
	const op = "cuFuncSetAttribute"
	if bytes < 0 {
		return k.named(driver.Errorf(op, driver.ErrInvalidValue, "%d bytes of dynamic shared memory", bytes))
	}
	a, err := k.Attributes()
	if err != nil {
		return err
	}
	if limit := k.mod.dev.info.SharedPerBlockMax - a.SharedStatic; bytes > limit {
		return k.named(driver.Errorf(op, driver.ErrTooLarge, "%d bytes of dynamic shared memory, of at most %d", bytes, limit))
	}
	if err := k.mod.begin(op); err != nil {
		return k.named(err)
	}
	defer k.mod.leave()
	d := k.mod.dev
	return k.named(d.fail(op, driver.Code(C.ptxrun_cu_set_attribute(d.raw, k.raw,
		C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))))
}

const launchOp = "cuLaunchKernel"

// Launch makes one call into C, which allocates nothing.
func (s *stream) Launch(kern driver.Kernel, c driver.Config, a *driver.Args) error {
	k, ok := kern.(*kernel)
	switch {
	case kern == nil || ok && k == nil:
		return launchError("", c, driver.ErrNil, "the kernel")
	case !ok || k.mod.dev != s.dev:
		return launchError(kern.Name(), c, driver.ErrWrongDevice, "the kernel")
	case a == nil:
		return launchError(k.name, c, driver.ErrNil, "the arguments")
	case hasZero(c.Grid) || hasZero(c.Block):
		return launchError(k.name, c, driver.ErrInvalidValue, fmt.Sprintf("a zero in grid %v or block %v", c.Grid, c.Block))
	case c.Shared < 0 || c.Shared > math.MaxUint32:
		return launchError(k.name, c, driver.ErrInvalidValue, fmt.Sprintf("%d bytes of dynamic shared memory", c.Shared))
	case k.known && !slices.Equal(k.params, a.Params()):
		return launchError(k.name, c, driver.ErrArguments, mismatch(k.params, a.Params()))
	}
	if err := s.begin(launchOp); err != nil {
		return describeLaunch(err, k.name, c)
	}
	defer s.leave()
	if err := k.mod.begin(launchOp); err != nil {
		return describeLaunch(err, k.name, c)
	}
	defer k.mod.leave()

	shape := C.ptxrun_shape{
		grid:   [3]C.uint{C.uint(c.Grid.X), C.uint(c.Grid.Y), C.uint(c.Grid.Z)},
		block:  [3]C.uint{C.uint(c.Block.X), C.uint(c.Block.Y), C.uint(c.Block.Z)},
		shared: C.uint(c.Shared),
	}
	block := a.Buffer()
	code := driver.Code(C.ptxrun_cu_launch(s.dev.raw, k.raw, shape, s.raw,
		(*C.uchar)(unsafe.Pointer(unsafe.SliceData(block))), C.size_t(len(block))))
	if code == 0 {
		return nil
	}
	return describeLaunch(s.dev.fail(launchOp, code), k.name, c)
}

func hasZero(d driver.Dim3) bool { return d.X == 0 || d.Y == 0 || d.Z == 0 }

func launchError(kernel string, c driver.Config, code driver.Code, detail string) error {
	return describeLaunch(&driver.Error{Op: launchOp, Code: code, Detail: detail}, kernel, c)
}

func describeLaunch(err error, kernel string, c driver.Config) error {
	e := err.(*driver.Error)
	e.Kernel, e.Grid, e.Block, e.N = kernel, c.Grid, c.Block, c.N
	return e
}

// mismatch says where arguments differ from a kernel's parameters.
func mismatch(want, got []driver.Param) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d arguments for %d parameters", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("argument %d has %d bytes at offset %d, the parameter %d at %d",
				i, got[i].Size, got[i].Offset, want[i].Size, want[i].Offset)
		}
	}
	return ""
}
