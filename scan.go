package ptxrun

import (
	"context"
	"reflect"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// Number is an element type of the built-in operators.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Op is a built-in associative operator.
//
// Integer sums and products wrap, as Go's do. Min and Max of floats order -0
// before +0, and give NaN if either operand is NaN. And, Or and Xor are for
// integers.
type Op uint8

const (
	Sum Op = iota
	Product
	Min
	Max
	And
	Or
	Xor
	opCount
)

var opNames = [opCount]string{"sum", "prod", "min", "max", "and", "or", "xor"}

func (o Op) String() string {
	if o < opCount {
		return opNames[o]
	}
	return "unknown operator"
}

// ScanStrategy is an algorithm for scans.
type ScanStrategy uint8

const (
	// ScanRecursive reduces tiles, scans the tile sums recursively and scans
	// the tiles from there: 3n elements moved. From Blelloch, "Prefix Sums and
	// Their Applications" (1990), in the reduce-then-scan form of Merrill and
	// Grimshaw, "Parallel Scan for Stream Architectures" (2009).
	ScanRecursive ScanStrategy = iota
	scanStrategies
)

func (s ScanStrategy) String() string {
	if s < scanStrategies {
		return [...]string{"recursive"}[s]
	}
	return "unknown strategy"
}

// ScanOption changes how a scan is done.
type ScanOption struct {
	strategy    ScanStrategy
	setStrategy bool
	workspace   *Buffer[byte]
}

// WithScanStrategy chooses the algorithm.
func WithScanStrategy(s ScanStrategy) ScanOption { return ScanOption{strategy: s, setStrategy: true} }

// WithScanWorkspace gives a scan on device buffers its workspace, of at least
// [PlanScan]'s bytes, instead of letting it allocate one in stream order. One
// workspace serves any number of calls on one stream, not calls on different
// streams at a time.
func WithScanWorkspace(w *Buffer[byte]) ScanOption { return ScanOption{workspace: w} }

func scanOptions(opts []ScanOption) (c ScanOption) {
	for _, o := range opts {
		if o.setStrategy {
			c.strategy = o.strategy
		}
		if o.workspace != nil {
			c.workspace = o.workspace
		}
	}
	return c
}

// maxScanLevels is the depth of recursion for 2^62 elements: a level divides by
// 1024 at least.
const maxScanLevels = 7

// ScanLevel is one level of the recursion: Tiles sums of a level's N elements,
// at Offset of the workspace.
type ScanLevel struct{ N, Tiles, Offset int64 }

// ScanPlan is the layout of a recursive scan's workspace. It depends on nothing
// but the number and the size of the elements.
type ScanPlan struct {
	Levels [maxScanLevels]ScanLevel // the first Depth are used
	Depth  int                      // 0 if one tile holds all
	Bytes  int64                    // of workspace, a multiple of 256
}

// PlanScan lays out the workspace to scan n elements of size bytes: one array
// of tile sums a level, each aligned to 256 bytes, scanned in place.
// n is 0 to 2^58, size 1 to 16; other values give an empty plan.
func PlanScan(n, size int64) ScanPlan {
	var p ScanPlan
	if n < 0 || n > 1<<58 || size < 1 || size > 16 {
		return p
	}
	for tile := scanTile(int(size)); n > tile; p.Depth++ {
		tiles := ceilDiv(n, tile)
		p.Levels[p.Depth] = ScanLevel{N: n, Tiles: tiles, Offset: p.Bytes}
		p.Bytes += align256(tiles * size)
		n = tiles
	}
	return p
}

func align256(n int64) int64 { return (n + 255) &^ 255 }

// InclusiveScan writes dst[i] = src[0] op … op src[i]. dst and src have the same
// length, and are the same slice or do not overlap.
//
// Integers give the same bits on every device. Float sums and products depend
// on the order of combination, which is fixed for a device and length.
//
// It returns when dst is complete. When ctx is done first it returns ctx's
// error and dst is untouched. Errors: ErrNil, ErrClosed, ErrLength, ErrOverlap,
// ErrElementType (a bitwise operator on floats), ErrOutOfMemory.
func InclusiveScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, op Op, opts ...ScanOption) error {
	return scanHost(ctx, "InclusiveScan", rt, dst, src, op, false, opts)
}

// ExclusiveScan writes dst[0] = the operator's identity and dst[i] = src[0] op …
// op src[i-1]. Else as [InclusiveScan].
func ExclusiveScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, op Op, opts ...ScanOption) error {
	return scanHost(ctx, "ExclusiveScan", rt, dst, src, op, true, opts)
}

