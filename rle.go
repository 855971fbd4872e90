package ptxrun

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ptxrun/ptxrun/driver"
)

// RunLength is the type of a run's length.
type RunLength interface{ ~uint32 | ~uint64 }

// EncodeStrategy is an algorithm for run-length encoding.
type EncodeStrategy uint8

const (
	// EncodeMarkScan marks the heads of runs, scans the marks to number the
	// runs, scatters the heads' positions and finishes the lengths from
	// neighbouring positions: four kernels and a workspace of 4 to 8 bytes an
	// element (8 to 16 from 2^32 elements on).
	EncodeMarkScan EncodeStrategy = iota
	encodeStrategies
)

func (s EncodeStrategy) String() string {
	if s < encodeStrategies {
		return [...]string{"mark-scan"}[s]
	}
	return "unknown strategy"
}

// DecodeStrategy is who writes a run's elements in run-length decoding. All
// begin with a scan of the lengths into run ends.
type DecodeStrategy uint8

const (
	// DecodeTiled gives every block a slice of the output, for which it
	// searches the runs: balanced whatever the lengths.
	DecodeTiled DecodeStrategy = iota
	// DecodeThread gives every run a thread: for very many runs of a few
	// elements each.
	DecodeThread
	// DecodeWarp gives every run a warp: for runs of hundreds of elements.
	DecodeWarp
	// DecodeBlock gives every run a block: for runs of many thousands.
	DecodeBlock
	decodeStrategies
)

var decodeNames = [decodeStrategies]string{"tiled", "thread", "warp", "block"}

func (s DecodeStrategy) String() string {
	if s < decodeStrategies {
		return decodeNames[s]
	}
	return "unknown strategy"
}

// RLEOption changes how runs are encoded or decoded.
type RLEOption struct {
	encode               EncodeStrategy
	decode               DecodeStrategy
	setEncode, setDecode bool
}

// WithEncodeStrategy chooses the algorithm of an encoding call.
func WithEncodeStrategy(s EncodeStrategy) RLEOption { return RLEOption{encode: s, setEncode: true} }

// WithDecodeStrategy chooses the algorithm of a decoding call.
func WithDecodeStrategy(s DecodeStrategy) RLEOption { return RLEOption{decode: s, setDecode: true} }

func rleOptions(call string, opts []RLEOption) (c RLEOption, err error) {
	for _, o := range opts {
		if o.setEncode {
			c.encode = o.encode
		}
		if o.setDecode {
			c.decode = o.decode
		}
	}
	if c.encode >= encodeStrategies {
		return c, driver.Errorf(call, driver.ErrInvalidValue, "encode strategy %d", c.encode)
	}
	if c.decode >= decodeStrategies {
		return c, driver.Errorf(call, driver.ErrInvalidValue, "decode strategy %d", c.decode)
	}
	return c, nil
}

// RLEEncode returns the runs of equal neighbours in src: each run's value and
// its length, in order. Values are compared by their bits: floats by
// representation, so that NaN continues a run of the same NaN and -0 ends one
// of +0. The sum of the lengths is len(src); no length is zero.
//
// The result does not depend on the device. When ctx is done before the result
// is complete, it returns ctx's error and nothing else. Errors: ErrNil,
// ErrClosed, ErrOutOfMemory, and ErrOverflow if a run has 2^32 elements or more;
// [RLEEncode64] takes those.
func RLEEncode[V Number](ctx context.Context, rt *Runtime, src []V, opts ...RLEOption) (values []V, lengths []uint32, err error) {
	return encodeHost[V, uint32](ctx, "RLEEncode", rt, src, opts)
}

// RLEEncode64 is [RLEEncode] with 64-bit lengths.
func RLEEncode64[V Number](ctx context.Context, rt *Runtime, src []V, opts ...RLEOption) (values []V, lengths []uint64, err error) {
	return encodeHost[V, uint64](ctx, "RLEEncode64", rt, src, opts)
}

