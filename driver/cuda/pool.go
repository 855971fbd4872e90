//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "supplement.h"
import "C"

import (
	"math"
	"sync"

	"github.com/ptxrun/ptxrun/driver"
	"gorgonia.org/cu"
)

// By default a device's memory pool gives its free memory back to the system at
// every synchronisation, so that each use allocates anew. While any device of
// this package is open its pool keeps the memory; the last one to close puts the
// old threshold back and empties the pool.
var pools = struct {
	sync.Mutex
	use map[cu.Device]poolUse
}{use: map[cu.Device]poolUse{}}

type poolUse struct {
	devices   int
	threshold C.cuuint64_t // as it was before
}

func retainPool(d *device) error {
	pools.Lock()
	defer pools.Unlock()
	u := pools.use[d.dev]
	if u.devices == 0 {
		if err := d.fail("cuMemPoolGetAttribute", driver.Code(C.ptxrun_cu_pool_threshold(d.raw, C.CUdevice(d.dev), &u.threshold))); err != nil {
			return err
		}
		if err := d.fail("cuMemPoolSetAttribute", driver.Code(C.ptxrun_cu_pool_set_threshold(d.raw, C.CUdevice(d.dev), math.MaxUint64))); err != nil {
			return err
		}
	}
	u.devices++
	pools.use[d.dev] = u
	return nil
}

func releasePool(d *device) error {
	pools.Lock()
	defer pools.Unlock()
	u := pools.use[d.dev]
	if u.devices--; u.devices > 0 {
		pools.use[d.dev] = u
		return nil
	}
	delete(pools.use, d.dev)
	err := d.fail("cuMemPoolSetAttribute", driver.Code(C.ptxrun_cu_pool_set_threshold(d.raw, C.CUdevice(d.dev), u.threshold)))
	if e := trimPool(d); err == nil {
		err = e
	}
	return err
}

// trimPool gives the free memory of the pool back to the system.
func trimPool(d *device) error {
	return d.fail("cuMemPoolTrimTo", driver.Code(C.ptxrun_cu_pool_trim(d.raw, C.CUdevice(d.dev))))
}
