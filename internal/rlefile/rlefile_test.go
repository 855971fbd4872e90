package rlefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

var widths = []int{1, 2, 4, 8}

// openDevice returns a runtime on the host's processor that must have its
// memory back when the test ends.
func openDevice(t testing.TB) *ptxrun.Runtime {
	t.Helper()
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close(), "nothing is left on the device") })
	return rt
}

// compress writes raw with frames of limit bytes.
func compress(t testing.TB, rt *ptxrun.Runtime, raw []byte, width, limit int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &file, width)
	require.NoError(t, err)
	w.limit = limit
	_, err = w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.EqualValues(t, len(raw), w.Stats().Raw)
	require.EqualValues(t, file.Len(), w.Stats().Encoded)
	return file.Bytes()
}

func decompress(rt *ptxrun.Runtime, r io.Reader) ([]byte, Stats, error) {
	z, err := NewReader(context.Background(), rt, r)
	if err != nil {
		return nil, Stats{}, err
	}
	raw, err := io.ReadAll(z)
	return raw, z.Stats(), err
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
}

func TestRoundTrip(t *testing.T) {
	rt := openDevice(t)
	const limit = 4096
	for _, width := range widths {
		for name, data := range datasets {
			for _, n := range []int{0, 1, 7, 8, 9, limit - 1, limit, limit + 1, 3*limit + 5} {
				t.Run(fmt.Sprintf("%d/%s/%d", width, name, n), func(t *testing.T) {
					raw := data(n)
					file := compress(t, rt, raw, width, limit)
					got, stats, err := decompress(rt, bytes.NewReader(file))
					require.NoError(t, err)
					require.True(t, bytes.Equal(raw, got), "the bytes differ")
					whole := n / width * width
					assert.EqualValues(t, (whole+limit-1)/limit, stats.Frames)
					assert.EqualValues(t, n, stats.Raw)
					assert.EqualValues(t, len(file), stats.Encoded)
					assert.LessOrEqual(t, len(file), n+fileHeaderSize+frameHeaderSize*int(stats.Frames+1), "grew by more than headers")
				})
			}
		}
	}
}

// A frame of the full size takes the path that other tests shorten, and its one
// run the longest length there is.
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
}

// The order of writes and reads and their sizes must not matter.
func TestSmallPieces(t *testing.T) {
	rt := openDevice(t)
	raw := datasets["runs"](10_001)
	var file bytes.Buffer
	w, err := NewWriter(context.Background(), rt, &file, 4)
	require.NoError(t, err)
	w.limit = 1024
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, iotest.OneByteReader(bytes.NewReader(raw)), make([]byte, 7))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Equal(t, compress(t, rt, raw, 4, 1024), file.Bytes())

	z, err := NewReader(context.Background(), rt, iotest.HalfReader(&file))
	require.NoError(t, err)
	assert.Equal(t, 4, z.Width())
	assert.NoError(t, iotest.TestReader(z, raw))
}

// sample is a file with frames of both kinds and a tail.
func sample(t testing.TB, rt *ptxrun.Runtime) (raw, file []byte) {
	raw = bytes.Join([][]byte{datasets["runs"](512), datasets["random"](256), make([]byte, 259)}, nil)
	file = compress(t, rt, raw, 4, 256)
	return raw, file
}

func requireCorrupt(t *testing.T, err error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, driver.ErrCorrupt)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

