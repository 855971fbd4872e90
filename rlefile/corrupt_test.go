package rlefile

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
)

// sample is a file with frames of both kinds and a tail.
func sample(t testing.TB, rt *ptxrun.Runtime) (raw, file []byte) {
	raw = bytes.Join([][]byte{datasets["constant"](MinFrame), datasets["skewed"](400), make([]byte, MinFrame-400), datasets["random"](103)}, nil)
	file = compress(t, rt, raw, 4, MinFrame)
	require.Less(t, len(file), 1000)
	return raw, file
}

func requireCorrupt(t *testing.T, err error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, driver.ErrCorrupt)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

// both decompresses with a Reader and a File and returns their errors.
func both(t *testing.T, rt *ptxrun.Runtime, file []byte) (raw []byte, stream, atOnce error) {
	raw, _, stream = decompress(rt, bytes.NewReader(file))
	again, _, atOnce := decompressFile(rt, file)
	if stream == nil && atOnce == nil {
		require.True(t, bytes.Equal(raw, again))
	}
	return raw, stream, atOnce
}

func TestEveryChangedByteIsSeen(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	for i := range file {
		for _, bit := range []byte{1, 0x10, 0x80} {
			changed := bytes.Clone(file)
			changed[i] ^= bit
			_, stream, atOnce := both(t, rt, changed)
			require.ErrorIs(t, stream, driver.ErrCorrupt, "bit %#x of byte %d", bit, i)
			require.ErrorIs(t, atOnce, driver.ErrCorrupt, "bit %#x of byte %d", bit, i)
		}
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	rt := openDevice(t)
	raw, file := sample(t, rt)
	for n := range file {
		got, stream, atOnce := both(t, rt, file[:n])
		require.ErrorIs(t, stream, driver.ErrCorrupt, "after %d bytes", n)
		require.ErrorIs(t, atOnce, driver.ErrCorrupt, "after %d bytes", n)
		require.True(t, bytes.HasPrefix(raw, got), "after %d bytes", n)
	}
}

func TestTrailingBytes(t *testing.T) {
	rt := openDevice(t)
	_, file := sample(t, rt)
	for _, more := range [][]byte{{0}, file} {
		_, stream, _ := both(t, rt, append(bytes.Clone(file), more...))
		requireCorrupt(t, stream, "frame 4 at byte ", "more bytes follow the footer")
	}
	_, _, atOnce := both(t, rt, append(bytes.Clone(file), 0))
	requireCorrupt(t, atOnce, "more bytes follow it")
	_, _, atOnce = both(t, rt, append(bytes.Clone(file), file...))
	requireCorrupt(t, atOnce)
}

// builder makes files by hand, every checksum right.
type builder struct {
	file          []byte
	sum           uint32
	entries       []byte
	frames        uint32
	raw, runs     int64
	beforeIndex   func(*frameHeader)
	beforeFooter  func(*footer)
	changeEntries func([]byte)
}

func newBuilder(width int) *builder {
	h := fileHeader{width: width, limit: MinFrame}
	b := &builder{file: h.append(nil)}
	b.sum = h.sum
	return b
}

func (b *builder) frame(h frameHeader, payload, decoded string) *builder {
	if h.payload == 0 {
		h.payload = uint32(len(payload))
	}
	h.data = checksum([]byte(decoded))
	at := len(b.file)
	b.file = append(b.file, make([]byte, frameHeaderSize)...)
	h.put(b.file[at:], b.sum)
	b.sum = h.sum
	b.file = append(b.file, payload...)
	b.entries = h.appendEntry(b.entries)
	b.frames, b.raw, b.runs = b.frames+1, b.raw+int64(h.raw), b.runs+int64(h.runs)
	return b
}

func (b *builder) end() []byte {
	if b.changeEntries != nil {
		b.changeEntries(b.entries)
	}
	h := frameHeader{kind: kindIndex, payload: uint32(len(b.entries)), data: checksum(b.entries)}
	if b.beforeIndex != nil {
		b.beforeIndex(&h)
	}
	at := len(b.file)
	b.file = append(b.file, make([]byte, frameHeaderSize)...)
	h.put(b.file[at:], b.sum)
	b.file = append(b.file, b.entries...)
	f := footer{raw: b.raw, runs: b.runs, frames: b.frames, index: h.sum}
	if b.beforeFooter != nil {
		b.beforeFooter(&f)
	}
	return f.append(b.file)
}

func TestContradictions(t *testing.T) {
	rt := openDevice(t)
	runs := frameHeader{kind: kindRuns, size: 1, runs: 2, raw: 5}
	const payload, decoded = "ab\x03\x00", "aaaab"
	stored := frameHeader{kind: kindStored, raw: 2}
	with := func(h frameHeader, change func(*frameHeader)) frameHeader { change(&h); return h }
	valid := func() *builder { return newBuilder(1).frame(runs, payload, decoded).frame(stored, "xy", "xy") }
	one := func(h frameHeader, payload string) []byte { return newBuilder(1).frame(h, payload, decoded).end() }
	changed := func(change func(*builder)) []byte {
		b := valid()
		change(b)
		return b.end()
	}
	headerOf := func(width int, limit uint32, at int, value byte) []byte {
		h := fileHeader{width: width, limit: limit}
		b := h.append(nil)
		if at > 0 {
			b[at] = value
			le.PutUint32(b[12:], checksum(b[:12]))
		}
		return append(b, valid().end()[fileHeaderSize:]...)
	}

	raw, stream, atOnce := both(t, rt, valid().end())
	require.NoError(t, stream)
	require.NoError(t, atOnce)
	require.Equal(t, decoded+"xy", string(raw))

	const large = 1 << 30
	for name, c := range map[string]struct {
		file   []byte
		stream string
		atOnce string // if it differs
	}{
		"empty":          {nil, "not an .rle file", ""},
		"another format": {[]byte("BM\x00\x00"), "not an .rle file", ""},
		"header cut off": {[]byte(Magic), "ends in its header, after 6 bytes", ""},
		"version":        {headerOf(1, MinFrame, 6, 2), "version 2", ""},
		"width":          {headerOf(3, MinFrame, 0, 0), "elements of 3 bytes", ""},
		"limit":          {headerOf(1, MaxFrame+1, 0, 0), "frames of up to 16777217 bytes", ""},
		"no limit":       {headerOf(1, 0, 0, 0), "frames of up to 0 bytes", ""},
		"another header": {headerOf(1, MinFrame+1, 0, 0), "frame 0 at byte 16: the header's checksum", "frame 0 at byte 16: the header's checksum"},
		"no index":       {valid().file, "frame 2 at byte 70: the file ends without an index", "a file of 70 bytes has no index"},

		"kind 0":             {one(with(runs, func(h *frameHeader) { h.kind = 0 }), payload), "frame 0 at byte 16: unknown kind 0", ""},
		"kind 4":             {one(with(runs, func(h *frameHeader) { h.kind = 4 }), payload), "unknown kind 4", ""},
		"too large":          {one(with(runs, func(h *frameHeader) { h.raw = MinFrame + 1 }), payload), "a frame of this file has 1 to 4096", "a frame of impossible size"},
		"nothing in it":      {one(with(runs, func(h *frameHeader) { h.raw = 0 }), payload), "0 bytes decoded", "a frame of impossible size"},
		"part of an element": {newBuilder(2).frame(runs, "aabb\x01\x00", "aaaab").end(), "5 bytes decoded, in elements of 2", "a frame of impossible size"},
		"size 3":             {one(with(runs, func(h *frameHeader) { h.size = 3; h.runs = 1 }), "a\x04\x00\x00"), "run lengths of 3 bytes", ""},
		"no runs":            {one(with(runs, func(h *frameHeader) { h.runs = 0 }), "a"), "0 runs in 5 elements", ""},
		"more runs":          {one(with(runs, func(h *frameHeader) { h.runs = 6 }), payload), "6 runs in 5 elements", ""},
		"huge runs":          {one(with(runs, func(h *frameHeader) { h.runs = large; h.raw = 2 * large; h.payload = 2*large - 1 }), payload), "a frame of this file has", "the index"},
		"payload short":      {one(runs, "ab\x03"), "3 bytes for 2 runs", ""},
		"payload long":       {one(with(runs, func(h *frameHeader) { h.raw = 9 }), payload+"\x00"), "5 bytes for 2 runs", ""},
		"no gain":            {one(with(runs, func(h *frameHeader) { h.raw = 4 }), "ab\x02\x00"), "4 bytes of runs for 4 decoded", ""},
		"sum small":          {one(runs, "ab\x02\x00"), "frame 0 at byte 16: the lengths add up to 4 of 5", ""},
		"sum large":          {one(runs, "ab\xff\xff"), "the lengths add up to 512 of 5", ""},
		"sum beyond 2^32": {newBuilder(1).frame(frameHeader{kind: kindRuns, size: 4, runs: 2, raw: 12}, "ab\xff\xff\xff\xff\x0b\x00\x00\x00", "aaaaaaaaaaaa").end(),
			"the lengths add up to 4294967308 of 12", ""},
		"values":              {one(runs, "ac\x03\x00"), "frame 0 at byte 16: the data's checksum", ""},
		"stored and runs":     {one(with(stored, func(h *frameHeader) { h.runs = 1 }), "xy"), "1 runs with lengths of 0 bytes in a frame without runs", ""},
		"stored short":        {one(stored, "x"), "1 bytes stored for 2", ""},
		"stored changed":      {newBuilder(1).frame(stored, "xz", "xy").end(), "the data's checksum", ""},
		"tail in the middle":  {newBuilder(2).frame(with(stored, func(h *frameHeader) { h.raw = 1 }), "x", "x").frame(stored, "xy", "xy").end(), "frame 1 at byte 41: a frame follows the part of an element", "frame 0 at byte 16: part of an element within the file"},
		"tail of two":         {newBuilder(2).frame(with(stored, func(h *frameHeader) { h.raw = 3 }), "xyz", "xyz").end(), "3 bytes decoded, in elements of 2", ""},
		"index of one":        {changed(func(b *builder) { b.entries = b.entries[:12] }), "an index of 12 bytes; 2 frames need 24", "2 frames and their index in a file of 138 bytes"},
		"index with raw":      {changed(func(b *builder) { b.beforeIndex = func(h *frameHeader) { h.raw = 1 } }), "1 bytes decoded from an index", ""},
		"index's checksum":    {changed(func(b *builder) { b.beforeIndex = func(h *frameHeader) { h.data++ } }), "the index is not that of the frames", "the index's checksum"},
		"index lies of place": {changed(func(b *builder) { b.changeEntries = func(e []byte) { e[4]-- } }), "the index is not that of the frames", "does not fit the frames"},
		"index swaps places": {changed(func(b *builder) {
			b.changeEntries = func(e []byte) { e[0], e[12], e[4], e[16] = e[12], e[0], e[16], e[4] }
		}), "the index is not that of the frames", "frame 0 at byte 16: not the frame that the index has here"},
		"index of more":   {changed(func(b *builder) { b.changeEntries = func(e []byte) { e[0]++; b.raw++ } }), "the index is not that of the frames", "not the frame that the index has here"},
		"footer's bytes":  {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.raw++ } }), "frame 2 at byte 70: the footer counts 8 bytes", "the footer counts 8 bytes"},
		"footer's runs":   {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.runs++ } }), "the footer counts 7 bytes, 3 runs", "-"},
		"footer's frames": {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.frames = large } }), "the footer counts 1073741824 frames", ""},
		"frames of a million": {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.frames = 1 << 20 } }),
			"the footer counts 7 bytes, 2 runs, 1048576 frames", "1048576 frames and their index in a file of"},
		"negative":       {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.raw = -1 } }), "the footer counts", ""},
		"another footer": {changed(func(b *builder) { b.beforeFooter = func(f *footer) { f.index++ } }), "the footer is that of another index", ""},
		"frame repeated": {changed(func(b *builder) { b.file = append(b.file, b.file[fileHeaderSize:44]...) }), "frame 2 at byte 70: the header's checksum", "does not fit the frames"},
		"frames swapped": {changed(func(b *builder) {
			f := b.file[fileHeaderSize:]
			copy(f, append(bytes.Clone(f[28:]), f[:28]...))
		}), "frame 0 at byte 16: the header's checksum", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, stream, atOnce := both(t, rt, c.file)
			requireCorrupt(t, stream, c.stream)
			switch c.atOnce {
			case "-": // what only a reading of all frames shows
				require.NoError(t, atOnce)
			case "":
				requireCorrupt(t, atOnce, c.stream)
			default:
				requireCorrupt(t, atOnce, c.atOnce)
			}
		})
	}
}

