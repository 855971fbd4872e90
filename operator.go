package ptxrun

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
	"github.com/ptxrun/ptxrun/ptx"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// OperatorSpec describes an operator of the caller's own on values of T, which
// holds no pointers and is 1, 2, 4, 8 or 16 bytes, or any multiple of 4 up to 16.
type OperatorSpec[T any] struct {
	// Name is the name given to PTXRUN_SCAN in the CUDA source.
	Name string
	// PTX is the source compiled by "ptxrun ptx", for one target or several: the
	// newest that the device can run is taken. A device that executes PTX needs
	// it. Compiled for sm_70 it runs everywhere; from sm_90 on, scans of memory
	// aligned to 16 bytes are faster with a variant for sm_90.
	PTX [][]byte
	// Identity is the value e with Combine(e, x) = Combine(x, e) = x. It is taken as
	// given: with another, results are wrong.
	Identity T
	// Combine is the same operator in Go. The cpu device needs it. It is
	// associative, need not be commutative, and is called from several
	// goroutines.
	Combine func(a, b T) T
}

// Operator is a caller's operator, loaded on a runtime's device.
type Operator[T any] struct {
	rt     *Runtime
	name   string
	m      loadedModule
	init   T
	align  int // of a value in PTX
	closed atomic.Bool
}

// NewOperator loads an operator. It needs PTX on CUDA and the emulator, and
// Combine on the cpu; giving both makes it run everywhere.
//
// Errors: ErrElementType for a T that cannot be scanned or has another size in the
// PTX, ErrNil for the missing one of PTX and Combine, ErrInvalidValue for no name,
// ErrInvalidPTX and its like with the compiler's log, ErrNotFound if the PTX has
// no operator of that name, ErrArguments if its kernels have other parameters.
func NewOperator[T any](rt *Runtime, spec OperatorSpec[T]) (*Operator[T], error) {
	const call = "NewOperator"
	if err := rt.begin(call); err != nil {
		return nil, err
	}
	defer rt.end()
	if err := checkElement[T](call); err != nil {
		return nil, err
	}
	size := sizeOf[T]()
	if size > 16 || size > 2 && size%4 != 0 {
		return nil, driver.Errorf(call, driver.ErrElementType, "%v has %d bytes; 1, 2, 4, 8, 12 and 16 can be scanned", reflect.TypeFor[T](), size)
	}
	if spec.Name == "" {
		return nil, driver.Errorf(call, driver.ErrInvalidValue, "the operator has no name")
	}
	var err error
	onCPU := rt.dev.Info().Kind == driver.KindCPU
	if onCPU && spec.Combine == nil {
		return nil, driver.Errorf(call, driver.ErrNil, "operator %s: Combine, which the cpu device runs", spec.Name)
	}
	if !onCPU && len(spec.PTX) == 0 {
		return nil, driver.Errorf(call, driver.ErrNil, "operator %s: PTX, which the %s device runs", spec.Name, rt.dev.Info().Kind)
	}
	tile := scanTile(int(size))
	var up, down, pass, segmented driver.Twin
	if spec.Combine != nil {
		op := twin.Custom(spec.Identity, spec.Combine)
		up, down, pass = twin.ScanUpsweep(op, tile), twin.ScanDownsweep(op, tile), twin.ScanPass[T](op, nil)
		segmented = twin.ScanSegmented(op)
	}
	o := &Operator[T]{rt: rt, name: spec.Name, init: spec.Identity, align: int(unsafe.Alignof(spec.Identity))}
	for _, text := range spec.PTX {
		// On every device, so that what a GPU would refuse is found without one.
		if len(text) == 0 {
			return nil, driver.Errorf(call, driver.ErrNil, "operator %s: a PTX is empty", spec.Name)
		}
		align, err := checkOperatorPTX(call, spec.Name, text, size)
		if err != nil {
			return nil, err
		}
		o.align = max(o.align, align)
	}
	img := driver.Image{Name: "operator " + spec.Name}
	if !onCPU {
		if img.PTX, err = ptx.Newest(spec.PTX, rt.dev.Info().Capability); err != nil {
			return nil, named(call, err)
		}
	}
	kernels := operatorKernels(spec.Name, int(size), up, down, pass, segmented)
	if err = rt.load(&o.m, img, kernels); err != nil {
		return nil, named(call, err)
	}
	return o, nil
}

