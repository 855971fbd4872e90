package rlefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/emu"
)

var widths = []int{1, 2, 4, 8}

// openDevice returns a runtime on the host's processor that must have its
// memory back when the test ends.
func openDevice(t testing.TB) *ptxrun.Runtime {
	t.Helper()
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	require.NoError(t, err)
	return onDevice(t, dev)
}

func onDevice(t testing.TB, dev driver.Device) *ptxrun.Runtime {
	goroutines := runtime.NumGoroutine()
	rt := ptxrun.NewRuntime(dev)
	t.Cleanup(func() {
		require.NoError(t, rt.Close(), "nothing is left on the device")
		if _, fuzzing := t.(*testing.F); fuzzing {
			return // it has goroutines of its own
		}
		for i := 0; runtime.NumGoroutine() > goroutines; i++ {
			require.Less(t, i, 1000, "goroutines are left")
			time.Sleep(time.Millisecond)
		}
	})
	return rt
}

// eachDevice runs f on the host's processor, and on a GPU if there is one.
func eachDevice(t *testing.T, f func(t *testing.T, rt *ptxrun.Runtime)) {
	t.Run("cpu", func(t *testing.T) { f(t, openDevice(t)) })
	dev, err := cuda.Open(0)
	if errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrNoDevice) {
		t.Log("not on a GPU: ", err)
		return
	}
	require.NoError(t, err, "a GPU driver is here and cannot be opened")
	t.Run("cuda", func(t *testing.T) {
		rt := ptxrun.NewRuntime(dev)
		// A Cleanup, not deferred: those of f, such as openFile's, come before it.
		t.Cleanup(func() { require.NoError(t, rt.Close(), "nothing is left on the device") })
		f(t, rt)
	})
}

// compress writes raw with frames of limit bytes.
func compress(t testing.TB, rt *ptxrun.Runtime, raw []byte, width, limit int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &file, width, WithFrame(limit), WithBuffers(3))
	require.NoError(t, err)
	_, err = w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.EqualValues(t, len(raw), w.Stats().Raw)
	require.EqualValues(t, file.Len(), w.Stats().Encoded)
	return file.Bytes()
}

func decompress(rt *ptxrun.Runtime, r io.Reader) ([]byte, Stats, error) {
	z, err := NewReader(context.Background(), rt, r, WithBuffers(3))
	if err != nil {
		return nil, Stats{}, err
	}
	raw, err := io.ReadAll(z)
	return raw, z.Stats(), errors.Join(err, z.Close())
}

// decompressFile is decompress through a File.
func decompressFile(rt *ptxrun.Runtime, file []byte) ([]byte, Stats, error) {
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)), WithBuffers(2))
	if err != nil {
		return nil, Stats{}, err
	}
	raw, err := io.ReadAll(f)
	again := make([]byte, len(raw)+1)
	if n, failed := f.ReadAt(again, 0); !bytes.Equal(raw, again[:n]) || (failed != io.EOF) != (err != nil) {
		err = fmt.Errorf("ReadAt gave %d bytes of %d and %w; Read %w", n, len(raw), failed, err)
	}
	return raw, f.Stats(), errors.Join(err, f.Close())
}

// datasets are byte sequences of n bytes by how their runs are.
var datasets = map[string]func(n int) []byte{
	"constant":    func(n int) []byte { return make([]byte, n) },
	"alternating": func(n int) []byte { return bytes.Repeat([]byte{0, 1}, n/2+1)[:n] },
	"random": func(n int) []byte {
		b, r := make([]byte, n), rand.New(rand.NewPCG(1, 2))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	},
	"runs": func(n int) []byte {
		b, r := make([]byte, 0, n), rand.New(rand.NewPCG(3, 4))
		for len(b) < n {
			b = append(b, bytes.Repeat([]byte{byte(r.Uint32())}, min(n-len(b), 1+r.IntN(600)))...)
		}
		return b
	},
	// Short runs and one far too long for their lengths.
	"skewed": func(n int) []byte {
		b, r := make([]byte, n), rand.New(rand.NewPCG(5, 6))
		for i := 0; i < n/8; i++ {
			b[i] = byte(r.Uint32() % 2)
		}
		return b
	},
}

func TestRoundTrip(t *testing.T) { eachDevice(t, checkRoundTrip) }

