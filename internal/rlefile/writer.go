package rlefile

import (
	"context"
	"hash/crc32"
	"io"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Writer compresses what is written to it. It is for one goroutine.
type Writer struct {
	ctx    context.Context
	rt     *ptxrun.Runtime
	w      io.Writer
	c      codec
	frame  []byte // the elements of the next frame, up to its capacity
	limit  int    // bytes of a full frame
	data   uint32 // checksum of the decoded bytes so far
	out    []byte // scratch for a frame's header and payload
	stats  Stats
	err    error // the first failure, which every later call returns
	closed bool
}

// NewWriter returns a Writer of elements of width bytes, 1, 2, 4 or 8, that are
// encoded on rt's device, and writes the file header. When ctx is done, calls
// return its error.
func NewWriter(ctx context.Context, rt *ptxrun.Runtime, w io.Writer, width int) (*Writer, error) {
	if !validWidth(width) {
		return nil, driver.Errorf("compress", driver.ErrInvalidValue, "elements of %d bytes; 1, 2, 4 and 8 are known", width)
	}
	z := &Writer{ctx: ctx, rt: rt, w: w, c: codecOf(width), limit: MaxFrame}
	return z, z.emit(appendFileHeader(nil, width))
}

// Write adds p to the data. Whole frames are compressed and written at once.
func (z *Writer) Write(p []byte) (int, error) {
	if z.closed {
		return 0, driver.Errorf("compress", driver.ErrClosed, "writer")
	}
	written := 0
	for z.err == nil && len(p) > 0 {
		n := z.buffer(p)
		written, p = written+n, p[n:]
		if len(z.frame) == z.limit {
			z.err = z.flush(z.limit)
		}
	}
	return written, z.err
}

// buffer takes as much of p as the frame has room for.
func (z *Writer) buffer(p []byte) int {
	p = p[:min(len(p), z.limit-len(z.frame))]
	if need := len(z.frame) + len(p); need > cap(z.frame) {
		// Grown as data comes, so that small files stay small in memory.
		grown := z.c.buffer(min(z.limit, max(2*need, 64<<10)&^7))
		z.frame = grown[:copy(grown, z.frame)]
	}
	z.frame = append(z.frame, p...)
	return len(p)
}

// flush writes the first n buffered bytes, whole elements, as a data frame.
func (z *Writer) flush(n int) error {
	raw := z.frame[:n]
	values, lengths, err := z.c.encode(z.ctx, z.rt, raw)
	if err != nil {
		return err
	}
	z.data = crc32.Update(z.data, castagnoli, raw)
	h := frameHeader{kind: kindRuns, runs: uint32(len(lengths)), raw: uint64(n), data: z.data}
	z.out = append(z.out[:0], make([]byte, frameHeaderSize)...)
	if len(values) < n {
		z.out = appendLengths(append(z.out, values...), lengths)
	}
	if stored := frameHeaderSize + n; len(values) >= n || len(z.out) >= stored {
		h.kind, h.runs = kindStored, 0
		z.out = append(z.out[:frameHeaderSize], raw...)
	}
	h.payload = uint32(len(z.out) - frameHeaderSize)
	h.append(z.out[:0])
	z.stats.Frames++
	z.stats.Runs += int64(h.runs)
	z.stats.Raw += int64(n)
	z.frame = z.frame[:copy(z.frame, z.frame[n:])]
	return z.emit(z.out)
}

// Close writes what is left and the end frame. It does not close the writer
// below.
func (z *Writer) Close() error {
	if z.closed || z.err != nil {
		return z.err
	}
	z.closed = true
	if whole := len(z.frame) / z.c.width * z.c.width; whole > 0 {
		if z.err = z.flush(whole); z.err != nil {
			return z.err
		}
	}
	tail := z.frame
	z.stats.Raw += int64(len(tail))
	z.data = crc32.Update(z.data, castagnoli, tail)
	h := frameHeader{kind: kindEnd, raw: uint64(z.stats.Raw), payload: uint32(len(tail)), data: z.data}
	return z.emit(append(h.append(nil), tail...))
}

// Stats tells what was written so far.
func (z *Writer) Stats() Stats { return z.stats }

func (z *Writer) emit(b []byte) error {
	if z.err = z.ctx.Err(); z.err != nil {
		return z.err
	}
	n, err := z.w.Write(b)
	z.stats.Encoded += int64(n)
	z.err = err
	return err
}
