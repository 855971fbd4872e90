// Package coco encodes and decodes binary masks in the run-length encoding of the
// COCO data sets (T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context",
// 2014; defined by the COCO API's mask functions, P. Dollár and T.-Y. Lin, 2015).
//
// A mask of height × width pixels is taken column by column, each from top to
// bottom. Its counts are the lengths of runs that are alternately outside and
// inside of the object, beginning outside: a mask whose first pixel is inside
// begins with a count of zero. So 0 0 1 1 1 0 1 has the counts 2 3 1 1, and
// 1 1 1 1 1 1 0 the counts 0 6 1.
//
// In text, counts are compressed: see [AppendCounts].
package coco

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Mask is an encoded mask. In JSON it has COCO's form, {"size": [height, width],
// "counts": "..."}; counts that are not compressed, an array of numbers, are
// read too.
type Mask struct {
	Height, Width int
	// Counts add up to Height × Width.
	Counts []uint32
}

// Encode encodes a bitmap of height rows of width pixels, row by row, where every
// value but zero is inside. It works on the processor.
//
// Errors: ErrLength if the bitmap does not have height × width pixels,
// ErrOverflow if a run has 2^32 pixels or more.
func Encode(bitmap []uint8, height, width int) (Mask, error) {
	const call = "coco.Encode"
	columns, err := transposed(call, bitmap, height, width)
	if err != nil {
		return Mask{}, err
	}
	m := Mask{Height: height, Width: width}
	for inside := uint8(0); ; inside ^= 1 {
		n := bytes.IndexByte(columns, inside^1)
		if n < 0 {
			n = len(columns)
		}
		if n > math.MaxUint32 {
			return Mask{}, driver.Errorf(call, driver.ErrOverflow, "a run of %d pixels", n)
		}
		m.Counts = append(m.Counts, uint32(n))
		if columns = columns[n:]; len(columns) == 0 {
			return m, nil
		}
	}
}

// EncodeOn is [Encode] with the runs found on rt's device. Errors are also those
// of [ptxrun.RLEEncode].
func EncodeOn(ctx context.Context, rt *ptxrun.Runtime, bitmap []uint8, height, width int) (Mask, error) {
	columns, err := transposed("coco.EncodeOn", bitmap, height, width)
	if err != nil {
		return Mask{}, err
	}
	values, lengths, err := ptxrun.RLEEncode(ctx, rt, columns)
	if err != nil {
		return Mask{}, err
	}
	if len(values) == 0 || values[0] != 0 {
		lengths = append([]uint32{0}, lengths...)
	}
	return Mask{Height: height, Width: width, Counts: lengths}, nil
}

// Decode returns the bitmap, row by row, of zeros and ones. It allocates twice
// Height × Width bytes: where masks come from outside, look at their size first.
//
// Errors: ErrCorrupt if the counts do not add up to Height × Width.
func (m Mask) Decode() ([]uint8, error) {
	pixels, err := m.pixels("coco.Decode")
	if err != nil {
		return nil, err
	}
	columns := make([]uint8, pixels)
	at := 0
	for i, n := range m.Counts {
		if i%2 == 1 {
			run := columns[at : at+int(n)]
			for k := range run {
				run[k] = 1
			}
		}
		at += int(n)
	}
	bitmap := make([]uint8, pixels)
	transpose(bitmap, columns, m.Width, m.Height)
	return bitmap, nil
}

// pixels returns Height × Width, to which the counts must add up.
func (m Mask) pixels(call string) (int, error) {
	pixels, ok := area(m.Height, m.Width)
	if !ok {
		return 0, driver.Errorf(call, driver.ErrCorrupt, "a mask of %d × %d pixels", m.Height, m.Width)
	}
	sum := uint64(0)
	for i, n := range m.Counts {
		if sum += uint64(n); sum > uint64(pixels) {
			return 0, driver.Errorf(call, driver.ErrCorrupt, "the counts add up to more than %d × %d pixels at count %d", m.Height, m.Width, i)
		}
	}
	if sum != uint64(pixels) {
		return 0, driver.Errorf(call, driver.ErrCorrupt, "the counts add up to %d of %d × %d pixels", sum, m.Height, m.Width)
	}
	return pixels, nil
}

func area(height, width int) (int, bool) {
	if height < 0 || width < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(height), uint64(width))
	return int(lo), hi == 0 && lo <= math.MaxInt
}

