package emu_test

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// lcsCrossings are those of the longest common subsequence, of letters of the
// width that the kernel is for.
func lcsCrossings(r *rand.Rand, part []string, k ptxrun.KernelSpec, n int64) []crossing {
	if part[1] == "unpack" {
		words := elements(r, "u32", "", int(ceilDiv(n, 32)))
		return []crossing{{uint32(ceilDiv(n, k.Tile)), []value{memory(words), scalar(uint64(n)), result(make([]uint32, n))}}}
	}
	if part[1] == "place" {
		lengths, places := make([]uint64, n), make([]uint64, 2*n)
		for i := range n {
			lengths[i], places[2*i], places[2*i+1] = r.Uint64N(1000), uint64(i), uint64(i%2*(n+i)+(1-i%2)*i)
		}
		return []crossing{{uint32(ceilDiv(n, k.Tile)), []value{memory(lengths), scalar(uint64(n)), memory(places), result(make([]uint32, 2*n))}}}
	}
	size, band := int64(width(part[2])/8), int64(512)
	if size == 1 {
		band = 1024
	}
	letters := func(n int64) []byte {
		s := make([]byte, n*size)
		for i := range n {
			s[i*size+size-1] = byte(r.IntN(5) * 13)
		}
		return s
	}
	rows, columns := min(n*30, 4*band+5), n+20
	bands, chunks := ceilDiv(rows, band), ceilDiv(columns, 32)
	problem := twin.LCSProblem{Rows: uint64(rows), Columns: uint64(columns), Front: uint64(bands), Back: uint64(bands), Keep: 1, Slots: 3,
		KeptBack: uint64(bands * chunks), Stride: uint64(chunks)}
	other := twin.LCSProblem{A: uint64(rows / 2), Rows: uint64(rows - rows/2), B: 7, Columns: uint64(columns - 7), Slots: 3,
		Units: uint64(2 * bands), Ring: uint64(2 * 3 * chunks), Crossings: uint64(bands - 1)}
	other.Front = uint64(ceilDiv(int64(other.Rows), band))
	// The upper half from the front and the lower from the back, and all but a band from the back alone.
	halves, rest := problem, problem
	halves.Front, halves.Back = uint64(bands/2), uint64(bands-bands/2)
	rest.Columns, rest.Front, rest.Back = other.Columns, 0, uint64(bands-1)
	rest.Units, rest.Ring, rest.KeptFront, rest.KeptBack = uint64(bands), other.Ring, 0, uint64(2*bands*chunks)
	problems := []twin.LCSProblem{problem, other}
	switch part[1] {
	case "pass":
		units := other.Units + other.Front
		// Two blocks and three bands' carries: they wrap.
		return []crossing{{2, []value{memory(letters(rows)), memory(letters(columns)), memory(problems), scalar(uint64(2)),
			scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(units),
			memory(make([]uint64, 3*3*chunks)), result(make([]uint32, 2*bands*chunks)), result(make([]uint64, 2)), memory(make([]uint64, 1))}},
			{2, []value{memory(letters(rows)), memory(letters(columns)), {scalar: make([]byte, 8)}, scalar(uint64(0)),
				scalar(uint64(rows)), scalar(uint64(columns)), scalar(uint64(bands)), scalar(uint64(bands)), scalar(uint64(3)), scalar(uint64(bands)),
				memory(make([]uint64, 3*chunks)), result(make([]uint32, chunks)), result(make([]uint64, 1)), memory(make([]uint64, 1))}},
			{2, []value{memory(letters(rows)), memory(letters(columns)), {scalar: make([]byte, 8)}, scalar(uint64(0)),
				scalar(uint64(rows)), scalar(uint64(columns)), scalar(uint64(bands - bands/2)), scalar(uint64(bands - bands/2)), scalar(uint64(3)), scalar(uint64(bands)),
				memory(make([]uint64, 2*3*chunks)), result(make([]uint32, 2*chunks)), result(make([]uint64, 1)), memory(make([]uint64, 1))}},
			{2, []value{memory(letters(rows)), memory(letters(columns)), memory([]twin.LCSProblem{halves, rest}), scalar(uint64(2)),
				scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(uint64(0)), scalar(rest.Units + rest.Back),
				memory(make([]uint64, 3*3*chunks)), result(make([]uint32, 3*bands*chunks)), result(make([]uint64, 2)), memory(make([]uint64, 1))}}}
	case "cross":
		if bands == 1 {
			return nil
		}
		kept := make([]uint32, 2*bands*chunks)
		for i := range kept {
			if kept[i] = r.Uint32(); int64(i)%chunks == chunks-1 {
				kept[i] &= 1<<(columns-(chunks-1)*32) - 1
			}
		}
		null := value{scalar: make([]byte, 8)}
		return []crossing{
			{uint32(bands - 1), []value{memory(problems), scalar(uint64(2)), scalar(uint64(0)), memory(kept), result(make([]uint64, bands-1)), result(make([]uint64, bands-1))}},
			{uint32(bands - 1), []value{memory(problems), scalar(uint64(2)), scalar(uint64(0)), memory(kept), result(make([]uint64, bands-1)), null}},
			{1, []value{null, scalar(uint64(0)), scalar(uint64(columns)), memory(kept), null, result(make([]uint64, 1))}},
		}
	case "tiled":
		cells := func(n int64) []uint32 { return slices.Repeat([]uint32{3}, int(n)) }
		diagonal := uint64(0)
		if rows > 256 && columns > 256 {
			diagonal = 1
		}
		return []crossing{{uint32(diagonal + 1), []value{memory(letters(rows)), scalar(uint64(rows)), memory(letters(columns)), scalar(uint64(columns)),
			result(cells(rows)), result(cells(columns)), result(cells(ceilDiv(rows, 256))), scalar(diagonal), scalar(uint64(0))}}}
	case "trace":
		return []crossing{lcsTrace(letters, min(n*5, band), columns, size, band)}
	}
	return []crossing{lcsMany(letters, n, band)}
}

