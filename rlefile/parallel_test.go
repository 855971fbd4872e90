package rlefile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

func openFile(t *testing.T, rt *ptxrun.Runtime, r io.ReaderAt, size int, opts ...Option) *File {
	t.Helper()
	f, err := Open(context.Background(), rt, r, int64(size), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// The rest of a file from any position goes to any position of another, of which
// nothing else changes.
func TestWriteToFile(t *testing.T) {
	eachDevice(t, func(t *testing.T, rt *ptxrun.Runtime) {
		raw := datasets["runs"](9*MinFrame + 5)
		file := compress(t, rt, raw, 2, MinFrame)
		before := bytes.Repeat([]byte{0xa5}, len(raw)+200)
		for _, buffers := range []int{1, 2, 5, 16} {
			for _, from := range []int{0, 1, MinFrame, 5*MinFrame - 1, 8*MinFrame + 7, len(raw) - 1, len(raw), len(raw) + 9} {
				name := filepath.Join(t.TempDir(), "out")
				require.NoError(t, os.WriteFile(name, before, 0o600))
				out, err := os.OpenFile(name, os.O_RDWR, 0)
				require.NoError(t, err)
				_, err = out.Seek(100, io.SeekStart)
				require.NoError(t, err)
				f := openFile(t, rt, bytes.NewReader(file), len(file), WithBuffers(buffers))
				_, err = f.Seek(int64(from), io.SeekStart)
				require.NoError(t, err)
				rest := raw[min(from, len(raw)):]
				n, err := io.Copy(out, f)
				require.NoError(t, err)
				require.EqualValues(t, len(rest), n)
				at, err := out.Seek(0, io.SeekCurrent)
				require.NoError(t, err)
				require.EqualValues(t, 100+len(rest), at)
				require.NoError(t, out.Close())
				got, err := os.ReadFile(name)
				require.NoError(t, err)
				want := bytes.Clone(before)
				copy(want[100:], rest)
				require.True(t, bytes.Equal(want, got), "%d buffers, from %d", buffers, from)
				n, err = f.WriteTo(io.Discard)
				require.NoError(t, err)
				require.Zero(t, n, "the position is at the end")
			}
		}
	})
}

// Where WriteAt is not possible, frames are written in order.
func TestWriteToInOrder(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](9*MinFrame + 5)
	file := compress(t, rt, raw, 1, MinFrame)
	name := filepath.Join(t.TempDir(), "out")
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	_, err = out.WriteString("before")
	require.NoError(t, err)
	n, err := openFile(t, rt, bytes.NewReader(file), len(file)).WriteTo(out)
	require.NoError(t, err)
	require.EqualValues(t, len(raw), n)
	require.NoError(t, out.Close())
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "before"+string(raw), string(got))

	r, w, err := os.Pipe()
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := openFile(t, rt, bytes.NewReader(file), len(file)).WriteTo(w)
		assert.NoError(t, err)
		assert.NoError(t, w.Close())
	})
	got, err = io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.True(t, bytes.Equal(raw, got))
	wg.Wait()
}

// counting is a file that counts what is written to it.
type counting struct {
	*os.File
	n int
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.File.Write(p)
}

// A Write around a file's is not passed over.
func TestWriteToAroundFile(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](9*MinFrame + 5)
	file := compress(t, rt, raw, 1, MinFrame)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	w := &counting{File: out}
	_, err = io.Copy(w, openFile(t, rt, bytes.NewReader(file), len(file)))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.Equal(t, len(raw), w.n)
	got, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, got))
}

// target is a file whose WriteAt for an offset may do as it likes.
type target struct {
	at     int64 // position
	do     func(n int, off int64) (int, error)
	writes atomic.Int64
}

func (w *target) WriteAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.writes.Add(1)
	return w.do(len(p), off)
}

func (w *target) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		w.at = offset
	}
	return w.at, nil
}