// checkOperatorPTX demands that a text has the operator's kernels, for values of
// the given size, and returns the alignment that values have there: CUDA's vectors
// have a greater one than Go's structs of the same members.
func checkOperatorPTX(call, name string, text []byte, size int64) (align int, err error) {
	f, err := ast.Parse("operator "+name, text)
	if err != nil {
		return 0, driver.Errorf(call, driver.ErrInvalidPTX, "%v", err)
	}
	for _, k := range operatorKernels(name, int(size), nil, nil, nil, nil) {
		fn := f.Func(k.Name)
		if fn == nil && k.Target > 0 {
			continue // of a newer target
		}
		if fn == nil {
			return 0, driver.Errorf(call, driver.ErrNotFound, "operator %s: the PTX has no kernel %s; is the operator called so in PTXRUN_SCAN, and was it compiled with this version of ptxrun (go generate)?", name, k.Name)
		}
		if len(fn.Params) != len(k.Params) {
			return 0, driver.Errorf(call, driver.ErrArguments, "operator %s: %s has %d parameters, not %d", name, k.Name, len(fn.Params), len(k.Params))
		}
		i := slices.Index(k.Params, ParamValue)
		if i < 0 {
			continue
		}
		if bytes := fn.Params[i].Bytes(); bytes != size {
			return 0, driver.Errorf(call, driver.ErrElementType, "operator %s: the Go type has %d bytes, the PTX's Value %d", name, size, bytes)
		}
		align = max(align, fn.Params[i].Align)
	}
	return align, nil
}

// Close unloads the operator. No scan with it may be in flight. A second Close
// returns ErrClosed.
func (o *Operator[T]) Close() error {
	const call = "Operator.Close"
	if o == nil {
		return driver.Errorf(call, driver.ErrNil, "operator")
	}
	if err := o.rt.begin(call); err != nil {
		return err
	}
	defer o.rt.end()
	if o.closed.Swap(true) {
		return o.errClosed(call)
	}
	return named(call, o.m.mod.Close())
}

func (o *Operator[T]) errClosed(call string) error {
	return driver.Errorf(call, driver.ErrClosed, "operator %s", o.name)
}

// InclusiveScan is [InclusiveScan] with this operator.
func (o *Operator[T]) InclusiveScan(ctx context.Context, dst, src []T, opts ...ScanOption) error {
	return o.host(ctx, "Operator.InclusiveScan", dst, src, false, opts, segments{})
}

// ExclusiveScan is [ExclusiveScan] with this operator.
func (o *Operator[T]) ExclusiveScan(ctx context.Context, dst, src []T, opts ...ScanOption) error {
	return o.host(ctx, "Operator.ExclusiveScan", dst, src, true, opts, segments{})
}

// InclusiveScanBuffer is [InclusiveScanBuffer] with this operator.
func (o *Operator[T]) InclusiveScanBuffer(s *Stream, dst, src *Buffer[T], opts ...ScanOption) error {
	return o.buffers("Operator.InclusiveScanBuffer", s, dst, src, false, opts, segments{})
}

// ExclusiveScanBuffer is [ExclusiveScanBuffer] with this operator.
func (o *Operator[T]) ExclusiveScanBuffer(s *Stream, dst, src *Buffer[T], opts ...ScanOption) error {
	return o.buffers("Operator.ExclusiveScanBuffer", s, dst, src, true, opts, segments{})
}

func (o *Operator[T]) scanner(exclusive bool) scanner {
	sc := newScanner[T](o.align, bytesOfValue(&o.init), exclusive)
	sc.own = &o.m
	return sc
}

func (o *Operator[T]) host(ctx context.Context, call string, dst, src []T, exclusive bool, opts []ScanOption, g segments) error {
	if o == nil {
		return driver.Errorf(call, driver.ErrNil, "operator")
	}
	if err := o.rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer o.rt.end()
	if o.closed.Load() {
		return o.errClosed(call)
	}
	sc := o.scanner(exclusive)
	sc.segments = g
	return hostScan(ctx, call, o.rt, &sc, dst, src, opts)
}

func (o *Operator[T]) buffers(call string, s *Stream, dst, src *Buffer[T], exclusive bool, opts []ScanOption, g segments) error {
	if o == nil {
		return driver.Errorf(call, driver.ErrNil, "operator")
	}
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if o.rt != s.rt {
		return driver.Errorf(call, driver.ErrWrongDevice, "operator %s", o.name)
	}
	if o.closed.Load() {
		return o.errClosed(call)
	}
	sc := o.scanner(exclusive)
	sc.segments = g
	return bufferScan(call, s, &sc, dst, src, opts)
}
