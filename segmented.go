package ptxrun

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// HeadFlag is the type of a head flag: one that is not zero, or true, begins a
// segment at its element.
type HeadFlag interface{ ~uint8 | ~bool }

// SegmentOffset is the type of the places where segments begin.
type SegmentOffset interface{ ~uint32 | ~uint64 }

// Segments says where the segments of a scan of n elements in host memory begin:
// [SegmentHeads], [SegmentKeys] or [SegmentOffsets].
type Segments struct{ s segments }

// BufferSegments are [Segments] in device memory.
type BufferSegments struct{ s segments }

// SegmentHeads are n flags. The first element begins a segment in any case.
func SegmentHeads[F HeadFlag](heads []F) Segments { return hostSegments(segmentHeads, heads) }

// SegmentKeys are n keys; elements next to each other with the same key are in
// one segment. Keys are compared by their bits, as [RLEEncode] does.
func SegmentKeys[K Number](keys []K) Segments { return hostSegments(segmentKeys, keys) }

// SegmentOffsets are the places where m segments begin, and n: m + 1 numbers, the
// first 0, none less than the one before. Equal ones are empty segments. This is
// a batch of m scans, however long each of them is, for the price of one.
func SegmentOffsets[I SegmentOffset](offsets []I) Segments {
	return hostSegments(segmentOffsets, offsets)
}

// SegmentHeadsBuffer is [SegmentHeads] in device memory.
func SegmentHeadsBuffer[F HeadFlag](heads *Buffer[F]) BufferSegments {
	return bufferSegments(segmentHeads, heads)
}

// SegmentKeysBuffer is [SegmentKeys] in device memory.
func SegmentKeysBuffer[K Number](keys *Buffer[K]) BufferSegments {
	return bufferSegments(segmentKeys, keys)
}

// SegmentOffsetsBuffer is [SegmentOffsets] in device memory. The scan waits for
// the stream once, to see that they ascend from 0 to n.
func SegmentOffsetsBuffer[I SegmentOffset](offsets *Buffer[I]) BufferSegments {
	return bufferSegments(segmentOffsets, offsets)
}

// InclusiveSegmentedScan scans each segment by itself: dst[i] = src[h] op … op
// src[i], where h is the head of i's segment. dst and src have the same length,
// and are the same slice or do not overlap; dst does not overlap what describes
// the segments. WithScanInit and WithScanReverse hold for each segment.
//
// It is one pass over the elements, whatever the segments' lengths, with the
// operator on pairs of a head flag and a value: Schwartz, "Ultracomputers"
// (1980); Sengupta, Harris, Zhang and Owens, "Scan Primitives for GPU Computing"
// (2007). Forwards, flags are read as they are; in reverse, and always for keys
// and offsets, a kernel before makes a bit an element of them, which costs n/8
// bytes of workspace written and read and one launch, two for offsets.
//
// Integers give the same bits on every device. Float sums and products depend
// on the order of combination, which is fixed for a device, the length and the
// segments.
//
// It returns when dst is complete. When ctx is done first it returns ctx's
// error and dst is untouched. Errors: as [InclusiveScan], ErrLength also for
// heads or keys of another length than src, ErrNil for no segments at all,
// ErrInvalidValue for offsets that do not ascend from 0 to n and for
// [ScanRecursive]. dst is then untouched.
func InclusiveSegmentedScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, segments Segments, op Op, opts ...ScanOption) error {
	return segmentedHost(ctx, "InclusiveSegmentedScan", rt, dst, src, segments, op, false, opts)
}

// ExclusiveSegmentedScan begins each segment with the operator's identity, or the
// value of WithScanInit, and goes on with dst[i] = src[h] op … op src[i-1]. Else
// as [InclusiveSegmentedScan].
func ExclusiveSegmentedScan[T Number](ctx context.Context, rt *Runtime, dst, src []T, segments Segments, op Op, opts ...ScanOption) error {
	return segmentedHost(ctx, "ExclusiveSegmentedScan", rt, dst, src, segments, op, true, opts)
}

