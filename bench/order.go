package main

import (
	"fmt"

	"github.com/ptxrun/ptxrun"
)

// keyLength is the number of elements with the same key: a prime, so that
// segments begin everywhere in a vector, a warp and a tile.
const keyLength = 61

// orderFigures are sums of 2^28 numbers that are not one scan from the first to
// the last: by key, and in reverse. Bytes are those of the keys, the numbers and
// the sums.
func orderFigures(b *bencher) {
	n := b.size(28)
	for _, c := range []orderCase{
		{id: "scan/by-key/uint32/2^28", keys: true, last: n - 1, before: func(i int) int {
			if i%keyLength == 0 {
				return -1
			}
			return i - 1
		}},
		{id: "scan/reverse/uint32/2^28", before: func(i int) int {
			if i == n-1 {
				return -1
			}
			return i + 1
		}},
	} {
		b.figure(c.id, func() error { return c.measure(b, n) })
	}
}

// orderCase is a sum of numbers by key or in reverse.
type orderCase struct {
	id     string
	keys   bool
	last   int             // the element that is compared with the peer's
	before func(i int) int // what is scanned before element i, or -1
}

func (c orderCase) measure(b *bencher, n int) error {
	input := elements(n, number[uint32])
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
	plan, err := ptxrun.PlanSegmentedScan(int64(n), 4)
	if err != nil {
		return err
	}
	workspace, err := ptxrun.NewBuffer[byte](b.rt, int(plan.Bytes))
	if err != nil {
		return err
	}
	defer workspace.Free()
	option := ptxrun.WithScanWorkspace(workspace)

	f := figure{id: c.id, n: int64(n), amount: 8 * float64(n), unit: "GB/s", slots: 1, batch: 1,
		call: func(int) error {
			return ptxrun.InclusiveScanBuffer(b.s, dst, src, ptxrun.Sum, ptxrun.WithScanReverse(), option)
		}}
	if c.keys {
		keys, err := ptxrun.NewBufferFrom(b.s, elements(n, func(i uint64) uint32 { return uint32(i / keyLength) }))
		if err != nil {
			return err
		}
		defer keys.Free()
		f.amount += 4 * float64(n)
		f.call = func(int) error {
			return ptxrun.InclusiveSegmentedScanBuffer(b.s, dst, src, ptxrun.SegmentKeysBuffer(keys), ptxrun.Sum, option)
		}
	}
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	output := make([]uint32, n)
	if err := dst.CopyTo(b.s, output); err != nil {
		return err
	}
	want := func(i int) uint32 {
		if k := c.before(i); k >= 0 {
			return output[k] + input[i]
		}
		return input[i]
	}
	if i := firstWrong(n, func(i int) bool { return output[i] == want(i) }); i < n {
		return fmt.Errorf("element %d is %d, want %d", i, output[i], want(i))
	}
	b.report(f, ms, digest(output[c.last]))
	return nil
}
