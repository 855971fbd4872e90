package rlefile

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Reader decompresses a stream. It gives out no byte before the checksum that
// covers it was verified. It is for one goroutine.
//
// It reads frames ahead, as many as it has buffers, while the oldest is decoded,
// and from there on by the goroutine that calls it. It reads no further than the
// file, but one byte to see that the file ends there.
type Reader struct {
	p      pipeline
	r      *source
	header fileHeader
	sum    uint32 // the last header's checksum
	index  uint32 // checksum of the index that the frames need
	last   bool   // no data frame may follow
	cur    *slot  // whose bytes are given out, or nil
	seen   Stats  // what was read
	stats  Stats
	ended  error // why no further frame is read
	err    error // what the next Read returns once cur is empty
	closed bool
}

// NewReader reads the file header from r and returns a Reader that decodes on
// rt's device. When ctx is done, calls return its error. Close it.
//
// Errors: ErrNil, ErrClosed for a closed runtime, ErrInvalidValue for an option
// that cannot be; r's own; ErrCorrupt, which names the frame and its place, for a
// file that is cut off, was changed or contradicts itself.
func NewReader(ctx context.Context, rt *ptxrun.Runtime, r io.Reader, opts ...Option) (*Reader, error) {
	if err := begin(ctx, rt); err != nil {
		return nil, err
	}
	defer rt.Release()
	c, err := configOf(rt, r, "reader", readBuffers(), opts)
	if err != nil {
		return nil, err
	}
	below := &source{ctx: ctx, r: r}
	h, err := readFileHeader(below)
	if err != nil {
		return nil, err
	}
	return &Reader{
		p:      c.pipeline(ctx, rt, h.width),
		r:      below,
		header: h,
		sum:    h.sum,
		seen:   Stats{Encoded: fileHeaderSize},
		stats:  Stats{Encoded: fileHeaderSize},
	}, nil
}

func readFileHeader(r io.Reader) (fileHeader, error) {
	b := make([]byte, fileHeaderSize)
	n, err := io.ReadFull(r, b)
	if err != nil {
		if !isEnd(err) {
			return fileHeader{}, err
		}
		if begun := min(n, len(Magic)); n == 0 || string(b[:begun]) != Magic[:begun] {
			return fileHeader{}, corrupt("not an .rle file")
		}
		return fileHeader{}, corrupt("the file ends in its header, after %d bytes", n)
	}
	h, wrong := parseFileHeader(b)
	if wrong != "" {
		return h, corrupt("%s", wrong)
	}
	return h, nil
}

// Width is the bytes of an element.
func (z *Reader) Width() int { return z.header.width }

// Stats tells of the frames that were given out so far, and at the end of the
// whole file.
func (z *Reader) Stats() Stats { return z.stats }

// Read implements io.Reader. io.EOF means that the file was verified whole.
func (z *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := z.begin(); err != nil {
		return 0, err
	}
	defer z.p.rt.Release()
	if err := z.next(); err != nil {
		return 0, err
	}
	n := copy(p, z.cur.bytes)
	z.cur.bytes = z.cur.bytes[n:]
	return n, nil
}

