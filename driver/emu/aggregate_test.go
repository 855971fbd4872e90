package emu_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// aggregated loads the aggregated version of a kernel.
func (r *rig) aggregated(text []byte, kernel string) (driver.Kernel, *aggregate.Entry) {
	f, err := ast.Parse(kernel, text)
	require.NoError(r.t, err)
	f, entries, err := aggregate.Rewrite(f, aggregate.Options{Name: kernel}, kernel)
	require.NoError(r.t, err)
	k, err := r.load(kernel+" aggregated", f.String()).Kernel(entries[0].Name)
	require.NoError(r.t, err)
	return k, entries[0]
}

// launchAll launches children with these configurations and arguments as one.
func (r *rig) launchAll(k driver.Kernel, e *aggregate.Entry, configs []driver.Config, args []*driver.Args) {
	var starts []uint64
	var threads, shared, blocks uint64
	packed := make([]byte, len(configs)*aggregate.ConfigBytes)
	var params []byte
	stride := (e.Bytes() + 15) &^ 15
	for i, c := range configs {
		starts = append(starts, blocks)
		blocks += c.Grid.Count()
		threads, shared = max(threads, c.Block.Count()), max(shared, uint64(c.Shared))
		aggregate.PutConfig(packed[i*aggregate.ConfigBytes:], c)
		params = append(params, make([]byte, stride)...)
		copy(params[i*stride:], args[i].Buffer())
		args[i].Release()
	}
	l := aggregate.Launch{Children: uint32(len(configs)), End: blocks, Starts: upload(r, starts),
		Configs: aggregate.Column{Base: upload(r, packed), Stride: aggregate.ConfigBytes}}
	base := upload(r, params)
	for _, p := range e.Params {
		l.Args = append(l.Args, aggregate.Column{Base: base + driver.Ptr(p.Offset), Stride: uint32(stride)})
	}
	if int64(shared) > r.dev.Info().SharedPerBlock {
		require.NoError(r.t, k.SetMaxDynamicShared(int64(shared)))
	}
	a := l.Pack()
	defer a.Release()
	require.NoError(r.t, r.stream.Launch(k, driver.Config{Grid: driver.D1(uint32(blocks)), Block: driver.D1(uint32(threads+31) &^ 31), Shared: int64(shared)}, a))
	require.NoError(r.t, r.stream.Synchronize())
}

// TestAggregatedKernelsEqualTwins aggregates every kernel of the project, in
// every variant, runs it as one launch of children of mixed sizes, and compares each
// child's results with its Go twin: on the emulator with the checks for races and
// uninitialised memory, and on the GPU where this build has one. None of the kernels
// is refused.
func TestAggregatedKernelsEqualTwins(t *testing.T) {
	host, err := cpu.Open()
	require.NoError(t, err)
	twins := newRig(t, host)
	t.Cleanup(twins.close)
	var onGPU *rig
	if d := gpu(t); d != nil {
		onGPU = newRig(t, d)
		t.Cleanup(onGPU.close)
	}
	kernels := 0
	for _, target := range []int{70, 80, 90} {
		plain := emulator(t, emu.WithCapability(target))
		strict := emulator(t, emu.WithCapability(target), emu.WithRaceCheck(), emu.WithInitCheck())
		for m, image := range modules(t, target) {
			devices := []*rig{strict}
			if strings.HasPrefix(m.Name, "scan_") && !strings.HasSuffix(m.Name, "_sum_u32") || slices.ContainsFunc([]string{"_u8", "_u16", "_u64"}, func(t string) bool { return strings.HasSuffix(m.Name, t) }) {
				devices[0] = plain
			}
			if onGPU != nil && onGPU.dev.Info().Capability >= target {
				devices = append(devices, onGPU)
			}
			for _, k := range m.Kernels {
				if k.Target > target {
					continue
				}
				kernels++
				for _, device := range devices {
					t.Run(fmt.Sprintf("%s/sm_%d/%s", device.dev.Info().Kind, target, k.Name), func(t *testing.T) {
						aggregatedEqualsTwin(t, m, k, image, twins, device, device == plain)
					})
				}
			}
			for _, r := range append(devices, twins) {
				for name, loaded := range r.modules {
					require.NoError(t, loaded.Close())
					delete(r.modules, name)
				}
			}
		}
	}
	require.Greater(t, kernels, 40)
}

