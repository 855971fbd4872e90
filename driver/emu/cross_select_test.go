package emu_test

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// selectCrossings are those of compaction: of flags, of elements with the lowest
// bits 1 to 3, and of neighbours that differ, in every mode.
func selectCrossings(r *rand.Rand, part []string, k ptxrun.KernelSpec, n, resident int64) (list []crossing) {
	typ, criterion := part[len(part)-1], part[2]
	if typ == "flagged" { // counted without values
		typ = "u8"
	}
	size := int64(width(typ) / 8)
	in, flags := make([]byte, n*size), make([]byte, n)
	for i := range n {
		in[i*size] = byte(r.IntN(6))
		flags[i] = byte(r.IntN(2) * r.IntN(256))
	}
	var input []value
	var keep func(i int64) bool
	element := func(i int64) []byte { return in[i*size : (i+1)*size] }
	switch criterion {
	case "flagged", "indices":
		if criterion == "flagged" && part[1] != "count" {
			input = append(input, memory(in))
		}
		input = append(input, memory(flags))
		keep = func(i int64) bool { return flags[i] != 0 }
	case "compare":
		scalars := make([]value, 3) // fold, low, span
		for i, v := range []byte{0, 1, 2} {
			scalars[i].scalar = make([]byte, size)
			scalars[i].scalar[0] = v
		}
		input = slices.Concat([]value{memory(in)}, scalars, []value{scalar(uint32(0))})
		keep = func(i int64) bool { return element(i)[0] >= 1 && element(i)[0] <= 3 }
	case "unique":
		input = append(input, memory(in))
		keep = func(i int64) bool { return i == 0 || !bytes.Equal(element(i), element(i-1)) }
	default:
		panic("no launch is known for " + k.Name)
	}
	input = append(input, scalar(uint64(n)))
	var kept uint64
	for i := range n {
		if keep(i) {
			kept++
		}
	}
	tiles := ceilDiv(n, k.Tile)
	grid := uint32(min(tiles, resident))
	if part[1] == "count" {
		return []crossing{{grid, append(input, result([]uint64{5}))}}
	}
	state, first := passState(r, tiles)
	for _, mode := range []uint32{twin.SelectCount, twin.SelectIfFits, twin.SelectPartition} {
		if mode == twin.SelectPartition && criterion == "indices" {
			continue
		}
		capacities := []uint64{uint64(n)}
		if mode == twin.SelectIfFits && kept > 0 {
			capacities = []uint64{kept, kept - 1}
		}
		for _, capacity := range capacities {
			list = append(list, crossing{grid, slices.Concat(input, []value{result(make([]byte, n*size)), result([]uint64{kept}),
				scalar(capacity), scalar(mode), state, first})})
		}
	}
	return list
}
