package emu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// runPassCrossings are those of encoding and decoding in a single pass: of runs
// of mixed lengths, with room for all, for one less and for none; from the start
// and from the middle.
func runPassCrossings(r *rand.Rand, part []string, k ptxrun.KernelSpec, n, tiles, resident int64) (list []crossing) {
	typ, length := part[3], part[4]
	size := int64(width(typ) / 8)
	grid := uint32(min(tiles, resident))
	for _, most := range []int{1, 3, 40, 3000} { // the longest run
		if n > 2*k.Tile && most%2 == 1 {
			continue // the larger ones are enough
		}
		if part[1] == "encode" {
			raw := make([]byte, n*size)
			runs := int64(0)
			for i, rest := int64(0), 0; i < n; i, rest = i+1, rest-1 {
				if rest == 0 {
					runs, rest = runs+1, 1+r.IntN(most)
				}
				raw[i*size+size-1] = byte(runs)
			}
			state, first := passState(r, tiles)
			for _, capacity := range []int64{runs, runs - 1, 0} {
				list = append(list, crossing{grid, []value{memory(raw), scalar(uint64(n)), result(make([]byte, max(capacity, 1)*size)),
					{memory: sized(make([]uint64, max(capacity, 1)), length), out: true}, scalar(uint64(capacity)), result(make([]uint64, 1)), result(make([]uint64, 1)), state, first}})
			}
			continue
		}
		values, lengths := make([]byte, n*size), make([]uint64, n)
		total := uint64(0)
		for i := range n {
			values[i*size+size-1] = byte(i*7 + i>>8)
			lengths[i] = uint64(r.IntN(most + 1))
			if most == 3000 && i%97 != 5 {
				lengths[i] = 1
			}
			if most == 3000 && (i == n/2 || i == n-1) { // large parts among small ones
				lengths[i] = uint64(150_000 / size)
			}
			total += lengths[i]
		}
		decode := func(from, room uint64) {
			list = append(list, crossing{grid, []value{memory(values), memory(sized(lengths, length)), scalar(uint64(n)), result(make([]byte, (room+1)*uint64(size))),
				scalar(from), scalar(room), result(make([]uint64, 1)), memory(make([]byte, 256+tiles*(16+32*24)))}})
		}
		decode(0, total+3)
		decode(total/3, total/2)
		if most != 3000 || n < 31 {
			continue
		}
		// Totals of tiles beyond 32 bits, and a sum of all at its bound and beyond.
		huge := n / 2
		small := total - lengths[huge]
		bounds := []uint64{math.MaxUint32}
		if length == "u64" {
			bounds = []uint64{1 << 33, math.MaxUint64 - 1 - small, math.MaxUint64 - small, math.MaxUint64}
		}
		begin := uint64(0)
		for _, l := range lengths[:huge] {
			begin += l
		}
		for _, bound := range bounds {
			lengths[huge] = bound
			decode(begin-min(begin, 20), 70)
			if end := begin + bound; end > begin {
				decode(end-20, 70)
			}
		}
	}
	return list
}

// A block whose first tile comes late looks back at more tiles than it asks for at
// once. Here all but the last tile are done by nobody: their totals are there.
func TestEncodeLooksFarBack(t *testing.T) {
	if testing.Short() {
		t.Skip("kernels of 64-bit values are left out of short mode")
	}
	const seen, ticket, place = 523, 7, 1001
	r := rand.New(rand.NewPCG(5, 5))
	kernels := 0
	for _, target := range []int{70, 90} {
		rig := emulator(t, emu.WithCapability(target), emu.WithInitCheck())
		for m, image := range modules(t, target) {
			for _, k := range m.Kernels {
				if k.Target > target || k.Name != "rle_encode_pass_u64_u32" && k.Name != "rle_encode_bulk_u64_u32" {
					continue
				}
				kernels++
				t.Run(fmt.Sprintf("sm_%d/%s", target, k.Name), func(t *testing.T) {
					state := make([]uint64, 32+seen+1)
					state[0] = ticket + seen
					heads, open := uint64(0), uint64(0)
					for i := range seen {
						h, o := uint64(r.IntN(5)/3), uint64(r.IntN(int(k.Tile)))
						state[32+i] = 2*(ticket+1)<<32 | o<<16 | h
						if heads, open = heads+h, open+o; h > 0 {
							open = o
						}
					}
					n := (seen + 1) * k.Tile
					in := make([]uint64, n)
					for i := n - k.Tile + place; i < n; i++ {
						in[i] = 3
					}
					c := crossing{1, []value{memory(in), scalar(uint64(n)), result(make([]uint64, heads+1)), result(make([]uint32, heads+1)),
						scalar(heads + 1), result(make([]uint64, 1)), scalar(uint64(0)), memory(state), scalar(uint32(ticket))}}
					out, err := c.launch(rig, rig.entry(image, k), k)
					require.NoError(t, err)
					assert.Equal(t, heads+1, binary.LittleEndian.Uint64(out[2]))
					assert.Equal(t, uint64(3), binary.LittleEndian.Uint64(out[0][8*heads:]))
					assert.Equal(t, open+place, uint64(binary.LittleEndian.Uint32(out[1][4*(heads-1):])))
					assert.Equal(t, uint64(k.Tile-place), uint64(binary.LittleEndian.Uint32(out[1][4*heads:])))
				})
			}
		}
	}
	require.Equal(t, 2, kernels)
}
