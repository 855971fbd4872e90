package emu_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

//go:generate sh testdata/build.sh

// The programs in testdata are of shapes that the project's own kernels have
// not: two-dimensional grids, dynamic shared memory, recursion, calls through
// pointers, atomics in two spaces, threads that wait for each other.

// checked are the options under which a correct program must run clean.
var checked = []emu.Option{emu.WithRaceCheck(), emu.WithInitCheck(), emu.WithMemoryChecks(), emu.WithProfile()}

// eachForeign runs f on all devices, and on the emulator with every check.
func eachForeign(t *testing.T, f func(t *testing.T, r *rig)) {
	eachDevice(t, f)
	t.Run("checked", func(t *testing.T) { f(t, emulator(t, checked...)) })
	t.Run("one worker", func(t *testing.T) { f(t, emulator(t, emu.WithWorkers(1))) })
}

func random[T any](n int, f func(r *rand.Rand) T) []T {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	s := make([]T, n)
	for i := range s {
		s[i] = f(r)
	}
	return s
}

func TestTranspose(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		k := r.kernel("transpose.ptx", "transpose")
		for _, size := range [][2]int{{1, 1}, {32, 32}, {33, 31}, {100, 70}} {
			w, h := size[0], size[1]
			in := random(w*h, func(r *rand.Rand) float32 { return r.Float32() })
			out := r.alloc(4 * w * h)
			r.run(k, driver.Dim3{X: uint32(w+31) / 32, Y: uint32(h+31) / 32, Z: 1}, driver.Dim3{X: 32, Y: 8, Z: 1}, 0, upload(r, in), out, w, h)
			got := download[float32](r, out, w*h)
			for y := range h {
				for x := range w {
					require.Equal(t, in[y*w+x], got[x*h+y])
				}
			}
		}
	})
}

func TestHistogram(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		k := r.kernel("histogram.ptx", "histogram")
		for _, n := range []int{0, 1, 1000, 50_000} {
			data := random(n, func(r *rand.Rand) byte { return byte(r.Uint32() & r.Uint32()) })
			var want [256]uint32
			for _, v := range data {
				want[v]++
			}
			out := zeros[uint32](r, 256)
			r.run(k, driver.D1(5), driver.D1(96), 1024, upload(r, data), uint64(n), out)
			require.Equal(t, want[:], download[uint32](r, out, 256))
		}
	})
}

func TestBitonicSort(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		k := r.kernel("bitonic.ptx", "bitonic")
		const n = 1300
		keys := random(n, func(r *rand.Rand) int64 { return r.Int64N(1000) - 500 })
		for i := range keys {
			keys[i] = keys[i]*n + int64(i) // distinct, so that the order is one
		}
		values := make([]uint16, n)
		for i := range values {
			values[i] = uint16(uint64(keys[i]) * 31)
		}
		dk, dv := upload(r, keys), upload(r, values)
		r.run(k, driver.D1(3), driver.D1(256), 0, dk, dv, n)
		got, gotValues := download[int64](r, dk, n), download[uint16](r, dv, n)
		for at := 0; at < n; at += 512 {
			end := min(at+512, n)
			slices.Sort(keys[at:end])
		}
		require.Equal(t, keys, got)
		for i := range got {
			require.Equal(t, uint16(uint64(got[i])*31), gotValues[i])
		}
	})
}

func TestReduction(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		k := r.kernel("reduce.ptx", "reduce")
		for _, n := range []int{0, 1, 33, 100_000} {
			in := random(n, func(r *rand.Rand) int32 { return int32(r.Uint32()) })
			var want int32
			for _, v := range in {
				want += v
			}
			const grid = 13
			out := r.alloc(4)
			r.run(k, driver.D1(grid), driver.D1(256), 0, upload(r, in), uint64(n), r.alloc(4*grid), out)
			require.Equal(t, want, download[int32](r, out, 1)[0])
		}
	})
}

func TestTreeWalk(t *testing.T) {
	type node struct {
		left, right, value int32
		op                 uint8
		_                  [3]byte
	}
	const n = 60
	nodes := random(n, func(r *rand.Rand) node {
		return node{left: r.Int32N(n+10) - 10, right: r.Int32N(n+10) - 10, value: r.Int32N(100) - 50, op: uint8(r.Uint32N(3))}
	})
	apply := func(op uint8, a, b int64) int64 { return []int64{a + b, a * b % 1000003, max(a, b)}[op] }
	var walk func(at, depth int32) int64
	walk = func(at, depth int32) int64 {
		if at < 0 || depth == 0 {
			return 1
		}
		v := nodes[at]
		return apply(v.op, apply(v.op, walk(v.left, depth-1), walk(v.right, depth-1)), int64(v.value))
	}
	eachForeign(t, func(t *testing.T, r *rig) {
		out := r.alloc(8 * n)
		r.run(r.kernel("tree.ptx", "tree"), driver.D1(2), driver.D1(48), 0, upload(r, nodes), out, n)
		got := download[int64](r, out, n)
		for i := range int32(n) {
			require.Equal(t, walk(i%5, i%7), got[i], i)
		}
	})
}

