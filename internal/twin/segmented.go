package twin

import (
	"slices"

	"github.com/ptxrun/ptxrun/driver"
)

// ScanSegmented scans from init, and again from init at every head, from the
// first element to the last or in reverse. Each piece is reduced from its last
// head on, the pieces are gone through in order, and each piece is scanned. in
// and out may be the same memory; the state is left alone. A reversed piece
// lies turned around in out, so that every loop is the operator's own.
//
// Parameters: in, out, n, heads (a bit or a byte an element, or none), state,
// first, init, mode.
func ScanSegmented[T any](op Op[T]) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		inAt, outAt, n, headsAt, _ := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), l.Args.Ptr()
		l.Args.Uint32()
		init := value[T](&l.Args)
		mode := l.Args.Uint32()
		in, err := driver.Slice[T](l.Mem, inAt, n)
		if err != nil {
			return err
		}
		out, err := driver.Slice[T](l.Mem, outAt, n)
		if err != nil {
			return err
		}
		h, err := headsOf(l.Mem, headsAt, n, mode)
		if err != nil {
			return err
		}
		reverse, exclusive := mode&ScanReverse != 0, mode&ScanExclusive != 0
		pieces := ceilDiv(n, passPiece)
		bounds := func(p int64) (lo, hi int64) { return passBounds(p, n, reverse) }
		starts, headed := make([]T, pieces), make([]bool, pieces)
		l.Parallel(pieces, func(p int64) {
			lo, hi := bounds(p)
			x := in[lo:hi]
			if reverse {
				x = out[lo:hi]
				copy(x, in[lo:hi])
				slices.Reverse(x)
			}
			if last := h.last(lo, hi, reverse); last >= 0 {
				starts[p], headed[p] = op.Reduce(init, x[last:]), true
			} else {
				starts[p] = op.Reduce(x[0], x[1:])
			}
		})
		start := init
		for p := range starts {
			total := starts[p]
			starts[p] = start
			if !headed[p] {
				total = op.Combine(start, total)
			}
			start = total
		}
		l.Parallel(pieces, func(p int64) {
			lo, hi := bounds(p)
			x, acc := in[lo:hi], starts[p]
			if reverse {
				x = out[lo:hi]
			}
			for from := int64(0); from < hi-lo; {
				if h.at(place(lo, hi, from, reverse)) {
					acc = init
				}
				to := h.next(lo, hi, from+1, reverse)
				dst := out[lo+from : lo+to]
				op.Scan(acc, dst, x[from:to])
				if exclusive {
					copy(dst[1:], dst)
					dst[0] = acc
				}
				from = to
			}
			if reverse {
				slices.Reverse(out[lo:hi])
			}
		})
		return nil
	}
}

// place is where in memory element i of the piece [lo, hi) is.
func place(lo, hi, i int64, reverse bool) int64 {
	if reverse {
		return hi - 1 - i
	}
	return lo + i
}

// heads are head flags, a bit or a byte an element, or none.
type heads struct {
	bits  []uint32
	bytes []byte
}

func headsOf(m driver.Memory, p driver.Ptr, n int64, mode uint32) (h heads, err error) {
	switch {
	case p == 0:
	case mode&SegmentedBits != 0:
		h.bits, err = driver.Slice[uint32](m, p, ceilDiv(n, 32))
	default:
		h.bytes, err = driver.Slice[byte](m, p, n)
	}
	return h, err
}

// at says whether element i of all is a head.
func (h heads) at(i int64) bool {
	if h.bits != nil {
		return h.bits[i/32]>>(i%32)&1 != 0
	}
	return h.bytes != nil && h.bytes[i] != 0
}

// next is the first head of the piece [lo, hi) from its element i on, or its
// length.
func (h heads) next(lo, hi, i int64, reverse bool) int64 {
	if reverse {
		return hi - 1 - h.down(hi-1-i, lo)
	}
	return h.up(lo+i, hi) - lo
}

// last is the last head of the piece [lo, hi), or -1.
func (h heads) last(lo, hi int64, reverse bool) int64 {
	if reverse {
		return hi - 1 - h.up(lo, hi)
	}
	return h.down(hi-1, lo) - lo
}

// up is the first head at or after i in memory, or hi if that is not before hi.
// Words without a head are passed at once.
func (h heads) up(i, hi int64) int64 {
	if h.bits == nil && h.bytes == nil {
		return hi
	}
	for ; i < hi && !h.at(i); i++ {
		if h.bits != nil && h.bits[i/32]>>(i%32) == 0 {
			i |= 31
		}
	}
	return min(i, hi)
}

// down is the last head at or before i in memory, or lo-1 if that is before lo.
func (h heads) down(i, lo int64) int64 {
	if h.bits == nil && h.bytes == nil {
		return lo - 1
	}
	for ; i >= lo && !h.at(i); i-- {
		if h.bits != nil && h.bits[i/32]<<(31-i%32) == 0 {
			i &^= 31
		}
	}
	return max(i, lo-1)
}

// SegmentKeys sets the bit of every element that begins a segment of equal keys
// in scan order, SegmentFlags where a flag says so. Backwards the flag of an
// element's successor in memory counts. The first element of all begins one.
//
// Parameters: keys or flags, n, bits, reverse.
func SegmentKeys[K Unsigned]() driver.Twin {
	return segmentHeads(func(a, b K) bool { return a != b })
}

// SegmentFlags is described at [SegmentKeys].
func SegmentFlags() driver.Twin {
	return segmentHeads(func(_, b uint8) bool { return b != 0 })
}

func segmentHeads[K Unsigned](between func(a, b K) bool) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		keysAt, n, bitsAt, reverse := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), l.Args.Uint32() != 0
		keys, err := driver.Slice[K](l.Mem, keysAt, n)
		if err != nil {
			return err
		}
		words, err := driver.Slice[uint32](l.Mem, bitsAt, ceilDiv(n, 32))
		if err != nil {
			return err
		}
		l.Parallel(int64(len(words)), func(w int64) {
			word := uint32(0)
			for i := w * 32; i < min(n, w*32+32); i++ {
				b := i
				if reverse {
					b++
				}
				if b == 0 || b == n || between(keys[b-1], keys[b]) {
					word |= 1 << (i % 32)
				}
			}
			words[w] = word
		})
		return nil
	}
}

// SegmentOffsets sets the bits of elements that begin a segment in scan order,
// from the places where segments begin in memory, and n. bad becomes 1 if those
// do not ascend from 0 to n.
//
// Parameters: offsets, count, n, bits, reverse, bad. Bits and bad are zero
// before.
func SegmentOffsets[I Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		offsetsAt, count, n := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Uint64()
		bitsAt, reverse, badAt := l.Args.Ptr(), uint64(l.Args.Uint32()), l.Args.Ptr()
		offsets, err := driver.Slice[I](l.Mem, offsetsAt, count)
		if err != nil {
			return err
		}
		words, err := driver.Slice[uint32](l.Mem, bitsAt, int64(n/32+(n%32+31)/32))
		if err != nil {
			return err
		}
		bad, err := driver.Slice[uint32](l.Mem, badAt, 1)
		if err != nil {
			return err
		}
		last := uint64(0)
		for i, o := range offsets {
			o := uint64(o)
			if o < last || i == 0 && o != 0 {
				bad[0] = 1
			}
			if at := o - reverse; at < n {
				words[at/32] |= 1 << (at % 32)
			}
			last = o
		}
		if last != n {
			bad[0] = 1
		}
		return nil
	}
}
