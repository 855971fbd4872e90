package twin

import "github.com/ptxrun/ptxrun/driver"

// passPiece is how many elements a core scans at a time. It is fixed, so that
// sums of floats do not depend on the number of cores.
const passPiece = 1 << 16

// ScanPass scans all elements from init: each piece is reduced, the pieces'
// totals are combined in order, and each piece is scanned from there. in and
// out may be the same memory. The state, through which the kernel's blocks speak
// to each other, is left alone.
//
// Parameters: in, out, n, state, first, init, exclusive.
func ScanPass[In, T any](op Op[T], convert func(dst []T, in []In)) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		inAt, outAt, n, _ := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		l.Args.Uint32()
		init := value[T](&l.Args)
		exclusive := l.Args.Uint32() != 0
		in, err := driver.Slice[In](l.Mem, inAt, n)
		if err != nil {
			return err
		}
		out, err := driver.Slice[T](l.Mem, outAt, n)
		if err != nil {
			return err
		}
		pieces := ceilDiv(n, passPiece)
		starts := make([]T, pieces)
		bounds := func(p int64) (lo, hi int64) { return p * passPiece, min(n, (p+1)*passPiece) }
		// The input of another type becomes the output's first, in place of it.
		source := func(lo, hi int64) []T {
			if same, ok := any(in).([]T); ok {
				return same[lo:hi]
			}
			return out[lo:hi]
		}
		l.Parallel(pieces, func(p int64) {
			lo, hi := bounds(p)
			if convert != nil {
				convert(out[lo:hi], in[lo:hi])
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
			scanPiece(op, out[lo:hi], source(lo, hi), starts[p], exclusive)
		})
		return nil
	}
}

// Widen converts elements of a narrow type to a wider one.
func Widen[In, T Unsigned](dst []T, in []In) {
	dst = dst[:len(in)]
	for i, x := range in {
		dst[i] = T(x)
	}
}
