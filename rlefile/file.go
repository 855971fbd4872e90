package rlefile

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sort"
	"sync"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// File decompresses a file that can be read at any offset: all of it or any part,
// without what precedes the part. Offsets are of decoded bytes. What is given out
// was verified, as were the index and the footer when the file was opened; frames
// that are not read are not looked at.
//
// ReadAt is safe for concurrent use, also with the other methods but Close; Read,
// WriteTo and Seek have one position and are for one goroutine. All read and
// decode several frames at a time.
type File struct {
	r      io.ReaderAt
	header fileHeader
	frames []frameEntry // and one where the index is
	stats  Stats

	p      pipeline
	offset int64 // of the next Read
	cur    *slot // frame that Read gives out, or nil
	ahead  int64 // the next frame to read ahead
	err    error // of Read
	closed bool

	at     pipeline // of pieces: only its free slots, which keep their frame
	mu     sync.Mutex
	calls  int       // of piece
	change sync.Cond // a slot came back
}

// frameEntry is where a frame begins, decoded and in the file, and its header's
// checksum.
type frameEntry struct {
	raw, at int64
	sum     uint32
}

// Open reads header, index and footer of the file of size bytes behind r, and
// returns a File that decodes on rt's device. When ctx is done, calls return its
// error. Close it. It does not close r.
//
// Errors: as for [NewReader]; ErrInvalidValue for a negative size.
func Open(ctx context.Context, rt *ptxrun.Runtime, r io.ReaderAt, size int64, opts ...Option) (*File, error) {
	if err := begin(ctx, rt); err != nil {
		return nil, err
	}
	defer rt.Release()
	c, err := configOf(rt, r, "reader", readBuffers(), opts)
	if err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, driver.Errorf("rlefile", driver.ErrInvalidValue, "a file of %d bytes", size)
	}
	h, err := readFileHeader(&source{ctx: ctx, r: io.NewSectionReader(r, 0, size)})
	if err != nil {
		return nil, err
	}
	f := &File{
		r:      r,
		header: h,
		p:      c.pipeline(ctx, rt, h.width),
		at:     c.pipeline(ctx, rt, h.width),
	}
	f.change.L = &f.mu
	if err := f.readIndex(size); err != nil {
		return nil, err
	}
	return f, nil
}

// readIndex reads the end of the file and checks that it fits what precedes it.
func (f *File) readIndex(size int64) error {
	if size < fileHeaderSize+frameHeaderSize+footerSize {
		return corrupt("a file of %d bytes has no index", size)
	}
	var b [footerSize]byte
	if err := readAt(f.r, b[:], size-footerSize); err != nil {
		return err
	}
	foot, wrong := parseFooter(b[:])
	if wrong != "" {
		return corrupt("%s", wrong)
	}
	frames := int64(foot.frames)
	at := size - footerSize - frames*entrySize - frameHeaderSize
	if at < fileHeaderSize+frames*(frameHeaderSize+1) {
		return corrupt("%d frames and their index in a file of %d bytes", frames, size)
	}
	index := make([]byte, frameHeaderSize+frames*entrySize)
	if err := readAt(f.r, index, at); err != nil {
		return err
	}
	last := f.header.sum // checksum of the last frame's header
	if frames > 0 {
		last = le.Uint32(index[len(index)-4:])
	}
	h, wrong := parseFrameHeader(index, f.header, last, frames)
	entries := index[frameHeaderSize:]
	switch {
	case wrong != "":
	case h.kind != kindIndex:
		wrong = "not the index"
	case h.data != checksum(entries):
		wrong = "the index's checksum does not match"
	default:
		if wrong = f.parseIndex(entries, at); wrong == "" {
			// Runs are counted by the frames, which are not read here.
			seen := Stats{Frames: frames, Raw: f.Size(), Runs: foot.runs}
			wrong = foot.compare(seen, h.sum)
		}
	}
	if wrong != "" {
		return corruptFrame(frames, at, wrong)
	}
	f.stats = Stats{Frames: frames, Runs: foot.runs, Raw: foot.raw, Encoded: size}
	return nil
}

// parseIndex fills frames, which must lie one behind the other up to the index.
func (f *File) parseIndex(entries []byte, index int64) (wrong string) {
	f.frames = make([]frameEntry, 0, len(entries)/entrySize+1)
	raw, at := int64(0), int64(fileHeaderSize)
	for ; len(entries) > 0; entries = entries[entrySize:] {
		n, payload := le.Uint32(entries), le.Uint32(entries[4:])
		if n == 0 || n > f.header.limit || payload == 0 || payload > n {
			return "the index has a frame of impossible size"
		}
		f.frames = append(f.frames, frameEntry{raw, at, le.Uint32(entries[8:])})
		raw, at = raw+int64(n), at+frameHeaderSize+int64(payload)
	}
	f.frames = append(f.frames, frameEntry{raw, at, 0})
	if at != index {
		return "the index does not fit the frames before it"
	}
	return ""
}