// InclusiveScanBuffer is [InclusiveScan] on device buffers, in stream order: it
// returns when the work is given to the stream. dst and src are the same memory
// or do not overlap.
func InclusiveScanBuffer[T Number](s *Stream, dst, src *Buffer[T], op Op, opts ...ScanOption) error {
	return scanBuffers("InclusiveScanBuffer", s, dst, src, op, false, opts)
}

// ExclusiveScanBuffer is [ExclusiveScan] on device buffers, in stream order.
func ExclusiveScanBuffer[T Number](s *Stream, dst, src *Buffer[T], op Op, opts ...ScanOption) error {
	return scanBuffers("ExclusiveScanBuffer", s, dst, src, op, true, opts)
}

func scanHost[T Number](ctx context.Context, call string, rt *Runtime, dst, src []T, op Op, exclusive bool, opts []ScanOption) error {
	if err := rt.begin(call); err != nil {
		return err
	}
	defer rt.end()
	sc, err := builtinScanner[T](call, rt, op, exclusive)
	if err != nil {
		return err
	}
	return hostScan(ctx, call, rt, &sc, dst, src, opts)
}

func scanBuffers[T Number](call string, s *Stream, dst, src *Buffer[T], op Op, exclusive bool, opts []ScanOption) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	sc, err := builtinScanner[T](call, s.rt, op, exclusive)
	if err != nil {
		return err
	}
	return bufferScan(call, s, &sc, dst, src, opts)
}

// scanner is an operator's kernels on a device, with what a scan starts from.
type scanner struct {
	upsweep, downsweep kernel
	size, align        int
	init               [16]byte
	exclusive          bool
}

func newScanner(m *loadedModule, size, align int, init []byte, exclusive bool) scanner {
	sc := scanner{upsweep: m.kernels[0], downsweep: m.kernels[1], size: size, align: align, exclusive: exclusive}
	copy(sc.init[:], init)
	return sc
}

func builtinScanner[T Number](call string, rt *Runtime, op Op, exclusive bool) (scanner, error) {
	kind := reflect.TypeFor[T]().Kind()
	if op >= opCount {
		return scanner{}, driver.Errorf(call, driver.ErrInvalidValue, "operator %d", op)
	}
	b := builtins[op][kind]
	if b.module == "" {
		return scanner{}, driver.Errorf(call, driver.ErrElementType, "%v of %v", op, kind)
	}
	m, err := rt.module(b.module)
	if err != nil {
		return scanner{}, err
	}
	size := int(sizeOf[T]())
	return newScanner(m, size, size, b.identity[:], exclusive), nil
}

// builtin is the embedded module for an operator on a kind of number.
type builtin struct {
	module   string
	identity [8]byte
}

// builtins is filled from the kernel table: the kinds that have an instance.
var builtins = func() (all [opCount][reflect.Float64 + 1]builtin) {
	add := func(op Op, kinds []reflect.Kind, module string, identity []byte) {
		for _, k := range kinds {
			b := builtin{module: module}
			copy(b.identity[:], identity)
			all[op][k] = b
		}
	}
	for op := range opCount {
		for t, kinds := range kindsOf {
			for _, k := range kinds {
				suffix := opNames[op] + "_" + t
				if signless := opNames[op] + "_u" + t[1:]; t[0] == 'i' && moduleByName["scan_"+signless] != nil && op != Min && op != Max {
					suffix = signless
				}
				if m := moduleByName["scan_"+suffix]; m != nil {
					add(op, []reflect.Kind{k}, m.Name, m.identity)
				}
			}
		}
	}
	return all
}()

// kindsOf are the Go kinds that a device type holds.
var kindsOf = map[string][]reflect.Kind{
	"u8": {reflect.Uint8}, "u16": {reflect.Uint16}, "u32": {reflect.Uint32}, "u64": {reflect.Uint64, reflect.Uint},
	"i8": {reflect.Int8}, "i16": {reflect.Int16}, "i32": {reflect.Int32}, "i64": {reflect.Int64, reflect.Int},
	"f32": {reflect.Float32}, "f64": {reflect.Float64},
}

