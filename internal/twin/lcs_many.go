package twin

import (
	"math/bits"

	"github.com/ptxrun/ptxrun/driver"
)

// LCSLane is what a lane holds of a pattern; as LCSLane in ptx/src/lcs_many.cuh.
// The letters of a pattern's lanes lie together.
type LCSLane struct {
	Letters, Row uint64
	Count, Flags uint32
	From         uint64
}

// Flags of an LCSLane.
const (
	LCSFirst = 1
	LCSLast  = 2
)

// LCSSlice is a band of patterns beside texts that lie together; as LCSSlice in
// ptx/src/lcs_many.cuh.
type LCSSlice struct{ Band, Step, Steps, Text uint64 }

const (
	// LCSStep is the letters of a step, and LCSTextEnd marks its count where a
	// text ends.
	LCSStep    = 8
	LCSTextEnd = 0x80

	// LCSByRow and LCSByColumn say where results of patterns go.
	LCSByRow    = 1
	LCSByColumn = 2
)

// LCSMany writes the length for each pattern of each slice with each of its texts
// to results[row][column], rows being stride apart, to results[column][row], or
// to both.
//
// Parameters: a, b, lanes, slices, counts, columns, results, stride, where.
func LCSMany[T Unsigned](bandRows int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		aAt, bAt, lanesAt, slicesAt, countsAt := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		columnsAt, resultsAt, stride, where := l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint64(), l.Args.Uint32()
		slices, err := driver.Slice[LCSSlice](l.Mem, slicesAt, int64(l.Grid.X))
		if err != nil {
			return err
		}
		perBand := uint64(bandRows / 32)
		var laneLen, stepLen, aLen, textLen, resultLen uint64
		for i := range slices {
			s := &slices[i]
			laneLen, stepLen = max(laneLen, (s.Band+1)*perBand), max(stepLen, s.Step+s.Steps)
		}
		lanes, err := driver.Slice[LCSLane](l.Mem, lanesAt, int64(laneLen))
		if err != nil {
			return err
		}
		counts, err := driver.Slice[uint8](l.Mem, countsAt, int64(stepLen))
		if err != nil {
			return err
		}
		b, err := driver.Slice[T](l.Mem, bAt, int64(stepLen*LCSStep))
		if err != nil {
			return err
		}
		texts := make([][][]T, len(slices))
		for i := range slices {
			s := &slices[i]
			texts[i] = lcsTexts(b[s.Step*LCSStep:(s.Step+s.Steps)*LCSStep], counts[s.Step:s.Step+s.Steps])
			textLen = max(textLen, s.Text+uint64(len(texts[i])))
		}
		columns, err := driver.Slice[uint32](l.Mem, columnsAt, int64(textLen))
		if err != nil {
			return err
		}
		last := uint64(0)
		for _, c := range columns {
			last = max(last, uint64(c))
		}
		for i := range lanes {
			p := &lanes[i]
			if p.Count == 0 {
				continue
			}
			aLen = max(aLen, p.Letters+uint64(p.Count))
			if where&LCSByRow != 0 {
				resultLen = max(resultLen, p.Row*stride+last+1)
			}
			if where&LCSByColumn != 0 {
				resultLen = max(resultLen, last*stride+p.Row+1)
			}
		}
		a, err := driver.Slice[T](l.Mem, aAt, int64(aLen))
		if err != nil {
			return err
		}
		results, err := driver.Slice[uint32](l.Mem, resultsAt, int64(resultLen))
		if err != nil {
			return err
		}
		l.Parallel(int64(len(slices)), func(i int64) {
			s := &slices[i]
			var rows lcsRows[T]
			band := lanes[s.Band*perBand:][:perBand]
			for k := range band {
				if band[k].Flags&LCSFirst == 0 {
					continue
				}
				p, n := &band[k], uint64(0)
				for _, q := range band[k:] {
					if n += uint64(q.Count); q.Flags&LCSLast != 0 {
						break
					}
				}
				rows.begin(a[p.Letters:p.Letters+n], false)
				for j, text := range texts[i] {
					at := s.Text + uint64(j)
					if at < p.From {
						continue
					}
					length, column := rows.length(text), uint64(columns[at])
					if where&LCSByRow != 0 {
						results[p.Row*stride+column] = length
					}
					if where&LCSByColumn != 0 {
						results[column*stride+p.Row] = length
					}
				}
			}
		})
		return nil
	}
}

// lcsTexts are the texts in steps with the given counts of letters.
func lcsTexts[T Unsigned](b []T, counts []uint8) (texts [][]T) {
	start, n := 0, 0
	for k, c := range counts {
		n += int(c &^ LCSTextEnd)
		if c&LCSTextEnd != 0 {
			texts = append(texts, b[start*LCSStep:][:n])
			start, n = k+1, 0
		}
	}
	return texts
}

// length takes the rows from the top of the table over a text and returns the
// length.
func (r *lcsRows[T]) length(text []T) (length uint32) {
	switch len(r.v) {
	case 1:
		v := ^uint64(0)
		for _, x := range text {
			u := v & r.match[r.alphabet.number(x)]
			s, carry := bits.Add64(v, u, 0)
			v = s | (v ^ u)
			length += uint32(carry)
		}
		return length
	case 2:
		v0, v1 := ^uint64(0), ^uint64(0)
		for _, x := range text {
			m := r.match[r.alphabet.number(x)*2:][:2]
			u0, u1 := v0&m[0], v1&m[1]
			s0, carry := bits.Add64(v0, u0, 0)
			s1, carry := bits.Add64(v1, u1, carry)
			v0, v1 = s0|(v0^u0), s1|(v1^u1)
			length += uint32(carry)
		}
		return length
	}
	for i := range r.v {
		r.v[i] = ^uint64(0)
	}
	for len(text) > 0 {
		n := min(64, len(text))
		length += uint32(bits.OnesCount64(r.advance(text[:n], false, 0)))
		text = text[n:]
	}
	return length
}

// LCSPlace copies lengths to their two places among results.
//
// Parameters: lengths, n, places, results.
func LCSPlace() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		lengthsAt, n, placesAt, resultsAt := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), l.Args.Ptr()
		lengths, err := driver.Slice[uint64](l.Mem, lengthsAt, n)
		if err != nil {
			return err
		}
		places, err := driver.Slice[uint64](l.Mem, placesAt, 2*n)
		if err != nil {
			return err
		}
		last := int64(-1)
		for _, p := range places {
			last = max(last, int64(p))
		}
		results, err := driver.Slice[uint32](l.Mem, resultsAt, last+1)
		if err != nil {
			return err
		}
		for i, p := range places {
			results[p] = uint32(lengths[i/2])
		}
		return nil
	}
}
