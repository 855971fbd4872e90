package twin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// piece is what a core scans at a time.
const piece = 1 << 16

// TestScanSegmented holds the twin against a loop, with an operator that does
// not commute, in every mode and place of heads.
func TestScanSegmented(t *testing.T) {
	m := newMemory(t)
	r := rand.New(rand.NewPCG(7, 8))
	op := twin.Custom(affine{1, 0}, compose)
	for _, n := range []int{1, 31, 32, 33, 1000, piece - 1, piece, piece + 1, 2*piece + 77} {
		in := make([]affine, n)
		for i := range in {
			in[i] = affine{r.Int32(), r.Int32()}
		}
		for name, head := range map[string]func(i int) bool{
			"none":         nil,
			"nowhere":      func(int) bool { return false },
			"everywhere":   func(int) bool { return true },
			"word borders": func(i int) bool { return i%32 == 0 || i%32 == 31 },
			"pieces":       func(i int) bool { return i%piece == 0 },
			"piece ends":   func(i int) bool { return i%piece == piece-1 },
			"seldom":       func(int) bool { return r.IntN(1000) == 0 },
		} {
			flags, words := make([]byte, n), make([]uint32, (n+31)/32)
			for i := range n {
				if head != nil && head(i) {
					flags[i] = 1 + byte(r.IntN(255))
					words[i/32] |= 1 << (i % 32)
				}
			}
			for mode := range uint32(8) {
				msg := fmt.Sprintf("n %d, heads %s, mode %d", n, name, mode)
				init := affine{r.Int32(), r.Int32()}
				want, acc := make([]affine, n), init
				for k := range n {
					i := k
					if mode&2 != 0 {
						i = n - 1 - k
					}
					if flags[i] != 0 {
						acc = init
					}
					next := compose(acc, in[i])
					if want[i] = next; mode&1 != 0 {
						want[i] = acc
					}
					acc = next
				}
				for _, inPlace := range []bool{false, true} {
					inAt := store(m, in)
					outAt := inAt
					if !inPlace {
						outAt = space[affine](m, n)
					}
					headsAt := driver.Ptr(0)
					switch {
					case head == nil:
					case mode&4 != 0:
						headsAt = store(m, words)
					default:
						headsAt = store(m, flags)
					}
					require.NoError(t, run(m, twin.ScanSegmented(op), driver.NewArgs().Ptr(inAt).Ptr(outAt).Uint64(uint64(n)).
						Ptr(headsAt).Ptr(0).Uint32(0).Bytes(bytesOf(&init), 4).Uint32(mode)), msg)
					require.True(t, slices.Equal(want, load[affine](m, outAt, n)), "%s, in place %v", msg, inPlace)
					m.free()
				}
			}
		}
	}
}

// TestSegmentBits holds keys, flags and offsets against what they mean.
func TestSegmentBits(t *testing.T) {
	m := newMemory(t)
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{1, 2, 31, 32, 33, 64, 1000} {
		flags, keys, offsets := make([]byte, n), make([]uint16, n), []uint32{0}
		for i := range n {
			if i > 0 {
				keys[i] = keys[i-1]
			}
			if r.IntN(4) == 0 {
				flags[i] = 1 + byte(r.IntN(255))
				keys[i] ^= 1 << r.IntN(16)
				offsets = append(offsets, uint32(i))
			}
		}
		offsets = append(offsets, uint32(n))
		for reverse := range uint32(2) {
			want := make([]uint32, (n+31)/32)
			for i := range n {
				first := i == 0 || flags[i] != 0
				if reverse == 1 {
					first = i == n-1 || flags[i+1] != 0
				}
				if first {
					want[i/32] |= 1 << (i % 32)
				}
			}
			get := func(name string, tw driver.Twin, args func(bits driver.Ptr) *driver.Args) {
				at := store(m, make([]uint32, len(want)))
				require.NoError(t, run(m, tw, args(at)))
				require.Equal(t, want, load[uint32](m, at, len(want)), "%s, n %d, reverse %d", name, n, reverse)
			}
			get("keys", twin.SegmentKeys[uint16](), func(bits driver.Ptr) *driver.Args {
				return driver.NewArgs().Ptr(store(m, keys)).Uint64(uint64(n)).Ptr(bits).Uint32(reverse)
			})
			get("flags", twin.SegmentFlags(), func(bits driver.Ptr) *driver.Args {
				return driver.NewArgs().Ptr(store(m, flags)).Uint64(uint64(n)).Ptr(bits).Uint32(reverse)
			})
			bad := store(m, []uint32{0})
			get("offsets", twin.SegmentOffsets[uint32](), func(bits driver.Ptr) *driver.Args {
				return driver.NewArgs().Ptr(store(m, offsets)).Uint64(uint64(len(offsets))).Uint64(uint64(n)).Ptr(bits).Uint32(reverse).Ptr(bad)
			})
			require.Zero(t, one[uint32](m, bad))
			m.free()
		}
	}
	for _, offsets := range [][]uint64{{}, {0}, {1, 3}, {0, 2, 1, 3}, {0, 4}, {0, 1 << 63, 3}, {0, 3, 2}} {
		bad := store(m, []uint32{0})
		require.NoError(t, run(m, twin.SegmentOffsets[uint64](), driver.NewArgs().Ptr(store(m, offsets)).Uint64(uint64(len(offsets))).
			Uint64(3).Ptr(store(m, []uint32{0})).Uint32(0).Ptr(bad)))
		require.EqualValues(t, 1, one[uint32](m, bad), "%v", offsets)
		m.free()
	}
}