// hostScan copies src to the device, scans it there in place and copies it back.
func hostScan[T any](ctx context.Context, call string, rt *Runtime, sc *scanner, dst, src []T, opts []ScanOption) error {
	if len(dst) != len(src) {
		return driver.Errorf(call, driver.ErrLength, "dst has %d elements, src %d", len(dst), len(src))
	}
	if err := checkInPlace(call, spanOf("dst", dst), spanOf("src", src)); err != nil {
		return err
	}
	c := scanOptions(opts)
	if c.workspace != nil {
		return driver.Errorf(call, driver.ErrInvalidValue, "a workspace is for calls on buffers")
	}
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return err
	}
	return rt.onStream(func(s *Stream) error {
		bytes := bytesOf(src)
		p, err := s.s.Alloc(int64(len(bytes)))
		if err != nil {
			return err
		}
		defer s.s.Free(p)
		if err := s.upload(ctx, p, bytes); err != nil {
			return err
		}
		if err := s.scan(call, sc, p, p, int64(len(src)), c); err != nil {
			return err
		}
		return s.download(ctx, bytesOf(dst), p)
	})
}

func bufferScan[T any](call string, s *Stream, sc *scanner, dst, src *Buffer[T], opts []ScanOption) error {
	if err := src.check(call, "src", s.rt); err != nil {
		return err
	}
	if err := dst.check(call, "dst", s.rt); err != nil {
		return err
	}
	if dst.n != src.n {
		return driver.Errorf(call, driver.ErrLength, "dst has %d elements, src %d", dst.n, src.n)
	}
	if err := checkInPlace(call, dst.span("dst"), src.span("src")); err != nil {
		return err
	}
	c := scanOptions(opts)
	if c.workspace != nil {
		if err := c.workspace.check(call, "workspace", s.rt); err != nil {
			return err
		}
		if err := checkDisjoint(call, dst.span("dst"), src.span("src").unless(dst.ptr == src.ptr), c.workspace.span("workspace")); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scan(call, sc, dst.ptr, src.ptr, dst.n, c)
}

// scan gives the stream a scan of n elements. dst may be src.
func (s *Stream) scan(call string, sc *scanner, dst, src driver.Ptr, n int64, c ScanOption) error {
	if c.strategy >= scanStrategies {
		return driver.Errorf(call, driver.ErrInvalidValue, "scan strategy %d", c.strategy)
	}
	if n == 0 {
		return nil
	}
	plan := PlanScan(n, int64(sc.size))
	if plan.Bytes == 0 {
		return s.scanLevel(sc, &plan, 0, 0, dst, src, n, sc.exclusive)
	}
	if c.workspace != nil {
		if c.workspace.n < plan.Bytes {
			return &driver.Error{Op: call, Code: driver.ErrTooSmall, Detail: "workspace", N: n, Need: plan.Bytes}
		}
		return s.scanLevel(sc, &plan, 0, c.workspace.ptr, dst, src, n, sc.exclusive)
	}
	w, err := s.s.Alloc(plan.Bytes)
	if err != nil {
		return err
	}
	defer s.s.Free(w)
	return s.scanLevel(sc, &plan, 0, w, dst, src, n, sc.exclusive)
}

// scanLevel scans n elements: upsweep to the tiles' sums, spine over them,
// downsweep from what stands before each tile.
func (s *Stream) scanLevel(sc *scanner, plan *ScanPlan, level int, workspace, dst, src driver.Ptr, n int64, exclusive bool) error {
	var sums driver.Ptr // of the tiles before each tile; none if there is one tile
	if level < plan.Depth {
		l := plan.Levels[level]
		sums = workspace + driver.Ptr(l.Offset)
		a := driver.NewArgs().Ptr(src).Uint64(uint64(n)).Ptr(sums)
		if err := s.launch(sc.upsweep, uint64(l.Tiles), n, a); err != nil {
			return err
		}
		if err := s.scanLevel(sc, plan, level+1, workspace, sums, sums, l.Tiles, true); err != nil {
			return err
		}
	}
	flag := uint32(0)
	if exclusive {
		flag = 1
	}
	a := driver.NewArgs().Ptr(src).Ptr(dst).Uint64(uint64(n)).Ptr(sums).Bytes(sc.init[:sc.size], sc.align).Uint32(flag)
	return s.launch(sc.downsweep, sc.downsweep.tiles(n), n, a)
}

// OperatorSpec describes an operator of the caller's own on values of T, which
// holds no pointers and is 1, 2, 4, 8 or 16 bytes, or any multiple of 4 up to 16.
type OperatorSpec[T any] struct {
	// Name is the name given to PTXRUN_SCAN in the CUDA source.
	Name string
	// PTX is the source compiled by "ptxrun ptx". A device that executes PTX
	// needs it.
	PTX []byte
	// Identity is the value e with Combine(e, x) = Combine(x, e) = x.
	Identity T
	// Combine is the same operator in Go. The cpu device needs it. It is
	// associative, need not be commutative, and is called from several
	// goroutines.
	Combine func(a, b T) T
}

// Operator is a caller's operator, loaded on a runtime's device.
type Operator[T any] struct {
	rt    *Runtime
	m     loadedModule
	init  T
	specs []KernelSpec
}

// NewOperator loads an operator. It needs PTX on CUDA and the emulator, and
// Combine on the cpu; giving both makes it run everywhere.
//
// Errors: ErrElementType, ErrNil for the missing one of PTX and Combine,
// ErrInvalidPTX and its like with the compiler's log, ErrNotFound if the PTX has
// no operator of that name.
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
	onCPU := rt.dev.Info().Kind == driver.KindCPU
	if onCPU && spec.Combine == nil {
		return nil, driver.Errorf(call, driver.ErrNil, "operator %s: Combine, which the cpu device runs", spec.Name)
	}
	if !onCPU && len(spec.PTX) == 0 {
		return nil, driver.Errorf(call, driver.ErrNil, "operator %s: PTX, which the %s device runs", spec.Name, rt.dev.Info().Kind)
	}
	tile := scanTile(int(size))
	var up, down driver.Twin
	if spec.Combine != nil {
		op := twin.Custom(spec.Identity, spec.Combine)
		up, down = twin.ScanUpsweep(op, tile), twin.ScanDownsweep(op, tile)
	}
	o := &Operator[T]{rt: rt, init: spec.Identity}
	img := driver.Image{Name: "operator " + spec.Name, PTX: spec.PTX}
	if err := rt.load(&o.m, img, scanKernels(spec.Name, int(size), up, down)); err != nil {
		return nil, err
	}
	return o, nil
}

