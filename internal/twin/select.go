package twin

import (
	"encoding/binary"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// What a select kernel does with the count and with elements that are not kept;
// as SelectMode in ptx/src/select.cuh.
const (
	SelectCount     = iota // it stores the count; out holds any number
	SelectIfFits           // the count is there; nothing is stored if it is above capacity
	SelectPartition        // the count is there; the others go behind the kept ones, in order
)

// A chooser sets keep[i] to 1 where element first+i is kept, else to 0.
type chooser func(keep []uint8, first int64)

// A taker stores the elements first+i for which keep[i] is want, the first
// len(dst) of them.
type taker[V any] func(dst []V, keep []uint8, first int64, want uint8)

// chunk is how many elements are chosen at a time: few enough to stay in cache,
// and a divisor of a piece.
const chunk = 4096

// chunks calls f for the chunks of [lo, hi) with what is kept of each.
func chunks(lo, hi int64, choose chooser, f func(keep []uint8, first int64)) {
	var bits [chunk]uint8
	for first := lo; first < hi; first += chunk {
		keep := bits[:min(chunk, hi-first)]
		choose(keep, first)
		f(keep, first)
	}
}

// ones is the sum of keep.
func ones(keep []uint8) (n int64) {
	for ; len(keep) >= 8; keep = keep[8:] {
		n += int64(binary.LittleEndian.Uint64(keep) * 0x0101010101010101 >> 56)
	}
	for _, k := range keep {
		n += int64(k)
	}
	return n
}

// keptBefore returns how many elements are kept before each piece, and, last, how
// many in all.
func keptBefore(l *driver.TwinLaunch, n int64, choose chooser) []int64 {
	before := make([]int64, ceilDiv(n, piece)+1)
	pieces(l, n, func(lo, hi int64) {
		var kept int64
		chunks(lo, hi, choose, func(keep []uint8, _ int64) { kept += ones(keep) })
		before[lo/piece+1] = kept
	})
	for p := range before[1:] {
		before[p+1] += before[p]
	}
	return before
}

// selectElements is what all select kernels do. in is the input, if it has one.
//
// Parameters: …, n, out, count, capacity, mode, state, first.
func selectElements[V any](l *driver.TwinLaunch, n int64, in []V, choose chooser, take taker[V]) error {
	outAt, countAt := l.Args.Ptr(), l.Args.Ptr()
	capacity, mode := l.Args.Uint64(), l.Args.Uint32()
	// The state, through which the kernel's blocks speak to each other, is left alone.
	_, _ = l.Args.Ptr(), l.Args.Uint32()
	count, err := scalar[uint64](l.Mem, countAt)
	if err != nil || mode == SelectIfFits && *count > capacity {
		return err
	}
	before := keptBefore(l, n, choose)
	kept := before[len(before)-1]
	stored := kept
	if mode == SelectPartition {
		stored = n
	}
	out, err := driver.Slice[V](l.Mem, outAt, stored)
	if err != nil {
		return err
	}
	if stored > 0 && len(in) > 0 && unsafe.SliceData(out) == unsafe.SliceData(in) {
		selectInPlace(l, in, before, choose, take)
	} else {
		pieces(l, n, func(lo, hi int64) {
			at := before[lo/piece]
			rest := kept + lo - at
			chunks(lo, hi, choose, func(keep []uint8, first int64) {
				k := ones(keep)
				take(out[at:at+k], keep, first, 1)
				at += k
				if mode == SelectPartition {
					others := int64(len(keep)) - k
					take(out[rest:rest+others], keep, first, 0)
					rest += others
				}
			})
		})
	}
	if mode == SelectCount {
		*count = uint64(kept)
	}
	return nil
}

// inPlacePieces are the pieces that are brought together beside the input before
// any of it is overwritten.
const inPlacePieces = 64

// selectInPlace stores what is kept where the input is, and nothing behind it.
func selectInPlace[V any](l *driver.TwinLaunch, in []V, before []int64, choose chooser, take taker[V]) {
	const batch = inPlacePieces * piece
	n := int64(len(in))
	held := make([]V, min(n, batch))
	for start := int64(0); start < n; start += batch {
		size := min(batch, n-start)
		pieces(l, size, func(lo, hi int64) {
			at := lo
			chunks(start+lo, start+hi, choose, func(keep []uint8, first int64) {
				k := ones(keep)
				take(held[at:at+k], keep, first, 1)
				at += k
			})
		})
		pieces(l, size, func(lo, _ int64) {
			p := (start + lo) / piece
			copy(in[before[p]:before[p+1]], held[lo:])
		})
	}
}

// takeFrom takes elements of a slice.
func takeFrom[V any](in []V) taker[V] {
	return func(dst []V, keep []uint8, first int64, want uint8) {
		x := in[first:][:len(keep)]
		// No branch that depends on the data: the place advances or does not.
		for i, k := 0, 0; k < len(dst); i++ {
			dst[k] = x[i]
			k += int(keep[i] ^ want ^ 1)
		}
	}
}

func keepFlagged(flags []uint8) chooser {
	return func(keep []uint8, first int64) {
		for i, f := range flags[first:][:len(keep)] {
			var k uint8
			if f != 0 {
				k = 1
			}
			keep[i] = k
		}
	}
}

// keepRange keeps elements in the range from low over span, or, if negate is not
// zero, the others. fold is what the sign of an element adds to it by exclusive
// or.
func keepRange[V Unsigned](in []V, fold, low, span V, negate uint32) chooser {
	sign := 8*unsafe.Sizeof(V(0)) - 1
	var others uint8
	if negate != 0 {
		others = 1
	}
	return func(keep []uint8, first int64) {
		for i, v := range in[first:][:len(keep)] {
			var k uint8
			if (v^(-(v>>sign)&fold))-low <= span {
				k = 1
			}
			keep[i] = k ^ others
		}
	}
}

// keepHeads keeps elements that differ from the one before. What stands before
// each piece is remembered, as in place it may be overwritten.
func keepHeads[V Unsigned](in []V) chooser {
	lasts := make([]V, ceilDiv(int64(len(in)), piece))
	for p := range lasts[min(1, len(lasts)):] {
		lasts[p+1] = in[(int64(p)+1)*piece-1]
	}
	return func(keep []uint8, first int64) {
		x := in[first:][:len(keep)]
		previous := lasts[first/piece]
		if first%piece != 0 {
			previous = in[first-1]
		}
		for i, v := range x {
			var k uint8
			if v != previous {
				k = 1
			}
			keep[i], previous = k, v
		}
		if first == 0 {
			keep[0] = 1
		}
	}
}

// flagsOf reads the parameters flags, n.
func flagsOf(l *driver.TwinLaunch) ([]uint8, error) {
	at := l.Args.Ptr()
	return driver.Slice[uint8](l.Mem, at, int64(l.Args.Uint64()))
}

// compared reads the parameters in, fold, low, span, negate, n.
func compared[V Unsigned](l *driver.TwinLaunch) (in []V, choose chooser, err error) {
	at := l.Args.Ptr()
	fold, low, span := value[V](&l.Args), value[V](&l.Args), value[V](&l.Args)
	negate := l.Args.Uint32()
	if in, err = driver.Slice[V](l.Mem, at, int64(l.Args.Uint64())); err != nil {
		return nil, nil, err
	}
	return in, keepRange(in, fold, low, span, negate), nil
}

// neighbours reads the parameters in, n.
func neighbours[V Unsigned](l *driver.TwinLaunch) (in []V, choose chooser, err error) {
	at := l.Args.Ptr()
	if in, err = driver.Slice[V](l.Mem, at, int64(l.Args.Uint64())); err != nil {
		return nil, nil, err
	}
	return in, keepHeads(in), nil
}

// SelectFlagged stores the elements whose flag is not zero.
//
// Parameters: in, flags, n, out, count, capacity, mode, state, first.
func SelectFlagged[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		at := l.Args.Ptr()
		flags, err := flagsOf(l)
		if err != nil {
			return err
		}
		in, err := driver.Slice[V](l.Mem, at, int64(len(flags)))
		if err != nil {
			return err
		}
		return selectElements(l, int64(len(in)), in, keepFlagged(flags), takeFrom(in))
	}
}