func TestEveryChangedByteIsSeen(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	for i := range file {
		for _, bit := range []byte{1, 0x10, 0x80} {
			changed := bytes.Clone(file)
			changed[i] ^= bit
			_, _, err := decompress(rt, bytes.NewReader(changed))
			require.ErrorIs(t, err, driver.ErrCorrupt, "bit %#x of byte %d", bit, i)
		}
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	for n := range file {
		got, _, err := decompress(rt, bytes.NewReader(file[:n]))
		require.ErrorIs(t, err, driver.ErrCorrupt, "after %d bytes", n)
		require.True(t, bytes.HasPrefix(raw, got), "after %d bytes", n)
	}
}

func TestTrailingBytes(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	_, _, err := decompress(rt, bytes.NewReader(append(file, 0)))
	requireCorrupt(t, err, "more bytes follow the end frame")
	_, _, err = decompress(rt, bytes.NewReader(append(file, file...)))
	requireCorrupt(t, err, "more bytes follow the end frame")
}

// frame builds a data frame by hand.
func frame(h frameHeader, payload string) []byte {
	h.payload = uint32(len(payload))
	return append(h.append(nil), payload...)
}

func join(frames ...[]byte) []byte {
	return append(appendFileHeader(nil, 1), bytes.Join(frames, nil)...)
}

func checksum(s string) uint32 { return crc32.Checksum([]byte(s), castagnoli) }

func TestContradictions(t *testing.T) {
	rt := openDevice(t)
	aab := frameHeader{kind: kindRuns, runs: 2, raw: 3, data: checksum("aab")}
	stored := frameHeader{kind: kindStored, raw: 2, data: checksum("xy")}
	end := func(raw uint64, data string) []byte {
		return frame(frameHeader{kind: kindEnd, raw: raw, data: checksum(data)}, "")
	}
	with := func(h frameHeader, change func(*frameHeader)) frameHeader { change(&h); return h }
	flagged := frame(aab, "ab\x01\x00")
	flagged[2] = 1
	binary.LittleEndian.PutUint32(flagged[24:], checksum(string(flagged[:24])))
	version2 := appendFileHeader(nil, 1)
	version2[6] = 2
	binary.LittleEndian.PutUint32(version2[8:], checksum(string(version2[:8])))

	valid := join(frame(aab, "ab\x01\x00"), end(3, "aab"))
	got, _, err := decompress(rt, bytes.NewReader(valid))
	require.NoError(t, err)
	require.Equal(t, "aab", string(got))

	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":              {nil, "not an .rle file"},
		"another format":     {[]byte("BM\x00\x00"), "not an .rle file"},
		"header cut off":     {[]byte(magic), "ends in its header, after 6 bytes"},
		"version":            {version2, "version 2"},
		"width":              {appendFileHeader(nil, 3), "elements of 3 bytes"},
		"no end frame":       {join(frame(aab, "ab\x01\x00")), "frame 1 at byte 44: the file ends without an end frame"},
		"flags":              {join(flagged), "frame 0 at byte 12: unknown flags"},
		"kind 0":             {join(frame(frameHeader{}, "")), "unknown kind 0"},
		"kind 4":             {join(frame(frameHeader{kind: 4}, "")), "unknown kind 4"},
		"too large":          {join(frame(with(aab, func(h *frameHeader) { h.raw = MaxFrame + 1 }), "ab\x01\x00")), "a frame has 67108864 at most"},
		"larger than 2^63":   {join(frame(with(aab, func(h *frameHeader) { h.raw = 1 << 63 }), "ab\x01\x00")), "at most"},
		"nothing in it":      {join(frame(with(aab, func(h *frameHeader) { h.raw = 0 }), "ab\x01\x00")), "0 bytes decoded"},
		"part of an element": {append(appendFileHeader(nil, 2), frame(aab, "aabb\x00\x00")...), "3 bytes decoded, in elements of 2"},
		"no runs":            {join(frame(with(aab, func(h *frameHeader) { h.runs = 0 }), "")), "0 runs in 3 elements"},
		"more runs":          {join(frame(with(aab, func(h *frameHeader) { h.runs = 4 }), "abcd\x00\x00\x00\x00")), "4 runs in 3 elements"},
		"payload short":      {join(frame(aab, "ab\x01")), "3 bytes for 2 runs"},
		"payload long":       {join(frame(aab, "ab\x01\x00"+strings.Repeat("\x00", 9))), "13 bytes for 2 runs"},
		"left over":          {join(frame(aab, "ab\x01\x00\x00")), "1 bytes left over"},
		"sum small":          {join(frame(aab, "ab\x00\x00")), "add up to 2 of 3"},
		"sum large":          {join(frame(aab, "ab\x01\x01")), "more than 3 elements at run 1"},
		"length cut off":     {join(frame(aab, "ab\x01\x80")), "length of run 1 is cut off"},
		"length of 2^63":     {join(frame(aab, "ab\xff\xff\xff\xff\xff\xff\xff\xff\x7f")), "more than 3 elements at run 0"},
		"length of 2^34":     {join(frame(aab, "ab\xff\xff\xff\xff\x3f\x00")), "more than 3 elements at run 0"},
		"values":             {join(frame(aab, "ac\x01\x00")), "frame 0 at byte 12: the data's checksum"},
		"stored and runs":    {join(frame(with(stored, func(h *frameHeader) { h.runs = 1 }), "xy")), "1 runs in a frame without runs"},
		"stored short":       {join(frame(stored, "x")), "1 bytes stored for 2"},
		"stored changed":     {join(frame(stored, "xz")), "the data's checksum"},
		"total":              {join(frame(aab, "ab\x01\x00"), end(4, "aab")), "frame 1 at byte 44: the end frame counts 4 bytes, the frames hold 3"},
		"total checksum":     {join(frame(aab, "ab\x01\x00"), end(3, "aac")), "the data's checksum"},
		"tail of no element": {join(frame(frameHeader{kind: kindEnd, raw: 1, data: checksum("t")}, "t")), "1 bytes after the last whole element"},
		"frame repeated":     {join(frame(aab, "ab\x01\x00"), frame(aab, "ab\x01\x00"), end(6, "aabaab")), "frame 1 at byte 44: the data's checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := decompress(rt, bytes.NewReader(c.file))
			requireCorrupt(t, err, c.want)
		})
	}
}

