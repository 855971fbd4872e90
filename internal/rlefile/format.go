// Package rlefile reads and writes .rle files: run-length encoded bytes in
// frames, each encoded and decoded on a device, with checksums and a bound on
// the memory that a file can make its reader take.
//
// # Format, version 1
//
// Numbers are little-endian. A checksum is a CRC-32C (Castagnoli). A file is a
// file header, any number of data frames, one end frame, and nothing after it.
//
//	file header, 12 bytes
//	 0  6  magic: 89 'R' 'L' 'E' 0d 0a
//	 6  1  version: 1
//	 7  1  width: bytes of an element, 1, 2, 4 or 8
//	 8  4  checksum of bytes 0 to 7
//
//	frame header, 28 bytes, followed by the frame's payload
//	 0  1  kind: 1 runs, 2 stored, 3 end
//	 1  3  zero
//	 4  4  runs: number of runs in a frame of kind 1, else 0
//	 8  8  raw: the frame's decoded bytes; in the end frame, the whole file's
//	16  4  payload: bytes that follow this header
//	20  4  checksum of all decoded bytes from the start of the file to the end
//	       of this frame
//	24  4  checksum of bytes 0 to 23
//
// The payload of a frame of runs is one value of width bytes a run, in order,
// followed by each run's length less one as an unsigned varint of at most 5
// bytes. The payload of a stored frame is the decoded bytes themselves, for data
// that runs do not make smaller. The payload of the end frame is the last
// raw mod width bytes of a file that is not a whole number of elements.
//
// A data frame decodes to at least one element and at most 64 MiB. Checksums
// run on from frame to frame, so that frames that were lost, repeated, swapped
// or taken from another file do not go unseen.
package rlefile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ptxrun/ptxrun/driver"
)

// MaxFrame is the most bytes that a frame decodes to.
const MaxFrame = 64 << 20

const (
	magic           = "\x89RLE\r\n"
	version         = 1
	fileHeaderSize  = 12
	frameHeaderSize = 28
	maxVarint       = 5 // bytes of a run length, which is below 2^32
)

const (
	kindRuns   = 1
	kindStored = 2
	kindEnd    = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Stats counts what a Writer or Reader has handled.
type Stats struct {
	Frames  int64 // data frames
	Runs    int64 // in frames of runs
	Raw     int64 // decoded bytes
	Encoded int64 // bytes of the file
}

func validWidth(width int) bool { return width == 1 || width == 2 || width == 4 || width == 8 }

func appendFileHeader(b []byte, width int) []byte {
	from := len(b)
	b = append(b, magic...)
	b = append(b, version, byte(width))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// parseFileHeader returns the width, or what is wrong with h.
func parseFileHeader(h []byte) (width int, wrong string) {
	switch {
	case string(h[:len(magic)]) != magic:
		return 0, "not an .rle file"
	case binary.LittleEndian.Uint32(h[8:]) != crc32.Checksum(h[:8], castagnoli):
		return 0, "the file header's checksum does not match"
	case h[6] != version:
		return 0, fmt.Sprintf("version %d; this program reads version %d", h[6], version)
	case !validWidth(int(h[7])):
		return 0, fmt.Sprintf("elements of %d bytes", h[7])
	}
	return int(h[7]), ""
}

type frameHeader struct {
	kind    byte
	runs    uint32
	raw     uint64
	payload uint32
	data    uint32 // checksum of the decoded bytes so far
}

func (h frameHeader) append(b []byte) []byte {
	from := len(b)
	b = append(b, h.kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, h.runs)
	b = binary.LittleEndian.AppendUint64(b, h.raw)
	b = binary.LittleEndian.AppendUint32(b, h.payload)
	b = binary.LittleEndian.AppendUint32(b, h.data)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// parseFrameHeader returns the header in b after everything that it says on its
// own was checked, or what is wrong with it. maxFrame is the most bytes that a
// frame may decode to.
func parseFrameHeader(b []byte, width int, maxFrame uint64) (h frameHeader, wrong string) {
	if binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli) {
		return h, "the header's checksum does not match"
	}
	h = frameHeader{
		kind:    b[0],
		runs:    binary.LittleEndian.Uint32(b[4:]),
		raw:     binary.LittleEndian.Uint64(b[8:]),
		payload: binary.LittleEndian.Uint32(b[16:]),
		data:    binary.LittleEndian.Uint32(b[20:]),
	}
	w, runs, payload := uint64(width), uint64(h.runs), uint64(h.payload)
	switch {
	case b[1]|b[2]|b[3] != 0:
		return h, "unknown flags"
	case h.kind < kindRuns || h.kind > kindEnd:
		return h, fmt.Sprintf("unknown kind %d", h.kind)
	case h.kind != kindRuns && runs != 0:
		return h, fmt.Sprintf("%d runs in a frame without runs", runs)
	case h.kind == kindEnd && payload != h.raw%w:
		return h, fmt.Sprintf("%d bytes after the last whole element of a file of %d bytes", payload, h.raw)
	case h.kind == kindEnd:
		return h, ""
	case h.raw > maxFrame:
		return h, fmt.Sprintf("%d bytes decoded; a frame has %d at most", h.raw, maxFrame)
	case h.raw == 0 || h.raw%w != 0:
		return h, fmt.Sprintf("%d bytes decoded, in elements of %d", h.raw, w)
	case h.kind == kindStored && payload != h.raw:
		return h, fmt.Sprintf("%d bytes stored for %d", payload, h.raw)
	case h.kind == kindStored:
		return h, ""
	case runs == 0 || runs > h.raw/w:
		return h, fmt.Sprintf("%d runs in %d elements", runs, h.raw/w)
	case payload < runs*(w+1) || payload > runs*(w+maxVarint):
		return h, fmt.Sprintf("%d bytes for %d runs", payload, runs)
	}
	return h, ""
}

// appendLengths encodes run lengths, none of them zero.
func appendLengths(b []byte, lengths []uint32) []byte {
	for _, l := range lengths {
		b = binary.AppendUvarint(b, uint64(l-1))
	}
	return b
}

// parseLengths fills lengths from b and requires that they take all of b and
// add up to elements, or returns what is wrong.
func parseLengths(lengths []uint32, b []byte, elements uint64) (wrong string) {
	left := elements
	for i := range lengths {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Sprintf("the length of run %d is cut off or too large", i)
		}
		if v >= left {
			return fmt.Sprintf("the lengths add up to more than %d elements at run %d", elements, i)
		}
		left -= v + 1
		lengths[i], b = uint32(v+1), b[n:]
	}
	switch {
	case left != 0:
		return fmt.Sprintf("the lengths add up to %d of %d elements", elements-left, elements)
	case len(b) != 0:
		return fmt.Sprintf("%d bytes left over after the last run", len(b))
	}
	return ""
}

// corrupt is the error for a file that contradicts itself.
func corrupt(format string, args ...any) error {
	return driver.Errorf("decompress", driver.ErrCorrupt, format, args...)
}