// SelectCompare stores the elements in a range, or those outside it.
//
// Parameters: in, fold, low, span, negate, n, out, count, capacity, mode, state, first.
func SelectCompare[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		in, choose, err := compared[V](l)
		if err != nil {
			return err
		}
		return selectElements(l, int64(len(in)), in, choose, takeFrom(in))
	}
}

// SelectUnique stores the elements that differ from the one before.
//
// Parameters: in, n, out, count, capacity, mode, state, first.
func SelectUnique[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		in, choose, err := neighbours[V](l)
		if err != nil {
			return err
		}
		return selectElements(l, int64(len(in)), in, choose, takeFrom(in))
	}
}

// SelectIndices stores the indices of the flags that are not zero.
//
// Parameters: flags, n, out, count, capacity, mode, state, first.
func SelectIndices[I Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		flags, err := flagsOf(l)
		if err != nil {
			return err
		}
		return selectElements(l, int64(len(flags)), nil, keepFlagged(flags), func(dst []I, keep []uint8, first int64, want uint8) {
			for i, k := 0, 0; k < len(dst); i++ {
				dst[k] = I(first + int64(i))
				k += int(keep[i] ^ want ^ 1)
			}
		})
	}
}

// addCount adds how many of n elements are kept to the parameter count.
func addCount(l *driver.TwinLaunch, n int64, choose chooser) error {
	count, err := scalar[uint64](l.Mem, l.Args.Ptr())
	if err != nil {
		return err
	}
	before := keptBefore(l, n, choose)
	*count += uint64(before[len(before)-1])
	return nil
}

// CountFlagged adds how many flags are not zero to a count.
//
// Parameters: flags, n, count.
func CountFlagged() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		flags, err := flagsOf(l)
		if err != nil {
			return err
		}
		return addCount(l, int64(len(flags)), keepFlagged(flags))
	}
}

// CountCompare adds how many elements SelectCompare keeps to a count.
//
// Parameters: in, fold, low, span, negate, n, count.
func CountCompare[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		in, choose, err := compared[V](l)
		if err != nil {
			return err
		}
		return addCount(l, int64(len(in)), choose)
	}
}

// CountUnique adds how many elements SelectUnique keeps to a count.
//
// Parameters: in, n, count.
func CountUnique[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		in, choose, err := neighbours[V](l)
		if err != nil {
			return err
		}
		return addCount(l, int64(len(in)), choose)
	}
}
