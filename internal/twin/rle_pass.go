package twin

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sort"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// runHeads calls f for the places in [lo, hi) where a run begins, a word at a time:
// f gets the first element of a word and a mask with the highest bit of each of
// its elements that differ from the one before. The elements of a mask follow
// each other from the lowest bits on.
func runHeads[V Unsigned](raw []V, lo, hi int64, f func(first int64, mask uint64)) {
	size := int64(unsafe.Sizeof(V(0)))
	perWord := 8 / size
	high := elementOnes[V]() << (8*size - 1) // the highest bit of each element
	single := func(k int64) {
		if k == 0 || raw[k] != raw[k-1] {
			f(k, 1<<(8*size-1))
		}
	}
	if lo == 0 && hi > 0 {
		single(0)
		lo = 1
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(raw))), int64(len(raw))*size)
	for ; lo+perWord <= hi; lo += perWord {
		here := b[(lo-1)*size:][: 8+size : 8+size]
		x := binary.LittleEndian.Uint64(here[size:]) ^ binary.LittleEndian.Uint64(here)
		if x != 0 {
			f(lo, ((x&^high)+^high|x)&high)
		}
	}
	for ; lo < hi; lo++ {
		single(lo)
	}
}

// RLEEncode stores the values and lengths of the first capacity runs, and how many
// there are. Unless too_long is 0, it is raised to the length of a run that L does
// not hold. The state, through which the kernel's blocks speak to each other, is
// left alone.
//
// Parameters: raw, n, values, lengths, capacity, count, too_long, state, first.
func RLEEncode[V, L Unsigned]() driver.Twin {
	elementBits := 8 * int64(unsafe.Sizeof(V(0)))
	return func(l *driver.TwinLaunch) error {
		rawAt, n := l.Args.Ptr(), int64(l.Args.Uint64())
		valuesAt, lengthsAt, capacity := l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint64()
		countAt, tooLongAt, _, _ := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint32()
		raw, err := driver.Slice[V](l.Mem, rawAt, n)
		if err != nil {
			return err
		}
		count, err := scalar[uint64](l.Mem, countAt)
		if err != nil {
			return err
		}
		var tooLong *uint64
		if tooLongAt != 0 {
			if tooLong, err = scalar[uint64](l.Mem, tooLongAt); err != nil {
				return err
			}
		}
		// The runs before each piece, and where the last of them begins.
		before, open := make([]int64, ceilDiv(n, piece)+1), make([]int64, ceilDiv(n, piece)+1)
		pieces(l, n, func(lo, hi int64) {
			var runs, last int64 = 0, -1
			runHeads(raw, lo, hi, func(first int64, mask uint64) {
				runs += int64(bits.OnesCount64(mask))
				last = first + (63-int64(bits.LeadingZeros64(mask)))/elementBits
			})
			before[lo/piece+1], open[lo/piece+1] = runs, last
		})
		for p := range before[1:] {
			before[p+1] += before[p]
			if open[p+1] < 0 {
				open[p+1] = open[p]
			}
		}
		runs := before[len(before)-1]
		stored := min(runs, int64(min(capacity, math.MaxInt64)))
		values, err := driver.Slice[V](l.Mem, valuesAt, stored)
		if err != nil {
			return err
		}
		lengths, err := driver.Slice[L](l.Mem, lengthsAt, stored)
		if err != nil {
			return err
		}
		longest := make([]uint64, len(before))
		finish := func(p, run, length int64) {
			if run < stored {
				lengths[run] = L(length)
			}
			longest[p] = max(longest[p], uint64(length))
		}
		pieces(l, n, func(lo, hi int64) {
			p := lo / piece
			run, start := before[p], open[p]
			runHeads(raw, lo, hi, func(first int64, mask uint64) {
				for ; mask != 0; mask &= mask - 1 {
					k := first + int64(bits.TrailingZeros64(mask))/elementBits
					if run > 0 {
						finish(p, run-1, k-start)
					}
					if run < stored {
						values[run] = raw[k]
					}
					run, start = run+1, k
				}
			})
		})
		if runs > 0 {
			finish(int64(len(before))-1, runs-1, n-open[len(open)-1])
		}
		*count = uint64(runs)
		for _, length := range longest {
			if tooLong != nil && length > uint64(^L(0)) {
				*tooLong = max(*tooLong, length)
			}
		}
		return nil
	}
}

// RLEDecodePass stores the decoded elements from number from on in out[0, size),
// as far as there are so many, and the lengths' saturated sum in total. The state
// is left alone.
//
// Parameters: values, lengths, runs, out, from, size, total, state.
func RLEDecodePass[V, L Unsigned]() driver.Twin {
	const group = 1 << 12 // of runs whose lengths are summed up
	return func(l *driver.TwinLaunch) error {
		valuesAt, lengthsAt, runs := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64())
		outAt, from, size := l.Args.Ptr(), l.Args.Uint64(), l.Args.Uint64()
		totalAt, _ := l.Args.Ptr(), l.Args.Ptr()
		values, err := driver.Slice[V](l.Mem, valuesAt, runs)
		if err != nil {
			return err
		}
		lengths, err := driver.Slice[L](l.Mem, lengthsAt, runs)
		if err != nil {
			return err
		}
		total, err := scalar[uint64](l.Mem, totalAt)
		if err != nil {
			return err
		}
		sum := SaturatingSum()
		ends := make([]uint64, ceilDiv(runs, group)) // of groups
		l.Parallel(int64(len(ends)), func(g int64) {
			var s uint64
			for _, n := range lengths[g*group : min(runs, (g+1)*group)] {
				s = sum.Combine(s, uint64(n))
			}
			ends[g] = s
		})
		for g := 1; g < len(ends); g++ {
			ends[g] = sum.Combine(ends[g-1], ends[g])
		}
		*total = last(ends)
		if *total <= from {
			return nil
		}
		out, err := driver.Slice[V](l.Mem, outAt, int64(min(size, *total-from)))
		if err != nil {
			return err
		}
		pieces(l, int64(len(out)), func(lo, hi int64) {
			first := from + uint64(lo)
			g := sort.Search(len(ends), func(g int) bool { return ends[g] > first })
			r, end := g*group, uint64(0)
			if g > 0 {
				end = ends[g-1]
			}
			for end = sum.Combine(end, uint64(lengths[r])); end <= first; end = sum.Combine(end, uint64(lengths[r])) {
				r++
			}
			w := newRunFiller(out[lo:hi])
			w.run(values[r], int(min(end-first, uint64(hi-lo))))
			for w.at < len(w.out) {
				r++
				w.run(values[r], int(min(sum.Combine(uint64(w.at), uint64(lengths[r])), uint64(hi-lo))))
			}
		})
		return nil
	}
}