// aggregatedEqualsTwin takes fewer children if few is set.
func aggregatedEqualsTwin(t *testing.T, m ptxrun.ModuleSpec, k ptxrun.KernelSpec, image driver.Image, twins, device *rig, few bool) {
	for _, r := range []*rig{twins, device} {
		defer r.of(t)()
	}
	var children []crossing
	var sizes []int64
	for _, n := range []int64{33, 1, min(max(k.Tile, 64), 2048) + 1} {
		if few && n > 33 && len(children) > 0 {
			continue // some kernels have nothing to do for few elements
		}
		for _, c := range crossings(m, k, n, 2) {
			children, sizes = append(children, c), append(sizes, n)
		}
	}
	var want [][][]byte
	for _, c := range children {
		out, err := c.launch(twins, twins.entry(image, k), k)
		require.NoError(t, err)
		want = append(want, out)
	}
	defer device.release()
	kernel, e := device.aggregated(image.PTX, k.Name)
	var configs []driver.Config
	var args []*driver.Args
	var at [][]driver.Ptr
	for _, c := range children {
		a, p := c.arguments(device)
		args, at = append(args, a), append(at, p)
		configs = append(configs, driver.Config{Grid: driver.D1(c.grid), Block: driver.D1(uint32(k.Block)), Shared: k.Shared})
	}
	device.launchAll(kernel, e, configs, args)
	for i, c := range children {
		require.Equal(t, want[i], c.results(device, at[i]), "child %d, n = %d", i, sizes[i])
	}
}

// foreign is a launch of one of the programs in testdata.
type foreign struct {
	crossing
	driver.Config
}

// foreignLaunches are launches of every kernel in testdata that is right, of size
// i each.
var foreignLaunches = map[string]map[string]func(i int) foreign{
	"transpose.ptx": {"transpose": func(i int) foreign {
		w, h := 9*i+1, 33-2*i
		return foreign{crossing{args: []value{memory(noise(w * h)), result(make([]uint32, w*h)), scalar(uint32(w)), scalar(uint32(h))}},
			driver.Config{Grid: driver.Dim3{X: uint32(w+31) / 32, Y: uint32(h+31) / 32, Z: 1}, Block: driver.Dim3{X: 32, Y: 8, Z: 1}}}
	}},
	"histogram.ptx": {"histogram": func(i int) foreign {
		data := bytesOf(noise(100 * i))
		return foreign{crossing{args: []value{memory(data), scalar(uint64(len(data))), result(make([]uint32, 256))}},
			driver.Config{Grid: driver.D1(uint32(i%3 + 1)), Block: driver.D1(uint32(17 * i)), Shared: 1024}}
	}},
	"bitonic.ptx": {"bitonic": func(i int) foreign {
		n := 300 * i
		return foreign{crossing{args: []value{result(noise(2 * n)), result(bytesOf(noise(n))[:2*n]), scalar(uint32(n))}},
			driver.Config{Grid: driver.D1(uint32(n+511) / 512), Block: driver.D1(256)}}
	}},
	// Its blocks count in a variable of the module, which children that run at a
	// time share, as launches in different streams would. So there is one.
	"reduce.ptx": {"reduce": func(i int) foreign {
		grid := uint32(5)
		if i != 1 {
			grid = 0
		}
		return foreign{crossing{args: []value{memory(noise(1000)), scalar(uint64(1000)), result(make([]uint32, 5)), result(make([]uint32, 1))}},
			driver.Config{Grid: driver.D1(grid), Block: driver.D1(96)}}
	}},
	"tree.ptx": {"tree": func(i int) foreign {
		nodes := make([][4]int32, 20)
		for k := range nodes {
			nodes[k] = [4]int32{int32(k*7%23) - 3, int32(k*5%19) - 2, int32(k), int32(k % 3)}
		}
		return foreign{crossing{args: []value{memory(nodes), result(make([]uint64, 20*i)), scalar(uint32(20 * i))}},
			driver.Config{Grid: driver.D1(2), Block: driver.D1(uint32(10 * i))}}
	}},
	"matmul.ptx": {"matmul": func(i int) foreign {
		m, n, k := 5*i, 20-i, 7+i
		ones := slices.Repeat([]float32{1, 2, -1, 3}, 200)
		return foreign{crossing{args: []value{memory(ones), memory(ones), result(make([]float32, m*n)), scalar(uint32(m)), scalar(uint32(n)), scalar(uint32(k))}},
			driver.Config{Grid: driver.Dim3{X: uint32(n+15) / 16, Y: uint32(m+15) / 16, Z: 1}, Block: driver.Dim3{X: 16, Y: 16, Z: 1}}}
	}},
	"spin.ptx": {
		"chain": func(i int) foreign {
			n := 2 * 20 * i
			return foreign{crossing{args: []value{memory(make([]int32, n)), result(make([]int32, n))}}, driver.Config{Grid: driver.D1(2), Block: driver.D1(uint32(20 * i))}}
		},
		"backwards": func(i int) foreign {
			n := 2 * 20 * i
			return foreign{crossing{args: []value{memory(make([]int32, n)), result(make([]int32, n)), scalar(uint32(n))}}, driver.Config{Grid: driver.D1(2), Block: driver.D1(uint32(20 * i))}}
		},
		"lock": func(i int) foreign {
			return foreign{crossing{args: []value{memory(make([]int32, 1)), result(make([]int32, 1)), scalar(uint32(i))}}, driver.Config{Grid: driver.D1(2), Block: driver.D1(uint32(7 * i))}}
		},
		"grid_barrier": func(i int) foreign {
			n := i * 10 * i
			return foreign{crossing{args: []value{memory(make([]int32, 1)), memory(make([]int32, n)), result(make([]int32, n))}}, driver.Config{Grid: driver.D1(uint32(i)), Block: driver.D1(uint32(10 * i))}}
		},
		"breaks": func(i int) foreign {
			in := make([]int32, 40)
			for k := range in {
				in[k] = int32(k * k % 31)
			}
			return foreign{crossing{args: []value{memory(in), result(make([]int32, 9*i)), scalar(uint32(40))}}, driver.Config{Grid: driver.D1(1), Block: driver.D1(uint32(9 * i))}}
		},
	},
	"pipeline.ptx": {
		"staged": func(i int) foreign {
			return foreign{crossing{args: []value{memory(noise(256 * i)), result(make([]uint32, 256*i)), scalar(uint32(i))}}, driver.Config{Grid: driver.D1(1), Block: driver.D1(64)}}
		},
		"bulk": func(i int) foreign {
			return foreign{crossing{args: []value{memory(noise(512 * i)), result(make([]uint32, 512*i)), scalar(uint32(i))}}, driver.Config{Grid: driver.D1(2), Block: driver.D1(128)}}
		},
	},
	"nvcc.ptx": {"dispatch": func(i int) foreign {
		n := 32 * i
		in := make([]uint32, n)
		for k := range in {
			in[k] = uint32(k * k % 37 % 9)
		}
		return foreign{crossing{args: []value{memory(in), result(make([]uint32, n)), scalar(uint32(70))}},
			driver.Config{Grid: driver.D1(uint32(i)), Block: driver.D1(32), Shared: 128}}
	}},
}

