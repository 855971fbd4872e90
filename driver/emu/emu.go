// Package emu is a device that executes PTX without a GPU: the very text that a
// GPU's driver would compile. It is for testing kernels, the project's own and
// others. Correct results, checked memory and the detection of hangs come
// before speed.
//
// # What is executed
//
// PTX as clang and nvcc write it, for sm_70 to the capability given to [Open].
// An instruction that the emulator does not know is an error of Load that names
// it and its line. Texture, surface, tensor core and cluster instructions are
// not known.
//
// # What is checked
//
// Always: every access of every memory space for bounds and alignment, use
// after free, a barrier that part of a block has returned before, a shuffle from a
// lane that takes no part, and a launch in which nothing can move any more. On
// request, by an option or the environment variable PTXRUN_EMU: data races and
// reads of memory that nothing wrote. A failed check is the launch's error, a
// *driver.Error that names the kernel, line, block and thread.
//
// # Differences from a GPU
//
// Memory is sequentially consistent, so that a missing fence has no effect but
// in the check for races. Threads of a block never run at the same time.
// Approximate functions (sin.approx and its like) are computed in double
// precision and rounded, so that they differ from a GPU's in the last bits.
package emu

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// EnvChecks is the environment variable that turns on checks in every emulator
// of the process: a comma-separated list of race, init and profile, as
// [WithRaceCheck], [WithInitCheck] and [WithProfile].
const EnvChecks = "PTXRUN_EMU"

// Option changes what [Open] does.
type Option func(*options)

type options struct {
	capability int
	workers    int
	patience   time.Duration
	checks     checks
	memory     []hostdev.Option
}

// checks are those that can be turned on and off.
type checks struct {
	sync, race, init, profile bool
}

// WithCapability sets the compute capability times ten: 70, 75, 80, 86, 87, 89 or
// 90, which is the default. It decides which PTX the device takes, and by
// [driver.Info.Capability] which of a program's variants is run.
func WithCapability(n int) Option { return func(o *options) { o.capability = n } }

// WithWorkers sets how many blocks run at a time. The default is the number of
// cores.
func WithWorkers(n int) Option { return func(o *options) { o.workers = n } }

// WithRaceCheck reports conflicting accesses of one place, not both atomic,
// volatile or otherwise strong: in shared memory by threads of a block with no
// barrier between them, in global memory by different blocks without a fence and
// an atomic or strong access between them.
func WithRaceCheck() Option { return func(o *options) { o.checks.race = true } }

// WithInitCheck reports the use of what was read from global or shared memory
// that nothing wrote: as an address, a condition, in an atomic or a vote, or to
// be stored in global memory by a weak store. Reading alone is no error.
// Page-locked host memory counts as written.
func WithInitCheck() Option { return func(o *options) { o.checks.init = true } }

// WithProfile counts instructions and memory traffic for [Device.Profile].
func WithProfile() Option { return func(o *options) { o.checks.profile = true } }

// WithoutSyncCheck turns off the checks of barriers and shuffles: threads that
// have ended count as having come to every barrier, as on a GPU, and a shuffle
// from a lane that takes no part reads what is in its register.
func WithoutSyncCheck() Option { return func(o *options) { o.checks.sync = false } }

// WithPatience sets for how long a launch may stand still, every thread waiting
// for memory to change, before it is an ErrHang. The host or another stream
// could still change it. The default is two seconds.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithMemoryLimit sets the bytes that allocations may hold together. The
// default is three quarters of the machine's memory.
func WithMemoryLimit(bytes int64) Option {
	return func(o *options) { o.memory = append(o.memory, hostdev.WithLimit(bytes)) }
}

// WithMemoryChecks fills new and freed memory with a pattern and keeps the place
// of each allocation, for the report of leaks and faults.
func WithMemoryChecks() Option {
	return func(o *options) { o.memory = append(o.memory, hostdev.WithPoison(), hostdev.WithSites()) }
}

// sharedPerBlock is the most shared memory a block can have, by capability.
var sharedPerBlock = map[int]int64{
	70: 96 << 10, 75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10,
}