func TestMatrixProduct(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		const m, n, k = 37, 50, 23
		small := func(r *rand.Rand) float32 { return float32(r.Int32N(21) - 10) } // exact in any order
		a, b := random(m*k, small), random(k*n, small)
		out := r.alloc(4 * m * n)
		r.run(r.kernel("matmul.ptx", "matmul"), driver.Dim3{X: 4, Y: 3, Z: 1}, driver.Dim3{X: 16, Y: 16, Z: 1}, 0, upload(r, a), upload(r, b), out, m, n, k)
		got := download[float32](r, out, m*n)
		for i := range m {
			for j := range n {
				var want float32
				for x := range k {
					want += a[i*k+x] * b[x*n+j]
				}
				require.Equal(t, want, got[i*n+j])
			}
		}
	})
}

func TestThreadsWaitForEachOther(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		const blocks, threads = 4, 80
		const n = blocks * threads
		order := zeros[int32](r, n)
		r.run(r.kernel("spin.ptx", "chain"), driver.D1(blocks), driver.D1(threads), 0, zeros[int32](r, n), order)
		want := int32(1)
		for i, v := range download[int32](r, order, n) {
			if i > 0 {
				want = 2 * want % 1009
			}
			require.Equal(t, want, v)
		}

		r.run(r.kernel("spin.ptx", "backwards"), driver.D1(blocks), driver.D1(threads), 0, zeros[int32](r, n), order, n)
		for i, v := range download[int32](r, order, n) {
			require.Equal(t, int32(n-i), v)
		}

		count := zeros[int32](r, 1)
		r.run(r.kernel("spin.ptx", "lock"), driver.D1(blocks), driver.D1(threads), 0, zeros[int32](r, 1), count, 3)
		require.Equal(t, int32(3*n), download[int32](r, count, 1)[0])

		b := r.alloc(4 * n)
		r.run(r.kernel("spin.ptx", "grid_barrier"), driver.D1(blocks), driver.D1(threads), 0, zeros[uint32](r, 1), r.alloc(4*n), b)
		for i, v := range download[int32](r, b, n) {
			require.Equal(t, int32(n-1-i), v)
		}
	})
}

func TestLoopsThatLanesLeave(t *testing.T) {
	const n, threads = 50, 64
	in := random(n, func(r *rand.Rand) int32 { return r.Int32N(90) })
	want := func(i int32) int32 {
		var sum int32
		for k, v := range in {
			if v == i {
				break
			}
			if v%5 == i%5 {
				continue
			}
			for j := range i % 4 {
				sum += j
				if sum%7 == 3 {
					return sum
				}
			}
			if k > 20 && v%3 == i%3 {
				return -sum
			}
			sum += v
		}
		return sum
	}
	eachForeign(t, func(t *testing.T, r *rig) {
		out := r.alloc(4 * threads)
		r.run(r.kernel("spin.ptx", "breaks"), driver.D1(1), driver.D1(threads), 0, upload(r, in), out, n)
		for i, v := range download[int32](r, out, threads) {
			require.Equal(t, want(int32(i)), v, i)
		}
	})
}

func TestAsynchronousCopies(t *testing.T) {
	eachForeign(t, func(t *testing.T, r *rig) {
		if r.dev.Info().Capability < 90 {
			t.Skip("bulk copies are of sm_90")
		}
		const tiles = 5
		in := random(tiles*512, func(r *rand.Rand) int32 { return int32(r.Uint32()) })
		out := r.alloc(4 * len(in))
		r.run(r.kernel("pipeline.ptx", "staged"), driver.D1(1), driver.D1(64), 0, upload(r, in), out, tiles)
		for i, v := range download[int32](r, out, tiles*256) {
			require.Equal(t, 2*in[i], v)
		}
		r.run(r.kernel("pipeline.ptx", "bulk"), driver.D1(2), driver.D1(128), 0, upload(r, in), out, tiles)
		for i, v := range download[int32](r, out, tiles*512) {
			require.Equal(t, in[i]+1, v)
		}
	})
}
