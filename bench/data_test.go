package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first outputs of SplitMix64 with seed 0, by its reference implementation.
func TestHash(t *testing.T) {
	const gamma = 0x9e3779b97f4a7c15
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		assert.Equal(t, want, hash(uint64(i)*gamma))
	}
}

// Peers in other languages make these.
func TestFormulas(t *testing.T) {
	assert.Equal(t, uint32(0xe220a8), number[uint32](0))
	assert.Equal(t, uint8(0xa8), number[uint8](0))
	assert.Equal(t, float64(0xe220a8), number[float64](0))
	assert.Equal(t, uint32(hash(5)>>44)+5, rising(5))
	assert.Equal(t, []uint32{number[uint32](0), number[uint32](1), number[uint32](2)}, elements(3, number[uint32]))
	assert.Equal(t, "ACGT"[hash(1<<32|7)&3], letters(8, 1)[7])
}

// Sums of doubles must be exact, because they are compared with ==.
func TestSumsOfDoublesAreExact(t *testing.T) {
	const largest = uint64(1)<<(64-40) - 1
	assert.LessOrEqual(t, largest<<28, uint64(1)<<53)
}

func TestRunData(t *testing.T) {
	for _, mean := range []int{1, 2, 16, 65536} {
		for _, n := range []int{1, 2, 1000, 1<<20 + 1} {
			data, runs := runData(n, mean)
			var want []byte
			value, count := byte(0), 0
			for k := range n {
				if h := hash(uint64(k)); k == 0 || h%uint64(mean) == 0 {
					value += byte(1 + (h>>32)%255)
					count++
				}
				want = append(want, value)
			}
			require.True(t, slices.Equal(want, data), "%d bytes of mean %d", n, mean)
			require.Equal(t, count, runs)

			values, lengths := encoded(data, runs)
			require.Len(t, values, runs)
			require.Len(t, lengths, runs)
			var decoded []byte
			for i, v := range values {
				require.Positive(t, lengths[i])
				require.False(t, i > 0 && values[i-1] == v, "run %d", i)
				decoded = append(decoded, slices.Repeat([]byte{v}, int(lengths[i]))...)
			}
			require.True(t, slices.Equal(data, decoded))
		}
	}
}

func TestLCSLength(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "A", 0}, {"ACGT", "ACGT", 4}, {"ACGT", "TGCA", 1}, {"AGCAT", "GAC", 2}} {
		assert.Equal(t, c.want, lcsLength([]byte(c.a), []byte(c.b)), "%s %s", c.a, c.b)
	}
}

func TestFirstWrong(t *testing.T) {
	const n = 5<<20 + 3
	for _, wrong := range []int{0, 1, 1<<20 - 1, 1 << 20, n - 1} {
		assert.Equal(t, wrong, firstWrong(n, func(i int) bool { return i < wrong }))
	}
	assert.Equal(t, n, firstWrong(n, func(int) bool { return true }))
	assert.Zero(t, firstWrong(0, func(int) bool { return false }))
}

func TestDigest(t *testing.T) {
	assert.Equal(t, uint64(0xa8), digest(uint8(0xa8)))
	assert.Equal(t, uint64(0x3ff0000000000000), digest(float64(1)))
	assert.Equal(t, uint64(2)<<32|1, digest(struct{ M, C uint32 }{1, 2}))
}

func TestCopies(t *testing.T) {
	const cache = 50 << 20
	for _, n := range []int{1, 255, 256, 1000, 1 << 10, 1 << 20, 1 << 28} {
		c := newCopies(n, 8, cache)
		assert.Zero(t, c.stride%256)
		assert.GreaterOrEqual(t, c.stride, n)
		assert.Equal(t, c.stride*c.count, c.total())
		assert.Greater(t, int64(c.total())*8, int64(2*cache), "%d elements", n)
	}
	assert.Equal(t, 1, newCopies(1<<28, 8, cache).count)
	assert.Equal(t, maxCopies, newCopies(1, 2, 1<<30).count)
	assert.Equal(t, 1, newCopies(1, 8, 0).count, "a device that names no cache")
}
