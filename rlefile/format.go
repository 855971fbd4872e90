package rlefile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ptxrun/ptxrun/driver"
)

// Magic is what files begin with.
const Magic = "\x89RLE\r\n"

// Bytes that a frame decodes to.
const (
	MinFrame     = 4 << 10  // least of a writer's full frames: they grow by 36 bytes at most
	MaxFrame     = 16 << 20 // most of any file's
	DefaultFrame = 4 << 20
)

const (
	endMagic        = "ELR\x1a"
	version         = 1
	fileHeaderSize  = 16
	frameHeaderSize = 24
	entrySize       = 12
	footerSize      = 32
	maxFrames       = 1 << 28 // so that the index's size fits its header
)

const (
	kindRuns   = 1
	kindStored = 2
	kindIndex  = 3
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Stats counts what a Writer or Reader has handled.
type Stats struct {
	Frames  int64 // data frames
	Runs    int64 // in frames of runs, as they are stored
	Raw     int64 // decoded bytes
	Encoded int64 // bytes of the file
}

func (s *Stats) count(h frameHeader) {
	s.Frames++
	s.Runs += int64(h.runs)
	s.Raw += int64(h.raw)
}

func validWidth(width int) bool { return width == 1 || width == 2 || width == 4 || width == 8 }

// fileHeader is what all frames have in common.
type fileHeader struct {
	width int
	limit uint32 // decoded bytes of a frame
	sum   uint32 // the header's checksum
}

func (h *fileHeader) append(b []byte) []byte {
	from := len(b)
	b = append(b, Magic...)
	b = append(b, version, byte(h.width))
	b = le.AppendUint32(b, h.limit)
	h.sum = checksum(b[from:])
	return le.AppendUint32(b, h.sum)
}

// parseFileHeader returns the header, or what is wrong with b.
func parseFileHeader(b []byte) (h fileHeader, wrong string) {
	h = fileHeader{width: int(b[7]), limit: le.Uint32(b[8:]), sum: le.Uint32(b[12:])}
	switch {
	case string(b[:len(Magic)]) != Magic:
		return h, "not an .rle file"
	case h.sum != checksum(b[:12]):
		return h, "the file header's checksum does not match"
	case b[6] != version:
		return h, fmt.Sprintf("version %d; version %d is known", b[6], version)
	case !validWidth(h.width):
		return h, fmt.Sprintf("elements of %d bytes", h.width)
	case h.limit == 0 || h.limit > MaxFrame:
		return h, fmt.Sprintf("frames of up to %d bytes; %d is the most", h.limit, MaxFrame)
	}
	return h, ""
}

// frameHeader is the header of a data frame or of the index.
type frameHeader struct {
	kind    byte
	size    byte // bytes of a run's length
	runs    uint32
	raw     uint32
	payload uint32
	data    uint32 // checksum of the decoded bytes
	sum     uint32 // the header's checksum
}

// put writes the header to b; previous is the checksum of the header before.
func (h *frameHeader) put(b []byte, previous uint32) {
	b[0], b[1], b[2], b[3] = h.kind, h.size, 0, 0
	le.PutUint32(b[4:], h.runs)
	le.PutUint32(b[8:], h.raw)
	le.PutUint32(b[12:], h.payload)
	le.PutUint32(b[16:], h.data)
	h.sum = headerSum(b, previous)
	le.PutUint32(b[20:], h.sum)
}

func headerSum(b []byte, previous uint32) uint32 {
	return crc32.Update(checksum(le.AppendUint32(nil, previous)), castagnoli, b[:20])
}

// parseFrameHeader returns the header in b after everything that it says on its
// own was checked, or what is wrong with it. frames is how many data frames
// precede it.
func parseFrameHeader(b []byte, f fileHeader, previous uint32, frames int64) (h frameHeader, wrong string) {
	h = frameHeader{
		kind:    b[0],
		size:    b[1],
		runs:    le.Uint32(b[4:]),
		raw:     le.Uint32(b[8:]),
		payload: le.Uint32(b[12:]),
		data:    le.Uint32(b[16:]),
		sum:     le.Uint32(b[20:]),
	}
	width, runs, size := uint32(f.width), uint64(h.runs), uint64(h.size)
	switch {
	case h.sum != headerSum(b, previous):
		return h, "the header's checksum does not match"
	case b[2]|b[3] != 0:
		return h, "unknown flags"
	case h.kind < kindRuns || h.kind > kindIndex:
		return h, fmt.Sprintf("unknown kind %d", h.kind)
	case h.kind != kindRuns && (runs != 0 || size != 0):
		return h, fmt.Sprintf("%d runs with lengths of %d bytes in a frame without runs", runs, size)
	case h.kind == kindIndex && h.raw != 0:
		return h, fmt.Sprintf("%d bytes decoded from an index", h.raw)
	case h.kind == kindIndex && uint64(h.payload) != uint64(frames)*entrySize:
		return h, fmt.Sprintf("an index of %d bytes; %d frames need %d", h.payload, frames, frames*entrySize)
	case h.kind == kindIndex:
		return h, ""
	case frames == maxFrames:
		return h, fmt.Sprintf("more than %d frames", maxFrames)
	case h.raw == 0 || h.raw > f.limit:
		return h, fmt.Sprintf("%d bytes decoded; a frame of this file has 1 to %d", h.raw, f.limit)
	case h.raw%width != 0 && (h.kind != kindStored || h.raw > width):
		return h, fmt.Sprintf("%d bytes decoded, in elements of %d", h.raw, width)
	case h.kind == kindStored && h.payload != h.raw:
		return h, fmt.Sprintf("%d bytes stored for %d", h.payload, h.raw)
	case h.kind == kindStored:
		return h, ""
	case size != 1 && size != 2 && size != 4:
		return h, fmt.Sprintf("run lengths of %d bytes", size)
	case runs == 0 || h.runs > h.raw/width:
		return h, fmt.Sprintf("%d runs in %d elements", runs, h.raw/width)
	case uint64(h.payload) != runs*(uint64(width)+size):
		return h, fmt.Sprintf("%d bytes for %d runs, values of %d and lengths of %d bytes", h.payload, runs, width, size)
	case h.payload >= h.raw:
		return h, fmt.Sprintf("%d bytes of runs for %d decoded", h.payload, h.raw)
	}
	return h, ""
}

// isTail reports whether the frame is the part of an element at a file's end.
func (h frameHeader) isTail(width int) bool { return h.raw%uint32(width) != 0 }

func (h frameHeader) appendEntry(b []byte) []byte {
	b = le.AppendUint32(b, h.raw)
	b = le.AppendUint32(b, h.payload)
	return le.AppendUint32(b, h.sum)
}

type footer struct {
	raw, runs int64
	frames    uint32
	index     uint32 // the index header's checksum
}

func (f footer) append(b []byte) []byte {
	from := len(b)
	b = le.AppendUint64(b, uint64(f.raw))
	b = le.AppendUint64(b, uint64(f.runs))
	b = le.AppendUint32(b, f.frames)
	b = le.AppendUint32(b, f.index)
	b = le.AppendUint32(b, checksum(b[from:]))
	return append(b, endMagic...)
}

func parseFooter(b []byte) (f footer, wrong string) {
	f = footer{
		raw:    int64(le.Uint64(b)),
		runs:   int64(le.Uint64(b[8:])),
		frames: le.Uint32(b[16:]),
		index:  le.Uint32(b[20:]),
	}
	switch {
	case string(b[28:]) != endMagic:
		return f, "no footer: the file is cut off, or more bytes follow it"
	case le.Uint32(b[24:]) != checksum(b[:24]):
		return f, "the footer's checksum does not match"
	case f.frames > maxFrames || f.raw < 0 || f.runs < 0:
		return f, fmt.Sprintf("the footer counts %d frames, %d bytes, %d runs", f.frames, uint64(f.raw), uint64(f.runs))
	}
	return f, ""
}

// corrupt is the error for a file that contradicts itself.
func corrupt(format string, args ...any) error {
	return driver.Errorf("rlefile", driver.ErrCorrupt, format, args...)
}

// corruptFrame names the frame: its number and where it begins in the file.
func corruptFrame(number, at int64, wrong string) error {
	return corrupt("frame %d at byte %d: %s", number, at, wrong)
}
