package hostdev

import (
	"errors"
	"sync/atomic"

	"github.com/ptxrun/ptxrun/driver"
)

// kernel is an entry of a module.
type kernel struct {
	module     *module
	name       string
	entry      Kernel
	attributes driver.KernelAttributes
	params     []driver.Param
	maxDynamic atomic.Int64 // bytes SetMaxDynamicShared has allowed
}

func (k *kernel) Name() string { return k.name }

func (k *kernel) Attributes() (driver.KernelAttributes, error) {
	return k.attributes, k.module.usable("Attributes")
}

func (k *kernel) maxThreads() int {
	n := k.module.dev.info.MaxThreadsPerBlock
	if a := k.attributes.MaxThreads; a > 0 {
		n = min(n, a)
	}
	return n
}

// dynamicShared is the most that a launch may ask for.
func (k *kernel) dynamicShared() int64 {
	return max(k.maxDynamic.Load(), k.module.dev.info.SharedPerBlock-k.attributes.SharedStatic)
}

func (k *kernel) Occupancy(threads int, dynamicShared int64) (int, error) {
	const name = "Occupancy"
	if err := k.module.usable(name); err != nil {
		return 0, err
	}
	if threads <= 0 || dynamicShared < 0 {
		return 0, k.errorf(name, driver.ErrInvalidValue, "%d threads, %d bytes of shared memory", threads, dynamicShared)
	}
	if threads > k.maxThreads() || dynamicShared > k.dynamicShared() {
		return 0, nil
	}
	return k.entry.Occupancy(threads, dynamicShared), nil
}

func (k *kernel) SetMaxDynamicShared(bytes int64) error {
	const name = "SetMaxDynamicShared"
	if err := k.module.usable(name); err != nil {
		return err
	}
	if bytes < 0 {
		return k.errorf(name, driver.ErrInvalidValue, "%d bytes", bytes)
	}
	if most := k.module.dev.info.SharedPerBlockMax - k.attributes.SharedStatic; bytes > most {
		return k.errorf(name, driver.ErrTooLarge, "%d bytes; the most is %d", bytes, most)
	}
	k.maxDynamic.Store(bytes)
	return nil
}

func (k *kernel) errorf(op string, code driver.Code, format string, args ...any) *driver.Error {
	e := driver.Errorf(op, code, format, args...)
	e.Kernel = k.name
	return e
}

// launchable checks everything about a launch but its memory.
func (d *Device) launchable(dk driver.Kernel, c driver.Config, a *driver.Args) (*kernel, error) {
	k, ok := dk.(*kernel)
	switch {
	case dk == nil || ok && k == nil:
		return nil, driver.Errorf("Launch", driver.ErrNil, "kernel")
	case !ok || k.module.dev != d:
		return nil, driver.Errorf("Launch", driver.ErrWrongDevice, "kernel %s", dk.Name())
	}
	if err := k.module.usable("Launch"); err != nil {
		return nil, err
	}
	refuse := func(code driver.Code, format string, args ...any) error {
		e := k.errorf("Launch", code, format, args...)
		e.Grid, e.Block, e.N = c.Grid, c.Block, c.N
		return e
	}
	g, b := c.Grid, c.Block
	switch {
	case a == nil:
		return nil, refuse(driver.ErrNil, "arguments")
	case g.Empty():
		return nil, refuse(driver.ErrInvalidValue, "a grid of no blocks")
	case b.Empty():
		return nil, refuse(driver.ErrInvalidValue, "a block of no threads")
	case !g.FitsGrid():
		return nil, refuse(driver.ErrInvalidValue, "the grid is larger than 2147483647×65535×65535")
	case !b.FitsBlock():
		return nil, refuse(driver.ErrInvalidValue, "the block has more than 1024 threads, or more than 64 in z")
	case b.Count() > uint64(k.maxThreads()):
		return nil, refuse(driver.ErrLaunchResources, "the kernel is compiled for at most %d threads a block", k.maxThreads())
	case c.Shared < 0 || c.Shared > k.dynamicShared():
		return nil, refuse(driver.ErrInvalidValue, "%d bytes of dynamic shared memory; at most %d are allowed", c.Shared, k.dynamicShared())
	}
	if k.params != nil {
		given := a.Params()
		if len(given) != len(k.params) {
			return nil, refuse(driver.ErrArguments, "%d arguments for %d parameters", len(given), len(k.params))
		}
		for i, p := range k.params {
			if given[i] != p {
				return nil, refuse(driver.ErrArguments, "argument %d has %d bytes at offset %d, the parameter %d at %d",
					i, given[i].Size, given[i].Offset, p.Size, p.Offset)
			}
		}
	}
	return k, nil
}

// launch runs the kernel and says in its error which launch it was.
func (k *kernel) launch(c driver.Config, a *driver.Args) error {
	err := k.run(c, a)
	if err == nil {
		return nil
	}
	return k.failure(c, err)
}

// failure is err, of that launch of the kernel.
func (k *kernel) failure(c driver.Config, err error) error {
	e := driver.Error{Op: "Launch", Code: driver.ErrLaunchFailed, Detail: err.Error()}
	if de, ok := errors.AsType[*driver.Error](err); ok {
		e = *de
		e.Op = "Launch"
	}
	e.Kernel = k.name
	if e.Grid == (driver.Dim3{}) {
		e.Grid, e.Block = c.Grid, c.Block
	}
	if e.N == 0 {
		e.N = c.N
	}
	return &e
}

func (k *kernel) run(c driver.Config, a *driver.Args) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = AsPanic(v)
		}
	}()
	return k.entry.Run(c, a)
}
