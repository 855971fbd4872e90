package emu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// encodedCrossings are those of the kernels that work on encodings of n runs, or
// with n indices.
func encodedCrossings(r *rand.Rand, part []string, stem string, n, tiles int64) (list []crossing) {
	typ := part[2]
	if stem == "runs_sum" && typ[0] == 'f' {
		typ = "finite " + typ // which NaN a sum is, is left open
	}
	a := newEncoded(r, typ, int(n))
	first := result(make([]uint64, 1))
	switch stem {
	case "run_ends":
		typ := part[3]
		for i := range a.ends { // none empty, for this layout
			a.ends[i] = uint64(i + 1 + i/3)
		}
		if part[2] == "narrow" {
			return []crossing{{uint32(tiles), []value{memory(a.ends), scalar(uint64(n)), result(sized(make([]uint64, n), typ))}}}
		}
		list = append(list, crossing{uint32(tiles), []value{memory(sized(a.ends, typ)), scalar(uint64(n)), scalar(uint64(2)), first}})
		list = append(list, crossing{uint32(tiles), []value{memory(sized(a.ends, typ)), scalar(uint64(n)), scalar(uint64(1)), first}})
		a.ends[n/2] = 0
		a.ends[n-1] = math.MaxUint64
		list = append(list, crossing{uint32(tiles), []value{memory(sized(a.ends, typ)), scalar(uint64(n)), scalar(uint64(math.MaxUint64)), first}})
	case "run_lengths":
		ends, lengths := memory(sized(a.ends, part[2])), result(sized(make([]uint64, n), part[3]))
		for _, count := range []value{{scalar: make([]byte, 8)}, memory([]uint64{uint64(n)}), memory([]uint64{uint64(n / 2)}), memory([]uint64{uint64(n) + 1})} {
			list = append(list, crossing{uint32(tiles), []value{ends, scalar(uint64(n)), count, lengths}})
		}
	case "run_index", "run_at":
		typ, index := part[3], part[4]
		runs := n/3 + 1
		ends := make([]uint64, runs)
		for i := range ends {
			ends[i] = uint64(i+1) * 5
		}
		indices := make([]uint64, n)
		for i := range indices {
			indices[i] = r.Uint64N(ends[runs-1])
		}
		if stem == "run_at" {
			return []crossing{{uint32(tiles), []value{memory(elements(r, part[2], "", int(runs))), memory(sized(ends, typ)), scalar(uint64(runs)),
				memory(sized(indices, index)), scalar(uint64(n)), result(make([]byte, n*int64(width(part[2])/8)))}}}
		}
		for range 2 {
			list = append(list, crossing{uint32(tiles), []value{memory(sized(ends, typ)), scalar(uint64(runs)), memory(sized(indices, index)), scalar(uint64(n)), first}})
			indices[n-1], indices[n*2/3] = ends[runs-1], ends[runs-1]
		}
		list = append(list, crossing{uint32(tiles), []value{memory([]byte{}), scalar(uint64(0)), memory(sized(indices, index)), scalar(uint64(n)), first}})
	case "runs_sum", "runs_minmax", "runs_count", "runs_histogram":
		chunk := int64(2048)
		if n > 2*chunk {
			chunk *= 2 // the loop of loads ahead goes round twice
		}
		chunks := ceilDiv(n, chunk)
		input := []value{memory(a.values), memory(sized(a.lengths, part[3])), scalar(uint64(n)), scalar(uint64(chunk))}
		grid := uint32(chunks)
		switch stem {
		case "runs_count":
			size := width(part[2]) / 8
			bounds := make([]value, 3) // fold, low, span
			for i, v := range []byte{0, 1, 2} {
				bounds[i].scalar = make([]byte, size)
				bounds[i].scalar[0] = v
			}
			for negate := range uint32(2) {
				list = append(list, crossing{grid, slices.Concat(input, []value{result(make([]uint64, 3*chunks))}, bounds, []value{scalar(negate)})})
			}
		case "runs_histogram":
			edges := newEncoded(r, part[2], 3).distinct
			size := int64(width(part[2]) / 8)
			for _, bins := range []int64{1, int64(len(edges))/size + 1, 2500} { // the last by global memory
				wide := edges
				if bins == 2500 {
					wide = slices.Concat(edges, slices.Repeat(edges[int64(len(edges))-size:], int(bins-1-int64(len(edges))/size)))
				}
				list = append(list, crossing{grid, append(slices.Clone(input), memory(wide[:(bins-1)*size]), scalar(uint64(bins)),
					result(make([]uint64, bins)), result(make([]uint64, chunks)))})
			}
		default:
			list = append(list, crossing{grid, append(input, result(make([]uint64, 3*chunks)))})
		}
	case "runs_last":
		list = append(list, crossing{uint32(tiles), []value{memory(a.values), memory(a.ends), scalar(uint64(n)), result(make([]byte, n))}})
	case "runs_equal", "runs_combine", "runs_compare":
		// Two encodings of n runs together; one run over all the others; all ends
		// equal, with a tile's border between two of them.
		size := int64(width(part[2]) / 8)
		for _, na := range []int64{max(1, n/2), n, n + 1} {
			nb := max(1, n-na)
			x, y := newEncoded(r, part[2], int(na)), newEncoded(r, part[2], int(nb))
			total := max(x.ends[na-1], y.ends[nb-1]) + 1
			x.ends[na-1], y.ends[nb-1] = total, total
			if na > n {
				nb = n
				y.ends, y.values = x.ends[1:], newEncoded(r, part[2], int(nb)).values
			}
			grid := uint32(ceilDiv(na+nb, 128*7))
			input := []value{memory(x.values), memory(x.ends), scalar(uint64(na)), memory(y.values), memory(y.ends), scalar(uint64(nb))}
			if stem == "runs_equal" {
				list = append(list, crossing{grid, append(slices.Clone(input), first)})
				copy(input[3:], input[:3])
				list = append(list, crossing{uint32(ceilDiv(2*na, 128*7)), append(input, first)})
				continue
			}
			ops, out := uint32(7), size
			if part[2][0] == 'f' {
				ops = 4
			}
			if stem == "runs_compare" {
				ops, out = 6, 1
			}
			op := uint32(na+nb) % ops // one of them a size, all of them over the sizes
			if n == 33 {
				op = 0
				for o := range ops - 1 {
					list = append(list, crossing{grid, append(slices.Clone(input), scalar(o+1), result(make([]byte, (na+nb)*out)),
						result(make([]uint64, na+nb)), result(make([]byte, na+nb)))})
				}
			}
			list = append(list, crossing{grid, append(input, scalar(op), result(make([]byte, (na+nb)*out)),
				result(make([]uint64, na+nb)), result(make([]byte, na+nb)))})
		}
	default:
		panic("no launch is known for " + stem)
	}
	return list
}

