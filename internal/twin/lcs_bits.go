package twin

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// The bit-parallel recurrence on words of 64 rows. What the kernels hold in
// bands of their own size is the same whatever the bands, so these are a core's.

// A core takes a band of up to 64 words at a time: with 256 letters their match
// words fill half of its second cache.
const (
	lcsBandWords = 64
	lcsBandRows  = lcsBandWords * 64
)

// lcsProgress is the words of 64 columns after which a band's carries are passed
// on to the next.
const lcsProgress = 32

// LCSProblem is a part of a beside a part of b; as LCSProblem in
// ptx/src/lcs_bits.cuh.
type LCSProblem struct {
	A, Rows, B, Columns uint64
	Units               uint64
	Front, Back         uint64
	Keep                uint64
	KeptFront, KeptBack uint64
	Stride              uint64
	Crossings           uint64
	Ring, Slots         uint64
}

// Boundaries is how many boundaries between the bands of the given rows the
// walk back crosses.
func (p *LCSProblem) Boundaries(bandRows int64) int64 {
	if p.Keep == 0 {
		return 0
	}
	return (ceilDiv(int64(p.Rows), bandRows) - 1) / int64(p.Keep)
}

// boundary is where the boundary behind bands bands is kept, in words; ok is whether
// there is one.
func (p *LCSProblem) boundary(reverse bool, bands uint64) (at uint64, ok bool) {
	if p.Keep == 0 || bands == 0 || bands%p.Keep != 0 {
		return 0, false
	}
	at = p.KeptFront
	if reverse {
		at = p.KeptBack
	}
	return at + (bands/p.Keep-1)*p.Stride, true
}

// keptWords is how many words are kept up to the end of the last that is.
func (p *LCSProblem) keptWords(bandRows int64) (words uint64) {
	bands, chunks := uint64(ceilDiv(int64(p.Rows), bandRows)), uint64(ceilDiv(int64(p.Columns), 32))
	if p.Keep == 0 {
		return 0
	}
	if at, ok := p.boundary(false, p.Front/p.Keep*p.Keep); ok {
		words = at + chunks
	}
	if p.Back > 0 {
		if at, ok := p.boundary(true, (bands-1)/p.Keep*p.Keep); ok {
			words = max(words, at+chunks)
		}
	}
	return words
}

// LCSPiece is a band of rows beside a part of b; as LCSPiece in
// ptx/src/lcs_bits.cuh.
type LCSPiece struct {
	A, Rows, B, Columns, Values, State, Walk, Mode uint64
}

// Modes of an LCSPiece.
const (
	LCSSave = 1
	LCSWalk = 2
)

// lcsAlphabet numbers the letters of a band from 1; 0 is any other.
type lcsAlphabet[T Unsigned] struct {
	byte  [256]int32
	slots []int32 // of wider letters
	keys  []T     // by number, from 1
	shift uint
}

func (x *lcsAlphabet[T]) slot(v T) uint64 { return uint64(v) * 0x9e3779b97f4a7c15 >> x.shift }

// build numbers letters and returns how many numbers there are.
func (x *lcsAlphabet[T]) build(letters []T) int {
	if unsafe.Sizeof(T(0)) == 1 {
		x.byte = [256]int32{}
		n := int32(1)
		for _, v := range letters {
			if p := &x.byte[uint8(v)]; *p == 0 {
				*p = n
				n++
			}
		}
		return int(n)
	}
	log := bits.Len(uint(2*len(letters) | 1))
	x.shift = uint(64 - log)
	x.slots = append(x.slots[:0], make([]int32, 1<<log)...)
	x.keys = append(x.keys[:0], 0)
	for _, v := range letters {
		h := x.slot(v)
		for x.slots[h] != 0 && x.keys[x.slots[h]] != v {
			h = (h + 1) & uint64(len(x.slots)-1)
		}
		if x.slots[h] == 0 {
			x.slots[h] = int32(len(x.keys))
			x.keys = append(x.keys, v)
		}
	}
	return len(x.keys)
}

