package hostdev

import "github.com/ptxrun/ptxrun/driver"

// Backend runs kernels on the memory of a [Space]. Its methods are called by
// several goroutines at a time.
type Backend interface {
	// Load makes the kernels of img ready. Memory for the module's variables
	// comes from space with [ForModule], and is freed by the module's Close.
	Load(img driver.Image, space *Space) (Module, error)
}

// Module is a backend's side of a loaded image.
type Module interface {
	// Kernel returns the entry of that name, or nil.
	Kernel(name string) Kernel
	// Close releases what Load took. None of the kernels is running.
	Close() error
}

// Kernel is a backend's side of an entry.
type Kernel interface {
	Attributes() driver.KernelAttributes
	// Params is where each parameter lies in the block, or nil if the backend
	// does not know; a launch whose arguments differ is refused.
	Params() []driver.Param
	// Occupancy is how many blocks of a launch that is within the limits a
	// multiprocessor holds.
	Occupancy(threads int, dynamicShared int64) int
	// Run executes one launch and returns when it is complete. The shape is
	// within the limits, and args is not used afterwards. A panic becomes the
	// launch's error; kernel, grid, block and n are added to errors that lack
	// them.
	Run(cfg driver.Config, args *driver.Args) error
}

// Observer is a Backend that follows the contents of memory, as a check for
// uninitialised reads does.
type Observer interface {
	// Wrote is called after a copy or a fill has written [dst, dst+bytes). src
	// is the device memory that it was copied from, or 0.
	Wrote(dst, src driver.Ptr, bytes int64)
}
