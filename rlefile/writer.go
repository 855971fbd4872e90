package rlefile

import (
	"context"
	"fmt"
	"io"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Writer compresses what is written to it. It is for one goroutine.
//
// Frames are encoded while later ones are filled, and written in order, each by
// one Write of the writer below, during a later Write, ReadFrom or Close. The file depends
// on the data, the width and the frames' size only. A failure is returned by the
// call that finds it and by all later ones.
type Writer struct {
	p      pipeline
	w      io.Writer
	header fileHeader
	cur    *slot  // being filled, or nil
	sum    uint32 // the last header's checksum
	index  []byte // entries
	stats  Stats
	err    error
	closed bool
}

// NewWriter returns a Writer of elements of width bytes, 1, 2, 4 or 8, that are
// encoded on rt's device, and writes the file header. Runs are of equal elements,
// compared by their bits; the data need not be a whole number of them. When ctx
// is done, calls return its error. Close it, also after an error.
//
// Errors: ErrNil, ErrClosed for a closed runtime, ErrInvalidValue for a width or
// an option that cannot be; w's own.
func NewWriter(ctx context.Context, rt *ptxrun.Runtime, w io.Writer, width int, opts ...Option) (*Writer, error) {
	if err := begin(ctx, rt); err != nil {
		return nil, err
	}
	defer rt.Release()
	c, err := configOf(rt, w, "writer", writeBuffers(), opts)
	if err != nil {
		return nil, err
	}
	if !validWidth(width) {
		return nil, driver.Errorf("rlefile", driver.ErrInvalidValue, "elements of %d bytes; 1, 2, 4 and 8 are possible", width)
	}
	z := &Writer{
		p:      c.pipeline(ctx, rt, width),
		w:      w,
		header: fileHeader{width: width, limit: uint32(c.frame)},
	}
	header := z.header.append(nil)
	z.sum = z.header.sum
	if err := z.emit(header); err != nil {
		return nil, err
	}
	return z, nil
}

// Stats tells what was written so far. Frames that are worked on do not count.
func (z *Writer) Stats() Stats { return z.stats }

// Write adds p to the data.
func (z *Writer) Write(p []byte) (int, error) {
	if err := z.begin(); err != nil {
		return 0, err
	}
	defer z.p.rt.Release()
	written := 0
	for len(p) > 0 {
		room, err := z.room(len(p))
		if err != nil {
			return written, z.fail(err)
		}
		n := copy(room, p)
		written, p = written+n, p[n:]
		if err := z.fill(n); err != nil {
			return written, z.fail(err)
		}
	}
	return written, nil
}

// firstRoom is what a Writer's first frame has room for before more came, so
// that little data takes little memory.
const firstRoom = 64 << 10

// room returns where in the current frame the next bytes go, at least one;
// want is how many are there.
func (z *Writer) room(want int) ([]byte, error) {
	if z.cur == nil {
		s, err := z.take()
		if err != nil {
			return nil, err
		}
		s.filled = 0
		z.cur = s
	}
	s, limit := z.cur, int(z.header.limit)
	size := limit
	if z.p.slots == 1 { // no frame was full yet
		size = min(limit, max(firstRoom, 2*s.filled, s.filled+want))
	}
	in := s.in.m.Bytes
	if len(in) < reserve+size && len(in) <= reserve+s.filled {
		var err error
		if in, err = s.in.grow(z.p.rt.Device(), reserve+size, reserve+s.filled); err != nil {
			return nil, err
		}
	}
	return in[reserve+s.filled : min(len(in), reserve+limit)], nil
}

// take returns a slot without a frame, for which it may have to write one.
func (z *Writer) take() (*slot, error) {
	for {
		for z.p.ready() {
			if err := z.writeOldest(); err != nil {
				return nil, err
			}
		}
		s, err := z.p.slot()
		if s != nil || err != nil {
			return s, err
		}
		if err := z.writeOldest(); err != nil {
			return nil, err
		}
	}
}

// fill counts n bytes that were put into the current frame.
func (z *Writer) fill(n int) error {
	z.cur.filled += n
	if z.cur.filled < int(z.header.limit) {
		return nil
	}
	return z.flush()
}

// flush begins to encode the current frame.
func (z *Writer) flush() error {
	s := z.cur
	z.cur = nil
	z.p.start(s, s.beginEncode, s.endEncode)
	return z.p.ctx.Err()
}

func (z *Writer) writeOldest() error {
	s, err := z.p.oldest()
	defer z.p.put(s)
	if err != nil {
		return err
	}
	if z.stats.Frames == maxFrames {
		return driver.Errorf("rlefile", driver.ErrTooLarge, "more than %d frames; larger ones are possible", maxFrames)
	}
	s.header.put(s.bytes, z.sum)
	z.sum = s.header.sum
	z.index = s.header.appendEntry(z.index)
	z.stats.count(s.header)
	return z.emit(s.bytes)
}

// ReadFrom implements [io.ReaderFrom]: it adds all of r to the data, without a
// copy between. If r can also be read at an offset, as files can, frames are
// read at the same time, each by the goroutine that encodes it; r is not used after
// the call. A failure of r is one of the Writer, for frames are missing then.
func (z *Writer) ReadFrom(r io.Reader) (int64, error) {
	if err := z.begin(); err != nil {
		return 0, err
	}
	defer z.p.rt.Release()
	read, err := z.readFrames(r)
	below := source{ctx: z.p.ctx, r: r}
	for err == nil {
		var room []byte
		if room, err = z.room(1); err != nil {
			break
		}
		var n int
		n, err = below.Read(room)
		read += int64(n)
		if failed := z.fill(n); failed != nil {
			err = failed
		}
	}
	if err == io.EOF {
		return read, nil
	}
	return read, z.fail(err)
}

// seeker is a file, or what is read like one.
type seeker interface {
	io.Seeker
	io.ReaderAt
}

// readFrames reads whole frames as long as r has them, if its offset and size
// can be known, and leaves the rest to be read in order.
func (z *Writer) readFrames(r io.Reader) (read int64, err error) {
	f, ok := r.(seeker)
	if !ok || (z.cur != nil && z.cur.filled > 0) {
		return 0, nil
	}
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil // a pipe
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, nil
	}
	defer z.p.wait() // after a failure too, r is not used behind the call
	limit := int64(z.header.limit)
	at := from
	for ; end-at >= limit && err == nil; at += limit {
		var s *slot
		if s = z.cur; s != nil {
			z.cur = nil
		} else if s, err = z.take(); err != nil {
			break
		}
		s.filled, s.at = int(limit), at
		z.p.start(s, func(ctx context.Context) error { return s.readEncode(ctx, f) }, s.endEncode)
		err = z.p.ctx.Err()
	}
	for err == nil && len(z.p.busy) > 0 {
		err = z.writeOldest()
	}
	if _, failed := f.Seek(at, io.SeekStart); err == nil {
		err = failed
	}
	return at - from, err
}

