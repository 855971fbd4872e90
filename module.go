package ptxrun

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// Module is PTX of the caller's own, loaded on a runtime's device.
type Module struct {
	rt    *Runtime
	name  string
	file  *ast.File
	hash  [sha256.Size]byte
	mod   driver.Module
	twins map[string]driver.Twin
	// wanted are the kernels whose aggregated entries are loaded with the module,
	// beside those entries.
	wanted []string
	beside map[string]*aggregate.Entry
}

// ModuleOption changes what [Runtime.LoadModule] does.
type ModuleOption func(*Module)

// WithModuleName sets the module's name in errors, which is PTX otherwise.
func WithModuleName(name string) ModuleOption { return func(m *Module) { m.name = name } }

// WithTwin gives the Go form of an entry, which the cpu device runs in its place.
func WithTwin(kernel string, twin driver.Twin) ModuleOption {
	return func(m *Module) { m.twins[kernel] = twin }
}

// WithAggregated loads the aggregated form of kernels with the module, for
// [Runtime.Aggregate], which otherwise loads it as a module of its own. A module
// with variables in global memory needs it, so that both forms see the same.
func WithAggregated(kernels ...string) ModuleOption {
	return func(m *Module) { m.wanted = append(m.wanted, kernels...) }
}

// LoadModule loads a caller's PTX. Parameters are read from it on every device;
// the cpu device runs the twins given by [WithTwin], and refuses a module that has
// none.
//
// Errors: ErrInvalidPTX with the line; ErrNotFound for a twin of what is no entry;
// ErrNotSupported with the line and the reason for a kernel of WithAggregated that
// cannot be aggregated; ErrInvalidImage, ErrNil, ErrClosed, and the driver's own for
// PTX that it does not take.
func (rt *Runtime) LoadModule(text []byte, opts ...ModuleOption) (*Module, error) {
	const op = "Runtime.LoadModule"
	if err := rt.begin(op); err != nil {
		return nil, err
	}
	defer rt.end()
	m := &Module{rt: rt, name: "PTX", hash: sha256.Sum256(text), twins: map[string]driver.Twin{}}
	for _, o := range opts {
		if o == nil {
			return nil, driver.Errorf(op, driver.ErrNil, "option")
		}
		o(m)
	}
	if len(text) == 0 {
		return nil, driver.Errorf(op, driver.ErrNil, "%s is empty", m.name)
	}
	var err error
	if m.file, err = ast.Parse(m.name, text); err != nil {
		return nil, driver.Errorf(op, driver.ErrInvalidPTX, "%v", err)
	}
	if err := m.checkTwins(op); err != nil {
		return nil, err
	}
	img := driver.Image{Name: m.name, PTX: text, Twins: m.twins}
	if len(m.wanted) > 0 {
		if img, err = m.withAggregated(m.wanted); err != nil {
			return nil, named(op, err)
		}
	}
	if m.mod, err = rt.dev.Load(img); err != nil {
		return nil, named(op, err)
	}
	return m, nil
}

// checkTwins demands that twins are there, and are of entries: on every device, so
// that what the cpu would refuse is found without it.
func (m *Module) checkTwins(op string) error {
	for _, name := range slices.Sorted(maps.Keys(m.twins)) {
		if m.twins[name] == nil {
			return driver.Errorf(op, driver.ErrNil, "the twin of %s", name)
		}
		if f := m.file.Func(name); f != nil && f.Entry && f.Body != nil {
			continue
		}
		var entries []string
		for _, d := range m.file.Decls {
			if f, ok := d.(*ast.Func); ok && f.Entry && f.Body != nil {
				entries = append(entries, f.Name)
			}
		}
		return driver.Errorf(op, driver.ErrNotFound, "WithTwin: no entry %q; the entries of %s: %s", name, m.name, cmp.Or(strings.Join(entries, ", "), "none"))
	}
	return nil
}