func (x *lcsAlphabet[T]) number(v T) int {
	if unsafe.Sizeof(v) == 1 {
		return int(x.byte[uint8(v)])
	}
	h := x.slot(v)
	for {
		k := x.slots[h]
		if k == 0 || x.keys[k] == v {
			return int(k)
		}
		h = (h + 1) & uint64(len(x.slots)-1)
	}
}

// lcsRows is a band of rows on its way over the columns.
type lcsRows[T Unsigned] struct {
	alphabet lcsAlphabet[T]
	letters  []T // in order
	v        []uint64
	match    []uint64 // len(v) words a letter's number
}

// begin takes rows that are letters, read backwards if reverse, from the top of
// the table.
func (r *lcsRows[T]) begin(letters []T, reverse bool) {
	r.letters = append(r.letters[:0], letters...)
	if reverse {
		for i, j := 0, len(letters)-1; j >= 0; i, j = i+1, j-1 {
			r.letters[i] = letters[j]
		}
	}
	words := (len(letters) + 63) / 64
	r.v = append(r.v[:0], make([]uint64, words)...)
	for i := range r.v {
		r.v[i] = ^uint64(0)
	}
	r.match = append(r.match[:0], make([]uint64, r.alphabet.build(r.letters)*words)...)
	for i, x := range r.letters {
		r.match[r.alphabet.number(x)*words+i/64] |= 1 << (i % 64)
	}
}

// advance moves the rows over the columns of b, up to 64, with the carries into
// the first row and out of the last as bits.
func (r *lcsRows[T]) advance(b []T, reverse bool, in uint64) (out uint64) {
	words := len(r.v)
	match := func(k int) []uint64 {
		if reverse {
			k = len(b) - 1 - k
		}
		return r.match[r.alphabet.number(b[k])*words:][:words]
	}
	k := 0
	if words == lcsBandWords {
		v := (*lcsWords)(r.v)
		for ; k+1 < len(b); k += 2 {
			c0, c1 := v.columns((*lcsWords)(match(k)), (*lcsWords)(match(k+1)), in>>k&1, in>>(k+1)&1)
			out |= c0<<k | c1<<(k+1)
		}
	}
	for ; k < len(b); k++ {
		out |= lcsColumn(r.v, match(k), in>>k&1) << k
	}
	return out
}

// lcsColumn moves the rows v to the next column, whose letter they match at m:
// Hyyrö's (2004) form of the recurrence of Crochemore and others (2001), with
// v &^ m as v ^ v&m.
func lcsColumn(v, m []uint64, carry uint64) uint64 {
	m = m[:len(v)]
	i := 0
	for ; i+4 <= len(v) && i+4 <= len(m); i += 4 {
		v, m := (*[4]uint64)(v[i:]), (*[4]uint64)(m[i:])
		v0, v1, v2, v3 := v[0], v[1], v[2], v[3]
		u0, u1, u2, u3 := v0&m[0], v1&m[1], v2&m[2], v3&m[3]
		s0, c := bits.Add64(v0, u0, carry)
		s1, c := bits.Add64(v1, u1, c)
		s2, c := bits.Add64(v2, u2, c)
		s3, c := bits.Add64(v3, u3, c)
		carry = c
		v[0], v[1], v[2], v[3] = s0|(v0^u0), s1|(v1^u1), s2|(v2^u2), s3|(v3^u3)
	}
	for ; i < len(v); i++ {
		x := v[i]
		u := x & m[i]
		var s uint64
		s, carry = bits.Add64(x, u, carry)
		v[i] = s | (x ^ u)
	}
	return carry
}

// lcsWords are the rows of a whole band. The loop over an array of known length
// leaves registers for two columns, which BenchmarkLCSRows found faster than one at a
// time and than slices.
type lcsWords [lcsBandWords]uint64

