package twin

import (
	"encoding/binary"
	"sort"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// piece is the elements that one call of Parallel's function handles: enough
// to hide the call, few enough to keep the cores evenly busy.
const piece = 1 << 16

// pieces calls f for consecutive ranges that cover [0, n).
func pieces(l *driver.TwinLaunch, n int64, f func(lo, hi int64)) {
	l.Parallel(ceilDiv(n, piece), func(i int64) { f(i*piece, min(n, (i+1)*piece)) })
}

// scalar returns the one element of T at p.
func scalar[T any](m driver.Memory, p driver.Ptr) (*T, error) {
	s, err := driver.Slice[T](m, p, 1)
	if err != nil {
		return nil, err
	}
	return &s[0], nil
}

// RLEMark sets flags[k] where a run begins: at 0, and where raw[k] differs from
// raw[k-1].
//
// Parameters: raw, n, flags.
func RLEMark[V, I Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		rawAt, n, flagsAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		raw, err := driver.Slice[V](l.Mem, rawAt, n)
		if err != nil {
			return err
		}
		flags, err := driver.Slice[I](l.Mem, flagsAt, n)
		if err != nil {
			return err
		}
		pieces(l, n, func(lo, hi int64) {
			dst, cur := flags[lo:hi], raw[lo:hi]
			if lo == 0 {
				dst[0] = 1
				dst, cur = dst[1:], cur[1:]
				lo = 1
			}
			prev := raw[lo-1:][:len(cur)]
			dst = dst[:len(cur)]
			for k, v := range cur {
				var head I
				if v != prev[k] {
					head = 1
				}
				dst[k] = head
			}
		})
		return nil
	}
}

// RLEScatter stores where each run starts and how many runs there are. scanned
// is the inclusive scan of the marks: the run of element k is scanned[k]-1.
// Runs beyond capacity are counted, not stored.
//
// Parameters: scanned, n, starts, capacity, count.
func RLEScatter[I Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		scannedAt, n, startsAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		capacity, countAt := l.Args.Uint64(), l.Args.Ptr()
		scanned, err := driver.Slice[I](l.Mem, scannedAt, n)
		if err != nil {
			return err
		}
		count, err := scalar[uint64](l.Mem, countAt)
		if err != nil {
			return err
		}
		var runs uint64
		if n > 0 {
			runs = uint64(scanned[n-1])
		}
		stored := min(runs, capacity)
		starts, err := driver.Slice[I](l.Mem, startsAt, int64(stored))
		if err != nil {
			return err
		}
		pieces(l, n, func(lo, hi int64) {
			var earlier I // runs that start before this piece
			if lo > 0 {
				earlier = scanned[lo-1]
			}
			s := scanned[lo:hi]
			first := sort.Search(len(s), func(k int) bool { return s[k] > earlier })
			end := sort.Search(len(s), func(k int) bool { return uint64(s[k]) > stored })
			// Backwards, so that the first element of a run is the last to
			// store its place: no branch that depends on the data.
			for k := end - 1; k >= first; k-- {
				starts[s[k]-1] = I(lo + int64(k))
			}
		})
		*count = runs
		return nil
	}
}

// runEnd is where run r ends, n being the end of the last.
func runEnd[I Unsigned](starts []I, r, n int64) uint64 {
	if r+1 < int64(len(starts)) {
		return uint64(starts[r+1])
	}
	return uint64(n)
}

