package emu_test

import (
	"math/rand/v2"

	"github.com/ptxrun/ptxrun"
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
			state, first := passState(r, tiles*2)
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
		state := memory(make([]byte, 256+tiles*(16+8*24)))
		for _, window := range [][2]uint64{{0, total + 3}, {total / 3, total / 2}} {
			list = append(list, crossing{grid, []value{memory(values), memory(sized(lengths, length)), scalar(uint64(n)), result(make([]byte, (window[1]+1)*uint64(size))),
				scalar(window[0]), scalar(window[1]), result(make([]uint64, 1)), state}})
		}
	}
	return list
}
