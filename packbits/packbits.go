// Package packbits encodes and decodes PackBits, the run-length encoding of
// MacPaint and TIFF (Apple Technical Note TN1023, "Understanding PackBits",
// 1996; TIFF Revision 6.0, section 9, 1992).
//
// Encoded data is packets of a header byte n, taken as signed, and what follows:
//
//	n from 0 to 127      1+n bytes to be taken as they are
//	n from -127 to -1    one byte, which is repeated 1-n times
//	n = -128             nothing; the packet is passed over
package packbits

import (
	"context"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// maxPacket is the most bytes that a packet decodes to.
const maxPacket = 128

// Encode encodes src. No packet holds bytes of two rows of row bytes each, as
// TIFF wants it; with a row of 0 or less, all is one row. A row grows by a 128th
// of its length and one byte at most. It works on the processor.
//
// Runs of three and more are repeated; runs of two are where no other bytes are
// before them that have to be taken as they are.
func Encode(src []byte, row int) []byte {
	p := newPacker(src, row)
	for at := 0; at < len(src); {
		n := 1
		for at+n < len(src) && src[at+n] == src[at] {
			n++
		}
		p.add(n)
		at += n
	}
	return p.end()
}

// EncodeOn is [Encode] with the runs found on rt's device. Errors are those of
// [ptxrun.RLEEncode].
func EncodeOn(ctx context.Context, rt *ptxrun.Runtime, src []byte, row int) ([]byte, error) {
	_, lengths, err := ptxrun.RLEEncode64(ctx, rt, src)
	if err != nil {
		return nil, err
	}
	p := newPacker(src, row)
	for _, n := range lengths {
		p.add(int(n))
	}
	return p.end(), nil
}

// packer makes packets of runs.
type packer struct {
	src       []byte
	dst       []byte
	row, left int // bytes of a row, and those that are left of this one
	literal   int // where the bytes begin that are to be taken as they are
	at        int // where the next run begins
}

func newPacker(src []byte, row int) *packer {
	if row <= 0 {
		row = len(src)
	}
	return &packer{src: src, row: row, left: row}
}

// add takes the next n bytes of src, which are equal.
func (p *packer) add(n int) {
	for n > 0 {
		m := min(n, p.left)
		p.addInRow(m)
		n -= m
		if p.left -= m; p.left == 0 {
			p.flush()
			p.left = p.row
		}
	}
}

func (p *packer) addInRow(n int) {
	for n > 0 {
		m := min(n, maxPacket)
		if m > 2 || (m == 2 && p.literal == p.at) {
			p.flush()
			p.dst = append(p.dst, byte(1-m), p.src[p.at])
			p.literal += m
		}
		p.at += m
		n -= m
	}
}

// flush writes the bytes that are to be taken as they are.
func (p *packer) flush() {
	for p.literal < p.at {
		m := min(p.at-p.literal, maxPacket)
		p.dst = append(p.dst, byte(m-1))
		p.dst = append(p.dst, p.src[p.literal:p.literal+m]...)
		p.literal += m
	}
}

func (p *packer) end() []byte {
	p.flush()
	return p.dst
}

// DecodedLen returns how many bytes src decodes to, 64 times its length at most.
//
// Errors: ErrCorrupt if the last packet is cut off.
func DecodedLen(src []byte) (int, error) {
	total := 0
	for at := 0; at < len(src); {
		decoded, size := packet(src[at])
		if size > len(src)-at {
			return 0, driver.Errorf("packbits.Decode", driver.ErrCorrupt, "the packet of %d bytes at %d is cut off after %d", size, at, len(src)-at)
		}
		total += decoded
		at += size
	}
	return total, nil
}

// packet returns the bytes that a packet decodes to and has, by its header.
func packet(header byte) (decoded, size int) {
	switch n := int(int8(header)); {
	case n >= 0:
		return 1 + n, 2 + n
	case n > -128:
		return 1 - n, 2
	}
	return 0, 1
}

// Decode returns what src decodes to. Rows do not matter. Errors: as for
// [DecodedLen], before memory is taken.
func Decode(src []byte) ([]byte, error) {
	total, err := DecodedLen(src)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, total)
	for len(src) > 0 {
		decoded, size := packet(src[0])
		switch {
		case decoded == size-1:
			dst = append(dst, src[1:size]...)
		default:
			for range decoded {
				dst = append(dst, src[1])
			}
		}
		src = src[size:]
	}
	return dst, nil
}