func noise(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i+1) * 2654435761
	}
	return s
}

// TestAggregatedForeignPrograms runs children of mixed sizes, one of no blocks
// among them, separately and as one launch.
func TestAggregatedForeignPrograms(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		for file, kernels := range foreignLaunches {
			if file == "pipeline.ptx" && r.dev.Info().Capability < 90 {
				t.Log("not pipeline.ptx: bulk copies are of sm_90")
				continue
			}
			text, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			for name, launch := range kernels {
				t.Run(name, func(t *testing.T) {
					defer r.of(t)()
					aggregatedEqualsSeparate(t, r, file, name, text, launch)
				})
			}
		}
	})
}

func aggregatedEqualsSeparate(t *testing.T, r *rig, file, name string, text []byte, launch func(i int) foreign) {
	defer r.release()
	var want [][][]byte
	var configs []driver.Config
	var packed []*driver.Args
	var at [][]driver.Ptr
	var children []foreign
	for _, i := range []int{3, 1, 4, 2} {
		f := launch(i)
		if i == 4 {
			f.Grid.X = 0
		}
		children = append(children, f)
		a, p := f.arguments(r)
		if f.Grid.Count() > 0 {
			require.NoError(t, r.stream.Launch(r.kernel(file, name), f.Config, a))
			require.NoError(t, r.stream.Synchronize())
		}
		a.Release()
		want = append(want, f.results(r, p))
	}
	for _, f := range children {
		a, p := f.arguments(r)
		packed, at, configs = append(packed, a), append(at, p), append(configs, f.Config)
	}
	k, e := r.aggregated(text, name)
	r.launchAll(k, e, configs, packed)
	for i, f := range children {
		require.Equal(t, want[i], f.results(r, at[i]), "child %d", i)
	}
}

// TestThreadsThatExitHoldUpNoBarrier is how threads beyond a child's block leave.
// Those that return before a barrier are an error, as they are in CUDA C++.
func TestThreadsThatExitHoldUpNoBarrier(t *testing.T) {
	r := emulator(t)
	for leave, want := range map[string]error{"exit": nil, "ret": driver.ErrSync} {
		k, err := r.load(leave, `.version 8.0
.target sm_70
.address_size 64
.entry k() {
	.reg .pred %p;
	.reg .b32 %t;
	mov.u32 %t, %tid.x;
	setp.ge.u32 %p, %t, 40;
	@%p `+leave+`;
	bar.sync 0;
	ret;
}`).Kernel("k")
		require.NoError(t, err)
		err = r.try(k, driver.D1(1), driver.D1(96), 0)
		if want == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "only 40 of the block's 96 threads come to the barrier")
	}
}
