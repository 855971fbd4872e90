package ptxrun

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// Flag is an element's flag: true, or not zero, keeps the element.
type Flag interface{ ~bool | ~uint8 }

// Index is the type of an element's index.
type Index interface{ ~uint32 | ~uint64 }

// Comparison relates an element, on the left, to a value.
//
// Floats compare as in Go: -0 equals +0, and NaN is unequal to everything, itself
// included, and neither less nor greater.
type Comparison uint8

const (
	Equal Comparison = iota
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	comparisons
)

func (c Comparison) String() string {
	if c < comparisons {
		return [...]string{"==", "!=", "<", "<=", ">", ">="}[c]
	}
	return "unknown comparison"
}

// unknown is the error for a comparison that is none.
func (c Comparison) unknown(call string) error {
	return driver.Errorf(call, driver.ErrInvalidValue, "comparison %d; known are Equal (0) to GreaterOrEqual (%d)", uint8(c), uint8(GreaterOrEqual))
}

// SelectFlagged stores the elements of src whose flag is set to the front of dst,
// in order, and returns how many they are. flags has the length of src; dst and
// src are the same memory from the first element on, or do not overlap. Elements
// of dst behind the count are not changed.
//
// It is a single pass, as [ScanSinglePass] is, which scans how many elements each
// tile keeps: an element is read once, and written once if it is kept. Up to a
// tile it is one launch.
//
// The result does not depend on the device. When ctx is done first it returns
// ctx's error and dst is untouched. Errors: ErrNil, ErrClosed, ErrLength,
// ErrOverlap, ErrOutOfMemory, and ErrTooSmall if dst has too little room: nothing
// is written then, and the count is the room needed.
func SelectFlagged[T Number, F Flag](ctx context.Context, rt *Runtime, dst, src []T, flags []F) (int, error) {
	return selectHost(ctx, "SelectFlagged", rt, dst, src, flags, &compaction{criterion: byFlag})
}

// SelectWhere is [SelectFlagged] of the elements for which "element c value"
// holds. Errors are also ErrInvalidValue for an unknown comparison.
func SelectWhere[T Number](ctx context.Context, rt *Runtime, dst, src []T, c Comparison, value T) (int, error) {
	return selectHost[T, bool](ctx, "SelectWhere", rt, dst, src, nil, where(c, value))
}

// Unique is [SelectFlagged] of the elements that differ from the one before, and
// the first. Elements are compared by their bits: NaN equals the same NaN, and -0
// differs from +0.
func Unique[T Number](ctx context.Context, rt *Runtime, dst, src []T) (int, error) {
	return selectHost[T, bool](ctx, "Unique", rt, dst, src, nil, &compaction{criterion: byNeighbour})
}

// PartitionFlagged stores the elements of src whose flag is set to the front of
// dst and the others behind them, both in order, and returns how many the first
// are. dst, src and flags have the same length; dst and src do not overlap. A pass
// that only counts comes first. Else as [SelectFlagged].
func PartitionFlagged[T Number, F Flag](ctx context.Context, rt *Runtime, dst, src []T, flags []F) (int, error) {
	return selectHost(ctx, "PartitionFlagged", rt, dst, src, flags, &compaction{criterion: byFlag, partition: true})
}

// PartitionWhere is [PartitionFlagged] with first the elements for which "element
// c value" holds.
func PartitionWhere[T Number](ctx context.Context, rt *Runtime, dst, src []T, c Comparison, value T) (int, error) {
	x := where(c, value)
	x.partition = true
	return selectHost[T, bool](ctx, "PartitionWhere", rt, dst, src, nil, x)
}

// FlaggedIndices stores the indices of the flags that are set to the front of
// dst, in order, and returns how many they are. Else as [SelectFlagged]. Errors
// are also ErrOverflow for 32-bit indices of more than 2^32 flags.
func FlaggedIndices[I Index, F Flag](ctx context.Context, rt *Runtime, dst []I, flags []F) (int, error) {
	return selectHost(ctx, "FlaggedIndices", rt, dst, nil, flags, &compaction{criterion: byIndex})
}