// InclusiveSegmentedScanBuffer is [InclusiveSegmentedScan] on device buffers, in
// stream order: it returns when the work is given to the stream. A workspace of
// the caller has [PlanSegmentedScan]'s bytes. Errors are also those of
// [InclusiveScanBuffer].
func InclusiveSegmentedScanBuffer[T Number](s *Stream, dst, src *Buffer[T], segments BufferSegments, op Op, opts ...ScanOption) error {
	return segmentedBuffers("InclusiveSegmentedScanBuffer", s, dst, src, segments, op, false, opts)
}

// ExclusiveSegmentedScanBuffer is [ExclusiveSegmentedScan] on device buffers, in
// stream order.
func ExclusiveSegmentedScanBuffer[T Number](s *Stream, dst, src *Buffer[T], segments BufferSegments, op Op, opts ...ScanOption) error {
	return segmentedBuffers("ExclusiveSegmentedScanBuffer", s, dst, src, segments, op, true, opts)
}

// InclusiveSegmentedScan is [InclusiveSegmentedScan] with this operator.
func (o *Operator[T]) InclusiveSegmentedScan(ctx context.Context, dst, src []T, segments Segments, opts ...ScanOption) error {
	return o.host(ctx, "Operator.InclusiveSegmentedScan", dst, src, false, opts, segments.s.needed())
}

// ExclusiveSegmentedScan is [ExclusiveSegmentedScan] with this operator.
func (o *Operator[T]) ExclusiveSegmentedScan(ctx context.Context, dst, src []T, segments Segments, opts ...ScanOption) error {
	return o.host(ctx, "Operator.ExclusiveSegmentedScan", dst, src, true, opts, segments.s.needed())
}

// InclusiveSegmentedScanBuffer is [InclusiveSegmentedScanBuffer] with this
// operator.
func (o *Operator[T]) InclusiveSegmentedScanBuffer(s *Stream, dst, src *Buffer[T], segments BufferSegments, opts ...ScanOption) error {
	return o.buffers("Operator.InclusiveSegmentedScanBuffer", s, dst, src, false, opts, segments.s.needed())
}

// ExclusiveSegmentedScanBuffer is [ExclusiveSegmentedScanBuffer] with this
// operator.
func (o *Operator[T]) ExclusiveSegmentedScanBuffer(s *Stream, dst, src *Buffer[T], segments BufferSegments, opts ...ScanOption) error {
	return o.buffers("Operator.ExclusiveSegmentedScanBuffer", s, dst, src, true, opts, segments.s.needed())
}

func segmentedHost[T Number](ctx context.Context, call string, rt *Runtime, dst, src []T, segments Segments, op Op, exclusive bool, opts []ScanOption) error {
	if err := rt.beginHost(ctx, call); err != nil {
		return err
	}
	defer rt.end()
	sc, err := builtinScanner[T](call, op, exclusive)
	if err != nil {
		return err
	}
	sc.segments = segments.s.needed()
	return hostScan(ctx, call, rt, &sc, dst, src, opts)
}

func segmentedBuffers[T Number](call string, s *Stream, dst, src *Buffer[T], segments BufferSegments, op Op, exclusive bool, opts []ScanOption) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	sc, err := builtinScanner[T](call, op, exclusive)
	if err != nil {
		return err
	}
	sc.segments = segments.s.needed()
	return bufferScan(call, s, &sc, dst, src, opts)
}

// SegmentedPlan is the layout of a segmented scan's workspace: the state of the
// pass from 0 on, at Check what the check of offsets finds, at Bits a bit an
// element.
type SegmentedPlan struct{ Check, Bits, Bytes int64 }

// PlanSegmentedScan lays out the workspace to scan n elements of size bytes in
// segments, however those are described and whatever the direction. Errors: as
// [PlanScan].
func PlanSegmentedScan(n, size int64) (SegmentedPlan, error) {
	p, err := PlanScan(ScanSinglePass, n, size)
	if err != nil {
		return SegmentedPlan{}, named("PlanSegmentedScan", err)
	}
	if n <= passTile(int(size)) {
		p.Bytes = 0 // a block by itself
	}
	bits := p.Bytes + 256
	return SegmentedPlan{Check: p.Bytes, Bits: bits, Bytes: bits + align256(ceilDiv(max(n, 1), 32)*4)}, nil
}