// RLEEncodeBuffer is [RLEEncode] on device buffers, in stream order. values and
// lengths have equal sizes, the most runs there is room for; count has one
// element and receives the number of runs. If that is more than there is room
// for, values and lengths are not written: compare count with values.Len()
// before using them. No two buffers overlap.
//
// It returns when the work is given to the stream, except for 2^32 elements and
// more with 32-bit lengths, where it waits to refuse runs too long (ErrOverflow)
// before values and lengths are written.
func RLEEncodeBuffer[V Number, L RunLength](s *Stream, values *Buffer[V], lengths *Buffer[L], count *Buffer[uint64], src *Buffer[V], opts ...RLEOption) error {
	const call = "RLEEncodeBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	if _, err := rleOptions(call, opts); err != nil {
		return err
	}
	if err := cmp.Or(values.check(call, "values", s.rt), lengths.check(call, "lengths", s.rt),
		count.check(call, "count", s.rt), src.check(call, "src", s.rt)); err != nil {
		return err
	}
	if values.n != lengths.n || count.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "values has %d elements, lengths %d, count %d", values.n, lengths.n, count.n)
	}
	if err := checkDisjoint(call, values.span("values"), lengths.span("lengths"), count.span("count"), src.span("src")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if src.n == 0 {
		return s.s.Fill(count.ptr, 0, 8)
	}
	e, err := newEncoding[V, L](call, s, src.ptr, src.n)
	if err != nil {
		return named(call, err)
	}
	defer e.free()
	if err := e.number(); err != nil {
		return named(call, err)
	}
	return named(call, e.write(values.ptr, lengths.ptr, count.ptr, values.n))
}

