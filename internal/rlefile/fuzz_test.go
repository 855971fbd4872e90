package rlefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// FuzzReader gives the reader any bytes. With repair, header checksums are put
// right first, so that the fuzzer gets past them. A file is refused as corrupt,
// or what it decodes to survives compression.
func FuzzReader(f *testing.F) {
	rt := openDevice(f)
	raw, file := sample(f, rt)
	f.Add(file, false)
	f.Add(file, true)
	f.Add(compress(f, rt, nil, 1, MaxFrame), true)
	f.Add(compress(f, rt, raw[:8], 8, MaxFrame), true)
	f.Add(compress(f, rt, raw[:600], 2, 128), true)
	f.Add(join(frame(frameHeader{kind: kindRuns, runs: 2, raw: 3, data: checksum("aab")}, "ab\x01\x00")), true)
	f.Fuzz(func(t *testing.T, file []byte, repair bool) {
		if repair {
			file = repaired(file)
		}
		z, err := NewReader(context.Background(), rt, bytes.NewReader(file))
		if err != nil {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			return
		}
		z.maxFrame = 1 << 16 // so that a file of many small frames cannot be slow
		raw, err := io.ReadAll(z)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			return
		}
		again, _, err := decompress(rt, bytes.NewReader(compress(t, rt, raw, z.Width(), 1<<16)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, again))
	})
}

// repaired is file with every header's checksum put right, as far as the
// headers can be followed.
func repaired(file []byte) []byte {
	file = bytes.Clone(file)
	seal := func(h []byte) {
		sum := len(h) - 4
		binary.LittleEndian.PutUint32(h[sum:], crc32.Checksum(h[:sum], castagnoli))
	}
	if len(file) < fileHeaderSize {
		return file
	}
	seal(file[:fileHeaderSize])
	for rest := file[fileHeaderSize:]; len(rest) >= frameHeaderSize; {
		seal(rest[:frameHeaderSize])
		payload := int(binary.LittleEndian.Uint32(rest[16:]))
		rest = rest[frameHeaderSize:]
		rest = rest[min(payload, len(rest)):]
	}
	return file
}