func checkRoundTrip(t *testing.T, rt *ptxrun.Runtime) {
	const limit = MinFrame
	for _, width := range widths {
		for name, data := range datasets {
			for _, n := range []int{0, 1, 7, 8, 9, limit - 1, limit, limit + 1, 7*limit + 5} {
				t.Run(fmt.Sprintf("%d/%s/%d", width, name, n), func(t *testing.T) {
					raw := data(n)
					file := compress(t, rt, raw, width, limit)
					got, stats, err := decompress(rt, bytes.NewReader(file))
					require.NoError(t, err)
					require.True(t, bytes.Equal(raw, got), "the bytes differ")
					tail := 0
					if n%width != 0 {
						tail = 1
					}
					assert.EqualValues(t, (n/width*width+limit-1)/limit+tail, stats.Frames)
					assert.EqualValues(t, n, stats.Raw)
					assert.EqualValues(t, len(file), stats.Encoded)
					assert.LessOrEqual(t, len(file), n+72+36*int(stats.Frames), "grew by more than is documented")

					got, atOnce, err := decompressFile(rt, file)
					require.NoError(t, err)
					require.True(t, bytes.Equal(raw, got), "the bytes differ")
					assert.Equal(t, stats, atOnce)
				})
			}
		}
	}
}

// Frames of the full size, of one run each.
func TestFullFrame(t *testing.T) {
	rt := openDevice(t)
	raw := make([]byte, MaxFrame+3)
	file := compress(t, rt, raw, 1, MaxFrame)
	assert.Less(t, len(file), 200)
	z, err := NewReader(context.Background(), rt, bytes.NewReader(file))
	require.NoError(t, err)
	var got bytes.Buffer
	n, err := z.WriteTo(&got)
	require.NoError(t, err)
	assert.EqualValues(t, len(raw), n)
	assert.True(t, bytes.Equal(raw, got.Bytes()))
	assert.Equal(t, Stats{Frames: 2, Runs: 2, Raw: int64(len(raw)), Encoded: int64(len(file))}, z.Stats())
	require.NoError(t, z.Close())
}

func TestEmulator(t *testing.T) {
	dev, err := emu.Open(emu.WithMemoryChecks())
	require.NoError(t, err)
	rt := onDevice(t, dev)
	raw := datasets["runs"](2*MinFrame + 5)
	for _, width := range widths {
		file := compress(t, rt, raw, width, MinFrame)
		require.Equal(t, compress(t, openDevice(t), raw, width, MinFrame), file, "the file depends on the device")
		got, _, err := decompress(rt, bytes.NewReader(file))
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, got))
	}
}

// The order of writes and reads and their sizes must not matter.
func TestSmallPieces(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](3*MinFrame + 1)
	for _, buffers := range []int{1, 2, 5} {
		var file bytes.Buffer
		w, err := NewWriter(context.Background(), rt, &file, 4, WithFrame(MinFrame), WithBuffers(buffers))
		require.NoError(t, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{iotest.OneByteReader(bytes.NewReader(raw))}, make([]byte, 7))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		assert.Equal(t, compress(t, rt, raw, 4, MinFrame), file.Bytes())

		z, err := NewReader(context.Background(), rt, iotest.HalfReader(bytes.NewReader(file.Bytes())), WithBuffers(buffers))
		require.NoError(t, err)
		assert.Equal(t, 4, z.Width())
		assert.NoError(t, iotest.TestReader(z, raw))
		require.NoError(t, z.Close())

		f, err := Open(context.Background(), rt, bytes.NewReader(file.Bytes()), int64(file.Len()), WithBuffers(buffers))
		require.NoError(t, err)
		assert.Equal(t, 4, f.Width())
		assert.NoError(t, iotest.TestReader(f, raw), "Read, Seek and ReadAt")
		require.NoError(t, f.Close())
	}
}

// Little data takes little memory.
func TestSmallFileTakesLittleMemory(t *testing.T) {
	dev, err := cpu.Open(cpu.WithMemoryLimit(1 << 20))
	require.NoError(t, err)
	rt := onDevice(t, dev)
	raw := datasets["runs"](9000)
	var file bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &file, 1)
	require.NoError(t, err)
	_, err = w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, _, err := decompress(rt, &file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, got))
}

