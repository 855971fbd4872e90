package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ptxrun/ptxrun"
)

// rleFigures are of bytes in runs of several mean lengths. A mean of 1, which
// has nothing to decode faster than a copy, is only encoded.
func rleFigures(b *bencher) {
	for _, mean := range []int{1, 2, 16, 256, 65536} {
		encodings := map[string][]ptxrun.RLEOption{fmt.Sprintf("rle/encode/%d", mean): nil}
		decodings := map[string]ptxrun.DecodeStrategy{}
		if mean > 1 {
			encodings[fmt.Sprintf("rle/encode/mark-scan/%d", mean)] = []ptxrun.RLEOption{ptxrun.WithEncodeStrategy(ptxrun.EncodeMarkScan)}
			for _, s := range []ptxrun.DecodeStrategy{ptxrun.DecodeThread, ptxrun.DecodeWarp, ptxrun.DecodeBlock, ptxrun.DecodeTiled} {
				decodings[fmt.Sprintf("rle/decode/%v/%d", s, mean)] = s
			}
		}
		ids := append(slices.Sorted(maps.Keys(encodings)), slices.Sorted(maps.Keys(decodings))...)
		if !slices.ContainsFunc(ids, b.wanted) {
			continue
		}
		r, err := b.newRuns(mean)
		if err == nil {
			for _, id := range ids[:len(encodings)] {
				b.figure(id, func() error { return r.encode(b, id, encodings[id]) })
			}
			for _, id := range ids[len(encodings):] {
				b.figure(id, func() error { return r.decode(b, id, decodings[id]) })
			}
			err = r.free()
		}
		if err != nil {
			b.errs = append(b.errs, fmt.Errorf("runs of %d: %w", mean, err))
		}
	}
}

// runs are bytes in runs and what they are encoded to, on the host and on the
// device.
type runs struct {
	data    []byte
	values  []byte
	lengths []uint32

	on struct {
		data, values *ptxrun.Buffer[byte]
		lengths      *ptxrun.Buffer[uint32]
	}
}

func (b *bencher) newRuns(mean int) (*runs, error) {
	data, count := runData(b.size(30), mean)
	r := &runs{data: data}
	r.values, r.lengths = encoded(data, count)
	var err error
	if r.on.data, err = ptxrun.NewBufferFrom(b.s, r.data); err != nil {
		return nil, err
	}
	if r.on.values, err = ptxrun.NewBufferFrom(b.s, r.values); err != nil {
		return nil, errors.Join(err, r.free())
	}
	if r.on.lengths, err = ptxrun.NewBufferFrom(b.s, r.lengths); err != nil {
		return nil, errors.Join(err, r.free())
	}
	return r, nil
}

func (r *runs) free() (err error) {
	for _, b := range []*ptxrun.Buffer[byte]{r.on.data, r.on.values} {
		if b != nil {
			err = errors.Join(err, b.Free())
		}
	}
	if r.on.lengths != nil {
		err = errors.Join(err, r.on.lengths.Free())
	}
	return err
}

func (r *runs) figure(id string, call func(int) error) figure {
	return figure{id: id, n: int64(len(r.data)), amount: float64(len(r.data)), unit: "GB/s", slots: 1, batch: 1, call: call}
}

func (r *runs) encode(b *bencher, id string, opts []ptxrun.RLEOption) error {
	values, err := poisoned[byte](b, len(r.values))
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
	found, gotValues, gotLengths := make([]uint64, 1), make([]byte, len(r.values)), make([]uint32, len(r.values))
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

func (r *runs) decode(b *bencher, id string, strategy ptxrun.DecodeStrategy) error {
	dst, err := poisoned[byte](b, len(r.data))
	if err != nil {
		return err
	}
	defer dst.Free()
	f := r.figure(id, func(int) error {
		n, err := ptxrun.RLEDecodeBuffer(b.s, dst, r.on.values, r.on.lengths, ptxrun.WithDecodeStrategy(strategy))
		if err == nil && n != int64(len(r.data)) {
			err = fmt.Errorf("%d elements, want %d", n, len(r.data))
		}
		return err
	})
	f.waits = true // for the total
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	got := make([]byte, len(r.data))
	if err := dst.CopyTo(b.s, got); err != nil {
		return err
	}
	if !slices.Equal(got, r.data) {
		return errors.New("the decoded bytes differ from the input")
	}
	b.report(f, ms, uint64(len(r.values)))
	return nil
}
