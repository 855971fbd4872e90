// Package cpu is the device of a machine without a GPU: its memory is host
// memory, and a launch runs the kernel's Go twin over all cores.
package cpu

import (
	"runtime"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// Option changes what [Open] does.
type Option = hostdev.Option

// WithMemoryLimit sets the bytes that allocations may hold together. The
// default is three quarters of the machine's memory.
func WithMemoryLimit(bytes int64) Option { return hostdev.WithLimit(bytes) }

// WithMemoryChecks fills new and freed memory with a pattern and keeps the
// place of each allocation for the report of leaks. PTXRUN_MEMORY=poison,sites
// does the same for every host device of the process.
func WithMemoryChecks() Option {
	return hostdev.Options(hostdev.WithPoison(), hostdev.WithSites())
}

// Open returns a new device with memory, streams and modules of its own. The
// launch limits are those that every GPU has, so that what runs here is not
// refused there.
//
// Errors: ErrInvalidValue for an option or a PTXRUN_MEMORY that makes no sense.
func Open(opts ...Option) (driver.Device, error) {
	d, err := hostdev.New(driver.Info{
		Kind:               driver.KindCPU,
		Name:               processor(),
		Multiprocessors:    runtime.GOMAXPROCS(0),
		WarpSize:           32,
		MaxThreadsPerBlock: 1024,
		MaxGridX:           1<<31 - 1,
		SharedPerBlock:     48 << 10,
		SharedPerBlockMax:  96 << 10, // as the least of the GPUs that the kernels are made for; twins take none
		TotalMemory:        hostdev.TotalMemory(),
	}, backend{}, opts...)
	if err != nil {
		return nil, err // and not d, a nil pointer that is no nil interface
	}
	return d, nil
}
