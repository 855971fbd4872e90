package emu_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx"
)

// crossing is a launch that is made on two devices: the PTX on the emulator, the
// Go twin on the cpu device.
type crossing struct {
	grid uint32
	args []value
}

// value is an argument: bytes of device memory, or a scalar.
type value struct {
	memory []byte // nil for a scalar
	out    bool   // compared afterwards
	scalar []byte
}

func memory[T any](s []T) value { return value{memory: bytesOf(s)} }
func result[T any](s []T) value { return value{memory: bytesOf(s), out: true} }
func scalar[T any](v T) value   { return value{scalar: slices.Clone(bytesOf([]T{v}))} }

// arguments puts the crossing's memory on a device, which the rig releases, and
// packs its arguments.
func (c *crossing) arguments(r *rig) (*driver.Args, []driver.Ptr) {
	a := driver.NewArgs()
	at := make([]driver.Ptr, len(c.args))
	for i, v := range c.args {
		switch {
		case v.memory == nil:
			a.Bytes(v.scalar, len(v.scalar))
		case len(v.memory) == 0:
			at[i] = r.alloc(1)
			a.Ptr(at[i])
		default:
			at[i] = upload(r, v.memory)
			a.Ptr(at[i])
		}
	}
	return a, at
}

// results are the outputs that lie at those addresses.
func (c *crossing) results(r *rig, at []driver.Ptr) (out [][]byte) {
	for i, v := range c.args {
		if v.out {
			out = append(out, download[byte](r, at[i], len(v.memory)))
		}
	}
	return out
}

// launch runs the crossing on one device and returns its results.
func (c *crossing) launch(r *rig, k driver.Kernel, spec ptxrun.KernelSpec) ([][]byte, error) {
	defer r.release()
	a, at := c.arguments(r)
	defer a.Release()
	config := driver.Config{Grid: driver.D1(c.grid), Block: driver.D1(uint32(spec.Block))}
	if r.dev.Info().Kind != driver.KindCPU { // where twins need none
		config.Shared = spec.Shared
	}
	if err := r.stream.Launch(k, config, a); err != nil {
		return nil, err
	}
	if err := r.stream.Synchronize(); err != nil {
		return nil, err
	}
	return c.results(r, at), nil
}