// columns moves the rows to the column with matches m, and on to that with n.
func (v *lcsWords) columns(m, n *lcsWords, c0, c1 uint64) (uint64, uint64) {
	for i := 0; i < lcsBandWords; i += 4 {
		v0, v1, v2, v3 := v[i], v[i+1], v[i+2], v[i+3]
		u0, u1, u2, u3 := v0&m[i], v1&m[i+1], v2&m[i+2], v3&m[i+3]
		s0, c := bits.Add64(v0, u0, c0)
		s1, c := bits.Add64(v1, u1, c)
		s2, c := bits.Add64(v2, u2, c)
		s3, c := bits.Add64(v3, u3, c)
		c0 = c
		v0, v1, v2, v3 = s0|(v0^u0), s1|(v1^u1), s2|(v2^u2), s3|(v3^u3)
		u0, u1, u2, u3 = v0&n[i], v1&n[i+1], v2&n[i+2], v3&n[i+3]
		s0, c = bits.Add64(v0, u0, c1)
		s1, c = bits.Add64(v1, u1, c)
		s2, c = bits.Add64(v2, u2, c)
		s3, c = bits.Add64(v3, u3, c)
		c1 = c
		v[i], v[i+1], v[i+2], v[i+3] = s0|(v0^u0), s1|(v1^u1), s2|(v2^u2), s3|(v3^u3)
	}
	return c0, c1
}

// lcsUnit is a band on the way from a boundary to the next, in one direction of
// a problem.
type lcsUnit struct {
	problem  int
	reverse  bool
	from, to int64 // rows of a, of this problem
	in, out  []uint64
	before   *atomic.Int64 // words of 64 columns in in; nil for the first band
	done     atomic.Int64
	kept     []uint32
	last     bool // of its direction
}

// LCSPass goes through the tables of all problems: lengths[p] becomes the length
// of the longest common subsequence of problem p's columns and its rows from the
// front, and the carries out of the rows at its boundaries are kept. bandRows is the
// rows of a kernel's band. The words between bands and the ticket are the kernel's own.
//
// A count of 0 is the one problem that the next five parameters describe, with one
// boundary at most.
//
// Parameters: a, b, problems, count, rows, columns, front, keep, slots, units, ring,
// kept, lengths, ticket.
func LCSPass[T Unsigned](bandRows int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		aAt, bAt, problemsAt, count := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint64())
		only := LCSProblem{Rows: l.Args.Uint64(), Columns: l.Args.Uint64(), Front: l.Args.Uint64(), Keep: l.Args.Uint64(), Slots: l.Args.Uint64()}
		only.Back = l.Args.Uint64() - only.Front
		only.Stride = uint64(ceilDiv(int64(only.Columns), 32))
		only.KeptBack = only.Stride
		l.Args.Ptr()
		keptAt, lengthsAt := l.Args.Ptr(), l.Args.Ptr()
		problems, err := driver.Slice[LCSProblem](l.Mem, problemsAt, count)
		if err != nil {
			return err
		}
		if count == 0 {
			problems, count = []LCSProblem{only}, 1
		}
		var aLen, bLen, keptLen uint64
		for i := range problems {
			p := &problems[i]
			aLen, bLen = max(aLen, p.A+p.Rows), max(bLen, p.B+p.Columns)
			keptLen = max(keptLen, p.keptWords(bandRows))
		}
		a, err := driver.Slice[T](l.Mem, aAt, int64(aLen))
		if err != nil {
			return err
		}
		b, err := driver.Slice[T](l.Mem, bAt, int64(bLen))
		if err != nil {
			return err
		}
		kept, err := driver.Slice[uint32](l.Mem, keptAt, int64(keptLen))
		if err != nil {
			return err
		}
		lengths, err := driver.Slice[uint64](l.Mem, lengthsAt, count)
		if err != nil {
			return err
		}
		workers := int64(runtime.GOMAXPROCS(0))
		units := lcsUnits(problems, kept, bandRows, workers)
		// Bands are taken in order, so that a band's predecessor is done or
		// running, and with a buffer more than there are workers nobody's carries
		// are overwritten before they are read.
		var ticket atomic.Int64
		l.Parallel(min(workers, int64(len(units))), func(int64) {
			defer func() {
				if v := recover(); v != nil {
					for _, u := range units {
						u.done.Store(math.MaxInt64) // nobody waits for what will not come
					}
					panic(v)
				}
			}()
			var rows lcsRows[T]
			for {
				k := ticket.Add(1) - 1
				if k >= int64(len(units)) {
					return
				}
				u := units[k]
				p := &problems[u.problem]
				length := lcsSweep(u, &rows, a[p.A:p.A+p.Rows], b[p.B:p.B+p.Columns])
				if u.last && !u.reverse {
					lengths[u.problem] = length
				}
			}
		})
		return nil
	}
}

