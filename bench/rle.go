package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ptxrun/ptxrun"
)

// rleFigures are of 2^30 bytes in runs of several mean lengths. A mean of 1,
// which has nothing to decode faster than a copy, is only encoded.
func rleFigures(b *bencher) {
	for _, mean := range []int{1, 2, 16, 256, 65536} {
		rleGroup(b, fmt.Sprint(mean), func() *runs[byte] { return newRuns(runData(b.size(30), mean)) }, mean > 1)
	}
	rleGroup(b, "skewed", func() *runs[byte] { return skewed(b.size(30)) }, false)
	rleGroup(b, "16-uint32", func() *runs[uint32] {
		bytes, count := runData(b.size(28), 16)
		data := make([]uint32, len(bytes))
		pieces(len(data), func(from, to int) {
			for i := from; i < to; i++ {
				data[i] = uint32(bytes[i]) * 0x01010101
			}
		})
		return newRuns(data, count)
	}, false)
	b.figure("rle/cpu/256", func() error { return rleCPU(b) })
}

// rleGroup measures encoding and decoding one kind of runs; all strategies if all
// is true, else the default.
func rleGroup[V uint8 | uint32](b *bencher, kind string, make func() *runs[V], all bool) {
	type coding struct {
		id      string
		measure func(r *runs[V], id string) error
	}
	name := "rle/%s/" + kind
	if sizeOf[V]() == 4 {
		name = "rle/%s-uint32/16"
	}
	encode := coding{fmt.Sprintf(name, "encode"), func(r *runs[V], id string) error { return r.encode(b, id) }}
	decode := coding{fmt.Sprintf(name, "decode"), func(r *runs[V], id string) error { return r.decode(b, id) }}
	codings := []coding{encode, decode}
	switch {
	case kind == "1":
		codings = []coding{encode}
	case kind == "skewed":
		codings = []coding{decode}
	}
	if all {
		codings = append(codings, coding{fmt.Sprintf(name, "encode/mark-scan"), func(r *runs[V], id string) error {
			return r.encode(b, id, ptxrun.WithEncodeStrategy(ptxrun.EncodeMarkScan))
		}})
		for _, s := range []ptxrun.DecodeStrategy{ptxrun.DecodeThread, ptxrun.DecodeWarp, ptxrun.DecodeBlock, ptxrun.DecodeTiled} {
			codings = append(codings, coding{fmt.Sprintf(name, "decode/"+s.String()), func(r *runs[V], id string) error { return r.decodeWaiting(b, id, s) }})
		}
	}
	codings = slices.DeleteFunc(codings, func(c coding) bool { return !b.wanted(c.id) })
	if len(codings) == 0 {
		return
	}
	r := make()
	err := r.upload(b)
	if err == nil {
		for _, c := range codings {
			b.figure(c.id, func() error { return c.measure(r, c.id) })
		}
	}
	if err = errors.Join(err, r.free()); err != nil {
		b.errs = append(b.errs, fmt.Errorf("runs of %s: %w", kind, err))
	}
}

// skewed is n bytes of which the middle half are one run, the others in runs of
// mean length 2.
func skewed(n int) *runs[byte] {
	data, _ := runData(n, 2)
	for i := n / 4; i < n*3/4; i++ {
		data[i] = data[n/4]
	}
	count := 1
	for i := 1; i < n; i++ {
		if data[i] != data[i-1] {
			count++
		}
	}
	return newRuns(data, count)
}

// runs are values in runs and what they are encoded to, on the host and on the
// device.
type runs[V uint8 | uint32] struct {
	data    []V
	values  []V
	lengths []uint32

	on struct {
		data, values *ptxrun.Buffer[V]
		lengths      *ptxrun.Buffer[uint32]
	}
}

func newRuns[V uint8 | uint32](data []V, count int) *runs[V] {
	r := &runs[V]{data: data}
	r.values, r.lengths = encoded(data, count)
	return r
}

func (r *runs[V]) upload(b *bencher) (err error) {
	if r.on.data, err = ptxrun.NewBufferFrom(b.s, r.data); err != nil {
		return err
	}
	if r.on.values, err = ptxrun.NewBufferFrom(b.s, r.values); err != nil {
		return err
	}
	r.on.lengths, err = ptxrun.NewBufferFrom(b.s, r.lengths)
	return err
}

func (r *runs[V]) free() (err error) {
	for _, b := range []*ptxrun.Buffer[V]{r.on.data, r.on.values} {
		if b != nil {
			err = errors.Join(err, b.Free())
		}
	}
	if r.on.lengths != nil {
		err = errors.Join(err, r.on.lengths.Free())
	}
	return err
}