// elements are n values of a type, small whole numbers, so that sums and
// products of floats are exact in any order.
func elements(r *rand.Rand, typ string, op string, n int) []byte {
	size := width(typ) / 8
	b := make([]byte, n*size)
	for i := range n {
		v := r.Uint64()
		if typ[0] == 'f' {
			x := float64(r.IntN(7) - 3)
			if op == "prod" {
				x = []float64{1, 1, 2, 0.5, -1}[r.IntN(5)]
			}
			v = math.Float64bits(x)
			if size == 4 {
				v = uint64(math.Float32bits(float32(x)))
			}
		}
		for k := range size {
			b[i*size+k] = byte(v >> (8 * k))
		}
	}
	return b
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// crossings are the launches of a kernel with n elements, or runs.
func crossings(m ptxrun.ModuleSpec, k ptxrun.KernelSpec, n int64, resident int64) (list []crossing) {
	r := rand.New(rand.NewPCG(uint64(n), 11))
	part := strings.Split(k.Name, "_")
	stem := strings.Join(part[:min(2, len(part))], "_")
	tiles := int64(1)
	if k.Tile > 0 {
		tiles = ceilDiv(n, k.Tile)
	}
	switch {
	case n == 0:
		return nil
	case part[0] == "scan":
		op, typ := part[2], part[len(part)-1]
		size := m.ValueSize
		in := elements(r, part[3], op, int(n)) // a narrower type in some
		out := result(make([]byte, int(n)*size))
		init := elements(r, typ, op, 1)
		switch stem {
		case "scan_upsweep":
			return []crossing{{uint32(tiles), []value{memory(in), scalar(uint64(n)), result(make([]byte, tiles*int64(size)))}}}
		case "scan_downsweep":
			for exclusive := range uint32(2) {
				prefixes := value{scalar: make([]byte, 8)}
				if exclusive == 1 {
					prefixes = memory(elements(r, typ, op, int(tiles)))
				}
				list = append(list, crossing{uint32(tiles), []value{memory(in), out, scalar(uint64(n)), prefixes,
					{scalar: init}, scalar(exclusive)}})
			}
		case "scan_pass", "scan_bulk":
			state, first := passState(r, tiles*int64((size+3)/4))
			for mode := range uint32(4) { // exclusive, and in reverse
				list = append(list, crossing{uint32(min(tiles, resident)), []value{memory(in), out, scalar(uint64(n)),
					state, first, {scalar: init}, scalar(mode)}})
			}
		case "scan_segmented":
			const exclusive, reverse, bits = 1, 2, 4
			state, first := passState(r, tiles*int64((size+3)/4))
			heads, packed := make([]byte, n), make([]byte, (n+63)/64*8)
			for i := range heads {
				heads[i] = byte(truth(r.IntN(9) == 0))
				packed[i/8] |= heads[i] << (i % 8)
			}
			for mode, h := range map[uint32]value{0: {scalar: make([]byte, 8)}, exclusive: memory(heads), reverse: memory(heads),
				exclusive | reverse | bits: memory(packed), bits: memory(packed)} {
				list = append(list, crossing{uint32(min(tiles, resident)), []value{memory(in), out, scalar(uint64(n)), h,
					state, first, {scalar: init}, scalar(mode)}})
			}
		default:
			panic("no launch is known for " + k.Name)
		}
	case part[0] == "select":
		return selectCrossings(r, part, k, n, resident)
	case stem == "lcs_spinwait":
		word := func(n int64) []byte { return elements(r, "u8", "", int(n)) }
		rows, cols := min(n, 70), min(n/2+1, 50)
		a, b := word(rows), word(cols)
		for i := range a {
			a[i] &= 3
		}
		for i := range b {
			b[i] &= 3
		}
		table := slices.Repeat([]int32{-1}, int(rows*cols))
		list = append(list, crossing{uint32(ceilDiv(rows, 16) * ceilDiv(cols, 16)),
			[]value{memory(a), scalar(uint64(rows)), memory(b), scalar(uint64(cols)), result(table), memory(make([]uint64, 1))}})
	case stem == "rle_encode", stem == "rle_decode" && (part[2] == "pass" || part[2] == "bulk"):
		return runPassCrossings(r, part, k, n, tiles, resident)
	case part[0] == "lcs":
		return lcsCrossings(r, part, k, n)
	case part[0] == "rle":
		return runCrossings(r, part, stem, k, n, tiles)
	case part[0] == "run", part[0] == "runs":
		return encodedCrossings(r, part, stem, n, tiles)
	case part[0] == "crc32c":
		for _, bytes := range []int64{n, n / 4 * 4} {
			state, first := passState(r, 0)
			list = append(list, crossing{uint32(tiles), []value{memory(elements(r, "u8", "", int(bytes))), scalar(uint64(bytes)), state, first, result(make([]uint32, 1))}})
		}
	case part[0] == "segment":
		return segmentCrossings(r, part, n, tiles)
	default:
		panic("no launch is known for " + k.Name)
	}
	return list
}

// passState is the state of a single pass, with so many words of totals, and its
// first ticket: a new one, or one as earlier passes have left it.
func passState(r *rand.Rand, words int64) (state, first value) {
	s := make([]uint64, 32+words)
	tickets := uint32(0)
	if r.IntN(2) == 0 {
		tickets = 1 + r.Uint32N(1<<30)
		s[0] = uint64(tickets)
		for i := range words {
			s[32+i] = uint64(2*(1+r.Uint32N(tickets))|r.Uint32N(2))<<32 | r.Uint64()>>32
		}
	}
	return memory(s), scalar(tickets)
}

// segmentCrossings are those of the kernels that make a bit an element.
func segmentCrossings(r *rand.Rand, part []string, n, tiles int64) (list []crossing) {
	for reverse := range uint32(2) {
		words := result(make([]uint32, ceilDiv(n, 32)))
		if part[1] == "heads" {
			size := int64(1)
			if part[2] != "flags" {
				size = int64(width(part[2]) / 8)
			}
			keys := make([]byte, n*size)
			for i := range n {
				keys[i*size] = byte(r.IntN(5) / 4)
			}
			list = append(list, crossing{uint32(tiles), []value{memory(keys), scalar(uint64(n)), words, scalar(reverse)}})
			continue
		}
		// n segments of up to two elements each.
		offsets := make([]uint64, n)
		for i := range offsets[1:] {
			offsets[i+1] = offsets[i] + r.Uint64N(3)
		}
		total := offsets[n-1]
		words = result(make([]uint32, ceilDiv(int64(total), 32)))
		list = append(list, crossing{uint32(tiles), []value{memory(sized(offsets, part[2])), scalar(uint64(n)), scalar(total), words,
			scalar(reverse), result(make([]uint32, 1))}})
	}
	return list
}

// sized are numbers in the width that a kernel takes.
func sized(v []uint64, typ string) []byte {
	size := width(typ) / 8
	b := make([]byte, 0, len(v)*size)
	for _, x := range v {
		for k := range size {
			b = append(b, byte(x>>(8*k)))
		}
	}
	return b
}

// runCrossings are those of the run-length kernels.
func runCrossings(r *rand.Rand, part []string, stem string, k ptxrun.KernelSpec, n, tiles int64) (list []crossing) {
	typ := part[len(part)-1] // of positions or lengths; of values in decode
	if stem == "rle_mark" || stem == "rle_finish" {
		typ = part[2]
	}
	size := int64(width(typ) / 8)
	// A raw input of runs, and what the kernels before this one make of it.
	raw := make([]byte, n*size)
	var starts, scanned, ends []uint64
	for i := range n {
		if i == 0 || r.IntN(4) == 0 {
			starts = append(starts, uint64(i))
		}
		raw[i*size] = byte(len(starts) * 37)
		scanned = append(scanned, uint64(len(starts)))
	}
	runs := int64(len(starts))
	ends = append(ends, starts[1:]...)
	ends = append(ends, uint64(n))
	count := func() value { return result([]uint64{uint64(runs)}) }
	room := max(runs, 1)
	switch stem {
	case "rle_mark":
		list = append(list, crossing{uint32(tiles), []value{memory(raw), scalar(uint64(n)), {memory: sized(make([]uint64, n), part[3]), out: true}}})
	case "rle_scatter":
		for _, capacity := range []int64{room, room / 2} {
			list = append(list, crossing{uint32(tiles), []value{memory(sized(scanned, typ)), scalar(uint64(n)),
				{memory: sized(make([]uint64, room), typ), out: true}, scalar(uint64(capacity)), result(make([]uint64, 1))}})
		}
	case "rle_finish":
		for _, capacity := range []int64{room, room - 1} {
			list = append(list, crossing{3, []value{memory(raw), scalar(uint64(n)), memory(sized(starts, part[3])), count(), scalar(uint64(capacity)),
				result(make([]byte, room*size)), {memory: sized(make([]uint64, room), part[4]), out: true}}})
		}
	case "rle_decode":
		values := raw[:runs*size]
		grid := min(ceilDiv(runs, k.Tile), 5)
		if part[2] == "tiled" {
			grid = tiles
		}
		list = append(list, crossing{uint32(grid), []value{memory(values), memory(ends), scalar(uint64(runs)), result(raw), scalar(uint64(n))}})
	default:
		panic("no launch is known for " + k.Name)
	}
	return list
}

// crossSizes is the shared size list: around a warp, the threads of a block, the
// tile.
func crossSizes(k ptxrun.KernelSpec) []int64 {
	tile := max(k.Tile, 64)
	return []int64{1, 2, 31, 32, 33, int64(k.Block) - 1, int64(k.Block) + 1, tile - 1, tile, tile + 1, 2*tile + 17}
}

// leftOut says whether short mode leaves a module out: one for a type that is not
// uint32, or for a scan other than the sum.
func leftOut(module string) bool {
	typ := module[strings.LastIndexByte(module, '_')+1:]
	bits, err := strconv.Atoi(strings.TrimLeft(typ, "uif"))
	typed := err == nil && bits > 0
	return testing.Short() && (typed && typ != "u32" || strings.HasPrefix(module, "scan_") && !strings.HasSuffix(module, "_sum_u32"))
}

// modules are the embedded modules of a target, with their PTX and twins, but
// those that short mode leaves out.
func modules(t *testing.T, target int) iter.Seq2[ptxrun.ModuleSpec, driver.Image] {
	return func(yield func(ptxrun.ModuleSpec, driver.Image) bool) {
		for _, m := range ptxrun.Modules() {
			if !slices.Contains(m.Targets, target) || leftOut(m.Name) {
				continue
			}
			text, _, err := ptx.Source(m.Name, target)
			require.NoError(t, err)
			image := driver.Image{Name: m.Name, PTX: text, Twins: map[string]driver.Twin{}}
			for _, k := range m.Kernels {
				image.Twins[k.Name] = k.Twin
			}
			if !yield(m, image) {
				return
			}
		}
	}
}

// TestKernelsEqualTwins runs every kernel of the project, in every variant, over
// the size list, and compares what it leaves in memory with its Go twin. It does
// so again with the checks for races and uninitialised memory. In short mode it
// takes fewer sizes, and of most kernels only those of 32-bit numbers.
func TestKernelsEqualTwins(t *testing.T) {
	host, err := cpu.Open()
	require.NoError(t, err)
	twins := newRig(t, host)
	t.Cleanup(twins.close)
	kernels := 0
	for _, target := range []int{70, 80, 90} {
		plain := emulator(t, emu.WithCapability(target))
		strict := emulator(t, emu.WithCapability(target), emu.WithRaceCheck(), emu.WithInitCheck())
		for m, image := range modules(t, target) {
			for _, k := range m.Kernels {
				if k.Target > target {
					continue
				}
				kernels++
				t.Run(fmt.Sprintf("sm_%d/%s", target, k.Name), func(t *testing.T) { cross(t, m, k, image, twins, plain, strict) })
			}
			for _, r := range []*rig{twins, plain, strict} {
				if loaded := r.modules[m.Name]; loaded != nil {
					require.NoError(t, loaded.Close())
					delete(r.modules, m.Name)
				}
			}
		}
	}
	require.Greater(t, kernels, 40)
}

func cross(t *testing.T, m ptxrun.ModuleSpec, k ptxrun.KernelSpec, image driver.Image, twins, plain, checked *rig) {
	sizes := crossSizes(k)
	if testing.Short() {
		sizes = []int64{1, 31, 33, sizes[len(sizes)-1]}
	}
	run := func(r *rig, c crossing) [][]byte {
		kernel := r.entry(image, k)
		out, err := c.launch(r, kernel, k)
		require.NoError(t, err)
		return out
	}
	for i, n := range sizes {
		for _, c := range crossings(m, k, n, 6) {
			want := run(twins, c)
			require.Equal(t, want, run(plain, c), "n = %d", n)
			if i == 2 || i == len(sizes)-1 {
				require.Equal(t, want, run(checked, c), "n = %d", n)
			}
		}
	}
}

// entry finds a kernel of an image, ready for its shared memory.
func (r *rig) entry(image driver.Image, spec ptxrun.KernelSpec) driver.Kernel {
	if r.modules[image.Name] == nil {
		m, err := r.dev.Load(image)
		require.NoError(r.t, err)
		r.modules[image.Name] = m
	}
	k, err := r.modules[image.Name].Kernel(spec.Name)
	require.NoError(r.t, err)
	if spec.Shared > r.dev.Info().SharedPerBlock && r.dev.Info().Kind != driver.KindCPU {
		require.NoError(r.t, k.SetMaxDynamicShared(spec.Shared))
	}
	return k
}
