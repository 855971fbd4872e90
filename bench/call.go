package main

import (
	"slices"
	"time"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// maxCalls bounds the calls that are timed on the host's clock.
const maxCalls = 2001

// callFigures are times on the host's clock, from a call to the end of its work:
// of an empty kernel, and of a small scan on device buffers. They alternate.
func callFigures(b *bencher) {
	const empty, scan = "call/empty", "call/scan/2^10"
	b.figure(scan, func() error { return b.calls(empty, scan) })
}

func (b *bencher) calls(emptyID, scanID string) error {
	n := b.size(10)
	c := scanCase[uint32, uint32]{combine: func(a, v uint32) uint32 { return a + v }}
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

	launch := func() error {
		a := driver.NewArgs()
		defer a.Release()
		return b.s.Driver().Launch(b.empty, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, a)
	}
	scan := func() error { return ptxrun.InclusiveScanBuffer(b.s, dst, src, ptxrun.Sum) }
	var times [2][]float64
	for begin := time.Now(); len(times[0]) < minRepetitions || len(times[0]) < maxCalls && time.Since(begin) < figureTime; {
		for i, call := range []func() error{launch, scan} {
			start := time.Now()
			if err := call(); err != nil {
				return err
			}
			if err := b.s.Synchronize(); err != nil {
				return err
			}
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/1e6)
		}
	}
	output := make([]uint32, n)
	if err := dst.CopyTo(b.s, output); err != nil {
		return err
	}
	if err := c.verify(copies{n, n, 1}, input, output); err != nil {
		return err
	}
	for _, t := range times {
		slices.Sort(t)
	}
	bare, ours := times[0][len(times[0])/2], times[1][len(times[1])/2]
	b.report(figure{id: emptyID, amount: 1e9, unit: "calls/s"}, bare, 0)
	row := b.report(figure{id: scanID, n: int64(n), amount: 1e9, unit: "calls/s"}, ours, 0)
	row.Peer, row.PeerMS, row.Ratio = emptyID, rounded(bare), rounded(bare/ours)
	return nil
}