// Limits of a multiprocessor, for Occupancy.
const (
	threadsPerSM = 2048
	blocksPerSM  = 32
)

// Device is an emulated GPU.
type Device struct {
	*hostdev.Device
	backend *backend
}

var _ driver.Device = (*Device)(nil)

// Open returns a new device with memory, streams and modules of its own. Its
// dynamic type is [*Device].
//
// Errors: ErrInvalidValue for options or environment variables that make no
// sense.
func Open(opts ...Option) (driver.Device, error) {
	o := options{capability: 90, workers: runtime.GOMAXPROCS(0), patience: 2 * time.Second, checks: checks{sync: true}}
	for word := range strings.SplitSeq(os.Getenv(EnvChecks), ",") {
		switch strings.TrimSpace(word) {
		case "":
		case "race":
			o.checks.race = true
		case "init":
			o.checks.init = true
		case "profile":
			o.checks.profile = true
		default:
			return nil, driver.Errorf("Open", driver.ErrInvalidValue, "%s: %q is none of race, init, profile", EnvChecks, word)
		}
	}
	for _, opt := range opts {
		opt(&o)
	}
	shared, ok := sharedPerBlock[o.capability]
	if !ok {
		return nil, driver.Errorf("Open", driver.ErrInvalidValue, "a compute capability of %d; known are 70, 80 and 90", o.capability)
	}
	if o.workers < 1 || o.patience < 0 {
		return nil, driver.Errorf("Open", driver.ErrInvalidValue, "%d workers, a patience of %v", o.workers, o.patience)
	}
	b := &backend{options: o, profiles: map[string]*Profile{}}
	d, err := hostdev.New(driver.Info{
		Kind:               driver.KindEmu,
		Name:               "PTX emulator",
		Capability:         o.capability,
		Multiprocessors:    o.workers,
		WarpSize:           32,
		MaxThreadsPerBlock: 1024,
		MaxGridX:           1<<31 - 1,
		SharedPerBlock:     48 << 10,
		SharedPerBlockMax:  shared,
		TotalMemory:        hostdev.TotalMemory(),
	}, b, o.memory...)
	if err != nil {
		return nil, err
	}
	b.space = d.Space()
	return &Device{d, b}, nil
}

// backend executes kernels for hostdev.
type backend struct {
	options
	space *hostdev.Space
	epoch atomic.Uint64 // see launch
	grids atomic.Uint64

	mu       sync.Mutex
	profiles map[string]*Profile
}

var (
	_ hostdev.Backend  = (*backend)(nil)
	_ hostdev.Observer = (*backend)(nil)
)

func (b *backend) Load(img driver.Image, space *hostdev.Space) (hostdev.Module, error) {
	if len(img.PTX) == 0 {
		return nil, driver.Errorf("Load", driver.ErrInvalidImage, "%s has no PTX, which is what the emulator runs", img.Name)
	}
	p, globals, err := load(img, space, b.capability)
	if err != nil {
		return nil, err
	}
	if b.checks.init {
		for _, g := range globals {
			markWritten(g, uint64(g.Base()), uint64(g.Size()))
		}
	}
	return &module{b, p, globals}, nil
}

// Wrote implements [hostdev.Observer].
func (b *backend) Wrote(dst, src driver.Ptr, bytes int64) {
	b.epoch.Add(1)
	if b.checks.init {
		b.copied(uint64(dst), uint64(src), uint64(bytes))
	}
}

// module is a loaded program and its variables.
type module struct {
	backend *backend
	program *program
	globals []*hostdev.Allocation
}

func (m *module) Kernel(name string) hostdev.Kernel {
	fn := m.program.entries[name]
	if fn == nil {
		return nil
	}
	return &kernel{m, fn}
}

func (m *module) Close() error {
	var first error
	for _, g := range m.globals {
		if err := m.backend.space.Free("Module.Close", g.Base(), hostdev.ForModule); err != nil && first == nil {
			first = err
		}
	}
	m.globals = nil
	return first
}