// segmentKind is how segments are described.
type segmentKind uint8

const (
	oneSegment     segmentKind = iota // of a scan that is not segmented
	missingSegment                    // of one whose segments were not given
	segmentHeads
	segmentKeys
	segmentOffsets
)

func (k segmentKind) String() string {
	return [...]string{"", "segments", "heads", "keys", "offsets"}[k]
}

// segments is a description of segments, in host or device memory.
type segments struct {
	kind        segmentKind
	size, count int64
	host        []byte
	buffer      *Buffer[byte]

	ptr     driver.Ptr // on the device
	checked bool       // that offsets ascend
}

func hostSegments[T any](kind segmentKind, v []T) Segments {
	return Segments{segments{kind: kind, size: sizeOf[T](), count: int64(len(v)), host: bytesOf(v)}}
}

func bufferSegments[T any](kind segmentKind, b *Buffer[T]) BufferSegments {
	g := segments{kind: kind, size: sizeOf[T]()}
	if b != nil {
		g.count, g.ptr = b.n, b.ptr
		g.buffer = &Buffer[byte]{rt: b.rt, ptr: b.ptr, n: b.n * g.size, free: b.free}
	}
	return BufferSegments{g}
}

// needed tells what was not described from what is not to be.
func (g segments) needed() segments {
	if g.kind == oneSegment {
		g.kind = missingSegment
	}
	return g
}

// checkLength says whether there are as many heads or keys as elements.
func (g *segments) checkLength(call string, n int64) error {
	switch {
	case g.kind == oneSegment:
		return nil
	case g.kind == missingSegment:
		return driver.Errorf(call, driver.ErrNil, "segments")
	case g.kind != segmentOffsets && g.count != n:
		return driver.Errorf(call, driver.ErrLength, "%d %v for %d elements", g.count, g.kind, n)
	case g.kind == segmentOffsets && g.count == 0:
		return driver.Errorf(call, driver.ErrLength, "no offsets; the first is 0, the last the number of elements")
	}
	return nil
}

// checkHost checks segments in host memory, of a scan of n elements to dst.
func (g *segments) checkHost(call string, dst span, n int64) error {
	if err := g.checkLength(call, n); err != nil || g.kind == oneSegment {
		return err
	}
	if err := checkDisjoint(call, dst, spanOf(g.kind.String(), g.host)); err != nil {
		return err
	}
	if g.kind != segmentOffsets {
		return nil
	}
	g.checked = true
	if g.size == 4 {
		return checkOffsets(call, unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(g.host))), g.count), n)
	}
	return checkOffsets(call, unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(g.host))), g.count), n)
}

func checkOffsets[I SegmentOffset](call string, offsets []I, n int64) error {
	last := I(0)
	for i, o := range offsets {
		if o < last || i == 0 && o != 0 {
			return driver.Errorf(call, driver.ErrInvalidValue, "offset %d is %d after %d; they ascend from 0", i, o, last)
		}
		last = o
	}
	if uint64(last) != uint64(n) {
		return driver.Errorf(call, driver.ErrInvalidValue, "the last offset is %d of %d elements", last, n)
	}
	return nil
}

// checkBuffer checks segments in device memory, of a scan of n elements to dst.
func (g *segments) checkBuffer(call string, rt *Runtime, dst span, n int64) error {
	if g.kind == oneSegment {
		return nil
	}
	if g.kind != missingSegment {
		if err := g.buffer.check(call, g.kind.String(), rt); err != nil {
			return err
		}
	}
	if err := g.checkLength(call, n); err != nil {
		return err
	}
	return checkDisjoint(call, dst, g.span())
}

func (g *segments) span() span {
	if g.buffer == nil {
		return span{}
	}
	return g.buffer.span(g.kind.String())
}