// The documented bound on memory, at the shortest runs that are worth a frame of
// runs, and at long ones.
func TestMemoryOfAFrame(t *testing.T) {
	const limit, buffers = 256 << 10, 2
	for _, width := range widths {
		short := make([]byte, 8*limit)
		for i := range short {
			short[i] = byte(i / width * 14 / (15 * (width + 1))) // of 15/14 (width + 1) elements
		}
		for name, c := range map[string]struct {
			raw   []byte
			times int64
		}{"short": {short, 20}, "long": {make([]byte, 8*limit), 8}} {
			dev, err := cpu.Open(cpu.WithMemoryLimit(c.times * limit * buffers))
			require.NoError(t, err)
			rt := onDevice(t, dev)
			var file bytes.Buffer
			w, err := NewWriter(context.Background(), rt, &file, width, WithFrame(limit), WithBuffers(buffers))
			require.NoError(t, err)
			_, err = w.ReadFrom(bytes.NewReader(c.raw))
			require.NoError(t, err, "%d, %s", width, name)
			require.NoError(t, w.Close(), "%d, %s", width, name)
			require.NotZero(t, w.Stats().Runs, "%d, %s", width, name)
			z, err := NewReader(context.Background(), rt, &file, WithBuffers(buffers))
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.NoError(t, err, "%d, %s", width, name)
			require.True(t, bytes.Equal(c.raw, got))
			require.NoError(t, z.Close())
		}
	}
}

func TestReadFrom(t *testing.T) { eachDevice(t, checkReadFrom) }

func checkReadFrom(t *testing.T, rt *ptxrun.Runtime) {
	raw := datasets["skewed"](5*MinFrame + 77)
	name := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(name, raw, 0o600))
	for _, skip := range []int{0, 1, MinFrame, len(raw) - 3, len(raw)} {
		for _, first := range []int{0, 5, MinFrame} {
			in, err := os.Open(name)
			require.NoError(t, err)
			defer in.Close()
			_, err = in.Seek(int64(skip), io.SeekStart)
			require.NoError(t, err)
			var file bytes.Buffer
			w, err := NewWriter(context.Background(), rt, &file, 2, WithFrame(MinFrame), WithBuffers(2))
			require.NoError(t, err)
			_, err = w.Write(raw[:first])
			require.NoError(t, err)
			n, err := w.ReadFrom(in)
			require.NoError(t, err)
			require.EqualValues(t, len(raw)-skip, n)
			at, err := in.Seek(0, io.SeekCurrent)
			require.NoError(t, err)
			require.EqualValues(t, len(raw), at)
			require.NoError(t, w.Close())
			want := append(raw[:first:first], raw[skip:]...)
			require.Equal(t, compress(t, rt, want, 2, MinFrame), file.Bytes(), "%d bytes, then from %d", first, skip)
		}
	}
}

// shrunk is a file that is shorter when it is read than it said.
type shrunk struct{ *bytes.Reader }

func (s shrunk) ReadAt(p []byte, off int64) (int, error) { return s.Reader.ReadAt(p[:len(p)/2], off) }

func TestReadFromFailure(t *testing.T) {
	rt := openDevice(t)
	for name, r := range map[string]io.Reader{
		"shrunk": shrunk{bytes.NewReader(make([]byte, 10*MinFrame))},
		"stream": io.MultiReader(bytes.NewReader(make([]byte, 10)), iotest.ErrReader(io.ErrUnexpectedEOF)),
	} {
		w, err := NewWriter(context.Background(), rt, io.Discard, 1, WithFrame(MinFrame))
		require.NoError(t, err)
		_, err = w.ReadFrom(r)
		if err == nil {
			err = w.Close()
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
		require.ErrorIs(t, w.Close(), io.ErrUnexpectedEOF, name)
	}
}

func TestRandomAccess(t *testing.T) { eachDevice(t, checkRandomAccess) }

func checkRandomAccess(t *testing.T, rt *ptxrun.Runtime) {
	raw := datasets["runs"](9*MinFrame + 5)
	file := compress(t, rt, raw, 2, MinFrame)
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)), WithBuffers(3))
	require.NoError(t, err)
	require.EqualValues(t, len(raw), f.Size())
	check := func(r *rand.Rand) {
		from, n := r.IntN(len(raw)+10), r.IntN(3*MinFrame)
		got := make([]byte, n)
		m, err := f.ReadAt(got, int64(from))
		want := raw[min(from, len(raw)):min(from+n, len(raw))]
		if assert.Equal(t, len(want), m) && assert.True(t, bytes.Equal(want, got[:m]), "%d from %d", n, from) && m == n {
			assert.NoError(t, err)
		} else {
			assert.Equal(t, io.EOF, err)
		}
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 50 {
				check(r)
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 9))
	for range 100 {
		at := r.IntN(len(raw) + 1)
		_, err := f.Seek(int64(at), io.SeekStart)
		require.NoError(t, err)
		got := make([]byte, min(r.IntN(2*MinFrame), len(raw)-at))
		_, err = io.ReadFull(f, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw[at:at+len(got)], got))
	}
	wg.Wait()
	_, err = f.ReadAt(make([]byte, 1), -1)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	_, err = f.Seek(-1, io.SeekStart)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	_, err = f.Seek(0, 3)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	var got bytes.Buffer
	_, err = f.Seek(-10, io.SeekEnd)
	require.NoError(t, err)
	n, err := f.WriteTo(&got)
	require.NoError(t, err)
	require.EqualValues(t, 10, n)
	require.Equal(t, raw[len(raw)-10:], got.Bytes())
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, driver.ErrClosed)
	_, err = f.Read(make([]byte, 1))
	require.ErrorIs(t, err, driver.ErrClosed)
}

