package ptxrun

import (
	"cmp"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// relabelled is an emulator that a runtime takes for a GPU, on which streams keep
// their passes' state.
type relabelled struct{ driver.Device }

func (d relabelled) Info() driver.Info {
	info := d.Device.Info()
	info.Kind = driver.KindCUDA
	return info
}

// TestKeptState gives one stream passes of every kind and size one after another,
// on the state that each leaves to the next, up to where marks would repeat.
func TestKeptState(t *testing.T) {
	for _, capability := range []int{70, 90} {
		dev, err := emu.Open(emu.WithCapability(capability))
		require.NoError(t, err)
		rt := NewRuntime(relabelled{dev})
		s, err := NewStream(rt)
		require.NoError(t, err)
		const n = 20_000
		src32, src64, flags := make([]uint32, n), make([]uint64, n), make([]bool, n)
		for i := range n {
			src32[i], src64[i], flags[i] = uint32(i/5%7), uint64(i)<<30, i%3 == 0
		}
		in32, err := NewBufferFrom(s, src32)
		require.NoError(t, err)
		in64, err := NewBufferFrom(s, src64)
		require.NoError(t, err)
		inFlags, err := NewBufferFrom(s, flags)
		require.NoError(t, err)
		out32, err := NewBuffer[uint32](rt, n)
		require.NoError(t, err)
		out64, err := NewBuffer[uint64](rt, n)
		require.NoError(t, err)
		count, err := NewBuffer[uint64](rt, 1)
		require.NoError(t, err)
		first := func(size int) (a, b *Buffer[uint32], c, d *Buffer[uint64], f *Buffer[bool]) {
			slice := func(err error) { require.NoError(t, err) }
			a, err = in32.Slice(0, size)
			slice(err)
			b, err = out32.Slice(0, size)
			slice(err)
			c, err = in64.Slice(0, size)
			slice(err)
			d, err = out64.Slice(0, size)
			slice(err)
			f, err = inFlags.Slice(0, size)
			slice(err)
			return a, b, c, d, f
		}
		for round, size := range []int{9000, n, 2100, n - 1, 12_345, 8193} {
			a, b, c, d, f := first(size)
			require.NoError(t, InclusiveScanBuffer(s, b, a, Sum))
			got32, got64, got := make([]uint32, size), make([]uint64, size), make([]uint64, 1)
			require.NoError(t, b.CopyTo(s, got32))
			sum := uint32(0)
			for i, v := range src32[:size] {
				sum += v
				require.Equal(t, sum, got32[i], "round %d, element %d", round, i)
			}
			require.NoError(t, ExclusiveScanBuffer(s, d, c, Max))
			require.NoError(t, d.CopyTo(s, got64))
			require.Equal(t, uint64(size-2)<<30, got64[size-1], "round %d", round)
			few, err := out32.Slice(0, size/4)
			require.NoError(t, err)
			require.NoError(t, SelectFlaggedBuffer(s, few, count, a, f)) // with too little room it takes no tickets
			require.NoError(t, SelectFlaggedBuffer(s, b, count, a, f))
			require.NoError(t, cmp.Or(count.CopyTo(s, got), b.CopyTo(s, got32)))
			require.EqualValues(t, (size+2)/3, got[0], "round %d", round)
			for i := range got[0] {
				require.Equal(t, src32[3*i], got32[i], "round %d, element %d kept", round, i)
			}
			require.NoError(t, RLECountBuffer(s, count, a))
			require.NoError(t, count.CopyTo(s, got))
			require.EqualValues(t, (size+4)/5, got[0], "round %d", round)
			one, err := out32.Slice(0, 1)
			require.NoError(t, err)
			require.NoError(t, CRC32CBuffer(s, one, a))
			require.NoError(t, one.CopyTo(s, got32[:1]))
			require.Equal(t, crc32.Checksum(bytesOf(src32[:size]), crc32.MakeTable(crc32.Castagnoli)), got32[0], "round %d", round)
			require.NoError(t, InclusiveSegmentedScanBuffer(s, b, a, SegmentHeadsBuffer(f), Sum))
			require.NoError(t, b.CopyTo(s, got32))
			require.Equal(t, src32[size/3*3-3]+src32[size/3*3-2]+src32[size/3*3-1], got32[size/3*3-1], "round %d", round)
			require.True(t, s.state.valid)
			if round == 2 {
				s.state.tickets = maxTickets - 4 // none of these calls takes as few
			}
			if round == 3 {
				require.Less(t, s.state.tickets, uint64(1000), "the state was cleared")
			}
		}

		// A launch that was refused took no tickets.
		s.state.tickets += 5
		k, err := rt.kernel("scan_pass_sum_u32", "scan_pass_sum_u32")
		require.NoError(t, err)
		require.Error(t, s.launchPass(k, n, 0, passState(n, 4), func(a *driver.Args, state driver.Ptr, _ uint32) { a.Ptr(state) }))
		require.False(t, s.state.valid)
		a, b, _, _, _ := first(n)
		require.NoError(t, InclusiveScanBuffer(s, b, a, Sum))
		last := make([]uint32, n)
		require.NoError(t, b.CopyTo(s, last))
		total := uint32(0)
		for _, v := range src32 {
			total += v
		}
		require.Equal(t, total, last[n-1])
		require.NoError(t, cmp.Or(in32.Free(), in64.Free(), inFlags.Free(), out32.Free(), out64.Free(), count.Free(), s.Close(), rt.Close()))
	}
}