// SelectFlaggedBuffer is [SelectFlagged] on device buffers, in stream order: it
// returns when the work is given to the stream. count has one element and
// receives the number of elements kept. If that is more than dst has room for,
// dst is not written, and no error is returned; where dst has less room than src has
// elements, a pass that only counts, and reads flags alone if there are, comes first.
// No other two of dst, src, flags and count overlap than dst with src, which may be
// the same memory from the first element on, and src with flags. Errors: as
// [SelectFlagged] but for ErrTooSmall, ErrWrongDevice, and ErrLength also for a count
// of another length.
func SelectFlaggedBuffer[T Number, F Flag](s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T], flags *Buffer[F]) error {
	return selectBuffers("SelectFlaggedBuffer", s, dst, count, src, flags, &compaction{criterion: byFlag})
}

// SelectWhereBuffer is [SelectWhere] on device buffers, as [SelectFlaggedBuffer].
func SelectWhereBuffer[T Number](s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T], c Comparison, value T) error {
	return selectBuffers[T, bool]("SelectWhereBuffer", s, dst, count, src, nil, where(c, value))
}

// UniqueBuffer is [Unique] on device buffers, as [SelectFlaggedBuffer].
func UniqueBuffer[T Number](s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T]) error {
	return selectBuffers[T, bool]("UniqueBuffer", s, dst, count, src, nil, &compaction{criterion: byNeighbour})
}

// PartitionFlaggedBuffer is [PartitionFlagged] on device buffers, as
// [SelectFlaggedBuffer], but dst and src do not overlap.
func PartitionFlaggedBuffer[T Number, F Flag](s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T], flags *Buffer[F]) error {
	return selectBuffers("PartitionFlaggedBuffer", s, dst, count, src, flags, &compaction{criterion: byFlag, partition: true})
}

// PartitionWhereBuffer is [PartitionWhere] on device buffers, as
// [PartitionFlaggedBuffer].
func PartitionWhereBuffer[T Number](s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T], c Comparison, value T) error {
	x := where(c, value)
	x.partition = true
	return selectBuffers[T, bool]("PartitionWhereBuffer", s, dst, count, src, nil, x)
}

// FlaggedIndicesBuffer is [FlaggedIndices] on device buffers, as
// [SelectFlaggedBuffer].
func FlaggedIndicesBuffer[I Index, F Flag](s *Stream, dst *Buffer[I], count *Buffer[uint64], flags *Buffer[F]) error {
	return selectBuffers("FlaggedIndicesBuffer", s, dst, count, nil, flags, &compaction{criterion: byIndex})
}

// criterion is what chooses elements.
type criterion uint8

const (
	byFlag criterion = iota
	byValue
	byNeighbour
	byIndex // by flag, to store indices
)

// criterionNames are the criteria's in the kernels.
var criterionNames = [...]string{"flagged", "compare", "unique", "indices"}

func (c criterion) hasFlags() bool  { return c == byFlag || c == byIndex }
func (c criterion) hasValues() bool { return c != byIndex }

// compaction is one call.
type compaction struct {
	criterion criterion
	partition bool
	values    valueRange // of byValue
	unknown   Comparison // of byValue, if it is none

	size                  int64 // of an output element
	in, flags, out, count driver.Ptr
	n, capacity           int64
}

// where is the compaction of the elements for which "element c v" holds.
func where[T Number](c Comparison, v T) *compaction {
	if c >= comparisons {
		return &compaction{criterion: byValue, unknown: c}
	}
	return &compaction{criterion: byValue, values: rangeOf(c, v)}
}

// valueRange is a set of values of one type: those whose keys lie in the range
// from low over span, modulo the type's width, or, if negate is not zero, the
// others. A key is the value's bits; where fold is not zero, those of negative
// floats are changed by it to rise with the value.
type valueRange struct {
	fold, low, span uint64
	negate          uint32
}

