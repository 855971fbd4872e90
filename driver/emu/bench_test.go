package emu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx"
)

// scan is the project's recursive scan of n uint32, the block sums in one level.
type scan struct {
	r                   *rig
	upsweep, downsweep  driver.Kernel
	in, out, sums, full driver.Ptr
	n, tiles            int
}

const scanTile = 4096

func newScan(r *rig, n int) *scan {
	text, _, err := ptx.Source("scan_recursive_sum_u32", r.dev.Info().Capability)
	require.NoError(r.t, err)
	m := r.load("scan_recursive_sum_u32", string(text))
	s := &scan{r: r, n: n, tiles: (n + scanTile - 1) / scanTile}
	s.upsweep, err = m.Kernel("scan_upsweep_sum_u32")
	require.NoError(r.t, err)
	s.downsweep, err = m.Kernel("scan_downsweep_sum_u32")
	require.NoError(r.t, err)
	in := make([]uint32, n)
	for i := range in {
		in[i] = uint32(i % 7)
	}
	s.in, s.out, s.sums = upload(r, in), r.alloc(4*n), r.alloc(4*s.tiles)
	return s
}

func (s *scan) run() {
	block := driver.D1(256)
	s.r.run(s.upsweep, driver.D1(uint32(s.tiles)), block, 0, s.in, uint64(s.n), s.sums)
	s.r.run(s.downsweep, driver.D1(uint32((s.tiles+scanTile-1)/scanTile)), block, 0, s.sums, s.sums, uint64(s.tiles), driver.Ptr(0), 0, 1)
	s.r.run(s.downsweep, driver.D1(uint32(s.tiles)), block, 0, s.in, s.out, uint64(s.n), s.sums, 0, 0)
}

// threadInstructions counts what f executes on a device that profiles.
func threadInstructions(t testing.TB, f func(r *rig)) uint64 {
	r := emulator(t, emu.WithProfile())
	f(r)
	var n uint64
	for _, p := range r.dev.(*emu.Device).Profile() {
		n += p.Total().Threads
	}
	return n
}

// BenchmarkScan measures a scan of 2^20 elements with the default checks.
func BenchmarkScan(b *testing.B) {
	const n = 1 << 20
	work := threadInstructions(b, func(r *rig) { newScan(r, n).run() })
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := newScan(emulator(b, emu.WithWorkers(workers)), n)
			for b.Loop() {
				s.run()
			}
			b.ReportMetric(float64(work)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mthread-instr/s")
		})
	}
}

// BenchmarkPrograms measures one worker on the programs in testdata.
func BenchmarkPrograms(b *testing.B) {
	programs := map[string]func(r *rig){
		"matmul": func(r *rig) {
			const n = 128
			a := zeros[float32](r, n*n)
			r.run(r.kernel("matmul.ptx", "matmul"), driver.Dim3{X: n / 16, Y: n / 16, Z: 1}, driver.Dim3{X: 16, Y: 16, Z: 1}, 0, a, a, a, n, n, n)
		},
		"bitonic": func(r *rig) {
			r.run(r.kernel("bitonic.ptx", "bitonic"), driver.D1(64), driver.D1(256), 0, zeros[int64](r, 1<<15), zeros[uint16](r, 1<<15), 1<<15)
		},
		"histogram": func(r *rig) {
			r.run(r.kernel("histogram.ptx", "histogram"), driver.D1(16), driver.D1(256), 1024, zeros[byte](r, 1<<18), uint64(1<<18), zeros[uint32](r, 256))
		},
	}
	for name, f := range programs {
		b.Run(name, func(b *testing.B) {
			work := threadInstructions(b, f)
			r := emulator(b, emu.WithWorkers(1))
			for b.Loop() {
				f(r)
				r.release()
			}
			b.ReportMetric(float64(work)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mthread-instr/s")
		})
	}
}
