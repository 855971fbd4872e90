package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/ptxrun/ptxrun"
)

// lcsFigures are of strings of equal length, in billions of cells of their
// tables a second.
func lcsFigures(b *bencher) {
	for _, size := range []int{1000, 16384} {
		b.lcsHost(fmt.Sprintf("lcs/spin-wait/%d", size), max(size>>b.scale, 1), ptxrun.LCSSpinWait)
	}
	b.lcsHost("lcs/tiled/16384", max(16384>>b.scale, 1), ptxrun.LCSTiled)
	b.lcsHost("lcs/pair/4/2^20", b.size(20), ptxrun.LCSBitParallel)

	text := func(n int, seed uint64) []byte {
		return elements(n, func(i uint64) byte { return byte(hash(seed<<32 | i)) })
	}
	tokens := func(n int, seed uint64) []uint32 {
		return elements(n, func(i uint64) uint32 { return uint32(hash(seed<<32|i) % 30000) })
	}
	lcsPair(b, "lcs/pair/256/2^20", b.size(20), false, text)
	lcsPair(b, "lcs/pair/256/10^4", max(10_000>>b.scale, 1), true, text)
	lcsPair(b, "lcs/tokens/10^5", max(100_000>>b.scale, 1), false, tokens)
	b.lcsString("lcs/string/4/2^20", b.size(20), letters)
	b.lcsAll("lcs/all/1000", 4096, 1000)
	b.lcsAll("lcs/all/100", 16384, 100)
	b.lcsCore("lcs/cpu", max(100_000>>b.scale, 1))
}

// cells is a figure of tables of n by n cells.
func cells(id string, n int, tables float64, call func(int) error) figure {
	return figure{id: id, n: int64(n), amount: float64(n) * float64(n) * tables, unit: "GCUPS", slots: 1, batch: 1, call: call}
}

// lcsHost is a pair of four letters from and to host memory.
func (b *bencher) lcsHost(id string, n int, strategy ptxrun.LCSStrategy) {
	b.figure(id, func() error {
		x, y := letters(n, 1), letters(n, 2)
		want, err := onCPU(x, y)
		if err != nil {
			return err
		}
		f := cells(id, n, 1, func(int) error {
			got, err := ptxrun.LCSLength(context.Background(), b.rt, x, y, ptxrun.WithLCSStrategy(strategy))
			return lcsDiffers(got, want, err)
		})
		f.waits = true
		ms, err := b.measure(f)
		if err == nil {
			b.report(f, ms, uint64(want))
		}
		return err
	})
}

func lcsDiffers(got, want int, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("length %d, want %d", got, want)
	}
	return err
}

// onCPU is the length as the cpu device has it, which tests hold against the
// definition: at these sizes that would take hours.
func onCPU[T ptxrun.Token](x, y []T) (int, error) {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		return 0, err
	}
	n, err := ptxrun.LCSLength(context.Background(), rt, x, y)
	return n, errors.Join(err, rt.Close())
}

// lcsPair is the length of a pair in device memory; with synced the time goes on
// until the host knows that it is there.
func lcsPair[T ptxrun.Token](b *bencher, id string, n int, synced bool, data func(n int, seed uint64) []T) {
	b.figure(id, func() error {
		x, y := data(n, 1), data(n, 2)
		want, err := onCPU(x, y)
		if err != nil {
			return err
		}
		xs, err := ptxrun.NewBufferFrom(b.s, x)
		if err != nil {
			return err
		}
		defer xs.Free()
		ys, err := ptxrun.NewBufferFrom(b.s, y)
		if err != nil {
			return err
		}
		defer ys.Free()
		length, err := poisoned[uint64](b, 1)
		if err != nil {
			return err
		}
		defer length.Free()
		f := cells(id, n, 1, func(int) error {
			err := ptxrun.LCSLengthBuffer(b.s, length, xs, ys)
			if err == nil && synced {
				err = b.s.Synchronize()
			}
			return err
		})
		f.waits = synced
		ms, err := b.measure(f)
		if err != nil {
			return err
		}
		got := make([]uint64, 1)
		if err := length.CopyTo(b.s, got); err != nil {
			return err
		}
		if err := lcsDiffers(int(got[0]), want, nil); err != nil {
			return err
		}
		b.report(f, ms, got[0])
		return nil
	})
}

// lcsString is the subsequence itself, from and to host memory.
func (b *bencher) lcsString(id string, n int, data func(n int, seed uint64) []byte) {
	b.figure(id, func() error {
		x, y := data(n, 1), data(n, 2)
		want, err := onCPU(x, y)
		if err != nil {
			return err
		}
		var matches []ptxrun.Match
		f := cells(id, n, 1, func(int) (err error) {
			matches, err = ptxrun.LCSMatches(context.Background(), b.rt, x, y)
			return err
		})
		f.waits = true
		ms, err := b.measure(f)
		if err != nil {
			return err
		}
		length, xEnd, yEnd := 0, 0, 0
		for _, m := range matches {
			if m.A < xEnd || m.B < yEnd || string(x[m.A:m.A+m.Len]) != string(y[m.B:m.B+m.Len]) {
				return fmt.Errorf("%v is no match", m)
			}
			length, xEnd, yEnd = length+m.Len, m.A+m.Len, m.B+m.Len
		}
		if err := lcsDiffers(length, want, nil); err != nil {
			return err
		}
		b.report(f, ms, uint64(length))
		return nil
	})
}

// lcsAll is all pairs of strings of n letters of 26, each once; a row's n is the
// number of strings.
func (b *bencher) lcsAll(id string, count, n int) {
	b.figure(id, func() error {
		count := max(count>>b.scale, 2)
		strings := make([][]byte, count)
		for i := range strings {
			strings[i] = elements(n, func(k uint64) byte { return 'a' + byte(hash(uint64(i)<<32|k)%26) })
		}
		out, err := poisoned[uint32](b, count*count)
		if err != nil {
			return err
		}
		defer out.Free()
		f := cells(id, n, float64(count)*float64(count-1)/2, func(int) error { return ptxrun.LCSSelfMatrixBuffer(b.s, out, strings) })
		f.n, f.waits = int64(count), true // strings come from host memory
		ms, err := b.measure(f)
		if err != nil {
			return err
		}
		got := make([]uint32, count*count)
		if err := out.CopyTo(b.s, got); err != nil {
			return err
		}
		sum := uint64(0)
		for i := range count {
			j := int(hash(uint64(i)) % uint64(count))
			if want := lcsLength(strings[i], strings[j]); got[i*count+j] != uint32(want) || got[j*count+i] != uint32(want) {
				return fmt.Errorf("strings %d and %d: length %d, want %d", i, j, got[i*count+j], want)
			}
			for _, v := range got[i*count : (i+1)*count] {
				sum += uint64(v)
			}
		}
		b.report(f, ms, sum)
		return nil
	})
}

// lcsCore is a pair on one core of the cpu device.
func (b *bencher) lcsCore(id string, n int) {
	b.figure(id, func() error {
		rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
		if err != nil {
			return err
		}
		x, y := letters(n, 1), letters(n, 2)
		want, err := ptxrun.LCSLength(context.Background(), b.rt, x, y)
		if err != nil {
			return errors.Join(err, rt.Close())
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		f := cells(id, n, 1, func(int) error {
			got, err := ptxrun.LCSLength(context.Background(), rt, x, y)
			return lcsDiffers(got, want, err)
		})
		f.waits = true
		ms, err := b.measure(f)
		if err == nil {
			b.report(f, ms, uint64(want))
		}
		return errors.Join(err, rt.Close())
	})
}
