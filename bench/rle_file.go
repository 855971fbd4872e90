package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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
	f := fileFigures{bencher: b}
	figures := []fileFigure{
		{"rle/file/read", &f.toDevice, f.read, false},
		{"rle/file/compress", &f.toDevice, f.compress, false},
		{"rle/file/compress/once", &f.toDevice, f.compressOnce, false},
		{"rle/file/write", &f.toHost, f.write, false},
		{"rle/file/decompress", &f.toHost, f.decompress, true},
		{"rle/file/decompress/once", &f.toHost, f.decompressOnce, true},
		{"rle/file/decompress/new", &f.toHost, f.decompressNew, true},
		{"rle/file/decompress/mapped", &f.toHost, f.decompressMapped, true},
	}
	if !slices.ContainsFunc(figures, func(c fileFigure) bool { return b.wanted(c.id) }) {
		return
	}
	if err := f.all(figures); err != nil {
		b.errs = append(b.errs, fmt.Errorf("rle/file: %w", err))
	}
}

// fileFigure is work on files, with the milliseconds of the pinned copy.
type fileFigure struct {
	id       string
	bound    *float64
	call     func() error
	restores bool // writes the data to out
}

type fileFigures struct {
	*bencher
	data             []byte
	raw, rle, out    string // files
	toDevice, toHost float64
	pool             *rlefile.Pool
	pinned           [][]byte // a frame a goroutine
}

// all measures what is wanted. Files are written in place: giving back and taking
// anew the page cache of 2^30 bytes would take longer than the work.
func (f *fileFigures) all(figures []fileFigure) (err error) {
	dir, err := os.MkdirTemp("", "ptxrun-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f.raw, f.rle, f.out = filepath.Join(dir, "raw"), filepath.Join(dir, "rle"), filepath.Join(dir, "out")
	data, count := runData(f.size(30), 256)
	f.data = data
	for _, name := range []string{f.raw, f.out} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	if f.toDevice, f.toHost, err = pinnedCopies(f.bencher, int64(len(data))); err != nil {
		return err
	}
	for range runtime.GOMAXPROCS(0) {
		m, err := f.rt.Device().AllocHost(rlefile.DefaultFrame)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.rt.Device().FreeHost(m)) }()
		f.pinned = append(f.pinned, m.Bytes)
	}
	if f.pool, err = rlefile.NewPool(f.rt); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.pool.Close()) }()
	if err := f.compress(); err != nil {
		return err
	}
	for _, c := range figures {
		if !f.wanted(c.id) {
			continue
		}
		ms, err := f.time(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.id, err)
		}
		row := f.report(figure{id: c.id, n: int64(len(data)), amount: float64(len(data)), unit: "GB/s"}, ms, uint64(count))
		row.Peer, row.PeerMS, row.Ratio = pinnedCopy, rounded(*c.bound), rounded(*c.bound/ms)
	}
	return nil
}

// time returns the milliseconds of the figure's call, which must have restored the
// data where it says so.
func (f *fileFigures) time(c fileFigure) (ms float64, err error) {
	if !c.restores {
		return median(c.call)
	}
	// Something else than the data, which a read may have left in these.
	for _, b := range f.pinned {
		clear(b)
	}
	if err := f.write(); err != nil {
		return 0, err
	}
	if ms, err = median(c.call); err != nil {
		return 0, err
	}
	got, err := os.ReadFile(f.out)
	if err == nil && !bytes.Equal(got, f.data) {
		err = errors.New("what is written differs from the input")
	}
	return ms, err
}

func (f *fileFigures) compress() error     { return f.compressTo(rlefile.WithPool(f.pool)) }
func (f *fileFigures) compressOnce() error { return f.compressTo() }

func (f *fileFigures) compressTo(opts ...rlefile.Option) error {
	return between(f.rle, f.raw, func(to, from *os.File) error {
		z, err := rlefile.NewWriter(context.Background(), f.rt, to, 1, opts...)
		if err != nil {
			return err
		}
		_, err = z.ReadFrom(from)
		return errors.Join(err, z.Close())
	})
}

func (f *fileFigures) decompress() error {
	return f.decompressTo(f.copyOut, rlefile.WithPool(f.pool))
}

func (f *fileFigures) decompressOnce() error { return f.decompressTo(f.copyOut) }

// decompressNew writes a file that was not there.
func (f *fileFigures) decompressNew() error {
	if err := os.Remove(f.out); err != nil {
		return err
	}
	return f.decompress()
}

func (f *fileFigures) decompressMapped() error {
	return f.decompressTo(func(to *os.File, z *rlefile.File) error {
		m, err := syscall.Mmap(int(to.Fd()), 0, int(z.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			return err
		}
		_, err = z.ReadAt(m, 0)
		return errors.Join(err, syscall.Munmap(m))
	}, rlefile.WithPool(f.pool))
}

func (f *fileFigures) copyOut(to *os.File, z *rlefile.File) error {
	_, err := z.WriteTo(to)
	return err
}

func (f *fileFigures) decompressTo(use func(*os.File, *rlefile.File) error, opts ...rlefile.Option) error {
	return between(f.out, f.rle, func(to, from *os.File) error {
		info, err := from.Stat()
		if err != nil {
			return err
		}
		z, err := rlefile.Open(context.Background(), f.rt, from, info.Size(), opts...)
		if err != nil {
			return err
		}
		return errors.Join(use(to, z), z.Close())
	})
}

// between opens a file to write in place and one to read.
func between(to, from string, use func(to, from *os.File) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(use(out, in), out.Close())
}

// read and write are what files allow: the decoded side read into page-locked
// memory, and written from there, a frame's bytes a call, by a goroutine a processor.
func (f *fileFigures) read() error {
	return between(f.rle, f.raw, func(_, from *os.File) error { return f.each(from.ReadAt) })
}

func (f *fileFigures) write() error {
	return between(f.out, f.raw, func(to, _ *os.File) error { return f.each(to.WriteAt) })
}

func (f *fileFigures) each(call func(b []byte, at int64) (int, error)) error {
	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)
	errs := make([]error, len(f.pinned))
	for i, b := range f.pinned {
		wg.Go(func() {
			for errs[i] == nil {
				at := next.Add(int64(len(b))) - int64(len(b))
				left := int64(len(f.data)) - at
				if left <= 0 {
					return
				}
				_, errs[i] = call(b[:min(left, int64(len(b)))], at)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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
