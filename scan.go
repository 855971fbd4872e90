package ptxrun

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

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
	// ScanSinglePass reads every element once and writes it once: blocks take
	// tiles in turn, publish each tile's total as soon as they have it, and look
	// back over the totals of the tiles before. After Merrill and Garland,
	// "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016), with
	// the difference that a block remembers the prefix of its last tile, so that
	// no chain of tiles waits for each other, and sums are combined in a fixed
	// order. On sm_90, tiles are copied ahead into shared memory. An input of
	// one tile of [ScanRecursive] is scanned by its kernel, in one launch; in reverse it
	// is a pass as well.
	ScanSinglePass ScanStrategy = iota
	// ScanRecursive reduces tiles, scans the tile sums recursively and scans
	// the tiles from there: 3n elements moved. From Blelloch, "Prefix Sums and
	// Their Applications" (1990), in the reduce-then-scan form of Merrill and
	// Grimshaw, "Parallel Scan for Stream Architectures" (2009).
	ScanRecursive
	scanStrategies
)

func (s ScanStrategy) String() string {
	if s < scanStrategies {
		return [...]string{"single-pass", "recursive"}[s]
	}
	return "unknown strategy"
}

// ScanOption changes how a scan is done.
type ScanOption struct {
	strategy     ScanStrategy
	setStrategy  bool
	workspace    *Buffer[byte]
	setWorkspace bool
	init         [16]byte
	initType     reflect.Type
	reverse      bool
}

// WithScanStrategy chooses the algorithm.
func WithScanStrategy(s ScanStrategy) ScanOption { return ScanOption{strategy: s, setStrategy: true} }

// WithScanInit makes the scan start from v instead of the operator's identity:
// an inclusive scan gives v op src[0] op … op src[i], an exclusive one begins
// with v. v has dst's type.
func WithScanInit[T any](v T) ScanOption {
	o := ScanOption{initType: reflect.TypeFor[T]()}
	copy(o.init[:], bytesOfValue(&v))
	return o
}

// WithScanReverse makes the scan run from the last element to the first: an
// inclusive one gives dst[i] = src[n-1] op src[n-2] op … op src[i], operands in
// that order, and an exclusive one what stands before op src[i] in it. The scan
// is a single pass. Another strategy, and sums of narrow types in a wider one, are
// refused with ErrInvalidValue.
func WithScanReverse() ScanOption { return ScanOption{reverse: true} }

// WithScanWorkspace gives a scan on device buffers its workspace, of at least
// [PlanScan]'s bytes from an address that is a multiple of 256. Without it a small
// scan uses memory that the stream keeps, and a larger one allocates in stream
// order. One workspace serves any number of calls on one stream, not calls on
// different streams at a time.
func WithScanWorkspace(w *Buffer[byte]) ScanOption {
	return ScanOption{workspace: w, setWorkspace: true}
}

func scanOptions(opts []ScanOption) (c ScanOption) {
	for _, o := range opts {
		if o.setStrategy {
			c.strategy = o.strategy
		}
		if o.setWorkspace {
			c.workspace, c.setWorkspace = o.workspace, true
		}
		if o.initType != nil {
			c.init, c.initType = o.init, o.initType
		}
		c.reverse = c.reverse || o.reverse
	}
	return c
}

// maxScanElements is the most that is scanned, and maxScanLevels the depth of
// recursion for it: a level divides by 1024 at least.
const (
	maxScanElements = 1 << 58
	maxScanLevels   = 5
)

// ScanLevel is one level of the recursion: Tiles sums of a level's N elements,
// at Offset of the workspace.
type ScanLevel struct{ N, Tiles, Offset int64 }

// ScanPlan is the layout of a scan's workspace. It depends on nothing but the
// strategy and the number and size of the elements.
type ScanPlan struct {
	Strategy ScanStrategy
	// Levels are the recursive strategy's, of which the first Depth are used.
	Levels [maxScanLevels]ScanLevel
	Depth  int
	Bytes  int64 // of workspace, a multiple of 256
}

