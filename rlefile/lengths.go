package rlefile

import (
	"fmt"
	"math"
)

// lengthSize returns the bytes a length with which the runs take the least
// space, runs too long for it being split, and how many runs there are then.
func lengthSize(lengths []uint32, width int) (size int, runs int64) {
	var extra8, extra16 int64
	for _, l := range lengths {
		extra8 += int64((l - 1) >> 8)
		extra16 += int64((l - 1) >> 16)
	}
	size, runs = 4, int64(len(lengths))
	best := runs * int64(width+4)
	for _, c := range []struct {
		size int
		runs int64
	}{{2, int64(len(lengths)) + extra16}, {1, int64(len(lengths)) + extra8}} {
		if bytes := c.runs * int64(width+c.size); bytes < best {
			size, runs, best = c.size, c.runs, bytes
		}
	}
	return size, runs
}

// splitValues repeats each of the values in place, as often as its run is split
// by lengths of size bytes. values has room for all.
func splitValues[V any](values []V, lengths []uint32, size int) {
	at := len(values)
	for i := len(lengths) - 1; i >= 0; i-- {
		v := values[i]
		for range 1 + (lengths[i]-1)>>(8*size) {
			at--
			values[at] = v
		}
	}
}

// putLengths writes lengths, less one, as numbers of size bytes; longer runs
// become runs of the greatest length and a last one.
func putLengths(b []byte, lengths []uint32, size int) {
	switch size {
	case 1:
		for _, l := range lengths {
			for ; l > 1<<8; l -= 1 << 8 {
				b[0], b = math.MaxUint8, b[1:]
			}
			b[0], b = byte(l-1), b[1:]
		}
	case 2:
		for _, l := range lengths {
			for ; l > 1<<16; l -= 1 << 16 {
				le.PutUint16(b, math.MaxUint16)
				b = b[2:]
			}
			le.PutUint16(b, uint16(l-1))
			b = b[2:]
		}
	default:
		for _, l := range lengths {
			le.PutUint32(b, l-1)
			b = b[4:]
		}
	}
}

// parseLengths is the inverse of putLengths. It requires that the lengths add up
// to elements, or returns what is wrong.
func parseLengths(lengths []uint32, b []byte, size int, elements uint64) (wrong string) {
	var sum uint64
	switch size {
	case 1:
		b = b[:len(lengths)]
		for i, l := range b {
			lengths[i] = uint32(l) + 1
			sum += uint64(l)
		}
	case 2:
		for i := range lengths {
			l := le.Uint16(b[2*i:])
			lengths[i] = uint32(l) + 1
			sum += uint64(l)
		}
	default:
		for i := range lengths {
			l := le.Uint32(b[4*i:])
			lengths[i] = l + 1 // wraps only where the sum is refused
			sum += uint64(l)
		}
	}
	if sum += uint64(len(lengths)); sum != elements {
		return fmt.Sprintf("the lengths add up to %d of %d elements", sum, elements)
	}
	return ""
}