// lcsUnits are the bands of all problems in an order in which a band comes after
// those that it waits for.
func lcsUnits(problems []LCSProblem, kept []uint32, bandRows, workers int64) (units []*lcsUnit) {
	for i := range problems {
		p := &problems[i]
		rows := int64(p.Rows)
		keptWords, words := ceilDiv(int64(p.Columns), 32), ceilDiv(int64(p.Columns), 64)
		// Rows that are gone through, from the front and behind those that are not from the back.
		limits := [2]int64{min(rows, int64(p.Front)*bandRows), max(0, (ceilDiv(rows, bandRows)-int64(p.Back))*bandRows)}
		section := rows
		if p.Keep > 0 {
			section = int64(p.Keep) * bandRows
		}
		// In forward order, cut at boundaries and into what a core takes.
		var cuts []int64
		for at := int64(0); at < rows; {
			for end := min(rows, at+section); at < end; at = min(end, at+lcsBandRows) {
				cuts = append(cuts, at)
			}
		}
		cuts = append(cuts, rows)
		n := len(cuts) - 1
		var before [2]*lcsUnit
		var buffers [2][][]uint64
		for k := range n {
			for d := range 2 {
				u := &lcsUnit{problem: i, reverse: d == 1, from: cuts[k], to: cuts[k+1]}
				edge := u.to
				if u.reverse {
					u.from, u.to = cuts[n-1-k], cuts[n-k]
					edge = u.from
				}
				if u.reverse && u.from < limits[d] || !u.reverse && u.to > limits[d] {
					continue
				}
				u.last = edge == limits[d]
				if edge%bandRows == 0 || edge == rows {
					if at, ok := p.boundary(u.reverse, uint64(ceilDiv(edge, bandRows))); ok {
						u.kept = kept[at:][:keptWords]
					}
				}
				if !u.last {
					if int64(len(buffers[d])) <= workers {
						buffers[d] = append(buffers[d], make([]uint64, words))
					}
					u.out = buffers[d][int64(k)%(workers+1)]
				}
				if prev := before[d]; prev != nil {
					u.in, u.before = prev.out, &prev.done
				}
				before[d] = u
				units = append(units, u)
			}
		}
	}
	return units
}

// lcsSweep takes a band of a over all columns of b and returns how many carries
// came out of it.
func lcsSweep[T Unsigned](u *lcsUnit, rows *lcsRows[T], a, b []T) (length uint64) {
	rows.begin(a[u.from:u.to], u.reverse)
	words, there := (len(b)+63)/64, int64(0)
	for w := range words {
		var in uint64
		if u.before != nil {
			for tries := 0; int64(w) >= there; tries++ {
				if there = u.before.Load(); int64(w) >= there {
					if tries < 1000 {
						runtime.Gosched()
					} else {
						time.Sleep(50 * time.Microsecond) // the core is another program's for now
					}
				}
			}
			in = u.in[w]
		}
		from, to := w*64, min(len(b), w*64+64)
		if u.reverse {
			from, to = len(b)-to, len(b)-from
		}
		out := rows.advance(b[from:to], u.reverse, in)
		length += uint64(bits.OnesCount64(out))
		if u.kept != nil {
			u.kept[2*w] = uint32(out)
			if 2*w+1 < len(u.kept) {
				u.kept[2*w+1] = uint32(out >> 32)
			}
		}
		if u.out != nil {
			u.out[w] = out
			if w%lcsProgress == lcsProgress-1 || w == words-1 {
				u.done.Store(int64(w) + 1)
			}
		}
	}
	return length
}