// The failure that comes first in the file is the one that is returned, whenever
// it happens, and what counts as written is what lies before it.
func TestWriteToFileFailure(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](20 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	const start = 1000 // of the target
	first := int64(start + 7*MinFrame)
	for name, c := range map[string]struct {
		fail func(n int) (int, error)
		n    int64
		err  error
	}{
		"full":           {func(int) (int, error) { return 10, errDisk }, 7*MinFrame + 10, errDisk},
		"short":          {func(n int) (int, error) { return n - 1, nil }, 8*MinFrame - 1, io.ErrShortWrite},
		"more":           {func(n int) (int, error) { return n + 1, nil }, 7 * MinFrame, driver.ErrInvalidValue},
		"less than none": {func(int) (int, error) { return -1, errDisk }, 7 * MinFrame, driver.ErrInvalidValue},
	} {
		for _, buffers := range []int{1, 3, 30} {
			w := &target{at: start}
			w.do = func(n int, off int64) (int, error) {
				switch {
				case off == first:
					time.Sleep(10 * time.Millisecond) // later frames fail earlier
					return c.fail(n)
				case off > first:
					return 0, io.ErrClosedPipe
				}
				return n, nil
			}
			f := openFile(t, rt, bytes.NewReader(file), len(file), WithBuffers(buffers))
			n, err := f.writeFile(w, w.at)
			require.ErrorIs(t, err, c.err, name)
			require.Equal(t, c.n, n, name)
			require.Equal(t, start+n, w.at, name)
			require.LessOrEqual(t, w.writes.Load(), int64(7+buffers), "frames were begun after the failure")
			rest, err := io.ReadAll(f)
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw[n:], rest), "reading goes on behind what was written")
		}
	}
}

// A slow target holds what was decoded, no more than there are buffers.
func TestWriteToSlowFile(t *testing.T) {
	rt := openDevice(t)
	file := compress(t, rt, datasets["runs"](30*MinFrame), 1, MinFrame)
	var at atomic.Int64
	w := &target{do: func(n int, _ int64) (int, error) {
		assert.LessOrEqual(t, at.Add(1), int64(3))
		time.Sleep(time.Millisecond)
		at.Add(-1)
		return n, nil
	}}
	n, err := openFile(t, rt, bytes.NewReader(file), len(file), WithBuffers(3)).writeFile(w, 0)
	require.NoError(t, err)
	require.EqualValues(t, 30*MinFrame, n)
	require.EqualValues(t, 30, w.writes.Load())
}

// lossy cannot read two frames' length behind an offset.
type lossy struct {
	io.ReaderAt
	good int64
}

func (l lossy) ReadAt(p []byte, off int64) (int, error) {
	if off > l.good && off < l.good+2*MinFrame {
		return 0, errDisk
	}
	return l.ReaderAt.ReadAt(p, off)
}

func TestReadManyFramesFailure(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["random"](20 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	frame := func(i int) int { return fileHeaderSize + i*(frameHeaderSize+MinFrame) }
	damaged := bytes.Clone(file)
	damaged[frame(11)+frameHeaderSize+5] ^= 1
	for name, c := range map[string]struct {
		r    io.ReaderAt
		good int64
		err  error
	}{
		"damaged": {bytes.NewReader(damaged), 11, driver.ErrCorrupt},
		"lossy":   {lossy{bytes.NewReader(file), int64(frame(5) + 1)}, 6, errDisk},
	} {
		f := openFile(t, rt, c.r, len(file), WithBuffers(4))
		got := make([]byte, len(raw)+1)
		n, err := f.ReadAt(got, 3)
		require.ErrorIs(t, err, c.err, name)
		require.EqualValues(t, c.good*MinFrame-3, n, name)
		require.True(t, bytes.Equal(raw[3:n+3], got[:n]), name)
		w := &target{do: func(n int, _ int64) (int, error) { return n, nil }}
		written, err := f.writeFile(w, w.at)
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, c.good*MinFrame, written, name)
		require.Equal(t, written, w.at)
	}
}

// When the context is done, no more than the WriteAts that were about to begin do.
func TestCancelWriteToFile(t *testing.T) {
	rt := openDevice(t)
	file := compress(t, rt, datasets["runs"](40*MinFrame), 1, MinFrame)
	const buffers = 3
	ctx, cancel := context.WithCancel(context.Background())
	var w target
	w.do = func(n int, _ int64) (int, error) {
		if w.writes.Load() == 5 {
			cancel()
		}
		return n, nil
	}
	f, err := Open(ctx, rt, bytes.NewReader(file), int64(len(file)), WithBuffers(buffers))
	require.NoError(t, err)
	n, err := f.writeFile(&w, w.at)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, n, int64((5+2*buffers)*MinFrame))
	require.Less(t, w.writes.Load(), int64(5+2*buffers))
	require.NoError(t, f.Close())
}