// Width is the bytes of an element.
func (f *File) Width() int { return f.header.width }

// Size is the decoded bytes.
func (f *File) Size() int64 { return f.frames[len(f.frames)-1].raw }

// Stats tells of the whole file, by its index and footer.
func (f *File) Stats() Stats { return f.stats }

// frame is the number of the frame that has the byte at offset, which exists.
func (f *File) frame(offset int64) int64 {
	return int64(sort.Search(len(f.frames), func(i int) bool { return f.frames[i].raw > offset })) - 1
}

// beginFrame reads a frame into s and gives it to the device.
func (f *File) beginFrame(ctx context.Context, s *slot, number int64) error {
	from, to := f.frames[number], f.frames[number+1]
	s.number, s.at = number, from.at
	size := int(to.at - from.at)
	in, err := s.in.grow(s.rt.Device(), reserve-frameHeaderSize+size, 0)
	if err != nil {
		return err
	}
	if err := readAt(f.r, in[reserve-frameHeaderSize:], from.at); err != nil {
		return err
	}
	previous := f.header.sum
	if number > 0 {
		previous = f.frames[number-1].sum
	}
	h, wrong := parseFrameHeader(in[reserve-frameHeaderSize:], f.header, previous, number)
	switch {
	case wrong != "":
	case h.kind == kindIndex || h.sum != from.sum || int64(h.raw) != to.raw-from.raw || frameHeaderSize+int(h.payload) != size:
		wrong = "not the frame that the index has here"
	case h.isTail(f.header.width) && number+2 != int64(len(f.frames)):
		wrong = "part of an element within the file"
	}
	if wrong != "" {
		return s.corrupt(wrong)
	}
	s.header = h
	return s.beginDecode(ctx)
}

// ReadAt implements [io.ReaderAt]. The frames of a p that has several are read and
// decoded at the same time.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := hold(f.p.rt); err != nil {
		return 0, err
	}
	defer f.p.rt.Release()
	if off < 0 {
		return 0, driver.Errorf("rlefile", driver.ErrInvalidValue, "offset %d", off)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off >= f.Size() {
		return 0, io.EOF
	}
	size := min(int64(len(p)), f.Size()-off)
	n, err := f.pieces(off, off+size, func(b []byte, at int64) (int, error) {
		return copy(p[at-off:], b), nil
	})
	if err == nil && size < int64(len(p)) {
		err = io.EOF
	}
	return int(n), err
}

// put takes decoded bytes from an offset on.
type put func(b []byte, at int64) (int, error)

// pieces gives the bytes from one offset up to another, of which there is at least
// one, to put: a frame's at a time, in any order, by several goroutines that end
// before it returns. After a failure no further frame is begun. It returns how many
// bytes were taken without a gap, and the failure that comes first in the file.
func (f *File) pieces(from, to int64, put put) (int64, error) {
	next, end := f.frame(from), f.frame(to-1)+1
	if end-next == 1 {
		n, err := f.piece(next, from, to, put)
		return int64(n), err
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		taken   = to - from
		failure error
	)
	for range min(end-next, int64(f.at.limit)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < end {
				number := next
				next++
				mu.Unlock()
				n, err := f.piece(number, from, to, put)
				mu.Lock()
				if err != nil && number < end {
					end, failure = number, err
					taken = max(from, f.frames[number].raw) - from + int64(n)
				}
			}
		})
	}
	wg.Wait()
	return taken, failure
}

// piece gives put what frame number has of the bytes from one offset to another.
func (f *File) piece(number, from, to int64, put put) (n int, err error) {
	if err := f.p.ctx.Err(); err != nil {
		return 0, err
	}
	s, err := f.borrow(number)
	if err != nil {
		return 0, err
	}
	defer f.giveBack(s)
	if s.number != number {
		err := f.beginFrame(f.p.ctx, s, number)
		if err == nil {
			err = s.endDecode(f.p.ctx)
		}
		if err := s.keep(err); err != nil {
			return 0, err
		}
	}
	raw := f.frames[number].raw
	from = max(from, raw)
	return put(s.bytes[from-raw:min(to-raw, int64(len(s.bytes)))], from)
}

// borrow returns a slot for a piece, the one with that frame in it if there is. It
// waits while all are in use.
func (f *File) borrow(number int64) (*slot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.closed {
			return nil, driver.Errorf("rlefile", driver.ErrClosed, "file")
		}
		for i, s := range f.at.free {
			if s.number == number {
				f.at.free = append(f.at.free[:i], f.at.free[i+1:]...)
				f.calls++
				return s, nil
			}
		}
		var s *slot
		var err error
		if f.at.slots < f.at.limit {
			s, err = f.at.newSlot()
		} else if len(f.at.free) > 0 {
			s, f.at.free = f.at.free[0], f.at.free[1:] // the longest unused
		}
		if err != nil {
			return nil, err
		}
		if s != nil {
			f.calls++
			return s, nil
		}
		f.change.Wait()
	}
}