type kernel struct {
	module *module
	fn     *function
}

func (k *kernel) Attributes() driver.KernelAttributes {
	f := k.fn
	most := 1024
	if f.maxThreads > 0 {
		most = min(most, f.maxThreads)
	}
	if f.reqThreads[0] > 0 {
		most = min(most, int(f.reqThreads[0]*f.reqThreads[1]*f.reqThreads[2]))
	}
	return driver.KernelAttributes{
		MaxThreads:    most,
		Registers:     int(f.registers),
		SharedStatic:  f.shared,
		Local:         int64(f.local),
		Const:         int64(len(k.module.program.constant)),
		PTXVersion:    k.module.program.version,
		BinaryVersion: k.module.backend.capability,
	}
}

func (k *kernel) Params() []driver.Param {
	if k.fn.layout == nil {
		return []driver.Param{}
	}
	return k.fn.layout
}

func (k *kernel) Occupancy(threads int, dynamicShared int64) int {
	n := min(blocksPerSM, threadsPerSM/(int(alignUp(int64(threads), 32))))
	if shared := k.fn.shared + dynamicShared; shared > 0 {
		n = min(n, int(sharedPerBlock[k.module.backend.capability]/shared))
	}
	return n
}

// maxResidentBytes bounds the contexts of blocks that have begun.
const maxResidentBytes = 512 << 20

func (k *kernel) Run(c driver.Config, args *driver.Args) error {
	b, f := k.module.backend, k.fn
	if want := f.reqThreads; want[0] > 0 && want != [3]uint32{c.Block.X, c.Block.Y, c.Block.Z} {
		return driver.Errorf("Launch", driver.ErrInvalidValue, "the kernel is compiled for blocks of %d×%d×%d threads", want[0], want[1], want[2])
	}
	l := &launch{
		device:      b,
		space:       b.space,
		program:     k.module.program,
		kernel:      f,
		config:      c,
		params:      newMemory(int(f.paramBytes)),
		checks:      b.checks,
		sharedBytes: alignUp(f.shared, k.module.program.dynamicAlign) + c.Shared,
		total:       c.Grid.Count(),
		epoch:       &b.epoch,
	}
	copy(l.params, args.Buffer())
	warps := (int64(c.Block.Count()) + 31) / 32
	size := l.sharedBytes + warps*(int64(f.registers)*256+int64(f.local)*32+4096)
	// All blocks that a program may count on to run together must fit.
	l.resident = max(b.workers*blocksPerSM, int(maxResidentBytes/size))
	l.bind(b.grids.Add(1))
	if b.checks.race {
		l.races = newGlobalRaces()
	}
	if b.checks.profile {
		l.profile = newCounts(len(l.program.code))
	}
	err := l.run()
	if b.checks.profile {
		b.record(k, l)
	}
	return err
}

// bind computes the operands that all threads of the launch share.
func (l *launch) bind(grid uint64) {
	l.extra = make([]lanes, len(l.program.extra))
	c := l.config
	base := uint64(l.sharedBytes - c.Shared)
	for i, e := range l.program.extra {
		v := e.value
		switch e.special {
		case specialNtidX:
			v = uint64(c.Block.X)
		case specialNtidY:
			v = uint64(c.Block.Y)
		case specialNtidZ:
			v = uint64(c.Block.Z)
		case specialNctaidX:
			v = uint64(c.Grid.X)
		case specialNctaidY:
			v = uint64(c.Grid.Y)
		case specialNctaidZ:
			v = uint64(c.Grid.Z)
		case specialWarps:
			v = (c.Block.Count() + 31) / 32
		case specialSMs:
			v = uint64(l.device.workers)
		case specialGrid:
			v = grid
		case specialDynamicShared:
			v = uint64(c.Shared)
		case specialTotalShared:
			v = uint64(l.sharedBytes)
		case specialDynamicBase:
			v = base
		case specialOne:
			v = 1
		}
		fill(&l.extra[i], v)
	}
}