// PlanScan lays out the workspace to scan n elements to results of size bytes.
// For ScanRecursive it is one array of tile sums a level, each aligned to 256
// bytes and scanned in place; for ScanSinglePass, a ticket and the tiles' totals.
//
// Errors: ErrInvalidValue for a size that is not 1 to 16 or an unknown strategy,
// ErrTooLarge for an n beyond 2^58, ErrLength for a negative one.
func PlanScan(strategy ScanStrategy, n, size int64) (ScanPlan, error) {
	const call = "PlanScan"
	p := ScanPlan{Strategy: strategy}
	switch {
	case strategy >= scanStrategies:
		return p, driver.Errorf(call, driver.ErrInvalidValue, "scan strategy %d", strategy)
	case size < 1 || size > 16:
		return p, driver.Errorf(call, driver.ErrInvalidValue, "elements of %d bytes", size)
	case n < 0:
		return p, driver.Errorf(call, driver.ErrLength, "%d elements", n)
	case n > maxScanElements:
		return p, driver.Errorf(call, driver.ErrTooLarge, "%d elements", n)
	}
	if strategy == ScanSinglePass {
		if n > 0 {
			p.Bytes = align256(passState(n, int(size)))
		}
		return p, nil
	}
	for tile := scanTile(int(size)); n > tile; p.Depth++ {
		tiles := ceilDiv(n, tile)
		p.Levels[p.Depth] = ScanLevel{N: n, Tiles: tiles, Offset: p.Bytes}
		p.Bytes += align256(tiles * size)
		n = tiles
	}
	return p, nil
}

func align256(n int64) int64 { return (n + 255) &^ 255 }

// InclusiveScan writes dst[i] = src[0] op … op src[i], with [WithScanInit]'s value
// before src[0]. dst and src have the same
// length, and are the same slice or do not overlap.
//
// Integers give the same bits on every device. Float sums and products depend
// on the order of combination. It is fixed by the strategy and the length, not
// by timing: the single pass gives the same bits on every run and on every GPU,
// and on the emulator; the cpu device has an order of its own, also fixed.
//
// It returns when dst is complete. When ctx is done first it returns ctx's
// error and dst is untouched. Errors: ErrNil, ErrClosed, ErrLength, ErrOverlap,
// ErrOutOfMemory; ErrElementType for a bitwise operator on floats and for an initial
// value of another type; ErrInvalidValue for an unknown operator or strategy, and for
// a workspace.
func InclusiveScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, op Op, opts ...ScanOption) error {
	return scanHost(ctx, "InclusiveScan", rt, dst, src, op, false, opts)
}

// ExclusiveScan writes dst[0] = the operator's identity and dst[i] = src[0] op …
// op src[i-1]; with [WithScanInit]'s value for the identity. The identity of float sums is -0, which alone leaves every value
// as it is. Else as [InclusiveScan].
func ExclusiveScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, op Op, opts ...ScanOption) error {
	return scanHost(ctx, "ExclusiveScan", rt, dst, src, op, true, opts)
}

// InclusiveScanBuffer is [InclusiveScan] on device buffers, in stream order: it
// returns when the work is given to the stream. dst and src are the same memory
// or do not overlap, and neither overlaps a workspace. Errors are also
// ErrWrongDevice, and for a workspace ErrTooSmall, with the size in Error.Need, and
// ErrMisaligned.
func InclusiveScanBuffer[T Number](s *Stream, dst, src *Buffer[T], op Op, opts ...ScanOption) error {
	return scanBuffers("InclusiveScanBuffer", s, dst, src, op, false, opts)
}

// ExclusiveScanBuffer is [ExclusiveScan] on device buffers, as
// [InclusiveScanBuffer].
func ExclusiveScanBuffer[T Number](s *Stream, dst, src *Buffer[T], op Op, opts ...ScanOption) error {
	return scanBuffers("ExclusiveScanBuffer", s, dst, src, op, true, opts)
}

// Narrow and Wide are the types of the elements and of the sums of
// [InclusiveSum]: a wide type is wider than the narrow one. A true bool counts 1.
type (
	Narrow interface {
		~bool | ~uint8 | ~uint16 | ~uint32
	}
	Wide interface {
		~uint | ~uint32 | ~uint64 | ~int | ~int32 | ~int64
	}
)

