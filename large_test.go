package ptxrun

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// TestLarge goes beyond 2^32 elements, with answers in closed form.
func TestLarge(t *testing.T) {
	const n = 1<<32 + 4097
	eachLargeDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		b, err := NewBuffer[uint8](rt, n)
		require.NoError(t, err)

		require.NoError(t, s.s.Fill(b.Ptr(), 1, n))
		require.NoError(t, InclusiveScanBuffer(s, b, b, Sum))
		// The sums of ones count up, with a period of 256.
		counting := make([]uint8, checkPiece+256)
		for i := range counting {
			counting[i] = uint8(i + 1)
		}
		checkLarge(t, s, b, func(from, n int) []uint8 { return counting[from%256:][:n] })

		sum, err := NewBuffer[uint32](rt, 1)
		require.NoError(t, err)
		require.NoError(t, CRC32CBuffer(s, sum, b))
		checksum, table := uint32(0), crc32.MakeTable(crc32.Castagnoli)
		for from := 0; from < n; from += checkPiece {
			checksum = crc32.Update(checksum, table, counting[from%256:][:min(checkPiece, n-from)])
		}
		got := make([]uint32, 1)
		require.NoError(t, sum.CopyTo(s, got))
		require.Equal(t, checksum, got[0])
		require.NoError(t, sum.Free())

		// Three runs, the second across 2^32, by 32-bit lengths.
		values, err := NewBufferFrom(s, []uint8{7, 9, 11})
		require.NoError(t, err)
		lengths, err := NewBufferFrom(s, []uint32{1<<32 - 2, 5, n - (1<<32 - 2) - 5})
		require.NoError(t, err)
		strategies := []DecodeStrategy{DecodeSinglePass, DecodeTiled}
		if d.name == "cuda" {
			// A block or a warp writes 2^32 elements alone in seconds; one
			// thread would take minutes and find nothing more.
			strategies = append(strategies, DecodeBlock, DecodeWarp)
		}
		const second, third = 1<<32 - 2, 1<<32 + 3
		want := func(from, n int) []uint8 {
			piece := bytes.Repeat([]uint8{7}, n)
			for i := max(0, second-from); i < n; i++ {
				if piece[i] = 9; from+i >= third {
					piece[i] = 11
				}
			}
			return piece
		}
		for _, strategy := range strategies {
			require.NoError(t, s.s.Fill(b.Ptr(), 0, n))
			total, err := RLEDecodeBuffer(s, b, values, lengths, WithDecodeStrategy(strategy))
			require.NoError(t, err)
			require.EqualValues(t, n, total)
			checkLarge(t, s, b, want)
		}

		encodings := []EncodeStrategy{EncodeSinglePass}
		if free, _, err := rt.dev.MemInfo(); err == nil && free > 10*n && d.name == "cuda" {
			encodings = append(encodings, EncodeMarkScan)
		} else {
			t.Log("encoding by mark-scan is left to a GPU with 43 GB free")
		}
		gotValues, err := NewBuffer[uint8](rt, 3)
		require.NoError(t, err)
		gotLengths, err := NewBuffer[uint32](rt, 3)
		require.NoError(t, err)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		c, v, l := make([]uint64, 1), make([]uint8, 3), make([]uint32, 3)
		for _, strategy := range encodings {
			require.NoError(t, cmp.Or(s.s.Fill(gotValues.Ptr(), 0, 3), s.s.Fill(gotLengths.Ptr(), 0, 12), s.s.Fill(count.Ptr(), 0, 8)))
			require.NoError(t, RLEEncodeBuffer(s, gotValues, gotLengths, count, b, WithEncodeStrategy(strategy)))
			require.NoError(t, cmp.Or(count.CopyTo(s, c), gotValues.CopyTo(s, v), gotLengths.CopyTo(s, l)))
			require.Equal(t, []uint64{3}, c)
			require.Equal(t, []uint8{7, 9, 11}, v)
			require.Equal(t, []uint32{1<<32 - 2, 5, n - (1<<32 - 2) - 5}, l)
		}

		// One run of more than 32 bits is refused before anything is written.
		require.NoError(t, s.s.Fill(b.Ptr(), 4, n))
		require.ErrorIs(t, RLEEncodeBuffer(s, gotValues, gotLengths, count, b), driver.ErrOverflow)
		require.NoError(t, gotValues.CopyTo(s, v))
		require.Equal(t, []uint8{7, 9, 11}, v)
		require.NoError(t, cmp.Or(gotValues.Free(), gotLengths.Free(), count.Free()))
		require.NoError(t, cmp.Or(b.Free(), values.Free(), lengths.Free(), s.Close()))
	})
}

// checkLarge reads the buffer back in pieces; want gives n elements from from on.
func checkLarge(t *testing.T, s *Stream, b *Buffer[uint8], want func(from, n int) []uint8) {
	t.Helper()
	got := make([]uint8, checkPiece)
	for from := 0; from < b.Len(); from += checkPiece {
		n := min(checkPiece, b.Len()-from)
		v, err := b.Slice(from, from+n)
		require.NoError(t, err)
		require.NoError(t, v.CopyTo(s, got[:n]))
		if w := want(from, n); !bytes.Equal(w, got[:n]) {
			requireSame(t, w, got[:n], "from element %d on", from)
		}
	}
}

const checkPiece = 64 << 20
