package ptxrun

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/ptxrun/ptxrun/driver"
)

// RLEDecode returns every value repeated as often as its length says. Lengths
// may be zero. The result does not depend on the device or the strategy. Where
// the lengths come from outside, [RLEDecodeRange] and [RLEDecodeBuffer] bound the
// result.
//
// When ctx is done before the result is complete, it returns ctx's error and
// nothing else. Errors: ErrNil, ErrClosed, ErrLength if the two differ in
// length, ErrOverflow if the lengths' sum is 2^63 or more, ErrOutOfMemory.
func RLEDecode[V Number, L RunLength](ctx context.Context, rt *Runtime, values []V, lengths []L, opts ...DecodeOption) ([]V, error) {
	return decodeHost(ctx, "RLEDecode", rt, values, lengths, func(total int64) (int64, int64, error) { return 0, total, nil }, opts)
}

// RLEDecodeRange is [RLEDecode] of the elements from number from up to, and
// without, number to: the others are not decoded. The strategy is
// [DecodeSinglePass]. Errors are also ErrInvalidValue unless 0 ≤ from ≤ to ≤ the
// lengths' sum.
func RLEDecodeRange[V Number, L RunLength](ctx context.Context, rt *Runtime, values []V, lengths []L, from, to int64) ([]V, error) {
	const call = "RLEDecodeRange"
	return decodeHost(ctx, call, rt, values, lengths, func(total int64) (int64, int64, error) {
		if from < 0 || from > to || to > total {
			return 0, 0, driver.Errorf(call, driver.ErrInvalidValue, "elements %d to %d of %d", from, to, total)
		}
		return from, to, nil
	}, nil)
}

