package ptxrun

import (
	"cmp"
	"context"
	"sort"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

const (
	// lcsPerMultiprocessor is the bands that a multiprocessor works on at a time,
	// where their memory allows it: two a scheduler. The subsequence of 2^20 letters of
	// four took an H200 46.6 ms with 8, 69.8 with 12 and 78.4 with 16, before halves.
	lcsPerMultiprocessor = 8

	// lcsWorkspace is the bytes for the carries between bands that are taken
	// without a look at what is free.
	lcsWorkspace = 256 << 20
)

// lcsBothEnds is the bands from which on a length is found from both ends, so that
// half as many come one behind the other. With 10 it takes an H200 135 µs for 142. A
// variable, for tests.
var lcsBothEnds uint64 = 8

// lcsBits is two sequences on the device, with the kernels for their letters.
type lcsBits struct {
	s                        *Stream
	pass, cross, trace, many kernel
	rows                     int64 // of a band
	blocks                   int64 // the most bands at a time
	twins                    bool  // of the kernels, a band a core
	a, b                     driver.Ptr
}

// newLCSBits makes the kernels ready for letters of size bytes, of which at most
// distinct occur in a.
func newLCSBits(s *Stream, size int64, distinct int64) (*lcsBits, error) {
	m, err := s.rt.module("lcs_" + widthName(size))
	if err != nil {
		return nil, err
	}
	shared := lcsShared(int(size), distinct)
	fitted := func(stem string) kernel {
		k := m.kernel("lcs_" + stem + "_" + widthName(size))
		if k.spec.Shared > 0 {
			spec := *k.spec
			spec.Shared = shared
			k.spec = &spec
		}
		return k
	}
	p := &lcsBits{s: s, pass: fitted("pass"), cross: fitted("cross"), trace: fitted("trace"), many: fitted("many"), rows: lcsRows(int(size))}
	each, err := p.pass.Occupancy(lcsPassBlock, shared)
	if err != nil {
		return nil, err
	}
	if p.twins = s.rt.dev.Info().Capability == 0; p.twins {
		each = 1
	}
	p.blocks = int64(max(1, min(each, lcsPerMultiprocessor)) * s.rt.dev.Info().Multiprocessors)
	return p, nil
}

func (p *lcsBits) bands(q *twin.LCSProblem) uint64 { return uint64(ceilDiv(int64(q.Rows), p.rows)) }

// whole is a problem all of whose table is gone through from the front.
func (p *lcsBits) whole(q twin.LCSProblem) twin.LCSProblem {
	q.Front = p.bands(&q)
	return q
}

func lcsChunks(columns uint64) int64 { return ceilDiv(int64(columns), 32) }

// lcsDistinct is how many different letters a sequence has, or the most that a
// band can have where counting them would take long.
func lcsDistinct[T Token](a []T) int64 {
	if sizeOf[T]() > 1 {
		return lcsLetters(int(sizeOf[T]()))
	}
	var seen [256]bool
	for _, x := range bytesOf(a) {
		seen[x] = true
	}
	n := int64(0)
	for _, s := range seen {
		if s {
			n++
		}
	}
	return n
}

// lcsWork is the workspace of one launch of the pass. What is zero at the start
// lies in front: the ticket, the lengths, and the carries between bands.
type lcsWork struct {
	problems      []twin.LCSProblem
	alone         bool // one from the front: parameters, not memory
	units, blocks int64

	// Bytes from the start.
	lengthsAt, ringAt, problemsAt, keptAt, size int64
}

// lcsPlan lays the workspace of problems out and completes them: their units,
// crossings and places in what is kept and between bands. With fewer blocks less
// lies between bands: workspace bounds it as far as a block does.
func lcsPlan(problems []twin.LCSProblem, rows, blocks, workspace int64) lcsWork {
	w := lcsWork{problems: problems, alone: len(problems) == 1 && lcsAlone(&problems[0], rows)}
	var kept, most int64
	var crossings uint64
	for i := range problems {
		q := &problems[i]
		q.Units, q.Crossings = uint64(w.units), crossings
		w.units += int64(q.Front + q.Back)
		crossings += uint64(q.Boundaries(rows))
		if q.Keep > 0 && q.Stride == 0 {
			q.Stride, q.KeptFront = uint64(lcsChunks(q.Columns)), uint64(kept)
			kept += max(int64(q.Front/q.Keep), q.Boundaries(rows)) * int64(q.Stride)
			if q.KeptBack = uint64(kept); q.Back > 0 {
				kept += q.Boundaries(rows) * int64(q.Stride)
			}
		}
		most = max(most, int64(max(q.Front, q.Back)))
	}
	// The most blocks, below what there is work for, whose ring fits.
	ring := func(blocks int64) (bytes int64) {
		for i := range problems {
			bytes += lcsRing(&problems[i], blocks)
		}
		return bytes
	}
	w.blocks = min(blocks, w.units)
	if ring(w.blocks) > workspace {
		most = min(most, w.blocks)
		w.blocks = max(1, int64(sort.Search(int(most), func(n int) bool { return ring(int64(n)+1) > workspace })))
	}
	at := int64(0)
	for i := range problems {
		q := &problems[i]
		q.Ring, q.Slots = uint64(at/8), uint64(lcsSlots(q, w.blocks))
		at += lcsRing(q, w.blocks)
	}
	w.lengthsAt = 256
	w.ringAt = w.lengthsAt + align256(int64(len(problems))*8)
	w.problemsAt = w.ringAt + align256(at)
	w.keptAt = w.problemsAt + align256(int64(len(problems))*sizeOf[twin.LCSProblem]())
	w.size = w.keptAt + align256(kept*4)
	return w
}

// lcsAlone is whether a problem is what the parameters of a launch can describe: all rows
// once, with one boundary at most.
func lcsAlone(q *twin.LCSProblem, rows int64) bool {
	return q.A == 0 && q.B == 0 && q.Front+q.Back == uint64(ceilDiv(int64(q.Rows), rows)) && q.Stride == 0 && q.Boundaries(rows) <= 1
}

// lcsSlots is the bands of a problem whose carries are kept apart: one more than
// are worked on at a time, or all.
func lcsSlots(q *twin.LCSProblem, blocks int64) int64 {
	return min(blocks+1, int64(max(q.Front, q.Back)))
}

// lcsRing is the bytes that they take; a band that is alone passes none on.
func lcsRing(q *twin.LCSProblem, blocks int64) int64 {
	if max(q.Front, q.Back) == 1 {
		return 0
	}
	return int64(min(q.Front, 1)+min(q.Back, 1)) * lcsSlots(q, blocks) * lcsChunks(q.Columns) * 8
}

// plan is lcsPlan for this device. Carries between bands take no more than a
// quarter of the memory that is free, or what is always taken.
func (p *lcsBits) plan(problems []twin.LCSProblem) (lcsWork, error) {
	wanted, workspace := int64(0), int64(lcsWorkspace)
	for i := range problems {
		wanted += lcsRing(&problems[i], p.blocks)
	}
	if wanted > workspace {
		free, _, err := p.s.rt.dev.MemInfo()
		if err != nil {
			return lcsWork{}, err
		}
		workspace = max(workspace, free/4)
	}
	return lcsPlan(problems, p.rows, p.blocks, workspace), nil
}

// run gives the stream a pass over the problems. The workspace at the returned
// address is the caller's to free.
func (p *lcsBits) run(ctx context.Context, problems []twin.LCSProblem) (w lcsWork, at driver.Ptr, err error) {
	if w, err = p.plan(problems); err != nil {
		return w, 0, err
	}
	if at, err = p.s.alloc(w.size); err != nil {
		return w, 0, err
	}
	if err = p.launch(ctx, &w, at, at+driver.Ptr(w.lengthsAt), at+driver.Ptr(w.keptAt)); err != nil {
		p.s.free(at)
	}
	return w, at, err
}

// launch runs the pass on a workspace. Lengths and what is kept may lie elsewhere.
func (p *lcsBits) launch(ctx context.Context, w *lcsWork, at, lengths, kept driver.Ptr) error {
	place := func(offset int64) driver.Ptr { return at + driver.Ptr(offset) }
	if err := p.s.s.Fill(at, 0, w.problemsAt); err != nil {
		return err
	}
	args := driver.NewArgs().Ptr(p.a).Ptr(p.b)
	if only := w.problems[0]; w.alone {
		args.Ptr(0).Uint64(0).Uint64(only.Rows).Uint64(only.Columns).Uint64(only.Front).Uint64(only.Keep).Uint64(only.Slots)
	} else {
		if err := p.s.upload(ctx, place(w.problemsAt), bytesOf(w.problems)); err != nil {
			args.Release()
			return err
		}
		args.Ptr(place(w.problemsAt)).Uint64(uint64(len(w.problems))).Uint64(0).Uint64(0).Uint64(0).Uint64(0).Uint64(0)
	}
	args.Uint64(uint64(w.units)).Ptr(place(w.ringAt)).Ptr(kept).Ptr(lengths).Ptr(at)
	return p.s.launch(p.pass, uint64(w.blocks), w.units, args)
}

// planLength is the plan for the length of m by n letters.
func (p *lcsBits) planLength(m, n int64) (lcsWork, error) {
	q := p.whole(twin.LCSProblem{Rows: uint64(m), Columns: uint64(n)})
	if !p.twins && q.Front >= lcsBothEnds {
		q.Back = q.Front / 2
		q.Front -= q.Back
		q.Keep = q.Front
	}
	return p.plan([]twin.LCSProblem{q})
}

// launchLength runs it on a workspace. Nothing but the length is written to length.
func (p *lcsBits) launchLength(ctx context.Context, w *lcsWork, at, length driver.Ptr) error {
	q := &w.problems[0]
	if q.Back == 0 {
		return p.launch(ctx, w, at, length, 0)
	}
	kept := at + driver.Ptr(w.keptAt)
	if err := p.launch(ctx, w, at, at+driver.Ptr(w.lengthsAt), kept); err != nil {
		return err
	}
	args := driver.NewArgs().Ptr(0).Uint64(0).Uint64(q.Columns).Ptr(kept).Ptr(0).Ptr(length)
	return p.s.launch(p.cross, 1, 1, args)
}

// put brings both sequences to the device, in one piece of memory whose address
// is the caller's to free.
func (p *lcsBits) put(ctx context.Context, a, b []byte) (driver.Ptr, error) {
	aBytes := align256(int64(len(a)))
	at, err := p.s.alloc(aBytes + int64(len(b)))
	if err != nil {
		return 0, err
	}
	p.a, p.b = at, at+driver.Ptr(aBytes)
	if err := cmp.Or(p.s.upload(ctx, p.a, a), p.s.upload(ctx, p.b, b)); err != nil {
		p.s.free(at)
		return 0, err
	}
	return at, nil
}

// lcsLength is the length for two sequences that are not empty.
func (s *Stream) lcsLength(ctx context.Context, size, distinct int64, a, b []byte) (int, error) {
	p, err := newLCSBits(s, size, distinct)
	if err != nil {
		return 0, err
	}
	w, err := p.planLength(int64(len(a))/size, int64(len(b))/size)
	if err != nil {
		return 0, err
	}
	aBytes := align256(int64(len(a)))
	both := aBytes + align256(int64(len(b)))
	data, err := s.alloc(both + w.size)
	if err != nil {
		return 0, err
	}
	defer s.free(data)
	p.a, p.b = data, data+driver.Ptr(aBytes)
	at := data + driver.Ptr(both)
	if both <= keptPinned {
		// In one copy, from memory that the copy need not wait for.
		host, err := s.mapped(both)
		if err != nil {
			return 0, err
		}
		copy(host.Bytes, a)
		copy(host.Bytes[aBytes:], b)
		if err := s.s.CopyToDevice(data, host.Bytes[:aBytes+int64(len(b))]); err != nil {
			return 0, err
		}
	} else if err := cmp.Or(s.upload(ctx, p.a, a), s.upload(ctx, p.b, b)); err != nil {
		return 0, err
	}
	length := at + driver.Ptr(w.lengthsAt)
	if err := p.launchLength(ctx, &w, at, length); err != nil {
		return 0, err
	}
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	v, err := s.read(length, 8)
	return int(v), err
}

// lcsLengthOn gives the stream the length for sequences that are on the device.
func (s *Stream) lcsLengthOn(size int64, length, a driver.Ptr, m int64, b driver.Ptr, n int64) error {
	p, err := newLCSBits(s, size, lcsLetters(int(size)))
	if err != nil {
		return err
	}
	p.a, p.b = a, b
	w, err := p.planLength(m, n)
	if err != nil {
		return err
	}
	at, err := s.alloc(w.size)
	if err != nil {
		return err
	}
	defer s.free(at)
	return p.launchLength(context.Background(), &w, at, length)
}

// lastRow gives the stream a pass over sequences on the device, and returns
// where, a bit a column, it is kept whether the length of a's common subsequence
// with the columns so far grows. The workspace is the caller's to free.
func (p *lcsBits) lastRow(ctx context.Context, m, n int64) (bits, workspace driver.Ptr, err error) {
	q := p.whole(twin.LCSProblem{Rows: uint64(m), Columns: uint64(n)})
	q.Keep = q.Front
	w, at, err := p.run(ctx, []twin.LCSProblem{q})
	return at + driver.Ptr(w.keptAt), at, err
}

// lcsGrowth is the last row of sequences on the host.
func (s *Stream) lcsGrowth(ctx context.Context, size, distinct int64, a, b []byte) ([]uint32, error) {
	p, err := newLCSBits(s, size, distinct)
	if err != nil {
		return nil, err
	}
	data, err := p.put(ctx, a, b)
	if err != nil {
		return nil, err
	}
	defer s.free(data)
	n := int64(len(b)) / size
	row, workspace, err := p.lastRow(ctx, int64(len(a))/size, n)
	if err != nil {
		return nil, err
	}
	defer s.free(workspace)
	bits := make([]uint32, lcsChunks(uint64(n)))
	return bits, s.download(ctx, bytesOf(bits), row)
}

// lcsPrefixesOn gives the stream the lengths for all prefixes of b, the empty one
// too, of sequences on the device.
func (s *Stream) lcsPrefixesOn(call string, size int64, out, a driver.Ptr, m int64, b driver.Ptr, n int64) error {
	p, err := newLCSBits(s, size, lcsLetters(int(size)))
	if err != nil {
		return err
	}
	unpack, err := s.rt.kernel("lcs", "lcs_unpack")
	if err != nil {
		return err
	}
	p.a, p.b = a, b
	row, workspace, err := p.lastRow(context.Background(), m, n)
	if err != nil {
		return err
	}
	defer s.free(workspace)
	if err := s.s.Fill(out, 0, 4); err != nil {
		return err
	}
	grows := out + 4
	if err := s.launch(unpack, unpack.tiles(n), n, driver.NewArgs().Ptr(row).Uint64(uint64(n)).Ptr(grows)); err != nil {
		return err
	}
	sum := sumScanner(sumNames["sum_u32"], 4)
	return s.scan(call, &sum, grows, grows, n, ScanOption{})
}