// A damaged frame is no obstacle to the others.
func TestDamagedFrame(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](6 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	defer f.Close()
	file[f.frames[3].at+frameHeaderSize] ^= 1
	got := make([]byte, MinFrame)
	for i := range 6 {
		_, err := f.ReadAt(got, int64(i*MinFrame))
		if i == 3 {
			requireCorrupt(t, err, fmt.Sprintf("frame 3 at byte %d: the data's checksum", f.frames[3].at))
			continue
		}
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw[i*MinFrame:][:MinFrame], got))
	}
	all, err := io.ReadAll(f)
	requireCorrupt(t, err, "frame 3 at byte")
	require.True(t, bytes.Equal(raw[:3*MinFrame], all))
	_, err = f.Seek(4*MinFrame, io.SeekStart)
	require.NoError(t, err)
	all, err = io.ReadAll(f)
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw[4*MinFrame:], all))
}

func TestArguments(t *testing.T) {
	rt := openDevice(t)
	ctx := context.Background()
	var file bytes.Buffer
	for _, width := range []int{-1, 0, 3, 16} {
		_, err := NewWriter(ctx, rt, &file, width)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
	}
	for _, o := range []Option{WithFrame(0), WithFrame(MinFrame - 8), WithFrame(MinFrame + 1), WithFrame(MaxFrame + 8), WithBuffers(0)} {
		_, err := NewWriter(ctx, rt, &file, 1, o)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = NewReader(ctx, rt, &file, o)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = Open(ctx, rt, bytes.NewReader(nil), 0, o)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
	}
	_, err := NewWriter(ctx, nil, &file, 1)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewWriter(ctx, rt, nil, 1)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewWriter(ctx, rt, &file, 1, nil)
	require.ErrorIs(t, err, driver.ErrNil)
	require.ErrorContains(t, err, "rlefile: nil argument: option")
	_, err = new(Writer).Write([]byte{1})
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewReader(nil, rt, &file) //nolint:staticcheck // what is tested
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = NewReader(ctx, rt, nil)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = Open(ctx, rt, nil, 0)
	require.ErrorIs(t, err, driver.ErrNil)
	_, err = Open(ctx, rt, bytes.NewReader(nil), -1)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	assert.Zero(t, file.Len())
}

// failingWriter fails after n bytes.
type failingWriter struct{ n int }

var errDisk = errors.New("disk full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestErrorsFromBelow(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	for n := range file {
		w, err := NewWriter(context.Background(), rt, &failingWriter{n}, 4, WithFrame(MinFrame))
		if err == nil {
			if _, err = w.Write(raw); err == nil {
				err = w.Close()
			}
			_, again := w.Write(raw)
			assert.Error(t, again, "a write after the failure")
			assert.Equal(t, err, w.Close(), "the first failure is lost")
		}
		require.ErrorIs(t, err, errDisk, "after %d bytes", n)

		_, _, err = decompress(rt, io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errDisk)))
		require.ErrorIs(t, err, errDisk, "after %d bytes", n)
	}
}

// A reader that holds less than it was said to is told apart from a damaged file.
func TestOpenBehindTheEnd(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	_, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file))+10)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, fmt.Sprintf("rlefile: the reader ends at byte %d, not behind %d:", len(file), len(file)+10))
}

func TestWriteAfterClose(t *testing.T) {
	rt := openDevice(t)
	w, err := NewWriter(context.Background(), rt, io.Discard, 1)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	_, err = w.Write([]byte{1})
	require.ErrorIs(t, err, driver.ErrClosed)
	_, err = w.ReadFrom(bytes.NewReader(nil))
	require.ErrorIs(t, err, driver.ErrClosed)
}

