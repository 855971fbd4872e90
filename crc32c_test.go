package ptxrun

import (
	"context"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestCRC32C(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(32, 3))
		sizes := []int{0, 1, 3, 4, 5, 127, 128, 129, 4 * crcBlock, 4*crcBlock + 4, 4*5*crcBlock + 3}
		if !testing.Short() && d.target <= 70 { // the one variant; threads take a second and a third word
			sizes = append(sizes, 8*crcBlock*crcBlocks+64)
		}
		for _, n := range sizes {
			for skew := range 4 { // alignments
				data := make([]byte, n)
				for i := range data {
					data[i] = byte(r.Uint32())
				}
				sum, src := newGuarded[uint32](t, s, 1, 0), newGuarded[byte](t, s, n, skew)
				require.NoError(t, src.CopyFrom(s, data))
				require.NoError(t, CRC32CBuffer(s, sum.Buffer, src.Buffer))
				require.Equal(t, crc32.Checksum(data, table), sum.check(t, s, "sum")[0], "%d bytes at %d", n, skew)
				requireSame(t, data, src.check(t, s, "src"), "src")
				if n > 8*crcBlock {
					break
				}
			}
		}
		require.NoError(t, s.Close())
	})
}

func TestCRC32CRefuses(t *testing.T) {
	rt, other := openCPU(t), openCPU(t)
	s, err := NewStream(rt)
	require.NoError(t, err)
	words, err := NewBuffer[uint32](rt, 4)
	require.NoError(t, err)
	foreign, err := NewBuffer[uint32](other, 4)
	require.NoError(t, err)
	view := func(b *Buffer[uint32], from, to int) *Buffer[uint32] {
		v, err := b.Slice(from, to)
		require.NoError(t, err)
		return v
	}
	for code, call := range map[driver.Code]func() error{
		driver.ErrNil:         func() error { return CRC32CBuffer[uint32](s, nil, words) },
		driver.ErrWrongDevice: func() error { return CRC32CBuffer(s, view(words, 0, 1), foreign) },
		driver.ErrLength:      func() error { return CRC32CBuffer(s, view(words, 0, 2), view(words, 2, 4)) },
		driver.ErrOverlap:     func() error { return CRC32CBuffer(s, view(words, 1, 2), words) },
	} {
		assert.ErrorIs(t, call(), code)
	}
	require.NoError(t, foreign.Free())
	require.NoError(t, words.Free())
	require.NoError(t, s.Wait(context.Background()))
	require.NoError(t, s.Close())
	assert.ErrorIs(t, CRC32CBuffer(s, view(words, 0, 1), view(words, 1, 4)), driver.ErrClosed)
}
