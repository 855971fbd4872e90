package cpu

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// TestBeyond32Bits decodes, encodes and scans 2^32 bytes and some more, in one
// buffer of 4 GiB.
func TestBeyond32Bits(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs 4 GiB of memory")
	}
	if raceEnabled {
		t.Skip("the race detector: its shadow of 4 GiB does not fit")
	}
	const (
		n    = 1<<32 + 5000
		tile = 4096
	)
	d := open(t)
	s := stream(t, d)
	run := func(twin driver.Twin, a *driver.Args) {
		t.Helper()
		require.NoError(t, s.Launch(loadKernel(t, d, twin), shape, a))
		a.Release()
		require.NoError(t, s.Synchronize())
	}
	var held []driver.Ptr
	alloc := func(bytes int64) driver.Ptr {
		p, err := d.Alloc(bytes)
		require.NoError(t, err)
		held = append(held, p)
		return p
	}
	space := d.(*hostdev.Device).Space()

	// Runs that end on either side of the limits of 31 and 32 bits, of elements
	// whose value is 1 but for one 2 each.
	ends := []uint64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<32 + 2, n}
	values := []byte{1, 2, 1, 2, 1, 2, 1}
	runs := uint64(len(ends))
	buffer, valuesAt, endsAt := alloc(n), alloc(int64(runs)), alloc(8*int64(runs))
	require.NoError(t, s.CopyToDevice(valuesAt, values))
	e, err := driver.Slice[uint64](space, endsAt, int64(runs))
	require.NoError(t, err)
	copy(e, ends)
	run(twin.RLEDecode[uint8](), driver.NewArgs().Ptr(valuesAt).Ptr(endsAt).Uint64(runs).Ptr(buffer).Uint64(n))

	startsAt, countAt, lengthsAt := alloc(8*int64(runs)), alloc(8), alloc(8*int64(runs))
	starts, err := driver.Slice[uint64](space, startsAt, int64(runs))
	require.NoError(t, err)
	copy(starts[1:], ends)
	starts[0] = 0
	count, err := driver.Slice[uint64](space, countAt, 1)
	require.NoError(t, err)
	count[0] = runs
	require.NoError(t, s.Fill(valuesAt, 0, int64(runs)))
	check := func() {
		t.Helper()
		got := make([]byte, runs)
		require.NoError(t, s.CopyToHost(got, valuesAt))
		assert.Equal(t, values, got)
		lengths, err := driver.Slice[uint64](space, lengthsAt, int64(runs))
		require.NoError(t, err)
		for r, l := range lengths {
			assert.Equal(t, ends[r]-starts[r], l, r)
		}
	}
	run(twin.RLEFinish[uint8, uint64, uint64](), driver.NewArgs().
		Ptr(buffer).Uint64(n).Ptr(startsAt).Ptr(countAt).Uint64(runs).Ptr(valuesAt).Ptr(lengthsAt))
	check()
	require.NoError(t, s.Fill(valuesAt, 0, int64(runs)))
	require.NoError(t, s.Fill(lengthsAt, 0, 8*int64(runs)))
	run(twin.RLEEncode[uint8, uint64](), driver.NewArgs().
		Ptr(buffer).Uint64(n).Ptr(valuesAt).Ptr(lengthsAt).Uint64(runs).Ptr(countAt).Ptr(0).Ptr(0).Uint32(0))
	check()
	require.EqualValues(t, runs, count[0])

	const tiles = (n + tile - 1) / tile
	sum := twin.Sum[uint8]()
	sums := alloc(tiles)
	run(twin.ScanUpsweep(sum, tile), driver.NewArgs().Ptr(buffer).Uint64(n).Ptr(sums))
	run(twin.ScanDownsweep(sum, tiles), driver.NewArgs().Ptr(sums).Ptr(sums).Uint64(tiles).Ptr(0).Bytes([]byte{0}, 1).Uint32(1))
	run(twin.ScanDownsweep(sum, tile), driver.NewArgs().Ptr(buffer).Ptr(buffer).Uint64(n).Ptr(sums).Bytes([]byte{0}, 1).Uint32(0))

	// Element i is i+1 and the number of twos up to there.
	all, err := driver.Slice[byte](space, buffer, n)
	require.NoError(t, err)
	const chunk = 1 << 16
	pattern := make([]byte, chunk+256)
	for i := range pattern {
		pattern[i] = byte(i)
	}
	twos := 0
	for r := range runs {
		if values[r] == 2 {
			twos++
		}
		for lo := starts[r]; lo < ends[r]; lo += chunk {
			hi := min(lo+chunk, ends[r])
			first := byte(int(lo) + 1 + twos)
			require.True(t, bytes.Equal(pattern[first:][:hi-lo], all[lo:hi]), "elements %d to %d", lo, hi)
		}
	}
	for _, p := range held {
		require.NoError(t, d.Free(p))
	}
}
