package rlefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ptxrun/ptxrun"
)

// Reader decompresses a file. It gives out no byte before the checksum that
// covers it was verified. It is for one goroutine.
//
// Memory: a payload is taken in as it arrives, never ahead of it; what a frame
// decodes to is allocated only after its run lengths were added up, and is
// MaxFrame bytes at most.
type Reader struct {
	ctx      context.Context
	rt       *ptxrun.Runtime
	r        io.Reader
	c        codec
	maxFrame uint64

	header  [frameHeaderSize]byte
	payload bytes.Buffer
	frame   []byte // decoded and not given out yet
	data    uint32 // checksum of the decoded bytes so far
	stats   Stats
	err     error // what the next Read returns once frame is empty
}

// NewReader reads the file header from r and returns a Reader that decodes on
// rt's device. It reads no further than the file, but one byte to see that the
// file ends there. When ctx is done, calls return its error.
//
// Errors: ErrCorrupt, which names the frame and its place, for a file that is
// cut off, was changed or contradicts itself; r's own.
func NewReader(ctx context.Context, rt *ptxrun.Runtime, r io.Reader) (*Reader, error) {
	z := &Reader{ctx: ctx, rt: rt, r: r, maxFrame: MaxFrame}
	h := z.header[:fileHeaderSize]
	n, err := io.ReadFull(r, h)
	if err != nil {
		if !isEnd(err) {
			return nil, err
		}
		if begun := min(n, len(magic)); n == 0 || string(h[:begun]) != magic[:begun] {
			return nil, corrupt("not an .rle file")
		}
		return nil, corrupt("the file ends in its header, after %d bytes", n)
	}
	width, wrong := parseFileHeader(h)
	if wrong != "" {
		return nil, corrupt("%s", wrong)
	}
	z.c = codecOf(width)
	z.stats.Encoded = fileHeaderSize
	return z, nil
}

// Width is the bytes of an element.
func (z *Reader) Width() int { return z.c.width }

// Stats tells what was read so far.
func (z *Reader) Stats() Stats { return z.stats }

// Read implements io.Reader. io.EOF means that the file was verified whole.
func (z *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(z.frame) == 0 && z.err == nil {
		z.next()
	}
	n := copy(p, z.frame)
	z.frame = z.frame[n:]
	if n == 0 {
		return 0, z.err
	}
	return n, nil
}

// WriteTo implements io.WriterTo: a Write a frame.
func (z *Reader) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for {
		if len(z.frame) > 0 {
			n, err := w.Write(z.frame)
			written, z.frame = written+int64(n), z.frame[n:]
			if err != nil {
				return written, err
			}
		}
		switch {
		case z.err == io.EOF:
			return written, nil
		case z.err != nil:
			return written, z.err
		}
		z.next()
	}
}

// next decodes the next frame into z.frame, or sets z.err.
func (z *Reader) next() {
	at := fmt.Sprintf("frame %d at byte %d: ", z.stats.Frames, z.stats.Encoded)
	wrong, err := z.readFrame()
	if wrong != "" {
		err = corrupt("%s%s", at, wrong)
	}
	z.err = err
}

// readFrame returns what is wrong with the frame, or an error that is not the
// file's fault, or io.EOF after the end frame.
func (z *Reader) readFrame() (wrong string, err error) {
	if err := z.ctx.Err(); err != nil {
		return "", err
	}
	if n, err := io.ReadFull(z.r, z.header[:]); err != nil {
		return cutOff(err, "header", n, frameHeaderSize)
	}
	h, wrong := parseFrameHeader(z.header[:], z.c.width, z.maxFrame)
	if wrong != "" {
		return wrong, nil
	}
	z.payload.Reset()
	if n, err := io.CopyN(&z.payload, z.r, int64(h.payload)); err != nil {
		return cutOff(err, "payload", int(n), int(h.payload))
	}
	z.stats.Encoded += frameHeaderSize + int64(h.payload)
	raw := z.payload.Bytes()
	if h.kind == kindRuns {
		if raw, wrong, err = z.decode(h, raw); wrong != "" || err != nil {
			return wrong, err
		}
	}
	z.stats.Raw += int64(len(raw))
	if h.kind == kindEnd && h.raw != uint64(z.stats.Raw) {
		return fmt.Sprintf("the end frame counts %d bytes, the frames hold %d", h.raw, z.stats.Raw), nil
	}
	z.data = crc32.Update(z.data, castagnoli, raw)
	if z.data != h.data {
		return "the data's checksum does not match", nil
	}
	if h.kind == kindEnd {
		if wrong, err := z.requireEnd(); wrong != "" || err != nil {
			return wrong, err
		}
		z.frame = raw
		return "", io.EOF
	}
	z.stats.Frames++
	z.stats.Runs += int64(h.runs)
	z.frame = raw
	return "", nil
}

func (z *Reader) decode(h frameHeader, payload []byte) (raw []byte, wrong string, err error) {
	size := int(h.runs) * z.c.width
	lengths := make([]uint32, h.runs)
	if wrong := parseLengths(lengths, payload[size:], h.raw/uint64(z.c.width)); wrong != "" {
		return nil, wrong, nil
	}
	values := z.c.buffer(size)
	copy(values, payload)
	raw, err = z.c.decode(z.ctx, z.rt, values, lengths)
	return raw, "", err
}

func (z *Reader) requireEnd() (wrong string, err error) {
	_, err = io.ReadFull(z.r, z.header[:1])
	switch {
	case err == nil:
		return "more bytes follow the end frame", nil
	case !isEnd(err):
		return "", err
	}
	return "", nil
}

func isEnd(err error) bool { return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) }

// cutOff tells the end of the file from a failure to read it.
func cutOff(err error, what string, n, size int) (string, error) {
	if !isEnd(err) {
		return "", err
	}
	if what == "header" && n == 0 {
		return "the file ends without an end frame", nil
	}
	return fmt.Sprintf("the file ends in the frame's %s, after %d of %d bytes", what, n, size), nil
}

var (
	_ io.WriterTo    = (*Reader)(nil)
	_ io.WriteCloser = (*Writer)(nil)
)