// uneven is a file whose every other piece comes late.
type uneven struct {
	*bytes.Reader
	reads atomic.Int64
}

func (u *uneven) ReadAt(p []byte, off int64) (int, error) {
	if u.reads.Add(1)%2 == 0 {
		time.Sleep(2 * time.Millisecond)
	}
	return u.Reader.ReadAt(p, off)
}

// sluggish writes to memory, every other time late.
type sluggish struct {
	bytes.Buffer
	writes int
}

func (s *sluggish) Write(p []byte) (int, error) {
	if s.writes++; s.writes%2 == 0 {
		time.Sleep(time.Millisecond)
	}
	return s.Buffer.Write(p)
}

// Whichever frame is read or written late, they come in order.
func TestFramesInOrder(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](20*MinFrame + 5)
	file := compress(t, rt, raw, 1, MinFrame)
	for _, buffers := range []int{1, 2, 7, 40} {
		var again, got, streamed sluggish
		w, err := NewWriter(context.Background(), rt, &again, 1, WithFrame(MinFrame), WithBuffers(buffers))
		require.NoError(t, err)
		_, err = w.ReadFrom(&uneven{Reader: bytes.NewReader(raw)})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Equal(t, file, again.Bytes())
		_, err = openFile(t, rt, &uneven{Reader: bytes.NewReader(file)}, len(file), WithBuffers(buffers)).WriteTo(&got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, got.Bytes()))
		z, err := NewReader(context.Background(), rt, bytes.NewReader(file), WithBuffers(buffers))
		require.NoError(t, err)
		_, err = z.WriteTo(&streamed)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.True(t, bytes.Equal(raw, streamed.Bytes()))
	}
}

// As many runs are fetched as the frame before had, be it more or less than there are.
func TestFramesOfManyAndFewRuns(t *testing.T) {
	eachDevice(t, func(t *testing.T, rt *ptxrun.Runtime) {
		var raw []byte
		for _, kind := range []string{"constant", "runs", "skewed", "random", "runs", "alternating", "constant", "skewed", "skewed", "constant", "random", "skewed"} {
			raw = append(raw, datasets[kind](MinFrame)...)
		}
		for _, width := range widths {
			var files [][]byte
			for _, buffers := range []int{1, 2, 5, 12} { // the last has a buffer a frame
				var file bytes.Buffer
				w, err := NewWriter(context.Background(), rt, &file, width, WithFrame(MinFrame), WithBuffers(buffers))
				require.NoError(t, err)
				_, err = w.ReadFrom(bytes.NewReader(raw))
				require.NoError(t, err)
				require.NoError(t, w.Close())
				files = append(files, file.Bytes())
				require.Equal(t, files[0], file.Bytes(), "width %d, %d buffers", width, buffers)
			}
			got, _, err := decompress(rt, bytes.NewReader(files[0]))
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw, got))
		}
	})
}

// Frames that are read by those who encode them are those that are written.
func TestReadFromAt(t *testing.T) {
	rt := openDevice(t)
	const frame = 100_000
	raw := datasets["runs"](2*frame + 5)
	want := compress(t, rt, raw, 1, frame)
	var file bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &file, 1, WithFrame(frame))
	require.NoError(t, err)
	_, err = w.ReadFrom(bytes.NewReader(raw))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.True(t, bytes.Equal(want, file.Bytes()))

	w, err = NewWriter(context.Background(), rt, io.Discard, 1, WithFrame(frame))
	require.NoError(t, err)
	_, err = w.ReadFrom(&struct {
		io.Seeker
		io.Reader
		io.ReaderAt
	}{bytes.NewReader(raw), nil, lossy{bytes.NewReader(raw), frame - 1}})
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, w.Close(), errDisk)

	ctx, cancel := context.WithCancel(context.Background())
	reads := 0
	w, err = NewWriter(ctx, rt, io.Discard, 1, WithFrame(frame), WithBuffers(1))
	require.NoError(t, err)
	_, err = w.ReadFrom(&struct {
		io.Seeker
		io.Reader
		io.ReaderAt
	}{bytes.NewReader(raw), nil, readerAt(func(p []byte, off int64) (int, error) {
		reads++
		cancel()
		return len(p), nil
	})})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, reads, "a read after the context was done")
	require.ErrorIs(t, w.Close(), context.Canceled)
}