// encoded is an encoding of n runs, some of them empty, and its run ends. Values
// repeat; of floats, they are all kinds.
type encoded struct {
	values, distinct []byte // distinct ones ascend
	lengths, ends    []uint64
}

func newEncoded(r *rand.Rand, typ string, n int) (e encoded) {
	const kinds = 9
	var all [kinds]uint64
	floats := []float64{math.Inf(-1), -1.5, math.Copysign(0, -1), 0, 1.0 / 3, 7, math.MaxFloat32, math.Inf(1), math.NaN()}
	finite := false
	if typ, finite = strings.CutPrefix(typ, "finite "); finite {
		floats = []float64{-1e10, -1.5, math.Copysign(0, -1), 0, 1.0 / 3, 7, 0.1, 12345.678, 1e-9}
	}
	switch typ {
	case "f32":
		for i, v := range floats {
			all[i] = uint64(math.Float32bits(float32(v)))
		}
	case "f64":
		for i, v := range floats {
			all[i] = math.Float64bits(v)
		}
	default:
		for i := range all {
			all[i] = uint64(i)
			if typ[0] == 'i' {
				all[i] -= 4
			}
		}
	}
	size := 1
	if slices.Contains([]string{"u16", "i16", "u32", "i32", "f32", "u64", "i64", "f64"}, typ) {
		size = width(typ) / 8
	}
	put := func(b []byte, v uint64) []byte {
		for k := range size {
			b = append(b, byte(v>>(8*k)))
		}
		return b
	}
	for _, v := range all[:kinds-1] { // without NaN
		e.distinct = put(e.distinct, v)
	}
	end, v := uint64(0), all[0]
	for i := range n {
		if r.IntN(3) > 0 {
			v = all[r.IntN(kinds)]
		}
		length := r.Uint64N(4)
		if r.IntN(50) == 0 || n < 4 {
			length = 10 + r.Uint64N(100)
		}
		if i%40 > 34 { // several empty runs together
			length = 0
		}
		end += length
		e.values, e.lengths, e.ends = put(e.values, v), append(e.lengths, length), append(e.ends, end)
	}
	return e
}