// What is left in the middle leaves nothing: openDevice looks.
func TestCloseInTheMiddle(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](40 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	z, err := NewReader(context.Background(), rt, bytes.NewReader(file))
	require.NoError(t, err)
	_, err = z.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	_, err = z.Read(make([]byte, 10))
	require.ErrorIs(t, err, driver.ErrClosed)
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	_, err = f.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestCancel(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](40 * MinFrame)
	file := compress(t, rt, raw, 1, MinFrame)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWriter(ctx, rt, io.Discard, 1, WithFrame(MinFrame))
	require.NoError(t, err)
	_, err = w.Write(raw[:20*MinFrame+1])
	require.NoError(t, err)
	z, err := NewReader(ctx, rt, bytes.NewReader(file))
	require.NoError(t, err)
	_, err = z.Read(make([]byte, 10))
	require.NoError(t, err)
	f, err := Open(ctx, rt, bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	_, err = f.Read(make([]byte, 10))
	require.NoError(t, err)
	cancel()
	_, err = w.Write([]byte{1})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, w.Close(), context.Canceled)
	_, err = io.ReadAll(z)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, z.Close())
	_, err = f.ReadAt(make([]byte, 10), 5)
	require.ErrorIs(t, err, context.Canceled)
	_, err = io.ReadAll(f)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, f.Close())
	_, err = NewReader(ctx, rt, bytes.NewReader(file))
	require.ErrorIs(t, err, context.Canceled)
}

// A runtime may be closed at any time: what is in flight ends with an error, and
// no page-locked memory is touched that is gone.
func TestClosedRuntime(t *testing.T) {
	raw := datasets["runs"](40 * MinFrame)
	file := compress(t, openDevice(t), raw, 1, MinFrame)
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	w, err := NewWriter(context.Background(), rt, io.Discard, 1, WithFrame(MinFrame))
	require.NoError(t, err)
	z, err := NewReader(context.Background(), rt, bytes.NewReader(file))
	require.NoError(t, err)
	_, err = z.Read(make([]byte, 10))
	require.NoError(t, err)
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, use := range []func() error{
		func() error { _, err := w.Write(raw); return err },
		func() error { _, err := f.ReadAt(make([]byte, 100), 7*MinFrame); return err },
		func() error { _, _, err := decompress(rt, bytes.NewReader(file)); return err },
	} {
		wg.Go(func() {
			var err error
			for err == nil {
				err = use()
			}
			assert.ErrorIs(t, err, driver.ErrClosed)
		})
	}
	time.Sleep(20 * time.Millisecond)
	require.ErrorIs(t, rt.Close(), driver.ErrLeak)
	wg.Wait()
	require.ErrorIs(t, w.Close(), driver.ErrClosed)
	_, err = z.Read(make([]byte, 10))
	require.ErrorIs(t, err, driver.ErrClosed)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	_, _, err = decompress(rt, bytes.NewReader(file))
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorContains(t, err, "rlefile: closed: runtime")
}

func TestLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, width := range widths {
		for _, longest := range []uint32{1, 255, 256, 257, 1 << 16, 1<<16 + 1, 1 << 18} {
			for _, share := range []int{1, 3, 1000} { // of long runs
				lengths := make([]uint32, 3000)
				sum := uint64(0)
				for i := range lengths {
					if lengths[i] = 1 + r.Uint32N(9); i%share == 0 {
						lengths[i] = longest - r.Uint32N(min(2, longest))
					}
					sum += uint64(lengths[i])
				}
				size, runs := lengthSize(lengths, width)
				best := int64(1 << 62)
				for _, s := range []int{1, 2, 4} {
					n := int64(0)
					for _, l := range lengths {
						n += 1 + int64(uint64(l-1)>>(8*s))
					}
					if n*int64(width+s) < best {
						best = n * int64(width+s)
					}
					if s == size {
						require.Equal(t, n, runs)
					}
				}
				require.Equal(t, best, runs*int64(width+size))
				b := make([]byte, int(runs)*size)
				putLengths(b, lengths, size)
				values := make([]int, runs)
				for i := range lengths {
					values[i] = i
				}
				splitValues(values, lengths, size)
				got := make([]uint32, runs)
				require.Empty(t, parseLengths(got, b, size, sum))
				again := make([]uint32, len(lengths))
				for i, v := range values {
					again[v] += got[i]
				}
				require.Equal(t, lengths, again)
				require.NotEmpty(t, parseLengths(got, b, size, sum-1))
			}
		}
	}
}
