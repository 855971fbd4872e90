package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/rlefile"
)

// pinnedCopy is the bound of files: copies of what is larger, the decoded side,
// between page-locked and device memory.
const pinnedCopy = "pinned copy"

// rleFileFigures are from file to file, 2^30 bytes in runs of a mean length of
// 256, with the files in page cache; TMPDIR says where. They are measured
// together, since one reads what the other writes.
func rleFileFigures(b *bencher) {
	const compress, decompress = "rle/file/compress", "rle/file/decompress"
	if !b.wanted(compress) && !b.wanted(decompress) {
		return
	}
	if err := rleFiles(b, compress, decompress); err != nil {
		b.errs = append(b.errs, fmt.Errorf("rle/file: %w", err))
	}
}

func rleFiles(b *bencher, compress, decompress string) (err error) {
	dir, err := os.MkdirTemp("", "ptxrun-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	raw, encoded, decoded := filepath.Join(dir, "raw"), filepath.Join(dir, "rle"), filepath.Join(dir, "decoded")
	data, count := runData(b.size(30), 256)
	if err := os.WriteFile(raw, data, 0o600); err != nil {
		return err
	}
	toDevice, toHost, err := pinnedCopies(b, int64(len(data)))
	if err != nil {
		return err
	}
	for _, c := range []struct {
		id       string
		from, to string
		bound    float64
		filter   func(w io.Writer, r io.Reader) error
	}{
		{compress, raw, encoded, toDevice, func(w io.Writer, r io.Reader) error {
			z, err := rlefile.NewWriter(context.Background(), b.rt, w, 1)
			if err != nil {
				return err
			}
			_, err = z.ReadFrom(r)
			return errors.Join(err, z.Close())
		}},
		{decompress, encoded, decoded, toHost, func(w io.Writer, r io.Reader) error {
			z, err := rlefile.NewReader(context.Background(), b.rt, r)
			if err != nil {
				return err
			}
			_, err = z.WriteTo(w)
			return errors.Join(err, z.Close())
		}},
	} {
		ms, err := median(func() error { return filter(c.to, c.from, c.filter) })
		if err != nil {
			return err
		}
		f := figure{id: c.id, n: int64(len(data)), amount: float64(len(data)), unit: "GB/s"}
		row := b.report(f, ms, uint64(count))
		row.Peer, row.PeerMS, row.Ratio = pinnedCopy, rounded(c.bound), rounded(c.bound/ms)
	}
	got, err := os.ReadFile(decoded)
	if err == nil && !bytes.Equal(got, data) {
		err = errors.New("what is decompressed differs from the input")
	}
	return err
}

func filter(to, from string, f func(w io.Writer, r io.Reader) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(f(out, in), out.Close())
}

// pinnedCopies returns the milliseconds of copying n bytes in either direction.
func pinnedCopies(b *bencher, n int64) (toDevice, toHost float64, err error) {
	const piece = 64 << 20
	size := min(n, piece)
	host, err := b.rt.Device().AllocHost(size)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.rt.Device().FreeHost(host)) }()
	buf, err := ptxrun.NewBuffer[byte](b.rt, int(size))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, buf.Free()) }()
	s := b.s.Driver()
	all := func(copy func(host []byte) error) (float64, error) {
		return median(func() error {
			for left := n; left > 0; left -= size {
				if err := copy(host.Bytes[:min(left, size)]); err != nil {
					return err
				}
			}
			return s.Synchronize()
		})
	}
	if toDevice, err = all(func(host []byte) error { return s.CopyToDevice(buf.Ptr(), host) }); err != nil {
		return 0, 0, err
	}
	toHost, err = all(func(host []byte) error { return s.CopyToHost(host, buf.Ptr()) })
	return toDevice, toHost, err
}

// median is the milliseconds of a call by the host's clock, after a first one.
func median(call func() error) (float64, error) {
	var times []float64
	for i := range minRepetitions + 1 {
		begin := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(begin).Seconds()*1e3)
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