type readerAt func(p []byte, off int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

// left is a slow file that must not be read after the call that was given it.
type left struct {
	*bytes.Reader
	t    *testing.T
	gone *atomic.Bool
}

func (l left) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(time.Millisecond)
	if l.gone.Load() {
		l.t.Error("a ReadAt after ReadFrom")
	}
	return l.Reader.ReadAt(p, off)
}

func TestReadFromLeavesTheFile(t *testing.T) {
	rt := openDevice(t)
	var gone atomic.Bool
	w, err := NewWriter(context.Background(), rt, io.Discard, 1, WithFrame(MinFrame), WithBuffers(8))
	require.NoError(t, err)
	n, err := w.ReadFrom(left{bytes.NewReader(make([]byte, 20*MinFrame)), t, &gone})
	gone.Store(true)
	require.NoError(t, err)
	require.EqualValues(t, 20*MinFrame, n)
	require.NoError(t, w.Close())
}

func TestPool(t *testing.T) {
	eachDevice(t, func(t *testing.T, rt *ptxrun.Runtime) {
		pool, err := NewPool(rt)
		require.NoError(t, err)
		memory := map[driver.Ptr]bool{}
		for round, name := range []string{"skewed", "runs", "random", "runs"} {
			for _, width := range []int{1, 8} {
				raw := datasets[name](9*MinFrame + 5)
				var file bytes.Buffer
				w, err := NewWriter(context.Background(), rt, &file, width, WithFrame(MinFrame), WithBuffers(3), WithPool(pool))
				require.NoError(t, err)
				_, err = w.ReadFrom(bytes.NewReader(raw))
				require.NoError(t, err)
				require.NoError(t, w.Close())
				require.Equal(t, compress(t, rt, raw, width, MinFrame), file.Bytes(), "the file depends on the pool")
				z, err := NewReader(context.Background(), rt, bytes.NewReader(file.Bytes()), WithBuffers(3), WithPool(pool))
				require.NoError(t, err)
				got, err := io.ReadAll(z)
				require.NoError(t, err)
				require.True(t, bytes.Equal(raw, got))
				require.NoError(t, z.Close())
				f := openFile(t, rt, bytes.NewReader(file.Bytes()), file.Len(), WithBuffers(3), WithPool(pool))
				n, err := f.ReadAt(got, 0)
				require.NoError(t, err)
				require.Equal(t, len(raw), n)
				require.True(t, bytes.Equal(raw, got))
				require.NoError(t, f.Close())
				require.LessOrEqual(t, len(pool.free[width]), 3, "%s, %d", name, width)
				for _, s := range pool.free[width] {
					require.True(t, round < 3 || memory[s.in.m.Ptr], "memory was taken anew")
					memory[s.in.m.Ptr] = true
				}
			}
		}
		w, err := NewWriter(context.Background(), rt, io.Discard, 1, WithPool(pool))
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 10))
		require.NoError(t, err)
		require.NoError(t, pool.Close())
		require.NoError(t, pool.Close())
		require.NoError(t, w.Close(), "what comes back later is freed")
	})
}

// A failure's slot does not come back.
func TestPoolAfterFailure(t *testing.T) {
	rt := openDevice(t)
	pool, err := NewPool(rt)
	require.NoError(t, err)
	raw := datasets["random"](20 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	for n := fileHeaderSize; n < 17*MinFrame; n += 3 * MinFrame {
		f := openFile(t, rt, lossy{bytes.NewReader(file), int64(n)}, len(file), WithPool(pool))
		_, err := io.ReadAll(f)
		assert.ErrorIs(t, err, errDisk, fmt.Sprint(n))
		require.NoError(t, f.Close())
	}
	f := openFile(t, rt, bytes.NewReader(file), len(file), WithPool(pool))
	got, err := io.ReadAll(f)
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, got))
	require.NoError(t, f.Close())
	require.NoError(t, pool.Close())
}

func TestPoolArguments(t *testing.T) {
	rt := openDevice(t)
	pool, err := NewPool(openDevice(t))
	require.NoError(t, err)
	defer pool.Close()
	_, err = NewPool(nil)
	require.ErrorIs(t, err, driver.ErrNil)
	require.ErrorIs(t, (*Pool)(nil).Close(), driver.ErrNil)
	_, err = NewWriter(context.Background(), rt, io.Discard, 1, WithPool(pool))
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	w, err := NewWriter(context.Background(), rt, io.Discard, 1, WithPool(nil))
	require.NoError(t, err)
	require.NoError(t, w.Close())
}