// Close unloads the operator. No scan with it may be in flight.
func (o *Operator[T]) Close() error {
	if o == nil {
		return driver.Errorf("Operator.Close", driver.ErrNil, "operator")
	}
	if err := o.rt.begin("Operator.Close"); err != nil {
		return err
	}
	defer o.rt.end()
	return o.m.mod.Close()
}

// InclusiveScan is [InclusiveScan] with this operator.
func (o *Operator[T]) InclusiveScan(ctx context.Context, dst, src []T, opts ...ScanOption) error {
	return o.host(ctx, "Operator.InclusiveScan", dst, src, false, opts)
}

// ExclusiveScan is [ExclusiveScan] with this operator.
func (o *Operator[T]) ExclusiveScan(ctx context.Context, dst, src []T, opts ...ScanOption) error {
	return o.host(ctx, "Operator.ExclusiveScan", dst, src, true, opts)
}

// InclusiveScanBuffer is [InclusiveScanBuffer] with this operator.
func (o *Operator[T]) InclusiveScanBuffer(s *Stream, dst, src *Buffer[T], opts ...ScanOption) error {
	return o.buffers("Operator.InclusiveScanBuffer", s, dst, src, false, opts)
}

// ExclusiveScanBuffer is [ExclusiveScanBuffer] with this operator.
func (o *Operator[T]) ExclusiveScanBuffer(s *Stream, dst, src *Buffer[T], opts ...ScanOption) error {
	return o.buffers("Operator.ExclusiveScanBuffer", s, dst, src, true, opts)
}

func (o *Operator[T]) scanner(exclusive bool) scanner {
	return newScanner(&o.m, int(sizeOf[T]()), int(unsafe.Alignof(o.init)), bytesOfValue(&o.init), exclusive)
}

func (o *Operator[T]) host(ctx context.Context, call string, dst, src []T, exclusive bool, opts []ScanOption) error {
	if o == nil {
		return driver.Errorf(call, driver.ErrNil, "operator")
	}
	if err := o.rt.begin(call); err != nil {
		return err
	}
	defer o.rt.end()
	sc := o.scanner(exclusive)
	return hostScan(ctx, call, o.rt, &sc, dst, src, opts)
}

func (o *Operator[T]) buffers(call string, s *Stream, dst, src *Buffer[T], exclusive bool, opts []ScanOption) error {
	if o == nil {
		return driver.Errorf(call, driver.ErrNil, "operator")
	}
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if o.rt != s.rt {
		return driver.Errorf(call, driver.ErrWrongDevice, "operator")
	}
	sc := o.scanner(exclusive)
	return bufferScan(call, s, &sc, dst, src, opts)
}