// InclusiveSum is [InclusiveScan] with Sum in a type wider than the elements':
// dst[i] = src[0] + … + src[i], in dst's type, where it wraps. dst and src do not
// overlap. The strategy is ScanSinglePass. Errors are also ErrElementType for a
// dst type that is not wider than src's.
func InclusiveSum[Out Wide, In Narrow](ctx context.Context, rt *Runtime, dst []Out, src []In, opts ...ScanOption) error {
	return sumHost(ctx, "InclusiveSum", rt, dst, src, false, opts)
}

// ExclusiveSum is [ExclusiveScan] with Sum, as [InclusiveSum].
func ExclusiveSum[Out Wide, In Narrow](ctx context.Context, rt *Runtime, dst []Out, src []In, opts ...ScanOption) error {
	return sumHost(ctx, "ExclusiveSum", rt, dst, src, true, opts)
}

// InclusiveSumBuffer is [InclusiveSum] on device buffers, as [InclusiveScanBuffer],
// but dst and src do not overlap.
func InclusiveSumBuffer[Out Wide, In Narrow](s *Stream, dst *Buffer[Out], src *Buffer[In], opts ...ScanOption) error {
	return sumBuffers("InclusiveSumBuffer", s, dst, src, false, opts)
}

// ExclusiveSumBuffer is [ExclusiveSum] on device buffers, as [InclusiveSumBuffer].
func ExclusiveSumBuffer[Out Wide, In Narrow](s *Stream, dst *Buffer[Out], src *Buffer[In], opts ...ScanOption) error {
	return sumBuffers("ExclusiveSumBuffer", s, dst, src, true, opts)
}

func sumHost[Out Wide, In Narrow](ctx context.Context, call string, rt *Runtime, dst []Out, src []In, exclusive bool, opts []ScanOption) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	sc, err := wideningScanner[Out, In](call, exclusive)
	if err != nil {
		return err
	}
	return hostScan(ctx, call, rt, &sc, dst, src, opts)
}

func sumBuffers[Out Wide, In Narrow](call string, s *Stream, dst *Buffer[Out], src *Buffer[In], exclusive bool, opts []ScanOption) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	sc, err := wideningScanner[Out, In](call, exclusive)
	if err != nil {
		return err
	}
	return bufferScan(call, s, &sc, dst, src, opts)
}

// wideningScanner finds the sum of unsigned In in Out; the sign of Out makes no
// difference.
func wideningScanner[Out Wide, In Narrow](call string, exclusive bool) (scanner, error) {
	in, out := sizeOf[In](), sizeOf[Out]()
	names := &wideningNames[in][out]
	if names.pass == "" {
		return scanner{}, driver.Errorf(call, driver.ErrElementType, "sums of %v in %v, which is not wider", reflect.TypeFor[In](), reflect.TypeFor[Out]())
	}
	sc := newScanner[Out](int(out), nil, exclusive)
	sc.names = names
	return sc, nil
}

// wideningNames are the widening sums by the sizes of elements and sums.
var wideningNames = func() (all [5][9]scanNames) {
	for _, in := range []elemType{typeU8, typeU16, typeU32} {
		for _, out := range []elemType{typeU32, typeU64} {
			suffix := scanSuffix("sum", in, out)
			if in.size < out.size {
				all[in.size][out.size] = scanNames{pass: "scan_pass_" + suffix, bulk: "scan_bulk_" + suffix}
			}
		}
	}
	return all
}()

func scanHost[T Number](ctx context.Context, call string, rt *Runtime, dst, src []T, op Op, exclusive bool, opts []ScanOption) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	sc, err := builtinScanner[T](call, op, exclusive)
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
	sc, err := builtinScanner[T](call, op, exclusive)
	if err != nil {
		return err
	}
	return bufferScan(call, s, &sc, dst, src, opts)
}

// scanner is an operator on a device, with what a scan starts from.
type scanner struct {
	element   reflect.Type
	names     *scanNames    // of a built-in operator's modules, or
	own       *loadedModule // a caller's operator
	size      int
	align     int
	init      [16]byte
	exclusive bool
	segments  segments // of a segmented scan
}

// scanNames are the modules of a built-in operator; "" for a way to scan that it does
// not have.
type scanNames struct{ recursive, pass, bulk, segmented string }

// Kernels of a caller's operator, in the order that NewOperator lists them.
const (
	kernelUpsweep = iota
	kernelDownsweep
	kernelPass
	kernelBulk
	kernelSegmented
)