func encodeHost[V Number, L RunLength](ctx context.Context, call string, rt *Runtime, src []V, opts []RLEOption) (values []V, lengths []L, err error) {
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, nil, err
	}
	defer rt.end()
	if _, err := rleOptions(call, opts); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return nil, nil, err
	}
	err = rt.onStream(call, func(s *Stream) error {
		p, err := s.alloc(int64(len(src)) * sizeOf[V]())
		if err != nil {
			return err
		}
		defer s.free(p)
		if err := s.upload(ctx, p, bytesOf(src)); err != nil {
			return err
		}
		e, err := newEncoding[V, L](call, s, p, int64(len(src)))
		if err != nil {
			return err
		}
		defer e.free()
		if err := e.number(); err != nil {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
		runs, err := e.runs()
		if err != nil {
			return err
		}
		valueBytes, lengthBytes := align256(runs*sizeOf[V]()), align256(runs*sizeOf[L]())
		out, err := s.alloc(valueBytes + lengthBytes + 256)
		if err != nil {
			return err
		}
		defer s.free(out)
		outLengths := out + driver.Ptr(valueBytes)
		if err := e.write(out, outLengths, outLengths+driver.Ptr(lengthBytes), runs); err != nil {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
		v, l := make([]V, runs), make([]L, runs)
		if err := cmp.Or(s.download(ctx, bytesOf(v), out), s.download(ctx, bytesOf(l), outLengths)); err != nil {
			return err
		}
		values, lengths = v, l
		return nil
	})
	return values, lengths, err
}

// encoding is one run-length encoding by EncodeMarkScan on its way.
type encoding struct {
	call             string
	s                *Stream
	values, index    *loadedModule
	mark, finish     kernel
	scatter, longest kernel
	scan             scanner
	src, flags       driver.Ptr // flags become run numbers
	starts           driver.Ptr
	n, indexSize     int64
	checkLengths     bool // a run may be too long for its type
}

func newEncoding[V Number, L RunLength](call string, s *Stream, src driver.Ptr, n int64) (*encoding, error) {
	width, length, index := widthName(sizeOf[V]()), widthName(sizeOf[L]()), "u32"
	e := &encoding{call: call, s: s, src: src, n: n, indexSize: 4}
	if n > math.MaxUint32 {
		// A run count of n must fit as well as a position below n.
		index, e.indexSize = "u64", 8
		e.checkLengths = length == "u32"
	}
	v, err := s.rt.module("rle_" + width)
	if err != nil {
		return nil, err
	}
	x, err := s.rt.module("rle_index")
	if err != nil {
		return nil, err
	}
	e.mark, e.finish = v.kernel("rle_mark_"+width+"_"+index), v.kernel("rle_finish_"+width+"_"+index+"_"+length)
	e.scatter, e.longest = x.kernel("rle_scatter_"+index), x.kernel("rle_longest_u64")
	e.scan = sumScanner(sumNames["sum_"+index], e.indexSize)
	e.flags, err = s.alloc(n * e.indexSize)
	return e, err
}

// free releases the workspace in stream order.
func (e *encoding) free() {
	e.s.free(e.flags)
	if e.starts != 0 {
		e.s.free(e.starts)
	}
}

// number marks the heads of runs and numbers the runs.
func (e *encoding) number() error {
	a := driver.NewArgs().Ptr(e.src).Uint64(uint64(e.n)).Ptr(e.flags)
	if err := e.s.launch(e.mark, e.mark.tiles(e.n), e.n, a); err != nil {
		return err
	}
	return e.s.scan(e.call, &e.scan, e.flags, e.flags, e.n, ScanOption{})
}

// runs waits for number and returns how many runs there are.
func (e *encoding) runs() (int64, error) {
	v, err := e.s.read(e.flags+driver.Ptr((e.n-1)*e.indexSize), e.indexSize)
	return int64(v), err
}

// write scatters the positions of the run heads and, if there is room for all,
// finishes values and lengths from them.
func (e *encoding) write(values, lengths, count driver.Ptr, capacity int64) error {
	var err error
	room := max(1, min(e.n, capacity))
	if e.starts, err = e.s.alloc(room * e.indexSize); err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(e.flags).Uint64(uint64(e.n)).Ptr(e.starts).Uint64(uint64(capacity)).Ptr(count)
	if err := e.s.launch(e.scatter, e.scatter.tiles(e.n), e.n, a); err != nil {
		return err
	}
	blocks := e.s.rt.strideBlocks(room, rleBlock)
	if e.checkLengths {
		if err := e.refuseLongRuns(count, capacity, blocks); err != nil {
			return err
		}
	}
	a = driver.NewArgs().Ptr(e.src).Uint64(uint64(e.n)).Ptr(e.starts).Ptr(count).Uint64(uint64(capacity)).Ptr(values).Ptr(lengths)
	return e.s.launch(e.finish, blocks, e.n, a)
}

func (e *encoding) refuseLongRuns(count driver.Ptr, capacity int64, blocks uint64) error {
	longest, err := e.s.alloc(8)
	if err != nil {
		return err
	}
	defer e.s.free(longest)
	if err := e.s.s.Fill(longest, 0, 8); err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(e.starts).Uint64(uint64(e.n)).Ptr(count).Uint64(uint64(capacity)).Ptr(longest)
	if err := e.s.launch(e.longest, blocks, e.n, a); err != nil {
		return err
	}
	v, err := e.s.read(longest, 8)
	if err == nil && v > math.MaxUint32 {
		err = driver.Errorf(e.call, driver.ErrOverflow, "a run of %d elements does not fit 32-bit lengths", v)
	}
	return err
}

// RLEDecode returns every value repeated as often as its length says. Lengths
// may be zero. The result does not depend on the device or the strategy. Where
// the lengths come from outside, [RLEDecodeBuffer] bounds the result.
//
// When ctx is done before the result is complete, it returns ctx's error and
// nothing else. Errors: ErrNil, ErrClosed, ErrLength if the two differ in
// length, ErrOverflow if the lengths' sum is 2^63 or more, ErrOutOfMemory.
func RLEDecode[V Number, L RunLength](ctx context.Context, rt *Runtime, values []V, lengths []L, opts ...RLEOption) ([]V, error) {
	const call = "RLEDecode"
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, err
	}
	defer rt.end()
	c, err := rleOptions(call, opts)
	if err != nil {
		return nil, err
	}
	if len(values) != len(lengths) {
		return nil, driver.Errorf(call, driver.ErrLength, "%d values, %d lengths", len(values), len(lengths))
	}
	if err := ctx.Err(); err != nil || len(values) == 0 {
		return nil, err
	}
	var dst []V
	err = rt.onStream(call, func(s *Stream) error {
		runs := int64(len(values))
		valueBytes := align256(runs * sizeOf[V]())
		p, err := s.alloc(valueBytes + runs*sizeOf[L]())
		if err != nil {
			return err
		}
		defer s.free(p)
		pLengths := p + driver.Ptr(valueBytes)
		if err := cmp.Or(s.upload(ctx, p, bytesOf(values)), s.upload(ctx, pLengths, bytesOf(lengths))); err != nil {
			return err
		}
		d, err := newDecoding[V, L](call, s, p, pLengths, runs)
		if err != nil {
			return err
		}
		defer d.free()
		if err := s.wait(ctx); err != nil {
			return err
		}
		total, err := d.total()
		if err != nil || total == 0 {
			return err
		}
		if total > math.MaxInt64/sizeOf[V]() {
			return driver.Errorf(call, driver.ErrOutOfMemory, "%d elements", total)
		}
		out, err := s.alloc(total * sizeOf[V]())
		if err != nil {
			return err
		}
		defer s.free(out)
		if err := d.write(out, total, c.decode); err != nil {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
		result := make([]V, total)
		if err := s.download(ctx, bytesOf(result), out); err != nil {
			return err
		}
		dst = result
		return nil
	})
	return dst, err
}

// RLEDecodeBuffer is [RLEDecode] on device buffers, in stream order. It waits
// once, for the lengths' sum, and returns it; then the writing of dst's first
// elements is given to the stream. Errors are also ErrTooSmall if dst has less
// room, with the size needed; dst is then not written. No two buffers overlap.
func RLEDecodeBuffer[V Number, L RunLength](s *Stream, dst, values *Buffer[V], lengths *Buffer[L], opts ...RLEOption) (int64, error) {
	const call = "RLEDecodeBuffer"
	if err := s.begin(call); err != nil {
		return 0, err
	}
	defer s.end()
	c, err := rleOptions(call, opts)
	if err != nil {
		return 0, err
	}
	if err := cmp.Or(dst.check(call, "dst", s.rt), values.check(call, "values", s.rt), lengths.check(call, "lengths", s.rt)); err != nil {
		return 0, err
	}
	if values.n != lengths.n {
		return 0, driver.Errorf(call, driver.ErrLength, "%d values, %d lengths", values.n, lengths.n)
	}
	if err := checkDisjoint(call, dst.span("dst"), values.span("values"), lengths.span("lengths")); err != nil {
		return 0, err
	}
	if values.n == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := newDecoding[V, L](call, s, values.ptr, lengths.ptr, values.n)
	if err != nil {
		return 0, named(call, err)
	}
	defer d.free()
	total, err := d.total()
	if err != nil {
		return 0, named(call, err)
	}
	if total > dst.n {
		return 0, &driver.Error{Op: call, Code: driver.ErrTooSmall, N: values.n, Need: total,
			Detail: fmt.Sprintf("dst has room for %d elements, %d are needed", dst.n, total)}
	}
	if total == 0 {
		return 0, nil
	}
	return total, named(call, d.write(dst.ptr, total, c.decode))
}

// decoding is one run-length decoding on its way.
type decoding struct {
	call   string
	s      *Stream
	width  string
	mod    *loadedModule
	values driver.Ptr
	ends   driver.Ptr // inclusive scan of the lengths
	runs   int64
}

// newDecoding gives the stream the scan of the lengths to run ends.
func newDecoding[V Number, L RunLength](call string, s *Stream, values, lengths driver.Ptr, runs int64) (*decoding, error) {
	d := &decoding{call: call, s: s, width: widthName(sizeOf[V]()), values: values, runs: runs}
	var err error
	if d.mod, err = s.rt.module("rle_" + d.width); err != nil {
		return nil, err
	}
	if d.ends, err = s.alloc(runs * 8); err != nil {
		return nil, err
	}
	// The sum saturates, so that an overflow is seen in the last run end.
	sc := sumScanner(sumNames["satsum_u64"], 8)
	if sizeOf[L]() == 4 {
		sc.names = sumNames["satsum_u32_u64"]
	}
	err = s.scan(call, &sc, d.ends, lengths, runs, ScanOption{})
	if err != nil {
		d.free()
		return nil, err
	}
	return d, nil
}

func (d *decoding) free() { d.s.free(d.ends) }

// total waits for the scan and returns the number of elements.
func (d *decoding) total() (int64, error) {
	v, err := d.s.read(d.ends+driver.Ptr((d.runs-1)*8), 8)
	if err == nil && v > math.MaxInt64 {
		err = driver.Errorf(d.call, driver.ErrOverflow, "the sum of %d lengths is beyond 2^63-1", d.runs)
	}
	return int64(v), err
}

func (d *decoding) write(dst driver.Ptr, total int64, strategy DecodeStrategy) error {
	k := d.mod.kernel("rle_decode_" + decodeNames[strategy] + "_" + d.width)
	blocks := d.s.rt.strideBlocks(d.runs, k.spec.Tile)
	if strategy == DecodeTiled {
		blocks = k.tiles(total)
	}
	a := driver.NewArgs().Ptr(d.values).Ptr(d.ends).Uint64(uint64(d.runs)).Ptr(dst).Uint64(uint64(total))
	return d.s.launch(k, blocks, total, a)
}

// strideBlocks is the grid of a kernel that strides over n elements, tile of
// them a block: enough blocks to fill the device several times over, so that
// uneven ones even out.
func (rt *Runtime) strideBlocks(n, tile int64) uint64 {
	return uint64(min(ceilDiv(n, tile), int64(rt.dev.Info().Multiprocessors)*64))
}

// read waits for the stream and returns the 4- or 8-byte word at p.
func (s *Stream) read(p driver.Ptr, size int64) (uint64, error) {
	if err := s.s.CopyToHost(s.word[:size], p); err != nil {
		return 0, err
	}
	if err := s.s.Synchronize(); err != nil {
		return 0, err
	}
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(s.word[:])), nil
	}
	return binary.LittleEndian.Uint64(s.word[:]), nil
}

// widthName is the unsigned type that carries values of size bytes.
func widthName(size int64) string {
	switch size {
	case 1:
		return typeU8.name
	case 2:
		return typeU16.name
	case 4:
		return typeU32.name
	}
	return typeU64.name
}
