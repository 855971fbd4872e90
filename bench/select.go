package main

import (
	"errors"
	"fmt"

	"github.com/ptxrun/ptxrun"
)

// odd is whether the element i is kept where flags say it.
func odd(i uint64) uint8 { return uint8(hash(i) & 1) }

// pair is a number that the element before or after it has, too.
func pair(i uint64) uint32 { return uint32(i)&^1 + uint32(hash(i&^1)>>63) }

// selectFigures keep half of the elements. Bytes are those read and those kept.
func selectFigures(b *bencher) {
	type u32 = ptxrun.Buffer[uint32]
	type u64 = ptxrun.Buffer[uint64]
	type u8 = ptxrun.Buffer[uint8]
	kept := func(i int, _ []uint32) bool { return odd(uint64(i)) != 0 }
	for _, c := range []selectCase{
		{id: "select/flagged/uint32/2^28", flags: true, element: number[uint32], keep: kept,
			call: func(dst *u32, count *u64, src *u32, flags *u8) error {
				return ptxrun.SelectFlaggedBuffer(b.s, dst, count, src, flags)
			}},
		{id: "select/partition/uint32/2^28", flags: true, partition: true, element: number[uint32], keep: kept,
			call: func(dst *u32, count *u64, src *u32, flags *u8) error {
				return ptxrun.PartitionFlaggedBuffer(b.s, dst, count, src, flags)
			}},
		{id: "select/where/uint32/2^28", element: number[uint32], keep: func(i int, in []uint32) bool { return in[i] < 1<<23 },
			call: func(dst *u32, count *u64, src *u32, _ *u8) error {
				return ptxrun.SelectWhereBuffer(b.s, dst, count, src, ptxrun.Less, 1<<23)
			}},
		{id: "select/unique/uint32/2^28", element: pair, keep: func(i int, in []uint32) bool { return i == 0 || in[i] != in[i-1] },
			call: func(dst *u32, count *u64, src *u32, _ *u8) error { return ptxrun.UniqueBuffer(b.s, dst, count, src) }},
	} {
		b.figure(c.id, func() error { return c.measure(b) })
	}
}

// selectCase is a compaction of 2^28 elements.
type selectCase struct {
	id        string
	flags     bool // one an element
	partition bool // the others are written, too
	element   func(i uint64) uint32
	keep      func(i int, in []uint32) bool
	call      func(dst *ptxrun.Buffer[uint32], count *ptxrun.Buffer[uint64], src *ptxrun.Buffer[uint32], flags *ptxrun.Buffer[uint8]) error
}

func (c selectCase) measure(b *bencher) error {
	n := b.size(28)
	input := elements(n, c.element)
	src, err := ptxrun.NewBufferFrom(b.s, input)
	if err != nil {
		return err
	}
	defer src.Free()
	dst, err := poisoned[uint32](b, n)
	if err != nil {
		return err
	}
	defer dst.Free()
	count, err := poisoned[uint64](b, 1)
	if err != nil {
		return err
	}
	defer count.Free()
	var flags *ptxrun.Buffer[uint8]
	if c.flags {
		if flags, err = ptxrun.NewBufferFrom(b.s, elements(n, odd)); err != nil {
			return err
		}
		defer flags.Free()
	}
	want, kept := c.want(input)
	moved := 4 * float64(n+len(want))
	if c.flags {
		moved += float64(n)
	}
	f := figure{id: c.id, n: int64(n), amount: moved, unit: "GB/s", slots: 1, batch: 1,
		call: func(int) error { return c.call(dst, count, src, flags) }}
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	found, got := make([]uint64, 1), make([]uint32, n)
	if err := errors.Join(count.CopyTo(b.s, found), dst.CopyTo(b.s, got)); err != nil {
		return err
	}
	if found[0] != uint64(kept) {
		return fmt.Errorf("%d elements kept, want %d", found[0], kept)
	}
	if i := firstWrong(len(want), func(i int) bool { return got[i] == want[i] }); i < len(want) {
		return fmt.Errorf("element %d is %d, want %d", i, got[i], want[i])
	}
	b.report(f, ms, found[0])
	return nil
}

// want is what is written, and how many of it are kept.
func (c selectCase) want(input []uint32) (all []uint32, count int) {
	kept, rest := make([]uint32, 0, len(input)), []uint32(nil)
	for i, v := range input {
		if c.keep(i, input) {
			kept = append(kept, v)
		} else if c.partition {
			rest = append(rest, v)
		}
	}
	return append(kept, rest...), len(kept)
}