func newScanner[T any](align int, init []byte, exclusive bool) scanner {
	sc := scanner{element: reflect.TypeFor[T](), size: int(sizeOf[T]()), align: align, exclusive: exclusive}
	copy(sc.init[:], init)
	return sc
}

// kernel returns one of the operator's kernels.
func (sc *scanner) kernel(rt *Runtime, which int) (kernel, error) {
	if sc.own != nil {
		return sc.own.kernels[which], nil
	}
	name, at := sc.names.recursive, which
	switch which {
	case kernelPass:
		name, at = sc.names.pass, 0
	case kernelBulk:
		name, at = sc.names.bulk, 0
	case kernelSegmented:
		name, at = sc.names.segmented, 0
	}
	m, err := rt.module(name)
	if err != nil {
		return kernel{}, err
	}
	return m.kernels[at], nil
}

func builtinScanner[T Number](call string, op Op, exclusive bool) (scanner, error) {
	kind := reflect.TypeFor[T]().Kind()
	if op >= opCount {
		return scanner{}, driver.Errorf(call, driver.ErrInvalidValue, "operator %d", op)
	}
	b := &builtins[op][kind]
	if b.names.recursive == "" {
		return scanner{}, driver.Errorf(call, driver.ErrElementType, "%v of %v", op, kind)
	}
	sc := newScanner[T](int(sizeOf[T]()), b.identity[:], exclusive)
	sc.names = &b.names
	return sc, nil
}

// sumScanner is the inclusive scan with a built-in sum of unsigned numbers, for
// other algorithms.
func sumScanner(names *scanNames, size int64) scanner {
	return scanner{names: names, size: int(size), align: int(size)}
}

// builtin is what is embedded for an operator on a kind of number.
type builtin struct {
	names    scanNames
	identity [8]byte
}

func namesOf(suffix string) scanNames {
	return scanNames{"scan_recursive_" + suffix, "scan_pass_" + suffix, "scan_bulk_" + suffix, "scan_segmented_" + suffix}
}

// Sums that other algorithms scan with. The identity of all is zero.
var sumNames = func() map[string]*scanNames {
	all := map[string]*scanNames{"satsum_u32_u64": {pass: "scan_pass_satsum_u32_u64", bulk: "scan_bulk_satsum_u32_u64"}}
	for _, suffix := range []string{"sum_u32", "sum_u64", "satsum_u64"} {
		n := namesOf(suffix)
		all[suffix] = &n
	}
	return all
}()

