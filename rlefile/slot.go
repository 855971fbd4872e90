package rlefile

import (
	"context"
	"errors"
	"unsafe"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// reserve is the room before a frame's bytes for its header, so that a frame is
// one Write.
const reserve = 64

// slot is what one frame is worked on with: a stream, page-locked memory, and
// device memory. All of it grows to what the frames need.
type slot struct {
	rt     *ptxrun.Runtime
	stream *ptxrun.Stream
	coder  coder
	width  int
	done   chan error // a frame's work has ended

	begin, end step // the frame's work
	failed     bool // and not by the file's fault

	// in, out and runs are page-locked. in holds what comes from the caller or the
	// file, out what became of it, both from reserve on; runs is for what else is
	// copied: runs found, lengths to decode with.
	in, out, runs pinned

	// The frame: number and place of one that is read, bytes of in that are
	// filled of one that is written.
	number, at int64
	filled     int
	header     frameHeader
	bytes      []byte // the result: a frame to write, decoded bytes to give out

	room    int // for runs, in encoding; none where they cannot pay
	fetched int // runs that are fetched before they are counted
	count   int // of runs in the frame before
}

func newSlot(rt *ptxrun.Runtime, width int) (*slot, error) {
	stream, err := ptxrun.NewStream(rt)
	if err != nil {
		return nil, err
	}
	s := &slot{rt: rt, stream: stream, width: width, done: make(chan error, 1), number: -1}
	switch width {
	case 1:
		s.coder = &deviceFrame[uint8]{stream: stream, rt: rt}
	case 2:
		s.coder = &deviceFrame[uint16]{stream: stream, rt: rt}
	case 4:
		s.coder = &deviceFrame[uint32]{stream: stream, rt: rt}
	default:
		s.coder = &deviceFrame[uint64]{stream: stream, rt: rt}
	}
	return s, nil
}

// release frees the slot's memory after the stream's work. A runtime that was
// closed has freed all of it.
func (s *slot) release() error {
	err := s.stream.Close()
	if errors.Is(err, driver.ErrClosed) {
		return nil
	}
	dev := s.rt.Device()
	return errors.Join(err, s.coder.release(), s.in.free(dev), s.out.free(dev), s.runs.free(dev))
}

// pinned is page-locked host memory that grows.
type pinned struct{ m driver.HostMemory }

// grow makes room for n bytes and keeps the first kept ones. It doubles at least,
// since locking pages takes long. No work of the device may be using the memory.
func (p *pinned) grow(dev driver.Device, n, kept int) ([]byte, error) {
	if n > len(p.m.Bytes) {
		m, err := dev.AllocHost(int64(max(n, 2*len(p.m.Bytes))))
		if err != nil {
			return nil, err
		}
		copy(m.Bytes, p.m.Bytes[:min(kept, len(p.m.Bytes))])
		if err := p.free(dev); err != nil {
			return nil, errors.Join(err, dev.FreeHost(m))
		}
		p.m = m
	}
	return p.m.Bytes[:n], nil
}

func (p *pinned) free(dev driver.Device) error {
	if p.m.Ptr == 0 {
		return nil
	}
	m := p.m
	p.m = driver.HostMemory{}
	return dev.FreeHost(m)
}

// beginEncode gives the device the first filled bytes of in, and leaves in bytes the
// frame as it is without runs, with room for the header before it.
func (s *slot) beginEncode(context.Context) error {
	raw := s.in.m.Bytes[reserve : reserve+s.filled]
	s.header = frameHeader{kind: kindStored, raw: uint32(len(raw)), payload: uint32(len(raw))}
	s.bytes = s.in.m.Bytes[reserve-frameHeaderSize : reserve+len(raw)]
	if s.room = s.roomFor(raw); s.room == 0 {
		s.header.data = checksum(raw)
		return nil
	}
	if err := s.coder.load(raw); err != nil {
		return err
	}
	return s.find(min(max(s.count+s.count/8, s.room/32), s.room)) // mostly enough
}

// roomFor is how many runs raw may have for a frame of runs, or 0. They have to
// make the frame smaller by a sixteenth: stored ones are faster.
func (s *slot) roomFor(raw []byte) int {
	if len(raw)%s.width != 0 {
		return 0
	}
	return worthwhile(len(raw)) / (s.width + 1)
}

func worthwhile(raw int) int { return raw - raw/16 - 1 }

// find gives the stream the search for runs, and the copies of their number, of the
// checksum and of the first runs.
func (s *slot) find(runs int) error {
	s.fetched = runs
	found, err := s.runs.grow(s.rt.Device(), valuesAt(runs)+runs*s.width, 0)
	if err != nil {
		return err
	}
	return s.coder.find(found, runs)
}

// endEncode makes a frame of the runs found, if they make it small.
func (s *slot) endEncode(ctx context.Context) error {
	if s.room == 0 {
		return nil
	}
	if err := s.stream.Wait(ctx); err != nil {
		return err
	}
	runs := le.Uint64(s.runs.m.Bytes)
	s.header.data = le.Uint32(s.runs.m.Bytes[sumAt:])
	s.count = 0
	if runs > uint64(s.room) {
		return nil
	}
	s.count = int(runs)
	if s.count > s.fetched {
		if err := s.find(s.count); err != nil {
			return err
		}
		if err := s.stream.Wait(ctx); err != nil {
			return err
		}
	}
	found := s.runs.m.Bytes
	lengths, values := elementsOf[uint32](found[lengthsAt:][:4*s.count]), found[valuesAt(s.fetched):][:s.count*s.width]
	size, stored := lengthSize(lengths, s.width)
	payload := stored * int64(s.width+size)
	if payload > int64(worthwhile(int(s.header.raw))) {
		return nil
	}
	out, err := s.out.grow(s.rt.Device(), reserve+int(payload), 0)
	if err != nil {
		return err
	}
	valueBytes := int(stored) * s.width
	copy(out[reserve:], values)
	if stored > int64(s.count) {
		s.coder.split(out[reserve:reserve+valueBytes], lengths, size)
	}
	putLengths(out[reserve+valueBytes:], lengths, size)
	s.header.kind, s.header.size, s.header.runs, s.header.payload = kindRuns, byte(size), uint32(stored), uint32(payload)
	s.bytes = out[reserve-frameHeaderSize:]
	return nil
}

// beginDecode gives the device the frame whose payload is in in.
func (s *slot) beginDecode(context.Context) error {
	h, runs := s.header, int(s.header.runs)
	s.bytes = s.in.m.Bytes[reserve : reserve+h.payload]
	if h.kind != kindRuns {
		return nil
	}
	lengths, err := s.runs.grow(s.rt.Device(), 4*runs, 0)
	if err != nil {
		return err
	}
	values, stored := s.bytes[:runs*s.width], s.bytes[runs*s.width:]
	if wrong := parseLengths(elementsOf[uint32](lengths), stored, int(h.size), uint64(h.raw)/uint64(s.width)); wrong != "" {
		return s.corrupt(wrong)
	}
	out, err := s.out.grow(s.rt.Device(), reserve+int(h.raw), 0)
	if err != nil {
		return err
	}
	s.bytes = out[reserve:]
	return s.coder.decode(s.bytes, values, lengths)
}

// endDecode leaves what the frame decodes to in bytes.
func (s *slot) endDecode(ctx context.Context) error {
	if s.header.kind == kindRuns {
		if err := s.stream.Wait(ctx); err != nil {
			return err
		}
	}
	if checksum(s.bytes) != s.header.data {
		return s.corrupt("the data's checksum does not match")
	}
	return nil
}

// keep returns the error that a frame's work ended with, and notes what it means
// for the slot.
func (s *slot) keep(err error) error {
	if err != nil {
		s.number = -1 // the frame is not there
		s.failed = !errors.Is(err, driver.ErrCorrupt)
	}
	return err
}

func (s *slot) corrupt(wrong string) error { return corruptFrame(s.number, s.at, wrong) }

// coder is the device's part of a frame, whose elements are of one width. Host
// memory is page-locked, so that copies go on after the call.
type coder interface {
	// load gives the stream the copy of raw to the device.
	load(raw []byte) error
	// find gives the stream the search for runs in what was loaded, its checksum, and the
	// copy to found of their number, the checksum and the first room runs.
	find(found []byte, room int) error
	// split is splitValues; values has the values in front.
	split(values []byte, lengths []uint32, size int)
	// decode gives the stream the decoding of the runs to raw. The lengths add
	// up to raw's elements.
	decode(raw, values, lengths []byte) error
	release() error
}

// Runs lie together, so that one copy fetches them: their number, the checksum of the
// data, lengths and values.
const sumAt, lengthsAt = 8, 16

func valuesAt(runs int) int { return lengthsAt + (4*runs+7)&^7 }

// deviceFrame is a coder for elements of V's size. Runs are found by comparing
// bits, so V stands for any type of that size and in any byte order.
type deviceFrame[V uint8 | uint16 | uint32 | uint64] struct {
	rt     *ptxrun.Runtime
	stream *ptxrun.Stream
	raw    *ptxrun.Buffer[V] // of the frame, in data
	data   deviceMemory[V]
	found  deviceMemory[uint64] // deviceRuns
}

// deviceRuns are runs on the device, and what lies before them.
type deviceRuns[V any] struct {
	count        *ptxrun.Buffer[uint64]
	sum, lengths *ptxrun.Buffer[uint32]
	values       *ptxrun.Buffer[V]
}

func (d *deviceFrame[V]) release() error { return errors.Join(d.data.free(), d.found.free()) }

// runs returns the memory of n runs.
func (d *deviceFrame[V]) runs(n int) (r deviceRuns[V], err error) {
	b, err := d.found.grow(d.rt, (valuesAt(n)+n*width[V]()+7)/8)
	if err != nil {
		return r, err
	}
	var errs [4]error
	r.count, errs[0] = b.Slice(0, 1)
	r.sum, errs[1] = ptxrun.View[uint32](b, sumAt, 1)
	r.lengths, errs[2] = ptxrun.View[uint32](b, lengthsAt, n)
	r.values, errs[3] = ptxrun.View[V](b, valuesAt(n), n)
	return r, errors.Join(errs[:]...)
}

func (d *deviceFrame[V]) load(raw []byte) (err error) {
	if d.raw, err = d.data.grow(d.rt, len(raw)/width[V]()); err != nil {
		return err
	}
	return d.stream.Driver().CopyToDevice(d.raw.Ptr(), raw)
}

func (d *deviceFrame[V]) find(found []byte, room int) error {
	r, err := d.runs(room)
	if err != nil {
		return err
	}
	if err := ptxrun.RLEEncodeBuffer(d.stream, r.values, r.lengths, r.count, d.raw); err != nil {
		return err
	}
	if err := ptxrun.CRC32CBuffer(d.stream, r.sum, d.raw); err != nil {
		return err
	}
	return d.stream.Driver().CopyToHost(found, r.count.Ptr())
}

func (d *deviceFrame[V]) split(values []byte, lengths []uint32, size int) {
	splitValues(elementsOf[V](values), lengths, size)
}

func (d *deviceFrame[V]) decode(raw, values, lengths []byte) error {
	dst, err := d.data.grow(d.rt, len(raw)/width[V]())
	if err != nil {
		return err
	}
	r, err := d.runs(len(lengths) / 4)
	if err != nil {
		return err
	}
	s := d.stream.Driver()
	if err := s.CopyToDevice(r.values.Ptr(), values); err != nil {
		return err
	}
	if err := s.CopyToDevice(r.lengths.Ptr(), lengths); err != nil {
		return err
	}
	// The sum is known, so that there is nothing to wait for.
	if err := ptxrun.RLEDecodeRangeBuffer(d.stream, dst, r.count, r.values, r.lengths, 0); err != nil {
		return err
	}
	return s.CopyToHost(raw, dst.Ptr())
}

// deviceMemory is a buffer that grows.
type deviceMemory[T any] struct{ b *ptxrun.Buffer[T] }

// grow returns the first n elements of the buffer. What is in it is lost where
// it has to grow, which it does by doubling at least, since the device waits for
// all its streams then. No work of the device may be using it.
func (d *deviceMemory[T]) grow(rt *ptxrun.Runtime, n int) (*ptxrun.Buffer[T], error) {
	if n > d.b.Len() {
		room := max(n, 2*d.b.Len())
		if err := d.free(); err != nil {
			return nil, err
		}
		b, err := ptxrun.NewBuffer[T](rt, room)
		if err != nil {
			return nil, err
		}
		d.b = b
	}
	return d.b.Slice(0, n)
}

func (d *deviceMemory[T]) free() error {
	if d.b == nil {
		return nil
	}
	b := d.b
	d.b = nil
	return b.Free()
}

func width[V any]() int {
	var zero V
	return int(unsafe.Sizeof(zero))
}

// elementsOf is b as elements of V. b has a whole number of them and is aligned
// for them.
func elementsOf[V any](b []byte) []V {
	return unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/width[V]())
}