// rangeOf is the set of x for which "x c v" holds.
func rangeOf[T Number](c Comparison, v T) valueRange {
	bits := 8 * sizeOf[T]()
	ones := ^uint64(0) >> (64 - bits)
	var r valueRange
	key := func(v T) uint64 {
		var word [8]byte
		copy(word[:], bytesOfValue(&v))
		k := binary.LittleEndian.Uint64(word[:])
		if k>>(bits-1) != 0 {
			k ^= r.fold
		}
		return k
	}
	// The keys of the lowest and highest values, and of the first and last that
	// equal v.
	var lowest, highest, first, last uint64
	switch kind := reflect.TypeFor[T]().Kind(); {
	case kind == reflect.Float32 || kind == reflect.Float64:
		r.fold = ones >> 1
		var zero T
		one := T(1)
		lowest, highest = key(-one/zero), key(one/zero)
		first, last = key(v), key(v)
		if v == 0 {
			first, last = ones, 0 // -0 and +0
		}
	default:
		highest = ones
		if zero := T(0); zero-1 < zero {
			lowest, highest = 1<<(bits-1), ones>>1
		}
		first, last = key(v), key(v)
	}
	none := v != v
	low, high := first, last
	switch c {
	case NotEqual:
		r.negate = 1
	case Less:
		none = none || first == lowest
		low, high = lowest, first-1
	case LessOrEqual:
		low = lowest
	case Greater:
		none = none || last == highest
		low, high = last+1, highest
	case GreaterOrEqual:
		high = highest
	}
	if none { // all but all values, and for NotEqual all
		r.low, r.span, r.negate = 0, ones, r.negate^1
		return r
	}
	r.low, r.span = low&ones, (high-low)&ones
	return r
}

// selectHost compacts on the device, in place where that is possible, and copies
// what is kept back.
func selectHost[T Number, F Flag](ctx context.Context, call string, rt *Runtime, dst, src []T, flags []F, c *compaction) (int, error) {
	if err := rt.beginHost(ctx, call); err != nil {
		return 0, err
	}
	defer rt.end()
	c.size, c.n, c.capacity = sizeOf[T](), int64(len(src)), int64(len(dst))
	if !c.criterion.hasValues() {
		c.n = int64(len(flags))
	}
	if err := c.check(call, spanOf("dst", dst), spanOf("src", src), spanOf("flags", flags), span{}); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil || c.n == 0 {
		return 0, err
	}
	var kept int64
	err := rt.onStream(call, func(s *Stream) error {
		bytes := align256(c.n * c.size)
		extra := int64(256) // the count
		if c.criterion.hasFlags() {
			extra += align256(c.n)
		}
		p, err := s.alloc(bytes + extra)
		if err != nil {
			return err
		}
		defer s.free(p)
		c.in, c.out, c.count, c.flags = p, p, p+driver.Ptr(bytes), p+driver.Ptr(bytes+256)
		if c.partition {
			if c.out, err = s.alloc(bytes); err != nil {
				return err
			}
			defer s.free(c.out)
		}
		c.capacity = c.n
		if err := cmp.Or(s.upload(ctx, c.in, bytesOf(src)), s.upload(ctx, c.flags, bytesOf(flags)), s.compact(c), s.wait(ctx)); err != nil {
			return err
		}
		v, err := s.read(c.count, 8)
		if err != nil {
			return err
		}
		kept = int64(v)
		stored := kept
		if c.partition {
			stored = c.n
		}
		if stored > int64(len(dst)) {
			return nil
		}
		return s.download(ctx, bytesOf(dst[:stored]), c.out)
	})
	if err != nil {
		return 0, err
	}
	if kept > int64(len(dst)) {
		return int(kept), &driver.Error{Op: call, Code: driver.ErrTooSmall, N: c.n, Need: kept,
			Detail: fmt.Sprintf("dst has %d elements, %d are needed", len(dst), kept)}
	}
	return int(kept), nil
}

func selectBuffers[T Number, F Flag](call string, s *Stream, dst *Buffer[T], count *Buffer[uint64], src *Buffer[T], flags *Buffer[F], c *compaction) error {
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if err := cmp.Or(dst.check(call, "dst", s.rt), count.check(call, "count", s.rt)); err != nil {
		return err
	}
	var in, chosen span
	if c.criterion.hasValues() {
		if err := src.check(call, "src", s.rt); err != nil {
			return err
		}
		in, c.in, c.n = src.span("src"), src.ptr, src.n
	}
	if c.criterion.hasFlags() {
		if err := flags.check(call, "flags", s.rt); err != nil {
			return err
		}
		chosen, c.flags = flags.span("flags"), flags.ptr
	}
	if !c.criterion.hasValues() {
		c.n = flags.n
	}
	if count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "count has %d elements, not 1", count.n)
	}
	c.size, c.out, c.count, c.capacity = sizeOf[T](), dst.ptr, count.ptr, dst.n
	if err := c.check(call, dst.span("dst"), in, chosen, count.span("count")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, s.compact(c))
}

