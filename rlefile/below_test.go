package rlefile

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// canceling gives a byte a Read, and cancels during the last that it allows.
type canceling struct {
	t      *testing.T
	r      io.Reader
	left   int
	cancel context.CancelFunc
}

func (c *canceling) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.t.Error("a Read after the context was done")
		return 0, errDisk
	}
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return c.r.Read(p[:1])
}

// However little a Read gives, none follows when the context is done.
func TestCancelBetweenReads(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	for n := 1; n <= len(file); n += 3 {
		ctx, cancel := context.WithCancel(context.Background())
		z, err := NewReader(ctx, rt, &canceling{t, bytes.NewReader(file), n, cancel}, WithBuffers(3))
		if err == nil {
			_, err = io.ReadAll(z)
			require.NoError(t, z.Close())
		}
		require.ErrorIs(t, err, context.Canceled, "during Read %d", n)
	}
	for _, n := range []int{1, 10, MinFrame, MinFrame + 1} {
		ctx, cancel := context.WithCancel(context.Background())
		w, err := NewWriter(ctx, rt, io.Discard, 1, WithFrame(MinFrame))
		require.NoError(t, err)
		_, err = w.ReadFrom(&canceling{t, bytes.NewReader(make([]byte, 2*MinFrame)), n, cancel})
		require.ErrorIs(t, err, context.Canceled, "during Read %d", n)
		require.ErrorIs(t, w.Close(), context.Canceled)
	}
}

// A frame that is decoded is not given out any more either.
func TestCancelWithinAFrame(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	ctx, cancel := context.WithCancel(context.Background())
	z, err := NewReader(ctx, rt, bytes.NewReader(file))
	require.NoError(t, err)
	_, err = z.Read(make([]byte, 1))
	require.NoError(t, err)
	cancel()
	n, err := z.WriteTo(&failingWriter{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
	require.NoError(t, z.Close())
}

// hesitant gives nothing so many times before each byte.
type hesitant struct {
	r           io.Reader
	times, left int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.left > 0 {
		h.left--
		return 0, nil
	}
	h.left = h.times
	return h.r.Read(p[:1])
}

func TestReadsOfNothing(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	got, _, err := decompress(rt, &hesitant{r: bytes.NewReader(file), times: maxEmpty - 1})
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, got))
	var again bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &again, 4, WithFrame(MinFrame))
	require.NoError(t, err)
	_, err = w.ReadFrom(&hesitant{r: bytes.NewReader(raw), times: maxEmpty - 1})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, file, again.Bytes())

	nothing := &hesitant{left: 1 << 30}
	for _, n := range []int{0, 5, fileHeaderSize, fileHeaderSize + 7, fileHeaderSize + frameHeaderSize + 1, len(file) - footerSize - 1, len(file) - 1, len(file)} {
		_, _, err := decompress(rt, io.MultiReader(bytes.NewReader(file[:n]), nothing))
		require.ErrorIs(t, err, io.ErrNoProgress, "after %d bytes", n)
	}
	w, err = NewWriter(context.Background(), rt, io.Discard, 1)
	require.NoError(t, err)
	_, err = w.ReadFrom(nothing)
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.ErrorIs(t, w.Close(), io.ErrNoProgress)
}

// miscounting returns a count that cannot be: as many more than there are, or
// one below zero.
type miscounting struct {
	more int
	err  error
}

func (m miscounting) count(p []byte) (int, error) {
	if m.more < 0 {
		return m.more, m.err
	}
	return len(p) + m.more, m.err
}

func (m miscounting) Read(p []byte) (int, error)  { return m.count(p) }
func (m miscounting) Write(p []byte) (int, error) { return m.count(p) }

func TestCountsThatCannotBe(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	ctx := context.Background()
	for _, below := range []miscounting{{-1, nil}, {1, nil}, {-1, errDisk}, {1, errDisk}} {
		_, err := NewWriter(ctx, rt, below, 1)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		w, err := NewWriter(ctx, rt, io.Discard, 1)
		require.NoError(t, err)
		_, err = w.ReadFrom(below)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		require.ErrorIs(t, w.Close(), driver.ErrInvalidValue)
		for _, n := range []int{0, fileHeaderSize + frameHeaderSize, len(file)} {
			_, _, err = decompress(rt, io.MultiReader(bytes.NewReader(file[:n]), below))
			require.ErrorIs(t, err, driver.ErrInvalidValue)
		}

		z, err := NewReader(ctx, rt, bytes.NewReader(file))
		require.NoError(t, err)
		f, err := Open(ctx, rt, bytes.NewReader(file), int64(len(file)))
		require.NoError(t, err)
		for _, from := range []interface {
			io.WriterTo
			io.ReadCloser
		}{z, f} {
			n, err := from.WriteTo(below)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			require.Zero(t, n)
			got, err := io.ReadAll(from)
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw, got), "nothing counts as written")
			require.NoError(t, from.Close())
		}
	}
}

// What was written before a failure counts.
func TestWriteToFailure(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	f, err := Open(context.Background(), rt, bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	n, err := f.WriteTo(short{})
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.EqualValues(t, 1, n)
	rest, err := io.ReadAll(f)
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw[1:], rest))
}

// short writes one byte of what it is given.
type short struct{}

func (short) Write([]byte) (int, error) { return 1, nil }

// A small frame behind one of many runs is searched for no more runs than it can have.
func TestFewRunsBehindMany(t *testing.T) {
	rt := openDevice(t)
	pool, err := NewPool(rt)
	require.NoError(t, err)
	raw := make([]byte, 1<<20)
	for i := range raw {
		raw[i] = byte(i / 16)
	}
	for _, size := range []int{len(raw), MinFrame} {
		w, err := NewWriter(t.Context(), rt, io.Discard, 1, WithFrame(size), WithBuffers(1), WithPool(pool))
		require.NoError(t, err)
		_, err = w.Write(raw[:size])
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	s := pool.free[1][0]
	require.LessOrEqual(t, s.fetched, s.room)
	require.NoError(t, pool.Close())
}
