// Package driver is the small interface between ptxrun's algorithms and the
// machines that run its kernels. Three packages implement it:
//
//   - driver/cuda: an NVIDIA GPU through the CUDA Driver API (build tag cuda);
//   - driver/cpu: host memory, each kernel's Go twin over all cores;
//   - driver/emu: host memory, the embedded PTX executed by an emulator.
//
// The code above this package is the same for all three. All sizes are bytes
// and 64 bits wide. Every method is safe for concurrent use by goroutines
// unless it says otherwise, and every failure is a [*Error].
package driver

// Kinds of device, as in [Info.Kind] and in PTXRUN_DEVICE.
const (
	KindCUDA = "cuda"
	KindCPU  = "cpu"
	KindEmu  = "emu"
)

// Ptr is an address in a device's memory. Zero is no memory. Arithmetic on it
// is in bytes.
type Ptr uint64

// Dim3 is the size of a grid in blocks, or of a block in threads.
// The zero value of a field is an error at launch, not 1; use [D1].
type Dim3 struct{ X, Y, Z uint32 }

// D1 is a one-dimensional Dim3.
func D1(x uint32) Dim3 { return Dim3{x, 1, 1} }

// Count is the number of blocks or threads in d, modulo 2^64: exact for what fits a
// device.
func (d Dim3) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// Empty reports whether d is of no blocks or threads.
func (d Dim3) Empty() bool { return d.X == 0 || d.Y == 0 || d.Z == 0 }

// FitsGrid reports whether CUDA devices have grids as large as d.
func (d Dim3) FitsGrid() bool { return d.X <= 1<<31-1 && d.Y <= 65535 && d.Z <= 65535 }

// FitsBlock reports whether CUDA devices have blocks as large as d.
func (d Dim3) FitsBlock() bool { return d.X <= 1024 && d.Y <= 1024 && d.Z <= 64 && d.Count() <= 1024 }

// Info describes a device. It does not change while the device is open.
type Info struct {
	Kind    string // KindCUDA, KindCPU or KindEmu
	Ordinal int    // which of its kind
	Name    string // as the driver or the system reports it

	// Capability is the compute capability times ten (sm_90 is 90). On the
	// emulator it is the variant that it executes; on the cpu device, zero.
	Capability int

	Multiprocessors    int   // streaming multiprocessors; cores on host devices
	WarpSize           int   // threads in a warp
	MaxThreadsPerBlock int   // launch limit
	MaxGridX           int64 // launch limit of grid.x
	SharedPerBlock     int64 // bytes a block gets without asking
	SharedPerBlockMax  int64 // bytes a block gets after Kernel.SetMaxDynamicShared
	L2                 int64 // bytes of level-2 cache, 0 if unknown
	TotalMemory        int64 // bytes
	DriverVersion      int   // CUDA driver API version, 13000 is 13.0; 0 on host devices
	StreamOrderedAlloc bool  // Stream.Alloc is done by the driver's memory pool
}

// Device is one open device: memory, streams, events and modules.
//
// Close releases whatever is still held on the device, waits for work in
// flight first, and makes every later call on it or on its streams, events,
// modules and kernels return ErrClosed.
type Device interface {
	Info() Info

	// MemInfo returns free and total bytes of device memory.
	MemInfo() (free, total int64, err error)

	// Alloc returns bytes of device memory aligned to at least 256 bytes.
	// The contents are undefined. bytes must be positive.
	Alloc(bytes int64) (Ptr, error)
	// Free releases what Alloc returned, waiting for work that uses it.
	Free(p Ptr) error

	// AllocHost returns page-locked host memory that kernels can also read
	// and write, at HostMemory.Ptr, without a copy.
	AllocHost(bytes int64) (HostMemory, error)
	// FreeHost releases what AllocHost returned. No work may be using it.
	FreeHost(m HostMemory) error

	// NewStream returns a stream that does not order itself with any other.
	NewStream() (Stream, error)
	// NewEvent returns an event; with timing, Event.Since works on it.
	NewEvent(timing bool) (Event, error)

	// Load makes an image's kernels ready to run on the device.
	Load(img Image) (Module, error)

	Close() error
}