// lcsTrace is a piece that is walked back over at once, and one whose first
// columns are gone over before.
func lcsTrace(letters func(int64) []byte, rows, columns, size, band int64) crossing {
	a, b := letters(rows), letters(columns)
	split := columns / 3
	state := make([]uint32, 3*band/32)
	for i := range state {
		state[i] = ^uint32(0)
	}
	for j := range split {
		var carry uint32
		for w := range band / 32 {
			var m uint32
			for i := range min(32, rows-w*32) {
				if string(a[(w*32+i)*size:][:size]) == string(b[j*size:][:size]) {
					m |= 1 << i
				}
			}
			v := state[band/32+w]
			var sum uint32
			sum, carry = bits.Add32(v, v&m, carry)
			state[band/32+w] = sum | v&^m
		}
	}
	whole := twin.LCSPiece{Rows: uint64(rows), Columns: uint64(columns), Mode: twin.LCSWalk}
	rest := twin.LCSPiece{Rows: uint64(rows), B: uint64(split), Columns: uint64(columns - split), State: 1, Walk: 1, Mode: twin.LCSWalk | twin.LCSSave,
		Values: uint64(ceilDiv(columns, 32) * band)}
	return crossing{2, []value{memory(a), memory(b), memory([]twin.LCSPiece{whole, rest}), memory(make([]uint32, 2*ceilDiv(columns, 32)*band)),
		result(state), result([]uint64{uint64(rows), uint64(rows)}), result(make([]uint32, ceilDiv(rows, 32))), result(make([]uint32, ceilDiv(columns, 32)))}}
}

// lcsMany is two bands of patterns, beside two slices of four texts of which the
// first patterns take all and the last the later ones.
func lcsMany(letters func(int64) []byte, n, band int64) crossing {
	lanes := make([]twin.LCSLane, 2*band/32)
	at, row := uint64(0), uint64(0)
	pattern := func(lane, count int64, from uint64) {
		for k := range ceilDiv(count, 32) {
			l := &lanes[lane+k]
			*l = twin.LCSLane{Letters: at, Row: row, Count: uint32(min(32, count-32*k)), From: from}
			if k == 0 {
				l.Flags |= twin.LCSFirst
			}
			if k == ceilDiv(count, 32)-1 {
				l.Flags |= twin.LCSLast
			}
			at += uint64(l.Count)
		}
		row++
	}
	pattern(0, min(n, 200), 0)
	pattern(7, 33, 0)
	pattern(9, 1, 2)
	pattern(band/32, band, 1)
	lengths := []int64{n, 0, n / 3, 40}
	var counts []uint8
	var starts []uint64
	for _, length := range lengths {
		starts = append(starts, uint64(len(counts)))
		for k := range max(1, ceilDiv(length, twin.LCSStep)) {
			counts = append(counts, uint8(min(twin.LCSStep, length-k*twin.LCSStep)))
		}
		counts[len(counts)-1] |= twin.LCSTextEnd
	}
	end := uint64(len(counts))
	parts := []twin.LCSSlice{{Steps: end}, {Band: 1, Steps: starts[2]}, {Band: 1, Step: starts[2], Steps: end - starts[2], Text: 2}}
	return crossing{3, []value{memory(letters(int64(at))), memory(letters(int64(end * twin.LCSStep))), memory(lanes), memory(parts), memory(counts),
		memory([]uint32{2, 0, 3, 1, 0}), result(make([]uint32, 16)), scalar(uint64(4)), scalar(uint32(twin.LCSByRow))}}
}

// TestLCSPassEitherWarp has the second warp of a block compute and the first feed it,
// which on a GPU depends on where the block runs, and never happens on the emulator.
func TestLCSPassEitherWarp(t *testing.T) {
	host, err := cpu.Open()
	require.NoError(t, err)
	twins := newRig(t, host)
	t.Cleanup(twins.close)
	plain := emulator(t, emu.WithCapability(70))
	strict := emulator(t, emu.WithCapability(70), emu.WithRaceCheck(), emu.WithInitCheck())
	passes := 0
	for m, image := range modules(t, 70) {
		for _, k := range m.Kernels {
			if !strings.HasPrefix(k.Name, "lcs_pass_") {
				continue
			}
			passes++
			require.Equal(t, 1, bytes.Count(image.PTX, []byte("%warpid")))
			swapped := image
			swapped.PTX = bytes.Replace(image.PTX, []byte("%warpid"), []byte("4"), 1)
			t.Run(k.Name, func(t *testing.T) { cross(t, m, k, swapped, twins, plain, strict) })
		}
	}
	require.Positive(t, passes)
}