// readEncode is beginEncode of bytes that have to be read first.
func (s *slot) readEncode(ctx context.Context, r io.ReaderAt) error {
	in, err := s.in.grow(s.rt.Device(), reserve+s.filled, 0)
	if err != nil {
		return err
	}
	if err := readAt(r, in[reserve:], s.at); err != nil {
		return err
	}
	return s.beginEncode(ctx)
}

// readAt fills b, or fails.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF || err == nil:
		return fmt.Errorf("rlefile: the reader ends at byte %d, not behind %d: %w", at+int64(n), at+int64(len(b)), io.ErrUnexpectedEOF)
	}
	return err
}

// Close writes the frames that are left, the index and the footer, and frees
// everything. It does not close the writer below. Later calls return the same.
func (z *Writer) Close() error {
	if z.closed {
		return z.err
	}
	z.closed = true
	if z.err == nil {
		z.err = z.finish()
	}
	if z.cur != nil {
		z.p.put(z.cur)
		z.cur = nil
	}
	if err := z.p.close(); z.err == nil {
		z.err = err
	}
	return z.err
}

func (z *Writer) finish() error {
	if err := begin(z.p.ctx, z.p.rt); err != nil {
		return err
	}
	defer z.p.rt.Release()
	if err := z.p.ctx.Err(); err != nil {
		return err
	}
	if z.cur != nil && z.cur.filled > 0 {
		if err := z.flushLast(); err != nil {
			return err
		}
	}
	for len(z.p.busy) > 0 {
		if err := z.writeOldest(); err != nil {
			return err
		}
	}
	h := frameHeader{kind: kindIndex, payload: uint32(len(z.index)), data: checksum(z.index)}
	end := make([]byte, frameHeaderSize)
	h.put(end, z.sum)
	if err := z.emit(end); err != nil {
		return err
	}
	if err := z.emit(z.index); err != nil {
		return err
	}
	f := footer{raw: z.stats.Raw, runs: z.stats.Runs, frames: uint32(z.stats.Frames), index: h.sum}
	return z.emit(f.append(nil))
}

// flushLast encodes the current frame, and the part of an element at its end as
// a frame of its own.
func (z *Writer) flushLast() error {
	s := z.cur
	tail := s.in.m.Bytes[reserve+s.filled/z.p.width*z.p.width : reserve+s.filled]
	tail = append([]byte(nil), tail...)
	if s.filled -= len(tail); s.filled > 0 {
		if err := z.flush(); err != nil {
			return err
		}
	}
	if len(tail) == 0 {
		return nil
	}
	room, err := z.room(len(tail))
	if err != nil {
		return err
	}
	z.cur.filled = copy(room, tail)
	return z.flush()
}

func (z *Writer) begin() error {
	if z.closed {
		return driver.Errorf("rlefile", driver.ErrClosed, "writer")
	}
	if z.err != nil {
		return z.err
	}
	if z.p.ctx == nil {
		return driver.Errorf("rlefile", driver.ErrNil, "a zero Writer, not one of NewWriter")
	}
	if err := z.p.ctx.Err(); err != nil {
		return z.fail(err)
	}
	return hold(z.p.rt)
}

// fail keeps the first failure.
func (z *Writer) fail(err error) error {
	if z.err == nil {
		z.err = err
	}
	return z.err
}

func (z *Writer) emit(b []byte) error {
	if err := z.p.ctx.Err(); err != nil {
		return z.fail(err)
	}
	n, err := write(z.w, b)
	z.stats.Encoded += int64(n)
	return z.fail(err)
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)