// check reports arguments that do not go together.
func (c *compaction) check(call string, dst, src, flags, count span) error {
	if c.unknown != 0 {
		return c.unknown.unknown(call)
	}
	if c.criterion == byFlag && flags.size != c.n {
		return driver.Errorf(call, driver.ErrLength, "src has %d elements, flags %d", c.n, flags.size)
	}
	if c.partition && c.capacity != c.n {
		return driver.Errorf(call, driver.ErrLength, "dst has %d elements, src %d", c.capacity, c.n)
	}
	if c.criterion == byIndex && c.size == 4 && c.n > 1<<32 {
		return driver.Errorf(call, driver.ErrOverflow, "indices of %d flags do not fit 32 bits", c.n)
	}
	overlap := checkInPlace
	if c.partition {
		overlap = func(call string, dst, src span) error { return checkDisjoint(call, dst, src) }
	}
	return cmp.Or(overlap(call, dst, src), checkDisjoint(call, dst, flags, count), checkDisjoint(call, src, count))
}

// compact gives the stream a compaction.
func (s *Stream) compact(c *compaction) error {
	if c.n == 0 {
		return s.s.Fill(c.count, 0, 8)
	}
	width := widthName(c.size)
	mode := twin.SelectCount
	if c.partition || c.capacity < c.n {
		if mode = twin.SelectIfFits; c.partition {
			mode = twin.SelectPartition
		}
		name := "select_count_" + criterionNames[c.criterion] + "_" + width
		module := "select_pass_" + width
		if c.criterion.hasFlags() {
			name, module = "select_count_flagged", "select_flags"
		}
		k, err := s.rt.kernel(module, name)
		if err != nil {
			return err
		}
		if err := s.s.Fill(c.count, 0, 8); err != nil {
			return err
		}
		a := c.input(driver.NewArgs(), true).Uint64(uint64(c.n)).Ptr(c.count)
		if err := s.launch(k, min(k.tiles(c.n), k.resident), c.n, a); err != nil {
			return err
		}
	}

	kind, module := "pass", "select_pass_"+width
	switch tile := selectTile(int(c.size)); {
	case c.criterion == byIndex:
		module = "select_flags"
	case c.n > tile && bulkCapability <= s.rt.dev.Info().Capability && c.in%16 == 0 && c.flags%16 == 0:
		kind, module = "bulk", "select_bulk_"+width
	}
	k, err := s.rt.kernel(module, "select_"+kind+"_"+criterionNames[c.criterion]+"_"+width)
	if err != nil {
		return err
	}
	bytes := int64(0) // none for a single tile
	if c.n > k.spec.Tile {
		bytes = selectState(c.n, int(c.size))
	}
	if mode == twin.SelectIfFits && bytes > 0 {
		// Whether the kernel takes its tickets is a matter of the count on the device.
		defer func() { s.state.valid = false }()
	}
	return s.launchPass(k, c.n, 0, bytes, func(a *driver.Args, state driver.Ptr, first uint32) {
		c.input(a, false).Uint64(uint64(c.n)).
			Ptr(c.out).Ptr(c.count).Uint64(uint64(c.capacity)).Uint32(uint32(mode)).Ptr(state).Uint32(first)
	})
}

// input appends the parameters of the criterion. A kernel that counts flags reads
// nothing else.
func (c *compaction) input(a *driver.Args, counting bool) *driver.Args {
	if c.criterion.hasValues() && !(counting && c.criterion == byFlag) {
		a.Ptr(c.in)
	}
	switch {
	case c.criterion.hasFlags():
		a.Ptr(c.flags)
	case c.criterion == byValue:
		c.values.append(a, c.size)
	}
	return a
}

// append adds the range to a kernel's arguments, for values of size bytes.
func (r valueRange) append(a *driver.Args, size int64) {
	for _, v := range []uint64{r.fold, r.low, r.span} {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], v)
		a.Bytes(word[:size], int(size))
	}
	a.Uint32(r.negate)
}