func (f *File) giveBack(s *slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	f.at.put(s)
	f.change.Broadcast()
}

// Read implements io.Reader from the position that Seek sets.
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.p.rt.Release()
	b, err := f.next()
	n := copy(p, b)
	f.offset += int64(n)
	return n, err
}

// WriteTo implements io.WriterTo: the rest of the file, a Write a frame.
//
// If w is an [*os.File], not a type around one, that can be written at any place and
// is not open for appending, frames are written by WriteAt instead, from w's position
// on, by the goroutines that decode them, in any order. w's position is then moved
// behind what was written. After a failure bytes may have been written behind those
// that count.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.p.rt.Release()
	rest := f.Size() - f.offset
	if rest <= 0 {
		return 0, f.p.ctx.Err()
	}
	if to, at, ok := asFile(w, rest); ok {
		return f.writeFile(to, at)
	}
	from := f.offset
	for {
		b, err := f.next()
		if err == io.EOF {
			return f.offset - from, nil
		}
		if err == nil {
			var n int
			n, err = write(w, b)
			f.offset += int64(n)
		}
		if err != nil {
			return f.offset - from, err
		}
	}
}

// writeFile is WriteTo for a file at a position.
func (f *File) writeFile(w fileWriter, at int64) (int64, error) {
	from := f.offset
	n, err := f.pieces(from, f.Size(), func(b []byte, offset int64) (int, error) {
		if err := f.p.ctx.Err(); err != nil {
			return 0, err
		}
		n, err := w.WriteAt(b, at+offset-from)
		return written(n, len(b), err)
	})
	f.offset += n
	_, failed := w.Seek(at+n, io.SeekStart)
	return n, cmp.Or(err, failed)
}

// Seek implements io.Seeker. Frames that were read ahead are kept for a position
// in them.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.p.rt.Release()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.Size()
	default:
		return 0, driver.Errorf("rlefile", driver.ErrInvalidValue, "whence %d", whence)
	}
	if offset < 0 {
		return 0, driver.Errorf("rlefile", driver.ErrInvalidValue, "position %d", offset)
	}
	f.offset = offset
	f.err = nil
	return offset, nil
}

func (f *File) begin() error {
	if f.closed {
		return driver.Errorf("rlefile", driver.ErrClosed, "file")
	}
	return hold(f.p.rt)
}

// next returns the bytes from the position to the end of its frame.
func (f *File) next() ([]byte, error) {
	if err := f.p.ctx.Err(); err != nil {
		return nil, err
	}
	if f.offset >= f.Size() {
		return nil, io.EOF
	}
	if f.err != nil {
		return nil, f.err
	}
	number := f.frame(f.offset)
	if f.cur == nil || f.cur.number != number {
		if f.err = f.load(number); f.err != nil {
			return nil, f.err
		}
	}
	return f.cur.bytes[f.offset-f.frames[number].raw:], nil
}

// load makes cur the frame of that number, and has those behind it read.
func (f *File) load(number int64) error {
	if f.cur != nil {
		f.p.put(f.cur)
		f.cur = nil
	}
	if first := f.ahead - int64(len(f.p.busy)); number < first || number >= f.ahead {
		f.p.drop()
		f.ahead = number
	}
	for {
		if err := f.readAhead(); err != nil {
			return err
		}
		wanted := f.ahead-int64(len(f.p.busy)) == number
		s, err := f.p.oldest()
		if err == nil && wanted {
			f.cur = s
			f.readAhead() // what fails here fails again when it is needed
			return nil
		}
		f.p.put(s)
		if wanted {
			return err
		}
	}
}

// readAhead gives frames to the slots that have none.
func (f *File) readAhead() error {
	for f.ahead < int64(len(f.frames))-1 {
		s, err := f.p.slot()
		if s == nil {
			if len(f.p.busy) > 0 {
				err = nil
			}
			return err
		}
		number := f.ahead
		f.ahead++
		s.number = number
		f.p.start(s, func(ctx context.Context) error { return f.beginFrame(ctx, s, number) }, s.endDecode)
	}
	return nil
}

// Close waits for calls and frames in flight and frees everything. A second
// Close does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	for f.calls > 0 {
		f.change.Wait()
	}
	f.change.Broadcast()
	f.mu.Unlock()
	if f.cur != nil {
		f.p.put(f.cur)
		f.cur = nil
	}
	return errors.Join(f.at.close(), f.p.close())
}

var (
	_ io.ReaderAt   = (*File)(nil)
	_ io.ReadSeeker = (*File)(nil)
	_ io.WriterTo   = (*File)(nil)
	_ io.Closer     = (*File)(nil)
)
