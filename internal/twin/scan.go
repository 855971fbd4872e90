package twin

import (
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// ScanUpsweep reduces each tile: sums[b] is the combination, in order, of tile
// b's elements.
//
// Parameters: in, n, sums.
func ScanUpsweep[T any](op Op[T], tile int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		inAt, n, sumsAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		in, err := driver.Slice[T](l.Mem, inAt, n)
		if err != nil {
			return err
		}
		tiles := ceilDiv(n, tile)
		sums, err := driver.Slice[T](l.Mem, sumsAt, tiles)
		if err != nil {
			return err
		}
		l.Parallel(tiles, func(b int64) {
			x := in[b*tile : min(n, (b+1)*tile)]
			sums[b] = op.Reduce(x[0], x[1:])
		})
		return nil
	}
}

// ScanDownsweep scans each tile from its own starting value, prefixes[b] for
// tile b; without prefixes it is init for every tile. in and out may be the
// same memory.
//
// Parameters: in, out, n, prefixes or 0, init, exclusive.
func ScanDownsweep[T any](op Op[T], tile int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		inAt, outAt, n, prefixesAt := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		init := value[T](&l.Args)
		exclusive := l.Args.Uint32() != 0
		in, err := driver.Slice[T](l.Mem, inAt, n)
		if err != nil {
			return err
		}
		out, err := driver.Slice[T](l.Mem, outAt, n)
		if err != nil {
			return err
		}
		tiles := ceilDiv(n, tile)
		if prefixesAt == 0 && tiles == 1 { // no closure, so that small scans allocate nothing
			scanPiece(op, out, in, init, exclusive)
			return nil
		}
		var prefixes []T
		if prefixesAt != 0 {
			if prefixes, err = driver.Slice[T](l.Mem, prefixesAt, tiles); err != nil {
				return err
			}
		}
		l.Parallel(tiles, func(b int64) {
			start := init
			if prefixes != nil {
				start = prefixes[b]
			}
			lo, hi := b*tile, min(n, (b+1)*tile)
			scanPiece(op, out[lo:hi], in[lo:hi], start, exclusive)
		})
		return nil
	}
}

// scanPiece scans in from start.
func scanPiece[T any](op Op[T], dst, in []T, start T, exclusive bool) {
	op.Scan(start, dst, in)
	if exclusive {
		copy(dst[1:], dst)
		dst[0] = start
	}
}

// value reads a parameter of the element type.
func value[T any](r *driver.ArgReader) (v T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), r.Bytes(int(unsafe.Sizeof(v))))
	return v
}

func ceilDiv(n, d int64) int64 {
	q := n / d
	if n%d != 0 {
		q++
	}
	return q
}