// figure counts the bytes of the decoded form.
func (r *runs[V]) figure(id string, call func(int) error) figure {
	return figure{id: id, n: int64(len(r.data)), amount: float64(len(r.data)) * float64(sizeOf[V]()), unit: "GB/s", slots: 1, batch: 1, call: call}
}

func (r *runs[V]) encode(b *bencher, id string, opts ...ptxrun.EncodeOption) error {
	values, err := poisoned[V](b, len(r.values))
	if err != nil {
		return err
	}
	defer values.Free()
	lengths, err := poisoned[uint32](b, len(r.values))
	if err != nil {
		return err
	}
	defer lengths.Free()
	count, err := poisoned[uint64](b, 1)
	if err != nil {
		return err
	}
	defer count.Free()
	f := r.figure(id, func(int) error { return ptxrun.RLEEncodeBuffer(b.s, values, lengths, count, r.on.data, opts...) })
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	found, gotValues, gotLengths := make([]uint64, 1), make([]V, len(r.values)), make([]uint32, len(r.values))
	if err := errors.Join(count.CopyTo(b.s, found), values.CopyTo(b.s, gotValues), lengths.CopyTo(b.s, gotLengths)); err != nil {
		return err
	}
	switch {
	case found[0] != uint64(len(r.values)):
		return fmt.Errorf("%d runs, want %d", found[0], len(r.values))
	case !slices.Equal(gotValues, r.values):
		return errors.New("the values are wrong")
	case !slices.Equal(gotLengths, r.lengths):
		return errors.New("the lengths are wrong")
	}
	b.report(f, ms, found[0])
	return nil
}

// decode measures the call that waits for nothing.
func (r *runs[V]) decode(b *bencher, id string) error {
	total, err := poisoned[uint64](b, 1)
	if err != nil {
		return err
	}
	defer total.Free()
	return r.decodeBy(b, id, false, func(dst *ptxrun.Buffer[V]) error {
		return ptxrun.RLEDecodeRangeBuffer(b.s, dst, total, r.on.values, r.on.lengths, 0)
	})
}

// decodeWaiting measures a strategy that waits for the lengths' sum.
func (r *runs[V]) decodeWaiting(b *bencher, id string, strategy ptxrun.DecodeStrategy) error {
	return r.decodeBy(b, id, true, func(dst *ptxrun.Buffer[V]) error {
		n, err := ptxrun.RLEDecodeBuffer(b.s, dst, r.on.values, r.on.lengths, ptxrun.WithDecodeStrategy(strategy))
		if err == nil && n != int64(len(r.data)) {
			err = fmt.Errorf("%d elements, want %d", n, len(r.data))
		}
		return err
	})
}

func (r *runs[V]) decodeBy(b *bencher, id string, waits bool, call func(dst *ptxrun.Buffer[V]) error) error {
	dst, err := poisoned[V](b, len(r.data))
	if err != nil {
		return err
	}
	defer dst.Free()
	f := r.figure(id, func(int) error { return call(dst) })
	f.waits = waits
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	got := make([]V, len(r.data))
	if err := dst.CopyTo(b.s, got); err != nil {
		return err
	}
	if !slices.Equal(got, r.data) {
		return errors.New("what is decoded differs from the input")
	}
	b.report(f, ms, uint64(len(r.values)))
	return nil
}

// rleCPU is encoding on the cpu device with two cores, on buffers.
func rleCPU(b *bencher) (err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	s, err := ptxrun.NewStream(rt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	data, count := runData(b.size(30), 256)
	r := newRuns(data, count)
	onCPU := &bencher{rt: rt, s: s}
	if err := r.upload(onCPU); err != nil {
		return errors.Join(err, r.free())
	}
	defer func() { err = errors.Join(err, r.free()) }()
	values, err := poisoned[byte](onCPU, count)
	if err != nil {
		return err
	}
	defer values.Free()
	lengths, err := poisoned[uint32](onCPU, count)
	if err != nil {
		return err
	}
	defer lengths.Free()
	found, err := poisoned[uint64](onCPU, 1)
	if err != nil {
		return err
	}
	defer found.Free()
	var times []float64
	for range minRepetitions {
		begin := time.Now()
		if err := errors.Join(ptxrun.RLEEncodeBuffer(s, values, lengths, found, r.on.data), s.Synchronize()); err != nil {
			return err
		}
		times = append(times, time.Since(begin).Seconds()*1e3)
	}
	slices.Sort(times)
	got := make([]uint32, count)
	if err := lengths.CopyTo(s, got); err != nil {
		return err
	}
	if !slices.Equal(got, r.lengths) {
		return errors.New("the lengths are wrong")
	}
	b.report(r.figure("rle/cpu/256", nil), times[len(times)/2], uint64(count))
	return nil
}