// What a header claims must cost nothing until the data is there.
func TestHostileSizesTakeNoMemory(t *testing.T) {
	rt := openDevice(t)
	const claimed = MaxFrame / 6
	for name, h := range map[string]frameHeader{
		"runs":   {kind: kindRuns, runs: claimed, raw: MaxFrame, payload: 6 * claimed},
		"stored": {kind: kindStored, raw: MaxFrame, payload: MaxFrame},
	} {
		t.Run(name, func(t *testing.T) {
			file := join(h.append(nil), make([]byte, 1000))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := decompress(rt, bytes.NewReader(file))
			runtime.ReadMemStats(&after)
			requireCorrupt(t, err, "after 1000 of")
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
		})
	}
}

func TestWidthThatIsNone(t *testing.T) {
	rt := openDevice(t)
	var file bytes.Buffer
	for _, width := range []int{-1, 0, 3, 16} {
		_, err := NewWriter(context.Background(), rt, &file, width)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
	}
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
		w, err := NewWriter(context.Background(), rt, &failingWriter{n}, 4)
		if err == nil {
			w.limit = 256
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

func TestWriteAfterClose(t *testing.T) {
	rt := openDevice(t)
	w, err := NewWriter(context.Background(), rt, io.Discard, 1)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	_, err = w.Write([]byte{1})
	require.ErrorIs(t, err, driver.ErrClosed)
}

func TestCancel(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWriter(ctx, rt, io.Discard, 1)
	require.NoError(t, err)
	z, err := NewReader(ctx, rt, bytes.NewReader(file))
	require.NoError(t, err)
	cancel()
	_, err = w.Write([]byte{1})
	require.NoError(t, err, "buffering needs no device")
	require.ErrorIs(t, w.Close(), context.Canceled)
	_, err = io.ReadAll(z)
	require.ErrorIs(t, err, context.Canceled)
}

func TestClosedRuntime(t *testing.T) {
	_, file := sample(t, openDevice(t))
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	require.NoError(t, rt.Close())
	_, _, err = decompress(rt, bytes.NewReader(file))
	require.ErrorIs(t, err, driver.ErrClosed)
}