// RLEFinish stores the value and length of the first capacity runs. starts also
// holds where the run after them begins, if there is one.
//
// Parameters: raw, n, starts, count, capacity, values, lengths.
func RLEFinish[V, I, L Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		rawAt, n, startsAt, countAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), l.Args.Ptr()
		capacity, valuesAt, lengthsAt := l.Args.Uint64(), l.Args.Ptr(), l.Args.Ptr()
		count, err := scalar[uint64](l.Mem, countAt)
		if err != nil {
			return err
		}
		runs := int64(min(*count, capacity))
		raw, err := driver.Slice[V](l.Mem, rawAt, n)
		if err != nil {
			return err
		}
		starts, err := driver.Slice[I](l.Mem, startsAt, int64(min(*count, capacity+1)))
		if err != nil {
			return err
		}
		values, err := driver.Slice[V](l.Mem, valuesAt, runs)
		if err != nil {
			return err
		}
		lengths, err := driver.Slice[L](l.Mem, lengthsAt, runs)
		if err != nil {
			return err
		}
		pieces(l, runs, func(lo, hi int64) {
			start := uint64(starts[lo])
			for r := lo; r < hi; r++ {
				end := runEnd(starts, r, n)
				values[r] = raw[start]
				lengths[r] = L(end - start)
				start = end
			}
		})
		return nil
	}
}

// RLEDecode stores the value of the first run that ends after k in out[k], for
// every k below total. ends does not decrease, and its last one is at least
// total. It is the twin of all four decode kernels, which differ in how they
// share the work.
//
// Parameters: values, ends, runs, out, total.
func RLEDecode[V Unsigned]() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		valuesAt, endsAt, runs := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64())
		outAt, total := l.Args.Ptr(), int64(l.Args.Uint64())
		values, err := driver.Slice[V](l.Mem, valuesAt, runs)
		if err != nil {
			return err
		}
		ends, err := driver.Slice[uint64](l.Mem, endsAt, runs)
		if err != nil {
			return err
		}
		out, err := driver.Slice[V](l.Mem, outAt, total)
		if err != nil {
			return err
		}
		if covered := last(ends); covered < uint64(total) {
			return driver.Errorf("launch", driver.ErrCorrupt, "run ends cover %d of %d elements", covered, total)
		}
		pieces(l, total, func(lo, hi int64) {
			r := sort.Search(len(ends), func(r int) bool { return ends[r] > uint64(lo) })
			fillRuns(out[lo:hi], values[r:], ends[r:], uint64(lo))
		})
		return nil
	}
}

func last(ends []uint64) uint64 {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1]
}

// fillRuns writes out, whose first element is number base of the whole output
// and lies in the first of the runs.
func fillRuns[V Unsigned](out, values []V, ends []uint64, base uint64) {
	w := newRunFiller(out)
	for r := 0; w.at < len(out); r++ {
		w.run(values[r], int(min(ends[r]-base, uint64(len(out)))))
	}
}

// runFiller writes runs one after another.
type runFiller[V Unsigned] struct {
	out   []V
	bytes []byte // of out
	at    int
}

func newRunFiller[V Unsigned](out []V) runFiller[V] {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), len(out)*int(unsafe.Sizeof(V(0))))
	return runFiller[V]{out: out, bytes: bytes}
}

// run writes v up to element end.
func (w *runFiller[V]) run(v V, end int) {
	size := int(unsafe.Sizeof(v))
	perWord := 8 / size
	at := w.at
	// Whole words while they fit: what a word writes past the run's end belongs to
	// later runs, which come later.
	word := uint64(v) * elementOnes[V]()
	for at < end && at+perWord <= len(w.out) && end-at <= longRun/size {
		binary.LittleEndian.PutUint64(w.bytes[at*size:], word)
		at += perWord
	}
	if at < end {
		fill(w.out[at:end], v)
	}
	w.at = end
}

// elementOnes is a word with a one in each element of V.
func elementOnes[V Unsigned]() uint64 { return ^uint64(0) / (uint64(1)<<(8*unsafe.Sizeof(V(0))) - 1) }

// longRun is the bytes from which on a run is filled by copying.
const longRun = 256

// fill sets all of s to v, by copies that double.
func fill[V any](s []V, v V) {
	s[0] = v
	for n := 1; n < len(s); n *= 2 {
		copy(s[n:], s[:n])
	}
}
