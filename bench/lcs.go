package main

import (
	"context"
	"fmt"

	"github.com/ptxrun/ptxrun"
)

// lcsFigures are of two strings of equal length, from and to host memory.
func lcsFigures(b *bencher) {
	for _, size := range []int{1000, 16384} {
		id := fmt.Sprintf("lcs/spin-wait/%d", size)
		b.figure(id, func() error {
			n := max(size>>b.scale, 1)
			x, y := letters(n, 1), letters(n, 2)
			want := lcsLength(x, y)
			f := figure{id: id, n: int64(n), amount: float64(n) * float64(n), unit: "GCUPS", slots: 1, batch: 1, waits: true, call: func(int) error {
				got, err := ptxrun.LCSLength(context.Background(), b.rt, x, y, ptxrun.WithLCSStrategy(ptxrun.LCSSpinWait))
				if err == nil && got != want {
					err = fmt.Errorf("length %d, want %d", got, want)
				}
				return err
			}}
			ms, err := b.measure(f)
			if err != nil {
				return err
			}
			b.report(f, ms, uint64(want))
			return nil
		})
	}
}