// Kernel finds an entry. Errors: ErrNotFound, on the cpu device also where the
// entry has no twin; ErrNotSupported for parameters without a size.
func (m *Module) Kernel(name string) (*Kernel, error) {
	const op = "Module.Kernel"
	if m == nil {
		return nil, driver.Errorf(op, driver.ErrNil, "module")
	}
	if err := m.rt.begin(op); err != nil {
		return nil, err
	}
	defer m.rt.end()
	e, err := aggregate.Describe(m.file, m.name, name)
	if err != nil {
		return nil, named(op, err)
	}
	k, err := m.mod.Kernel(name)
	if errors.Is(err, driver.ErrNotFound) && m.rt.dev.Info().Kind == driver.KindCPU {
		return nil, driver.Errorf(op, driver.ErrNotFound, "%s of %s has no Go twin, which is what the cpu device runs: give one by WithTwin", name, m.name)
	}
	if err != nil {
		return nil, named(op, err)
	}
	return newKernel(m, e, k)
}

// Close unloads the module after the work that the device was given. Kernels of it
// are unusable then, and so are aggregators of those that [WithAggregated] names:
// launches that they have recorded fail with ErrClosed. Close aggregators first.
func (m *Module) Close() error {
	const op = "Module.Close"
	if m == nil {
		return driver.Errorf(op, driver.ErrNil, "module")
	}
	if err := m.rt.begin(op); err != nil {
		return err
	}
	defer m.rt.end()
	return named(op, m.mod.Close())
}

// Kernel is an entry of a caller's module.
type Kernel struct {
	m     *Module
	entry *aggregate.Entry
	k     driver.Kernel
	// What a launch may ask for.
	threads int   // of a block
	shared  int64 // bytes of dynamic shared memory
	allowed atomic.Int64
}

func newKernel(m *Module, e *aggregate.Entry, k driver.Kernel) (*Kernel, error) {
	a, err := k.Attributes()
	if err != nil {
		return nil, err
	}
	info := m.rt.dev.Info()
	kernel := &Kernel{m: m, entry: e, k: k, threads: info.MaxThreadsPerBlock, shared: info.SharedPerBlockMax - a.SharedStatic}
	if a.MaxThreads > 0 {
		kernel.threads = min(kernel.threads, a.MaxThreads)
	}
	if e.MaxThreads > 0 {
		kernel.threads = min(kernel.threads, e.MaxThreads)
	}
	kernel.allowed.Store(info.SharedPerBlock - a.SharedStatic)
	return kernel, nil
}

// Name is the entry's name in the PTX.
func (k *Kernel) Name() string { return k.entry.Kernel }

// Params is where the parameters lie in the kernel's parameter block.
func (k *Kernel) Params() []driver.Param {
	params := make([]driver.Param, len(k.entry.Params))
	for i, p := range k.entry.Params {
		params[i] = driver.Param{Offset: p.Offset, Size: p.Size}
	}
	return params
}

// Driver is the kernel below.
func (k *Kernel) Driver() driver.Kernel { return k.k }

// allow prepares launches with that much dynamic shared memory. More than the
// default is all that there is: the driver keeps one bound for the entry, and a
// lower one would fail other launches.
func (k *Kernel) allow(bytes int64) error {
	if bytes <= k.allowed.Load() {
		return nil
	}
	if err := k.k.SetMaxDynamicShared(max(bytes, k.shared)); err != nil {
		return err
	}
	k.allowed.Store(k.shared)
	return nil
}