// uploadSegments brings a description in host memory to the device.
func (s *Stream) uploadSegments(ctx context.Context, g *segments) error {
	if len(g.host) == 0 {
		return nil
	}
	var err error
	if g.ptr, err = s.alloc(int64(len(g.host))); err != nil {
		return err
	}
	return s.upload(ctx, g.ptr, g.host)
}

// freeSegments releases what uploadSegments took.
func (s *Stream) freeSegments(g *segments) {
	if len(g.host) > 0 && g.ptr != 0 {
		s.free(g.ptr)
	}
}

// scanSegmented gives the stream a scan of n elements in segments.
func (s *Stream) scanSegmented(call string, sc *scanner, dst, src driver.Ptr, n int64, c ScanOption) error {
	g := &sc.segments
	if n == 0 && (g.kind != segmentOffsets || g.checked) {
		return nil
	}
	plan, err := PlanSegmentedScan(n, int64(sc.size))
	if err != nil {
		return err
	}
	asBits := g.kind == segmentKeys || g.kind == segmentOffsets || g.kind == segmentHeads && c.reverse
	need := plan.Check
	if asBits || c.setWorkspace {
		need = plan.Bytes
	}
	var state, check driver.Ptr // the pass has a state of its own
	switch {
	case need == 0:
	case !c.setWorkspace && asBits:
		if check, err = s.alloc(plan.Bytes - plan.Check); err != nil {
			return err
		}
		defer s.free(check)
	case !c.setWorkspace:
	case c.workspace.n < need:
		return &driver.Error{Op: call, Code: driver.ErrTooSmall, N: n, Need: need,
			Detail: fmt.Sprintf("the workspace has %d bytes, %d are needed", c.workspace.n, need)}
	default:
		state, check = c.workspace.ptr, c.workspace.ptr+driver.Ptr(plan.Check)
	}
	if g.kind == segmentOffsets {
		if err := s.s.Fill(check, 0, plan.Bytes-plan.Check); err != nil {
			return err
		}
	}
	heads, mode := g.ptr, scanMode(sc.exclusive, c.reverse)
	if asBits {
		heads, mode = check+driver.Ptr(plan.Bits-plan.Check), mode|twin.SegmentedBits
		if err := s.segmentBits(call, g, n, heads, flag(c.reverse), check); err != nil || n == 0 {
			return err
		}
	}
	k, err := sc.kernel(s.rt, kernelSegmented)
	if err != nil {
		return err
	}
	return s.launchPass(k, n, state, plan.Check, func(a *driver.Args, state driver.Ptr, first uint32) {
		a.Ptr(src).Ptr(dst).Uint64(uint64(n)).Ptr(heads).Ptr(state).Uint32(first).Bytes(sc.init[:sc.size], sc.align).Uint32(mode)
	})
}

// segmentBits makes a bit an element of what describes segments. It waits for
// the check of offsets that were not checked.
func (s *Stream) segmentBits(call string, g *segments, n int64, bits driver.Ptr, reverse uint32, check driver.Ptr) error {
	m, err := s.rt.module("segment_heads")
	if err != nil {
		return err
	}
	width := widthName(g.size)
	if g.kind != segmentOffsets {
		if g.kind == segmentHeads {
			width = "flags"
		}
		k := m.kernel("segment_heads_" + width)
		a := driver.NewArgs().Ptr(g.ptr).Uint64(uint64(n)).Ptr(bits).Uint32(reverse)
		return s.launch(k, k.tiles(n), n, a)
	}
	k := m.kernel("segment_offsets_" + width)
	a := driver.NewArgs().Ptr(g.ptr).Uint64(uint64(g.count)).Uint64(uint64(n)).Ptr(bits).Uint32(reverse).Ptr(check)
	if err := s.launch(k, k.tiles(g.count), n, a); err != nil || g.checked {
		return err
	}
	bad, err := s.read(check, 4)
	if err == nil && bad != 0 {
		err = driver.Errorf(call, driver.ErrInvalidValue, "the %d offsets do not ascend from 0 to %d", g.count, n)
	}
	return err
}