// What a file claims costs nothing until the data is there, neither on the heap
// nor of the device's memory, which is less here than what is claimed.
func TestHostileSizesTakeNoMemory(t *testing.T) {
	dev, err := cpu.Open(cpu.WithMemoryLimit(256 << 10))
	require.NoError(t, err)
	rt := onDevice(t, dev)
	h := fileHeader{width: 1, limit: MaxFrame}
	start := h.append(nil)
	for name, f := range map[string]frameHeader{
		"runs":    {kind: kindRuns, size: 1, runs: MaxFrame / 4, raw: MaxFrame, payload: MaxFrame / 2},
		"one run": {kind: kindRuns, size: 4, runs: 1, raw: MaxFrame, payload: 5},
		"stored":  {kind: kindStored, raw: MaxFrame, payload: MaxFrame},
	} {
		t.Run(name, func(t *testing.T) {
			b := builder{file: bytes.Clone(start), sum: h.sum}
			file := b.frame(f, string(make([]byte, 1000)), "").end()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, stream, atOnce := both(t, rt, file)
			runtime.ReadMemStats(&after)
			requireCorrupt(t, stream, "frame 0 at byte 16: ")
			requireCorrupt(t, atOnce)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<10))
		})
	}
}

// FuzzReader gives a Reader and a File any bytes. With repair, checksums are put
// right first, so that the fuzzer gets past them. A file is refused as corrupt,
// or what it decodes to survives compression; the device's memory bounds what a
// file can take.
func FuzzReader(f *testing.F) {
	dev, err := cpu.Open(cpu.WithMemoryLimit(8 << 20))
	require.NoError(f, err)
	rt := onDevice(f, dev)
	raw, file := sample(f, rt)
	f.Add(file, false)
	f.Add(file, true)
	f.Add(compress(f, rt, nil, 1, MinFrame), true)
	f.Add(compress(f, rt, raw[:8], 8, MinFrame), true)
	f.Add(compress(f, rt, raw[MinFrame:][:600], 2, MinFrame), true)
	f.Add(newBuilder(1).frame(frameHeader{kind: kindRuns, size: 1, runs: 2, raw: 5}, "ab\x03\x00", "aaaab").end(), true)
	f.Fuzz(func(t *testing.T, file []byte, repair bool) {
		if repair {
			file = repaired(file)
		}
		if len(file) > 8 && file[8] > 0 || len(file) > 11 && file[11] > 0 || len(file) > 10 && file[10] > 1 {
			return // frames beyond 128 KiB, which would make it slow
		}
		raw, stream, atOnce := both(t, rt, file)
		if stream != nil {
			require.ErrorIs(t, stream, driver.ErrCorrupt)
		}
		if atOnce != nil {
			require.ErrorIs(t, atOnce, driver.ErrCorrupt)
			require.Error(t, stream, "the stream does not see what the index shows")
		}
		if stream == nil {
			again, _, err := decompress(rt, bytes.NewReader(compress(t, rt, raw, int(file[7]), MinFrame)))
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw, again))
		}
	})
}

// repaired is file with every checksum put right but that of decoded data, as far
// as the headers can be followed.
func repaired(file []byte) []byte {
	file = bytes.Clone(file)
	if len(file) < fileHeaderSize {
		return file
	}
	sum := checksum(file[:12])
	le.PutUint32(file[12:], sum)
	for rest := file[fileHeaderSize:]; len(rest) >= frameHeaderSize; {
		payload := int(le.Uint32(rest[12:]))
		end := min(payload, len(rest)-frameHeaderSize) + frameHeaderSize
		if rest[0] == kindIndex {
			le.PutUint32(rest[16:], checksum(rest[frameHeaderSize:end]))
		}
		sum = headerSum(rest, sum)
		le.PutUint32(rest[20:], sum)
		if rest[0] == kindIndex && len(rest)-end == footerSize {
			foot := rest[end:]
			le.PutUint32(foot[20:], sum)
			le.PutUint32(foot[24:], checksum(foot[:24]))
		}
		rest = rest[end:]
	}
	return file
}