// transposed is the bitmap column by column, of zeros and ones.
func transposed(call string, bitmap []uint8, height, width int) ([]uint8, error) {
	if pixels, ok := area(height, width); !ok || pixels != len(bitmap) {
		return nil, driver.Errorf(call, driver.ErrLength, "a bitmap of %d pixels for %d × %d", len(bitmap), height, width)
	}
	columns := make([]uint8, len(bitmap))
	transpose(columns, bitmap, height, width)
	return columns, nil
}

// transpose stores src, rows × columns, as columns × rows in dst; what is not
// zero becomes one. It goes by squares that fit the nearest cache.
func transpose(dst, src []uint8, rows, columns int) {
	if len(src) == 0 {
		return // rows or columns may be of any number, if there are none of the others
	}
	const side = 64
	for top := 0; top < rows; top += side {
		bottom := min(top+side, rows)
		for left := 0; left < columns; left += side {
			for c := left; c < min(left+side, columns); c++ {
				out := dst[c*rows+top : c*rows+bottom]
				at := top*columns + c
				for i := range out {
					v := uint32(src[at])
					out[i] = uint8((v + 0xff) >> 8)
					at += columns
				}
			}
		}
	}
}

// AppendCounts appends the compressed form of counts to b. Each count, from the
// fourth on its difference to the count two before, is written in groups of 5
// bits, the lowest first, until the rest is the sign of the last group; a sixth
// bit says that more groups follow. A group is the character 48 above it, '0' to
// 'o'.
func AppendCounts(b []byte, counts []uint32) []byte {
	for i, n := range counts {
		x := int64(n)
		if i > 2 {
			x -= int64(counts[i-2])
		}
		for {
			group := byte(x & 0x1f)
			x >>= 5
			if x == -int64(group>>4) {
				b = append(b, '0'+group)
				break
			}
			b = append(b, '0'+(group|0x20))
		}
	}
	return b
}

// maxGroups of 5 bits hold every difference of two counts.
const maxGroups = 7

// ParseCounts is the inverse of [AppendCounts]. Its memory is at most four bytes
// a character.
//
// Errors: ErrCorrupt for a character that does not belong, a last count that is
// cut off, and a count below zero or of 2^32 and more.
func ParseCounts(s string) ([]uint32, error) {
	const call = "coco.ParseCounts"
	var counts []uint32
	for at := 0; at < len(s); {
		from, x := at, int64(0)
		for more := true; more; at++ {
			if at == len(s) {
				return nil, driver.Errorf(call, driver.ErrCorrupt, "count %d is cut off", len(counts))
			}
			if at-from == maxGroups {
				return nil, driver.Errorf(call, driver.ErrCorrupt, "count %d has more than %d characters", len(counts), maxGroups)
			}
			group := s[at] - '0'
			if group > 0x3f {
				return nil, driver.Errorf(call, driver.ErrCorrupt, "%q at %d", s[at], at)
			}
			shift := 5 * (at - from)
			x |= int64(group&0x1f) << shift
			if more = group&0x20 != 0; !more && group&0x10 != 0 {
				x -= 1 << (shift + 5)
			}
		}
		if i := len(counts); i > 2 {
			x += int64(counts[i-2])
		}
		if x < 0 || x > math.MaxUint32 {
			return nil, driver.Errorf(call, driver.ErrCorrupt, "count %d is %d", len(counts), x)
		}
		counts = append(counts, uint32(x))
	}
	return counts, nil
}

type jsonMask struct {
	Size   []int           `json:"size"`
	Counts json.RawMessage `json:"counts"`
}

// MarshalJSON implements [json.Marshaler], with compressed counts.
func (m Mask) MarshalJSON() ([]byte, error) {
	counts, err := json.Marshal(string(AppendCounts(nil, m.Counts)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(jsonMask{[]int{m.Height, m.Width}, counts})
}

// UnmarshalJSON implements [json.Unmarshaler]. It requires counts that add up to
// the size.
func (m *Mask) UnmarshalJSON(b []byte) error {
	const call = "coco.UnmarshalJSON"
	var j jsonMask
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if len(j.Size) != 2 {
		return driver.Errorf(call, driver.ErrCorrupt, "a size of %d numbers; height and width are needed", len(j.Size))
	}
	read := Mask{Height: j.Size[0], Width: j.Size[1]}
	if err := json.Unmarshal(j.Counts, &read.Counts); err != nil {
		var s string
		if json.Unmarshal(j.Counts, &s) != nil {
			return fmt.Errorf("coco: counts: %w", err)
		}
		if read.Counts, err = ParseCounts(s); err != nil {
			return err
		}
	}
	if _, err := read.pixels(call); err != nil {
		return err
	}
	*m = read
	return nil
}