func decodeHost[V Number, L RunLength](ctx context.Context, call string, rt *Runtime, values []V, lengths []L, window func(total int64) (from, to int64, err error), opts []DecodeOption) ([]V, error) {
	if err := rt.beginHost(ctx, call); err != nil {
		return nil, err
	}
	defer rt.end()
	strategy, err := decodeStrategy(call, opts)
	if err != nil {
		return nil, err
	}
	if len(values) != len(lengths) {
		return nil, driver.Errorf(call, driver.ErrLength, "%d values, %d lengths", len(values), len(lengths))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	total, err := sumLengths(call, lengths)
	if err != nil {
		return nil, err
	}
	from, to, err := window(total)
	if err != nil || from == to {
		return nil, err
	}
	if to-from > math.MaxInt64/sizeOf[V]() {
		return nil, driver.Errorf(call, driver.ErrOutOfMemory, "%d elements", to-from)
	}
	d := decoding{call: call, strategy: strategy, size: sizeOf[V](), length: sizeOf[L](), runs: int64(len(values)), from: from, n: to - from}
	var dst []V
	err = rt.onStream(call, func(s *Stream) error {
		valueBytes, lengthBytes := align256(d.runs*d.size), align256(d.runs*d.length)
		p, err := s.alloc(valueBytes + lengthBytes + 256)
		if err != nil {
			return err
		}
		defer s.free(p)
		d.values, d.lengths, d.total = p, p+driver.Ptr(valueBytes), p+driver.Ptr(valueBytes+lengthBytes)
		if d.out, err = s.alloc(d.n * d.size); err != nil {
			return err
		}
		defer s.free(d.out)
		if err := cmp.Or(s.upload(ctx, d.values, bytesOf(values)), s.upload(ctx, d.lengths, bytesOf(lengths)), s.decode(&d), s.wait(ctx)); err != nil {
			return err
		}
		result := make([]V, d.n)
		if err := s.download(ctx, bytesOf(result), d.out); err != nil {
			return err
		}
		dst = result
		return nil
	})
	return dst, err
}

// sumLengths is how many elements runs of those lengths have.
func sumLengths[L RunLength](call string, lengths []L) (int64, error) {
	var sum, over uint64
	for _, n := range lengths {
		var carry uint64
		sum, carry = bits.Add64(sum, uint64(n), 0)
		over |= carry
	}
	if over != 0 || sum > math.MaxInt64 {
		return 0, tooManyElements(call, int64(len(lengths)))
	}
	return int64(sum), nil
}

func tooManyElements(call string, runs int64) error {
	return driver.Errorf(call, driver.ErrOverflow, "the sum of %d lengths is beyond 2^63-1", runs)
}

// RLEDecodeBuffer is [RLEDecode] on device buffers, in stream order. It waits
// once, for the lengths' sum, and returns it; then the writing of dst's first
// elements is given to the stream. Errors are also ErrTooSmall if dst has less
// room, with the size needed; dst is then not written. No two buffers overlap.
func RLEDecodeBuffer[V Number, L RunLength](s *Stream, dst, values *Buffer[V], lengths *Buffer[L], opts ...DecodeOption) (int64, error) {
	const call = "RLEDecodeBuffer"
	if err := s.begin(call); err != nil {
		return 0, err
	}
	defer s.end()
	d, err := newDecoding(call, s, dst, values, lengths, opts)
	if err != nil || d.runs == 0 {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total, err := s.decodeChecked(&d, dst.n)
	return total, named(call, err)
}

// RLEDecodeRangeBuffer stores the decoded elements from number from on in dst, as
// many as it has room for, in stream order: it returns when the work is given to
// the stream. total has one element and receives the lengths' sum, or 2^64-1 if
// that is more; elements of dst behind the last decoded one are not changed. The
// strategy is [DecodeSinglePass]. No two buffers overlap. Errors: ErrNil, ErrClosed,
// ErrLength, ErrOverlap, ErrInvalidValue for a negative from, ErrOutOfMemory.
func RLEDecodeRangeBuffer[V Number, L RunLength](s *Stream, dst *Buffer[V], total *Buffer[uint64], values *Buffer[V], lengths *Buffer[L], from int64) error {
	const call = "RLEDecodeRangeBuffer"
	if err := s.begin(call); err != nil {
		return err
	}
	defer s.end()
	d, err := newDecoding(call, s, dst, values, lengths, nil)
	if err != nil {
		return err
	}
	if err := total.check(call, "total", s.rt); err != nil {
		return err
	}
	if total.n != 1 {
		return driver.Errorf(call, driver.ErrLength, "total has %d elements, not 1", total.n)
	}
	t := total.span("total")
	if err := cmp.Or(checkDisjoint(call, t, dst.span("dst")), checkDisjoint(call, t, values.span("values")), checkDisjoint(call, t, lengths.span("lengths"))); err != nil {
		return err
	}
	if from < 0 {
		return driver.Errorf(call, driver.ErrInvalidValue, "from element %d", from)
	}
	d.from, d.n, d.total = from, dst.n, total.ptr
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(call, s.decode(&d))
}

// decoding is one run-length decoding of runs of values of size bytes, with
// lengths of length bytes: the n elements from number from on go to out. The
// strategies but DecodeSinglePass need from to be 0, and leave total alone.
type decoding struct {
	call            string
	strategy        DecodeStrategy
	size, length    int64
	values, lengths driver.Ptr
	runs            int64
	out             driver.Ptr
	from, n         int64
	total           driver.Ptr // receives the lengths' saturated sum
}

func newDecoding[V Number, L RunLength](call string, s *Stream, dst, values *Buffer[V], lengths *Buffer[L], opts []DecodeOption) (decoding, error) {
	strategy, err := decodeStrategy(call, opts)
	if err != nil {
		return decoding{}, err
	}
	if err := cmp.Or(dst.check(call, "dst", s.rt), values.check(call, "values", s.rt), lengths.check(call, "lengths", s.rt)); err != nil {
		return decoding{}, err
	}
	if values.n != lengths.n {
		return decoding{}, driver.Errorf(call, driver.ErrLength, "%d values, %d lengths", values.n, lengths.n)
	}
	if err := checkDisjoint(call, dst.span("dst"), values.span("values"), lengths.span("lengths")); err != nil {
		return decoding{}, err
	}
	return decoding{call: call, strategy: strategy, size: sizeOf[V](), length: sizeOf[L](), values: values.ptr, lengths: lengths.ptr, runs: values.n, out: dst.ptr}, nil
}

// decodeChecked waits for the lengths' sum and, if there is room for so many
// elements, gives the stream their decoding.
func (s *Stream) decodeChecked(d *decoding, room int64) (int64, error) {
	var ends, sumAt driver.Ptr
	var err error
	if d.strategy == DecodeSinglePass {
		if d.total, err = s.alloc(8); err != nil {
			return 0, err
		}
		defer s.free(d.total)
		sumAt, err = d.total, s.decode(d) // of no elements
	} else if ends, err = s.scanRunEnds(d.call, d.lengths, d.length, d.runs); err == nil {
		defer s.free(ends)
		sumAt = ends + driver.Ptr((d.runs-1)*8)
	}
	if err != nil {
		return 0, err
	}
	sum, err := s.read(sumAt, 8)
	total := int64(sum)
	switch {
	case err != nil:
		return 0, err
	case sum > math.MaxInt64:
		return 0, tooManyElements(d.call, d.runs)
	case total > room:
		return 0, &driver.Error{Op: d.call, Code: driver.ErrTooSmall, N: d.runs, Need: total,
			Detail: fmt.Sprintf("dst has room for %d elements, %d are needed", room, total)}
	case total == 0:
		return 0, nil
	}
	d.n = total
	if d.strategy == DecodeSinglePass {
		return total, s.decode(d)
	}
	return total, s.decodeEnds(d, ends)
}

// decode gives the stream a decoding.
func (s *Stream) decode(d *decoding) error {
	if d.runs == 0 {
		return s.s.Fill(d.total, 0, 8)
	}
	if d.strategy != DecodeSinglePass {
		ends, err := s.scanRunEnds(d.call, d.lengths, d.length, d.runs)
		if err != nil {
			return err
		}
		defer s.free(ends)
		return s.decodeEnds(d, ends)
	}
	return s.decodePass(d)
}

// decodePass decodes in a single pass: by bulk copies where the device has them and
// the runs are aligned for them.
func (s *Stream) decodePass(d *decoding) error {
	module, kind, pieces, share := "rle_decode_", "pass_", int64(decodeParts), int64(decodeChunkBytes*decodeParts)
	if d.runs > decodeBulkTile(d.size, d.length) && bulkCapability <= s.rt.dev.Info().Capability && (d.values|d.lengths)%16 == 0 {
		module, kind, share = "rle_decode_bulk_", "bulk_", decodeBulkChunk*decodeBulkWriters
		pieces, _ = decodeBulkPieces(d.size, d.length)
	}
	k, err := s.rt.kernel(module+widthName(d.size), "rle_decode_"+kind+widthName(d.size)+"_"+widthName(d.length))
	if err != nil {
		return err
	}
	tiles := int64(k.tiles(d.runs))
	state, err := s.alloc(decodeState(tiles, pieces))
	if err != nil {
		return err
	}
	defer s.free(state)
	// The lists of large parts, behind the totals, need not be zero.
	if err := s.s.Fill(state, 0, passStateHead+16*tiles); err != nil {
		return err
	}
	a := driver.NewArgs().Ptr(d.values).Ptr(d.lengths).Uint64(uint64(d.runs)).Ptr(d.out).Uint64(uint64(d.from)).Uint64(uint64(d.n)).Ptr(d.total).Ptr(state)
	// As many blocks as tiles or, where those are fewer, as share the chunks.
	blocks := max(uint64(tiles), uint64(ceilDiv(d.n*d.size, share)))
	return s.launch(k, min(blocks, k.resident), d.n, a)
}

// decodeEnds writes the first d.n elements, of which there are so many, from run
// ends.
func (s *Stream) decodeEnds(d *decoding, ends driver.Ptr) error {
	width := widthName(d.size)
	k, err := s.rt.kernel("rle_"+width, "rle_decode_"+decodeNames[d.strategy]+"_"+width)
	if err != nil {
		return err
	}
	blocks := s.rt.strideBlocks(d.runs, k.spec.Tile)
	if d.strategy == DecodeTiled {
		blocks = k.tiles(d.n)
	}
	a := driver.NewArgs().Ptr(d.values).Ptr(ends).Uint64(uint64(d.runs)).Ptr(d.out).Uint64(uint64(d.n))
	return s.launch(k, blocks, d.n, a)
}
