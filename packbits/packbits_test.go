package packbits

import (
	"bytes"
	"context"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

func openDevice(t testing.TB) *ptxrun.Runtime {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

func fromHex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// The example of Apple's TN1023.
func TestDefinition(t *testing.T) {
	rt := openDevice(t)
	unpacked := fromHex(t, "AA AA AA 80 00 2A AA AA AA AA 80 00 2A 22 AA AA AA AA AA AA AA AA AA AA")
	packed := fromHex(t, "FE AA 02 80 00 2A FD AA 03 80 00 2A 22 F7 AA")
	assert.Equal(t, packed, Encode(unpacked, 0))
	on, err := EncodeOn(context.Background(), rt, unpacked, 0)
	require.NoError(t, err)
	assert.Equal(t, packed, on)
	got, err := Decode(packed)
	require.NoError(t, err)
	assert.Equal(t, unpacked, got)
}

func TestPackets(t *testing.T) {
	for _, c := range []struct {
		unpacked string
		row      int
		packed   string
	}{
		{"", 0, ""},
		{"a", 0, "\x00a"},
		{"aa", 0, "\xffa"},
		{"aab", 0, "\xffa\x00b"},
		{"abb", 0, "\x02abb"},
		{"abbc", 0, "\x03abbc"},
		{"abbb", 0, "\x00a\xfeb"},
		{strings.Repeat("a", 128), 0, "\x81a"},
		{strings.Repeat("a", 129), 0, "\x81a\x00a"},
		{strings.Repeat("a", 130), 0, "\x81a\xffa"},
		{strings.Repeat("a", 300), 0, "\x81a\x81a\xd5a"},
		{strings.Repeat("ab", 64), 0, "\x7f" + strings.Repeat("ab", 64)},
		{strings.Repeat("ab", 64) + "c", 0, "\x7f" + strings.Repeat("ab", 64) + "\x00c"},
		{"aaaa", 2, "\xffa\xffa"},
		{"aaaaa", 3, "\xfea\xffa"},
		{"abcd", 1, "\x00a\x00b\x00c\x00d"},
	} {
		assert.Equal(t, c.packed, string(Encode([]byte(c.unpacked), c.row)), "%q in rows of %d", c.unpacked, c.row)
	}
	got, err := Decode([]byte("\x80\x00a\x80\x80\xffb\x80"))
	require.NoError(t, err)
	assert.Equal(t, "abb", string(got), "-128 is passed over")
}

func TestCutOff(t *testing.T) {
	for packed, want := range map[string]string{
		"\x00":         "the packet of 2 bytes at 0 is cut off after 1",
		"\xffa\x03abc": "the packet of 5 bytes at 2 is cut off after 4",
		"\x7fa":        "the packet of 129 bytes at 0",
		"\x80\x80\xff": "the packet of 2 bytes at 2",
		"\x00a\x81":    "the packet of 2 bytes at 2",
	} {
		_, err := Decode([]byte(packed))
		require.ErrorIs(t, err, driver.ErrCorrupt)
		assert.ErrorContains(t, err, want)
	}
}

func requireRoundTrip(t *testing.T, rt *ptxrun.Runtime, src []byte, row int) {
	packed := Encode(src, row)
	on, err := EncodeOn(context.Background(), rt, src, row)
	require.NoError(t, err)
	require.True(t, bytes.Equal(packed, on), "the device's runs make a difference")
	got, err := Decode(packed)
	require.NoError(t, err)
	require.True(t, bytes.Equal(src, got))

	if row <= 0 {
		row = len(src)
	}
	for rest := packed; len(src) > 0; src = src[min(row, len(src)):] {
		row := min(row, len(src))
		n, size := 0, 0
		for n < row {
			decoded, s := packet(rest[size])
			n, size = n+decoded, size+s
		}
		require.Equal(t, row, n, "a packet of two rows")
		require.LessOrEqual(t, size, row+row/128+1)
		rest = rest[size:]
	}
}

func TestRoundTrip(t *testing.T) {
	rt := openDevice(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 127, 128, 129, 1000, 5000} {
		for _, mean := range []int{1, 2, 3, 200} {
			src := make([]byte, 0, n)
			for len(src) < n {
				src = append(src, bytes.Repeat([]byte{byte(r.Uint32())}, min(n-len(src), 1+r.IntN(2*mean-1)))...)
			}
			for _, row := range []int{0, 1, 2, 100, 128, 129} {
				requireRoundTrip(t, rt, src, row)
			}
		}
	}
}

func FuzzEncode(f *testing.F) {
	rt := openDevice(f)
	f.Add([]byte("aaabccdd"), 0)
	f.Add([]byte("aaabccddeeeeeeee"), 3)
	f.Fuzz(func(t *testing.T, src []byte, row int) { requireRoundTrip(t, rt, src, row) })
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xffa\x03abcd\x80"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		n, err := DecodedLen(packed)
		src, failed := Decode(packed)
		require.Equal(t, err, failed)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			return
		}
		require.Len(t, src, n)
		require.LessOrEqual(t, n, 64*len(packed))
		again, err := Decode(Encode(src, 0))
		require.NoError(t, err)
		require.True(t, bytes.Equal(src, again))
	})
}
