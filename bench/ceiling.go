package main

import (
	"fmt"

	"github.com/ptxrun/ptxrun"
)

// ceilingFigures are what the device's own copy and fill move: the ceiling of
// all that reads and writes memory.
func ceilingFigures(b *bencher) {
	const filling = 0x5c
	b.figure("copy/2^30", func() error { return b.ceiling("copy/2^30", 2, number[byte]) })
	b.figure("fill/2^30", func() error { return b.ceiling("fill/2^30", 1, func(uint64) byte { return filling }) })
}

// ceiling measures writing bytes of a formula, which are read as well if moved
// is 2.
func (b *bencher) ceiling(id string, moved int, element func(i uint64) byte) error {
	n := b.size(30)
	want := elements(n, element)
	dst, err := poisoned[byte](b, n)
	if err != nil {
		return err
	}
	defer dst.Free()
	src, err := ptxrun.NewBufferFrom(b.s, want)
	if err != nil {
		return err
	}
	defer src.Free()
	f := figure{id: id, n: int64(n), amount: float64(moved * n), unit: "GB/s", slots: 1, batch: 1, call: func(int) error {
		if moved == 1 {
			return b.s.Driver().Fill(dst.Ptr(), want[0], int64(n))
		}
		return b.s.Driver().Copy(dst.Ptr(), src.Ptr(), int64(n))
	}}
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	got := make([]byte, n)
	if err := dst.CopyTo(b.s, got); err != nil {
		return err
	}
	if i := firstWrong(n, func(i int) bool { return got[i] == want[i] }); i < n {
		return fmt.Errorf("byte %d is %d, want %d", i, got[i], want[i])
	}
	b.report(f, ms, uint64(got[n-1]))
	return nil
}