// LCSCross finds, for every boundary of every problem, the last column at which
// the lengths of what is above, from the front, and of what is below, from the
// back, add up to the most, which is the length of all. A count of 0 is one problem
// with columns. Crossings or lengths may be null.
//
// Parameters: problems, count, columns, kept, crossings, lengths.
func LCSCross(bandRows int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		problemsAt, count, columns := l.Args.Ptr(), int64(l.Args.Uint64()), int64(l.Args.Uint64())
		keptAt, crossingsAt, lengthsAt := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		problems, err := driver.Slice[LCSProblem](l.Mem, problemsAt, count)
		if err != nil {
			return err
		}
		type boundary struct {
			columns     int64
			front, back int64 // in kept
		}
		var all []boundary
		var keptLen int64
		for i := range problems {
			p := &problems[i]
			words := ceilDiv(int64(p.Columns), 32)
			for k := range p.Boundaries(bandRows) {
				front, back := int64(p.KeptFront)+k*int64(p.Stride), int64(p.KeptBack)+k*int64(p.Stride)
				keptLen = max(keptLen, front+words, back+words)
				all = append(all, boundary{int64(p.Columns), front, back})
			}
		}
		if count == 0 {
			words := ceilDiv(columns, 32)
			all, keptLen = []boundary{{columns, 0, words}}, 2*words
		}
		kept, err := driver.Slice[uint32](l.Mem, keptAt, keptLen)
		if err != nil {
			return err
		}
		var crossings, lengths []uint64
		for _, to := range []struct {
			at     driver.Ptr
			values *[]uint64
		}{{crossingsAt, &crossings}, {lengthsAt, &lengths}} {
			if to.at != 0 {
				if *to.values, err = driver.Slice[uint64](l.Mem, to.at, int64(len(all))); err != nil {
					return err
				}
			}
		}
		l.Parallel(int64(len(all)), func(i int64) {
			c := all[i]
			words := ceilDiv(c.columns, 32)
			at, length := lcsCrossing(c.columns, kept[c.front:c.front+words], kept[c.back:c.back+words])
			if crossings != nil {
				crossings[i] = at
			}
			if lengths != nil {
				lengths[i] = length
			}
		})
		return nil
	}
}

func lcsCrossing(columns int64, front, back []uint32) (at, length uint64) {
	sum, most, below := 0, 0, 0
	for w, up := range front {
		// The backward carries of the same columns, the first at the bottom.
		var window uint32
		if from := columns - 32 - int64(w)*32; from < 0 {
			window = back[0] << -from
		} else {
			window = back[from/32] >> (from % 32)
			if from%32 != 0 {
				window |= back[from/32+1] << (32 - from%32)
			}
		}
		down := bits.Reverse32(window)
		below += bits.OnesCount32(down)
		if sum+bits.OnesCount32(up&^down) < most {
			sum += bits.OnesCount32(up) - bits.OnesCount32(down)
			continue
		}
		for k := range min(32, columns-int64(w)*32) {
			sum += int(up>>k&1) - int(down>>k&1)
			if sum >= most {
				most, at = sum, uint64(int64(w)*32+k+1)
			}
		}
	}
	return at, uint64(most + below)
}

