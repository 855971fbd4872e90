package twin

import (
	"slices"

	"github.com/ptxrun/ptxrun/driver"
)

// The bits of parameter mode, as in ptx/src/scan_pass.cuh and scan_segmented.cuh.
const (
	ScanExclusive = 1 << iota
	ScanReverse
	SegmentedBits
)

// passPiece is how many elements a core scans at a time. It is fixed, so that
// sums of floats do not depend on the number of cores.
const passPiece = 1 << 16

// ScanPass scans all elements from init, from the first to the last or in reverse:
// each piece is reduced, the pieces' totals are combined in order, and each piece
// is scanned from there. in and out may be the same memory. The state, through
// which the kernel's blocks speak to each other, is left alone. A reversed piece
// is turned around in out first, and turned back last.
//
// Parameters: in, out, n, state, first, init, mode.
func ScanPass[In, T any](op Op[T], convert func(dst []T, in []In)) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		inAt, outAt, n, _ := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		l.Args.Uint32()
		init := value[T](&l.Args)
		mode := l.Args.Uint32()
		in, err := driver.Slice[In](l.Mem, inAt, n)
		if err != nil {
			return err
		}
		out, err := driver.Slice[T](l.Mem, outAt, n)
		if err != nil {
			return err
		}
		pieces := ceilDiv(n, passPiece)
		same, _ := any(in).([]T)
		reverse := mode&ScanReverse != 0 && convert == nil
		if pieces == 1 && reverse { // no closure, so that small scans allocate nothing
			copy(out, same)
			slices.Reverse(out)
			scanPiece(op, out, out, init, mode&ScanExclusive != 0)
			slices.Reverse(out)
			return nil
		}
		starts := make([]T, pieces)
		bounds := func(p int64) (lo, hi int64) { return passBounds(p, n, reverse) }
		// What is to be scanned: the input, or what the output was made first.
		source := func(lo, hi int64) []T {
			if convert == nil && !reverse {
				return same[lo:hi]
			}
			return out[lo:hi]
		}
		l.Parallel(pieces, func(p int64) {
			lo, hi := bounds(p)
			switch {
			case convert != nil:
				convert(out[lo:hi], in[lo:hi])
			case reverse:
				copy(out[lo:hi], same[lo:hi])
				slices.Reverse(out[lo:hi])
			}
			if p < pieces-1 {
				x := source(lo, hi)
				starts[p] = op.Reduce(x[0], x[1:])
			}
		})
		start := init
		for p := range starts {
			starts[p], start = start, op.Combine(start, starts[p])
		}
		l.Parallel(pieces, func(p int64) {
			lo, hi := bounds(p)
			scanPiece(op, out[lo:hi], source(lo, hi), starts[p], mode&ScanExclusive != 0)
			if reverse {
				slices.Reverse(out[lo:hi])
			}
		})
		return nil
	}
}

// passBounds are the elements [lo, hi) of piece p of n, counted in scan order.
func passBounds(p, n int64, reverse bool) (lo, hi int64) {
	if reverse {
		p = ceilDiv(n, passPiece) - 1 - p
	}
	return p * passPiece, min(n, (p+1)*passPiece)
}

// Widen converts elements of a narrow type to a wider one.
func Widen[In, T Unsigned](dst []T, in []In) {
	dst = dst[:len(in)]
	for i, x := range in {
		dst[i] = T(x)
	}
}