// HostMemory is page-locked host memory mapped into a device's addresses.
type HostMemory struct {
	Bytes []byte // on the host
	Ptr   Ptr    // the same memory, as kernels see it
}

// Stream runs the work given to it in order, asynchronously to the host and
// to other streams.
//
// Errors of work that was accepted but failed later are returned by the next
// call on the stream that can see them, at the latest by Synchronize.
type Stream interface {
	// Alloc and Free are stream-ordered: the memory is valid for work given
	// to this stream between the two calls. Devices without memory pools
	// allocate at once and free when the stream has got there.
	Alloc(bytes int64) (Ptr, error)
	Free(p Ptr) error

	// CopyToDevice copies len(src) bytes. If src is memory of
	// Device.AllocHost the copy is asynchronous and src must stay unchanged
	// until it is done; any other src may be reused when the call returns.
	CopyToDevice(dst Ptr, src []byte) error
	// CopyToHost copies len(dst) bytes. If dst is memory of Device.AllocHost
	// the copy is asynchronous; any other dst is complete when the call
	// returns, which then includes waiting for the stream's earlier work.
	CopyToHost(dst []byte, src Ptr) error
	// Copy copies between device addresses. Ranges must not overlap.
	Copy(dst, src Ptr, bytes int64) error
	// Fill sets bytes to value.
	Fill(dst Ptr, value byte, bytes int64) error

	// Launch runs a kernel. The arguments are copied before it returns.
	Launch(k Kernel, c Config, a *Args) error

	// Record makes e complete when the stream's earlier work is.
	Record(e Event) error
	// Wait holds the stream's later work until e, as last recorded, is
	// complete. An event never recorded holds nothing.
	Wait(e Event) error

	// Query reports whether everything given to the stream is complete.
	Query() (bool, error)
	// Synchronize blocks until it is.
	Synchronize() error

	// Close releases the stream after the work given to it.
	Close() error
}

// Event marks a point in a stream.
type Event interface {
	// Query reports whether the point is reached. An event never recorded
	// counts as reached.
	Query() (bool, error)
	Synchronize() error
	// Since returns the milliseconds between start and this event; both were
	// made with timing and both are complete.
	Since(start Event) (float64, error)
	Close() error
}

// Image is loadable code under two forms of one meaning: PTX text for devices
// that execute PTX, and Go twins for the cpu device. A device uses the form it
// needs and refuses an image that lacks it.
type Image struct {
	Name  string          // for errors: a file or module name
	PTX   []byte          // PTX source; a trailing NUL is not needed
	Twins map[string]Twin // kernel name to its Go twin
}

// Module is a loaded image.
type Module interface {
	// Kernel finds an entry by name; ErrNotFound if there is none.
	Kernel(name string) (Kernel, error)
	// Close unloads it. No kernel of it may be running.
	Close() error
}

// Kernel is an entry of a module, valid until the module or device is closed.
type Kernel interface {
	Name() string
	Attributes() (KernelAttributes, error)
	// Occupancy returns how many blocks of the given threads and bytes of
	// dynamic shared memory a multiprocessor holds at a time.
	Occupancy(threads int, dynamicShared int64) (int, error)
	// SetMaxDynamicShared allows launches with up to bytes of dynamic shared
	// memory, at most Info.SharedPerBlockMax less the static part.
	SetMaxDynamicShared(bytes int64) error
}

// KernelAttributes are a compiled kernel's needs and limits.
type KernelAttributes struct {
	MaxThreads    int   // per block
	Registers     int   // per thread
	SharedStatic  int64 // bytes per block
	Local         int64 // bytes per thread
	Const         int64 // bytes
	PTXVersion    int   // architecture of the PTX times ten: 70 is sm_70
	BinaryVersion int   // architecture of the machine code times ten
}

// Config is the shape of a launch.
type Config struct {
	Grid, Block Dim3
	Shared      int64 // bytes of dynamic shared memory
	N           int64 // the problem's size, for error messages; not used otherwise
}