// WriteTo implements io.WriterTo: a Write a frame, from page-locked memory.
func (z *Reader) WriteTo(w io.Writer) (int64, error) {
	if err := z.begin(); err != nil {
		return 0, err
	}
	defer z.p.rt.Release()
	var written int64
	for {
		switch err := z.next(); {
		case err == io.EOF:
			return written, nil
		case err != nil:
			return written, err
		}
		n, err := write(w, z.cur.bytes)
		z.cur.bytes = z.cur.bytes[n:]
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
}

// Close waits for frames that are decoded and frees everything. It does not close
// the reader below, and its error is not that of reading. A second Close does
// nothing.
func (z *Reader) Close() error {
	if z.closed {
		return nil
	}
	z.closed = true
	if z.cur != nil {
		z.p.put(z.cur)
		z.cur = nil
	}
	return z.p.close()
}

func (z *Reader) begin() error {
	if z.closed {
		return driver.Errorf("rlefile", driver.ErrClosed, "reader")
	}
	return hold(z.p.rt)
}

// next makes cur a frame with bytes left.
func (z *Reader) next() error {
	for {
		if z.err == nil {
			z.err = z.p.ctx.Err()
		}
		if z.err != nil {
			return z.err
		}
		if z.cur != nil {
			if len(z.cur.bytes) > 0 {
				return nil
			}
			z.p.put(z.cur)
			z.cur = nil
		}
		z.ahead()
		if len(z.p.busy) == 0 {
			z.err = z.ended
			if z.err == io.EOF {
				z.stats.Encoded = z.seen.Encoded
			}
			return z.err
		}
		s, err := z.p.oldest()
		if err != nil {
			z.p.put(s)
			z.err = err
			return err
		}
		z.cur = s
		z.stats.count(s.header)
		z.stats.Encoded = s.at + frameHeaderSize + int64(s.header.payload)
	}
}

// ahead reads frames until the oldest is decoded or there is no slot.
func (z *Reader) ahead() {
	for z.ended == nil && !z.p.ready() {
		s, err := z.p.slot()
		if s == nil {
			if len(z.p.busy) == 0 {
				z.ended = err
			}
			return
		}
		if z.ended = z.read(s); z.ended != nil {
			z.p.put(s)
			return
		}
		z.p.start(s, s.beginDecode, s.endDecode)
	}
}

// read reads a data frame into s, or the end of the file and returns io.EOF.
func (z *Reader) read(s *slot) error {
	s.number, s.at = z.seen.Frames, z.seen.Encoded
	wrong, err := z.readFrame(s)
	if wrong != "" {
		return s.corrupt(wrong)
	}
	return err
}

// readFrame returns what is wrong with the frame, or an error that is not the
// file's fault, or io.EOF after the last.
func (z *Reader) readFrame(s *slot) (wrong string, err error) {
	var b [frameHeaderSize]byte
	if n, err := io.ReadFull(z.r, b[:]); err != nil {
		return cutOff(err, "header", n, frameHeaderSize)
	}
	h, wrong := parseFrameHeader(b[:], z.header, z.sum, z.seen.Frames)
	if wrong != "" {
		return wrong, nil
	}
	z.sum = h.sum
	if h.kind == kindIndex {
		return z.readEnd(h)
	}
	if z.last {
		return "a frame follows the part of an element that ends a file", nil
	}
	z.last = h.isTail(z.header.width)
	if wrong, err := z.readPayload(s, int(h.payload)); wrong != "" || err != nil {
		return wrong, err
	}
	s.header = h
	z.index = crc32.Update(z.index, castagnoli, h.appendEntry(nil))
	z.seen.count(h)
	z.seen.Encoded += frameHeaderSize + int64(h.payload)
	return "", nil
}

// readPayload reads n bytes into s. Memory grows with what has come, of this
// frame or the file.
func (z *Reader) readPayload(s *slot, n int) (wrong string, err error) {
	for read := 0; read < n; {
		size := min(n, max(2*read, firstRoom, int(min(z.seen.Encoded, MaxFrame)), len(s.in.m.Bytes)-reserve))
		in, err := s.in.grow(z.p.rt.Device(), reserve+size, reserve+read)
		if err != nil {
			return "", err
		}
		m, err := io.ReadFull(z.r, in[reserve+read:])
		read += m
		if err != nil {
			return cutOff(err, "payload", read, n)
		}
	}
	return "", nil
}

// readEnd verifies the index and the footer against the frames.
func (z *Reader) readEnd(h frameHeader) (wrong string, err error) {
	if h.data != z.index {
		return "the index is not that of the frames", nil
	}
	sum := crc32.New(castagnoli)
	if n, err := io.CopyN(sum, z.r, int64(h.payload)); err != nil {
		return cutOff(err, "index", int(n), int(h.payload))
	}
	if sum.Sum32() != h.data {
		return "the index's checksum does not match", nil
	}
	var b [footerSize]byte
	if n, err := io.ReadFull(z.r, b[:]); err != nil {
		return cutOff(err, "footer", n, footerSize)
	}
	f, wrong := parseFooter(b[:])
	if wrong == "" {
		wrong = f.compare(z.seen, h.sum)
	}
	if wrong != "" {
		return wrong, nil
	}
	z.seen.Encoded += frameHeaderSize + int64(h.payload) + footerSize
	_, err = io.ReadFull(z.r, b[:1])
	switch {
	case err == nil:
		return "more bytes follow the footer", nil
	case !isEnd(err):
		return "", err
	}
	return "", io.EOF
}

// compare returns how the footer differs from the frames and the index before it.
func (f footer) compare(seen Stats, index uint32) (wrong string) {
	if f.raw != seen.Raw || f.runs != seen.Runs || int64(f.frames) != seen.Frames {
		return fmt.Sprintf("the footer counts %d bytes, %d runs, %d frames; there are %d, %d, %d",
			f.raw, f.runs, f.frames, seen.Raw, seen.Runs, seen.Frames)
	}
	if f.index != index {
		return "the footer is that of another index"
	}
	return ""
}

func isEnd(err error) bool { return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) }

// cutOff tells the end of the file from a failure to read it.
func cutOff(err error, what string, n, size int) (string, error) {
	if !isEnd(err) {
		return "", err
	}
	if what == "header" && n == 0 {
		return "the file ends without an index", nil
	}
	return fmt.Sprintf("the file ends in the frame's %s, after %d of %d bytes", what, n, size), nil
}

var (
	_ io.ReadCloser = (*Reader)(nil)
	_ io.WriterTo   = (*Reader)(nil)
)