// builtins is filled from the kernel table: the kinds that have an instance.
var builtins = func() (all [opCount][reflect.Float64 + 1]builtin) {
	for op := range opCount {
		for t, kinds := range kindsOf {
			suffix := opNames[op] + "_" + t
			if t[0] == 'i' && op != Min && op != Max {
				suffix = opNames[op] + "_u" + t[1:] // the sign makes no difference
			}
			names := namesOf(suffix)
			m := moduleByName[names.recursive]
			if m == nil {
				continue
			}
			for _, k := range kinds {
				all[op][k].names = names
				copy(all[op][k].identity[:], m.identity)
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

var numberNames = func() (names [reflect.Float64 + 1]string) {
	for name, kinds := range kindsOf {
		for _, k := range kinds {
			names[k] = name
		}
	}
	return names
}()

// numberName is the device type that holds a T.
func numberName[T Number]() string { return numberNames[reflect.TypeFor[T]().Kind()] }

// widthName is the unsigned type that carries values of size bytes.
func widthName(size int64) string {
	switch size {
	case 1:
		return typeU8.name
	case 2:
		return typeU16.name
	case 4:
		return typeU32.name
	}
	return typeU64.name
}

// hostScan copies src to the device, scans it there, in place if the types are
// the same, and copies the result back.
func hostScan[Out, In any](ctx context.Context, call string, rt *Runtime, sc *scanner, dst []Out, src []In, opts []ScanOption) error {
	if len(dst) != len(src) {
		return driver.Errorf(call, driver.ErrLength, "dst has %d elements, src %d", len(dst), len(src))
	}
	inPlace := reflect.TypeFor[Out]() == reflect.TypeFor[In]()
	if err := checkScanOverlap(call, spanOf("dst", dst), spanOf("src", src), inPlace); err != nil {
		return err
	}
	if err := sc.segments.checkHost(call, spanOf("dst", dst), int64(len(src))); err != nil {
		return err
	}
	c := scanOptions(opts)
	if c.setWorkspace {
		return driver.Errorf(call, driver.ErrInvalidValue, "a workspace is for calls on buffers")
	}
	if _, err := sc.plan(call, int64(len(src)), &c); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return err
	}
	return rt.onStream(call, func(s *Stream) error {
		in, err := s.alloc(int64(len(src)) * sizeOf[In]())
		if err != nil {
			return err
		}
		defer s.free(in)
		out := in
		if !inPlace {
			if out, err = s.alloc(int64(len(dst)) * sizeOf[Out]()); err != nil {
				return err
			}
			defer s.free(out)
		}
		if err := s.upload(ctx, in, bytesOf(src)); err != nil {
			return err
		}
		defer s.freeSegments(&sc.segments)
		if err := s.uploadSegments(ctx, &sc.segments); err != nil {
			return err
		}
		if err := s.scan(call, sc, out, in, int64(len(src)), c); err != nil {
			return err
		}
		return s.download(ctx, bytesOf(dst), out)
	})
}

// checkScanOverlap allows input and output of one type to be the same memory.
func checkScanOverlap(call string, dst, src span, sameType bool) error {
	if sameType {
		return checkInPlace(call, dst, src)
	}
	return checkDisjoint(call, dst, src)
}

func bufferScan[Out, In any](call string, s *Stream, sc *scanner, dst *Buffer[Out], src *Buffer[In], opts []ScanOption) error {
	if err := src.check(call, "src", s.rt); err != nil {
		return err
	}
	if err := dst.check(call, "dst", s.rt); err != nil {
		return err
	}
	if dst.n != src.n {
		return driver.Errorf(call, driver.ErrLength, "dst has %d elements, src %d", dst.n, src.n)
	}
	if err := checkScanOverlap(call, dst.span("dst"), src.span("src"), reflect.TypeFor[Out]() == reflect.TypeFor[In]()); err != nil {
		return err
	}
	if err := sc.segments.checkBuffer(call, s.rt, dst.span("dst"), src.n); err != nil {
		return err
	}
	c := scanOptions(opts)
	if c.setWorkspace {
		if err := c.workspace.check(call, "workspace", s.rt); err != nil {
			return err
		}
		w := c.workspace.span("workspace")
		if err := cmp.Or(checkDisjoint(call, w, dst.span("dst")), checkDisjoint(call, w, src.span("src")), checkDisjoint(call, w, sc.segments.span())); err != nil {
			return err
		}
		if w.from%256 != 0 {
			return driver.Errorf(call, driver.ErrMisaligned, "workspace at %#x; it begins at a multiple of 256, as a whole buffer does", uint64(w.from))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, s.scan(call, sc, dst.ptr, src.ptr, dst.n, c))
}

// widening says that the operator sums in a wider type, which is a single pass, forwards.
func (sc *scanner) widening() bool { return sc.names != nil && sc.names.recursive == "" }

// plan plans a scan of n elements with the options, and refuses what is not done.
func (sc *scanner) plan(call string, n int64, c *ScanOption) (ScanPlan, error) {
	plan, err := PlanScan(c.strategy, n, int64(sc.size))
	single := c.strategy == ScanSinglePass
	switch {
	case err != nil:
		err = named(call, err)
	case c.initType != nil && c.initType != sc.element:
		err = driver.Errorf(call, driver.ErrElementType, "WithScanInit was given a value of type %v, the results are of type %v: convert it", c.initType, sc.element)
	case c.reverse && sc.widening():
		err = driver.Errorf(call, driver.ErrInvalidValue, "sums in a wider type are not scanned in reverse")
	case !single && sc.widening():
		err = driver.Errorf(call, driver.ErrInvalidValue, "the %v strategy scans elements of the result's type", c.strategy)
	case !single && sc.segments.kind != oneSegment:
		err = driver.Errorf(call, driver.ErrInvalidValue, "the %v strategy does not scan segments", c.strategy)
	case !single && c.reverse:
		err = driver.Errorf(call, driver.ErrInvalidValue, "the %v strategy does not scan in reverse", c.strategy)
	}
	return plan, err
}

// scan gives the stream a scan of n elements. dst may be src.
func (s *Stream) scan(call string, sc *scanner, dst, src driver.Ptr, n int64, c ScanOption) error {
	plan, err := sc.plan(call, n, &c)
	if err != nil {
		return err
	}
	if c.initType != nil {
		sc.init = c.init
	}
	switch {
	case sc.segments.kind != oneSegment:
		return s.scanSegmented(call, sc, dst, src, n, c)
	case n == 0:
		return nil
	case !sc.widening() && !c.reverse && n <= scanTile(sc.size):
		return s.scanLevel(sc, &plan, 0, 0, dst, src, n, sc.exclusive) // one launch
	}
	w := driver.Ptr(0) // the pass has a state of its own
	if c.workspace != nil {
		if c.workspace.n < plan.Bytes {
			return &driver.Error{Op: call, Code: driver.ErrTooSmall, N: n, Need: plan.Bytes,
				Detail: fmt.Sprintf("the workspace has %d bytes, %d are needed", c.workspace.n, plan.Bytes)}
		}
		w = c.workspace.ptr
	} else if c.strategy != ScanSinglePass {
		if w, err = s.alloc(plan.Bytes); err != nil {
			return err
		}
		defer s.free(w)
	}
	if c.strategy == ScanSinglePass {
		return s.scanPass(sc, &plan, w, dst, src, n, scanMode(sc.exclusive, c.reverse))
	}
	return s.scanLevel(sc, &plan, 0, w, dst, src, n, sc.exclusive)
}

// bulkTiles is how many tiles a multiprocessor must have for bulk copies to pay:
// the roles of scan_bulk take longer to start than a tile in registers. On an H200
// they lose a tenth at 1 and win as much at 4 (bench/NOTES.md).
const bulkTiles = 2

// scanPass scans in a single pass: by bulk copies where the device has them, there
// is enough to scan, and input and output are aligned for them.
func (s *Stream) scanPass(sc *scanner, plan *ScanPlan, state, dst, src driver.Ptr, n int64, mode uint32) error {
	var k kernel
	var err error
	info := s.rt.dev.Info()
	few := n <= passTile(sc.size)*int64(bulkTiles*info.Multiprocessors)
	if bulkCapability <= info.Capability && !few && dst%16 == 0 && src%16 == 0 {
		if k, err = sc.kernel(s.rt, kernelBulk); err != nil {
			return err
		}
	}
	if k.Kernel == nil { // also where a caller's operator was not compiled for sm_90
		if k, err = sc.kernel(s.rt, kernelPass); err != nil {
			return err
		}
	}
	return s.launchPass(k, n, state, plan.Bytes, func(a *driver.Args, state driver.Ptr, first uint32) {
		a.Ptr(src).Ptr(dst).Uint64(uint64(n)).Ptr(state).Uint32(first).Bytes(sc.init[:sc.size], sc.align).Uint32(mode)
	})
}

// scanMode is a pass's parameter mode.
func scanMode(exclusive, reverse bool) uint32 {
	return flag(exclusive)*twin.ScanExclusive | flag(reverse)*twin.ScanReverse
}

// scanLevel scans n elements recursively: upsweep to the tiles' sums, spine over
// them, downsweep from what stands before each tile.
func (s *Stream) scanLevel(sc *scanner, plan *ScanPlan, level int, workspace, dst, src driver.Ptr, n int64, exclusive bool) error {
	var sums driver.Ptr // of the tiles before each tile; none if there is one tile
	if level < plan.Depth {
		l := plan.Levels[level]
		sums = workspace + driver.Ptr(l.Offset)
		k, err := sc.kernel(s.rt, kernelUpsweep)
		if err != nil {
			return err
		}
		a := driver.NewArgs().Ptr(src).Uint64(uint64(n)).Ptr(sums)
		if err := s.launch(k, uint64(l.Tiles), n, a); err != nil {
			return err
		}
		if err := s.scanLevel(sc, plan, level+1, workspace, sums, sums, l.Tiles, true); err != nil {
			return err
		}
	}
	k, err := sc.kernel(s.rt, kernelDownsweep)
	if err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(src).Ptr(dst).Uint64(uint64(n)).Ptr(sums).Bytes(sc.init[:sc.size], sc.align).Uint32(flag(exclusive))
	return s.launch(k, k.tiles(n), n, a)
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