// Launch launches a kernel in stream order. There is an argument for each
// parameter, of the parameter's size: a number, a bool, a driver.Ptr, an array or
// a struct without pointers, laid out as CUDA C++ does, or a *Buffer for its
// address.
//
// Errors: ErrArguments for another number or size of arguments, ErrElementType
// for a type that holds pointers, ErrWrongDevice, ErrNil, ErrClosed, and those of
// the launch. What the kernel itself does wrong is an error of a later call.
func (s *Stream) Launch(k *Kernel, c driver.Config, args ...any) error {
	const op = "Stream.Launch"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	if k == nil || k.m == nil {
		return driver.Errorf(op, driver.ErrNil, "kernel")
	}
	if k.m.rt != s.rt {
		return driver.Errorf(op, driver.ErrWrongDevice, "kernel %s", k.Name())
	}
	a := driver.NewArgs()
	defer a.Release()
	if len(args) != len(k.entry.Params) {
		return k.argumentCount(op, len(args))
	}
	for i := range args {
		p := &k.entry.Params[i]
		v, err := argument(s.rt, args[i])
		if err != nil || len(v) != p.Size {
			return k.badArgument(op, i, args[i], err)
		}
		a.Bytes(v, p.Align)
	}
	if err := k.allow(c.Shared); err != nil {
		return named(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(op, s.s.Launch(k.k, c, a))
}

func (k *Kernel) argumentCount(op string, n int) error {
	e := driver.Errorf(op, driver.ErrArguments, "%d arguments for %d parameters", n, len(k.entry.Params))
	e.Kernel = k.Name()
	return e
}

// badArgument says what is wrong with argument i.
func (k *Kernel) badArgument(op string, i int, v any, err error) error {
	p := &k.entry.Params[i]
	var e *driver.Error
	if de, ok := err.(*driver.Error); ok {
		c := *de
		e = &c
		e.Op = op
	} else {
		t := reflect.TypeOf(v)
		e = driver.Errorf(op, driver.ErrArguments, "%v has %d bytes", t, t.Size())
		if kind := t.Kind(); (kind == reflect.Int || kind == reflect.Uint) && p.Size == 4 {
			e.Detail += ": convert it, say to uint32"
		}
	}
	e.Kernel = k.Name()
	e.Detail = "argument " + strconv.Itoa(i) + " for the parameter " + p.Name + " of " + strconv.Itoa(p.Size) + " bytes: " + e.Detail
	return e
}

// argumentKind is how a Go type is passed to a kernel.
type argumentKind uint8

const (
	argumentBad    argumentKind = iota
	argumentValue               // by its bytes
	argumentBuffer              // a *Buffer, by its address
)

var argumentKinds sync.Map // by reflect.Type

func kindOf(t reflect.Type) argumentKind {
	if k, ok := argumentKinds.Load(t); ok {
		return k.(argumentKind)
	}
	kind := argumentBad
	switch {
	case t.ConvertibleTo(reflect.TypeFor[*Buffer[byte]]()): // with the same fields, whatever the element type
		kind = argumentBuffer
	case t.Size() > 0 && !hasPointers(t):
		kind = argumentValue
	}
	argumentKinds.Store(t, kind)
	return kind
}

// argument is the memory of v as a kernel gets it, valid as long as v is. It does
// not let v escape, so that a launch allocates nothing for its arguments.
func argument(rt *Runtime, v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, driver.Errorf("", driver.ErrNil, "nil")
	}
	kind := kindOf(t)
	if kind == argumentBad {
		return nil, driver.Errorf("", driver.ErrElementType, "%v holds pointers or has no size: memory is passed as a *Buffer", t)
	}
	if kind == argumentBuffer {
		if err := bufferOf(&v).check("", "buffer", rt); err != nil {
			return nil, err
		}
	}
	return argumentOf(v, kind, int(t.Size())), nil
}

// argumentOf is argument for a value that was checked.
func argumentOf(v any, kind argumentKind, size int) []byte {
	if kind == argumentBuffer {
		return bytesOfValue(&bufferOf(&v).ptr)
	}
	return unsafe.Slice((*byte)(dataOf(&v)), size)
}

// bufferOf is the *Buffer in an interface; no field of it depends on its element
// type.
func bufferOf(v *any) *Buffer[byte] { return (*Buffer[byte])(dataOf(v)) }

// dataOf is an interface's second word: where its value lies, or the value itself
// if that is a pointer.
func dataOf(v *any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(v))[1] }

// typeOf tells the dynamic types of interfaces apart. As a number it keeps what the
// interface holds from escaping.
func typeOf(v *any) uintptr { return *(*uintptr)(unsafe.Pointer(v)) }