// LCSTrace goes over the columns of each piece and then back: from row rows[walk]
// of its last column up where the row above is as long, else over the match,
// else left. What is matched is marked in bits of a and of b, and rows[walk]
// becomes the row that is reached at the first column. The columns' values are
// the kernel's own.
//
// Parameters: a, b, pieces, values, states, rows, a's marks, b's marks.
func LCSTrace[T Unsigned](bandRows int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		aAt, bAt, piecesAt := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		l.Args.Ptr()
		statesAt, rowsAt, aMarksAt, bMarksAt := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		pieces, err := driver.Slice[LCSPiece](l.Mem, piecesAt, int64(l.Grid.X))
		if err != nil {
			return err
		}
		var aLen, bLen, statesLen, walks uint64
		stateWords := uint64(bandRows / 32)
		for i := range pieces {
			p := &pieces[i]
			aLen, bLen = max(aLen, p.A+p.Rows), max(bLen, p.B+p.Columns)
			if p.State > 0 {
				statesLen = max(statesLen, (p.State+1)*stateWords)
			}
			if p.Mode&LCSSave != 0 {
				statesLen = max(statesLen, (p.State+2)*stateWords)
			}
			if p.Mode&LCSWalk != 0 {
				walks = max(walks, p.Walk+1)
			}
		}
		a, err := driver.Slice[T](l.Mem, aAt, int64(aLen))
		if err != nil {
			return err
		}
		b, err := driver.Slice[T](l.Mem, bAt, int64(bLen))
		if err != nil {
			return err
		}
		states, err := driver.Slice[uint32](l.Mem, statesAt, int64(statesLen))
		if err != nil {
			return err
		}
		rows, err := driver.Slice[uint64](l.Mem, rowsAt, int64(walks))
		if err != nil {
			return err
		}
		aMarks, err := driver.Slice[uint32](l.Mem, aMarksAt, ceilDiv(int64(aLen), 32))
		if err != nil {
			return err
		}
		bMarks, err := driver.Slice[uint32](l.Mem, bMarksAt, ceilDiv(int64(bLen), 32))
		if err != nil {
			return err
		}
		state := func(k uint64) []uint32 { return states[k*stateWords:][:stateWords] }
		l.Parallel(int64(len(pieces)), func(i int64) {
			p := &pieces[i]
			x, y := a[p.A:p.A+p.Rows], b[p.B:p.B+p.Columns]
			var r lcsRows[T]
			r.begin(x, false)
			if p.State > 0 {
				from := state(p.State)
				for w := range r.v {
					r.v[w] = uint64(from[2*w]) | uint64(from[2*w+1])<<32
				}
			}
			var values []uint64 // a column behind the other
			if p.Mode&LCSWalk != 0 {
				values = make([]uint64, 0, len(y)*len(r.v))
			}
			for k := range y {
				r.advance(y[k:k+1], false, 0)
				if p.Mode&LCSWalk != 0 {
					values = append(values, r.v...)
				}
			}
			if p.Mode&LCSSave != 0 {
				to := state(p.State + 1)
				for w := range to {
					to[w] = ^uint32(0)
				}
				for w, v := range r.v {
					to[2*w], to[2*w+1] = uint32(v), uint32(v>>32)
				}
			}
			if p.Mode&LCSWalk != 0 {
				rows[p.Walk] = uint64(lcsWalk(x, y, values, int(rows[p.Walk]), func(i, j int) {
					mark(aMarks, p.A+uint64(i))
					mark(bMarks, p.B+uint64(j))
				}))
			}
		})
		return nil
	}
}

// mark sets a bit in words that others also write.
func mark(words []uint32, at uint64) { atomic.OrUint32(&words[at/32], 1<<(at%32)) }

// lcsWalk goes back from row i of a and b's last column, and calls f with each
// match. It returns the row that is reached.
func lcsWalk[T Unsigned](a, b []T, values []uint64, i int, f func(i, j int)) int {
	words := (len(a) + 63) / 64
	for j := len(b); i > 0 && j > 0; {
		// Up to a row that is longer than the one above.
		column := values[(j-1)*words : j*words]
		w := (i - 1) / 64
		grows := ^column[w] & (^uint64(0) >> (63 - (i-1)%64))
		for grows == 0 && w > 0 {
			w--
			grows = ^column[w]
		}
		if grows == 0 {
			return 0
		}
		i = w*64 + bits.Len64(grows)
		// Left to its match: no row above is as long before.
		for j > 0 && b[j-1] != a[i-1] {
			j--
		}
		if j == 0 {
			return i // it is before b, in columns that were gone over earlier
		}
		i, j = i-1, j-1
		f(i, j)
	}
	return i
}

// LCSUnpack stores n bits as numbers.
//
// Parameters: bits, n, out.
func LCSUnpack() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		bitsAt, n, outAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr()
		words, err := driver.Slice[uint32](l.Mem, bitsAt, ceilDiv(n, 32))
		if err != nil {
			return err
		}
		out, err := driver.Slice[uint32](l.Mem, outAt, n)
		if err != nil {
			return err
		}
		pieces(l, n, func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				out[i] = words[i/32] >> (i % 32) & 1
			}
		})
		return nil
	}
}
