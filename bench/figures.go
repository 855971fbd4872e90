package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ptxrun/ptxrun"
)

// poison is what outputs hold before a figure's verified run.
const poison = 0xab

// copyFigures are the ceiling: what the device's own copy moves.
func copyFigures(b *bencher) error {
	const id = "copy/2^30"
	if !b.wanted("copy") {
		return nil
	}
	n := 1 << (30 - b.scale)
	src, err := ptxrun.NewBuffer[byte](b.rt, n)
	if err != nil {
		return err
	}
	defer src.Free()
	dst, err := ptxrun.NewBuffer[byte](b.rt, n)
	if err != nil {
		return err
	}
	defer dst.Free()
	return b.figure(id, int64(n), 2*float64(n), "GB/s", func() error {
		return b.s.Driver().Copy(dst.Ptr(), src.Ptr(), int64(n))
	})
}

func scanFigures(b *bencher) error {
	const id = "scan/recursive/uint32/2^28"
	if !b.wanted(id) {
		return nil
	}
	n := 1 << (28 - b.scale)
	input := make([]uint32, n)
	for i := range input {
		input[i] = uint32(hash(uint64(i)) >> 40)
	}
	src, err := ptxrun.NewBufferFrom(b.s, input)
	if err != nil {
		return err
	}
	defer src.Free()
	dst, err := ptxrun.NewBuffer[uint32](b.rt, n)
	if err != nil {
		return err
	}
	defer dst.Free()
	work := func() error {
		return ptxrun.InclusiveScanBuffer(b.s, dst, src, ptxrun.Sum, ptxrun.WithScanStrategy(ptxrun.ScanRecursive))
	}
	if err := b.s.Driver().Fill(dst.Ptr(), poison, int64(n)*4); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	output := make([]uint32, n)
	if err := dst.CopyTo(b.s, output); err != nil {
		return err
	}
	sum := uint32(0)
	for i, v := range input {
		if sum += v; output[i] != sum {
			return fmt.Errorf("%s: element %d is %d, want %d", id, i, output[i], sum)
		}
	}
	return b.figure(id, int64(n), 2*4*float64(n), "GB/s", work)
}

func rleFigures(b *bencher) error {
	for _, mean := range []int{2, 16, 256, 65536} {
		if !b.wanted(fmt.Sprintf("rle/encode/%d rle/decode/%d", mean, mean)) && !b.wanted(fmt.Sprintf("rle/encode/mark-scan/%d", mean)) {
			continue
		}
		if err := b.rle(mean); err != nil {
			return err
		}
	}
	return nil
}

// rle measures encoding and the ways of decoding on bytes of one mean run length.
func (b *bencher) rle(mean int) error {
	n := 1 << (30 - b.scale)
	input, runs := runData(n, mean)
	src, err := ptxrun.NewBufferFrom(b.s, input)
	if err != nil {
		return err
	}
	defer src.Free()
	values, err := ptxrun.NewBuffer[byte](b.rt, runs)
	if err != nil {
		return err
	}
	defer values.Free()
	lengths, err := ptxrun.NewBuffer[uint32](b.rt, runs)
	if err != nil {
		return err
	}
	defer lengths.Free()
	count, err := ptxrun.NewBuffer[uint64](b.rt, 1)
	if err != nil {
		return err
	}
	defer count.Free()

	err = b.figure(fmt.Sprintf("rle/encode/mark-scan/%d", mean), int64(n), float64(n), "GB/s", func() error {
		return ptxrun.RLEEncodeBuffer(b.s, values, lengths, count, src, ptxrun.WithEncodeStrategy(ptxrun.EncodeMarkScan))
	})
	if err != nil {
		return err
	}
	found := make([]uint64, 1)
	if err := count.CopyTo(b.s, found); err != nil {
		return err
	}
	if found[0] != uint64(runs) {
		return fmt.Errorf("rle/encode/%d: %d runs, want %d", mean, found[0], runs)
	}

	// Decoding what was encoded gives the input: this verifies both.
	dst, err := ptxrun.NewBuffer[byte](b.rt, n)
	if err != nil {
		return err
	}
	defer dst.Free()
	output := make([]byte, n)
	for _, strategy := range []ptxrun.DecodeStrategy{ptxrun.DecodeThread, ptxrun.DecodeWarp, ptxrun.DecodeBlock, ptxrun.DecodeTiled} {
		id := fmt.Sprintf("rle/decode/%v/%d", strategy, mean)
		if err := b.s.Driver().Fill(dst.Ptr(), poison, int64(n)); err != nil {
			return err
		}
		err := b.figure(id, int64(n), float64(n), "GB/s", func() error {
			_, err := ptxrun.RLEDecodeBuffer(b.s, dst, values, lengths, ptxrun.WithDecodeStrategy(strategy))
			return err
		})
		if err != nil {
			return err
		}
		if err := dst.CopyTo(b.s, output); err != nil {
			return err
		}
		if !bytes.Equal(input, output) {
			return fmt.Errorf("%s: the decoded bytes differ from the input", id)
		}
	}
	return nil
}

func lcsFigures(b *bencher) error {
	for _, n := range []int{1000, 16384} {
		id := fmt.Sprintf("lcs/spin-wait/%d", n)
		if !b.wanted(id) {
			continue
		}
		n := n >> b.scale
		x, y := letters(n, 1), letters(n, 2)
		want := lcsLength(x, y)
		err := b.figure(id, int64(n), float64(n)*float64(n), "GCUPS", func() error {
			got, err := ptxrun.LCSLength(context.Background(), b.rt, x, y, ptxrun.WithLCSStrategy(ptxrun.LCSSpinWait))
			if err == nil && got != want {
				err = fmt.Errorf("length %d, want %d", got, want)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
