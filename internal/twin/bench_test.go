package twin_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// bench runs a twin on the cpu device, on all cores. setup allocates and fills
// memory and returns the arguments; bytes is what a launch reads and writes.
func bench(b *testing.B, bytes int64, t driver.Twin, setup func(m *benchMemory) *driver.Args) {
	d, err := cpu.Open()
	require.NoError(b, err)
	mod, err := d.Load(driver.Image{Name: "bench", Twins: map[string]driver.Twin{"k": t}})
	require.NoError(b, err)
	k, err := mod.Kernel("k")
	require.NoError(b, err)
	s, err := d.NewStream()
	require.NoError(b, err)
	m := &benchMemory{b: b, d: d, s: s}
	a := setup(m)
	defer a.Release()
	require.NoError(b, s.Synchronize())
	b.SetBytes(bytes)
	b.ResetTimer()
	for range b.N {
		require.NoError(b, s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, a))
		require.NoError(b, s.Synchronize())
	}
	b.StopTimer()
	for _, p := range m.held {
		require.NoError(b, d.Free(p))
	}
	require.NoError(b, d.Close())
}

type benchMemory struct {
	b    *testing.B
	d    driver.Device
	s    driver.Stream
	held []driver.Ptr
}

// alloc returns touched memory, so that no launch pays for its pages.
func (m *benchMemory) alloc(bytes int64) driver.Ptr {
	p, err := m.d.Alloc(bytes)
	require.NoError(m.b, err)
	require.NoError(m.b, m.s.Fill(p, 0, bytes))
	m.held = append(m.held, p)
	return p
}

func put[T any](m *benchMemory, v []T) driver.Ptr {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
	p := m.alloc(int64(len(bytes)))
	require.NoError(m.b, m.s.CopyToDevice(p, bytes))
	return p
}

const benchN = 1 << 24

func benchScan[T any](b *testing.B, name string, op twin.Op[T]) {
	size := int(unsafe.Sizeof(op.Identity))
	tile := int64(16384 / max(size, 4))
	identity := unsafe.Slice((*byte)(unsafe.Pointer(&op.Identity)), size)
	b.Run("upsweep_"+name, func(b *testing.B) {
		bench(b, benchN*int64(size), twin.ScanUpsweep(op, tile), func(m *benchMemory) *driver.Args {
			return driver.NewArgs().Ptr(m.alloc(benchN * int64(size))).Uint64(benchN).Ptr(m.alloc(benchN / tile * int64(size)))
		})
	})
	for _, exclusive := range []uint32{0, 1} {
		b.Run(fmt.Sprintf("downsweep_%s/exclusive=%d", name, exclusive), func(b *testing.B) {
			bench(b, 2*benchN*int64(size), twin.ScanDownsweep(op, tile), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(m.alloc(benchN*int64(size))).Ptr(m.alloc(benchN*int64(size))).Uint64(benchN).
					Ptr(0).Bytes(identity, size).Uint32(exclusive)
			})
		})
	}
}

func BenchmarkScan(b *testing.B) {
	benchScan(b, "sum_u8", twin.Sum[uint8]())
	benchScan(b, "sum_u16", twin.Sum[uint16]())
	benchScan(b, "sum_u32", twin.Sum[uint32]())
	benchScan(b, "sum_u64", twin.Sum[uint64]())
	benchScan(b, "sum_f32", twin.Sum[float32]())
	benchScan(b, "sum_f64", twin.Sum[float64]())
	benchScan(b, "max_i32", twin.Max[int32]())
	benchScan(b, "max_f32", twin.Max[float32]())
	benchScan(b, "satsum_u64", twin.SaturatingSum())
	benchScan(b, "custom_u32", twin.Custom(0, func(a, b uint32) uint32 { return a + b }))
}

// runsOf are values and run ends whose lengths are uniform in [1, 2·mean-1].
func runsOf(mean, total int) (raw, values []byte, ends []uint64, starts []uint32) {
	r := rand.New(rand.NewPCG(1, uint64(mean)))
	for len(raw) < total {
		v := byte(len(values)*7 + 1)
		starts = append(starts, uint32(len(raw)))
		for range min(1+r.IntN(2*mean-1), total-len(raw)) {
			raw = append(raw, v)
		}
		values, ends = append(values, v), append(ends, uint64(len(raw)))
	}
	return raw, values, ends, starts
}

func BenchmarkRLE(b *testing.B) {
	for _, mean := range []int{1, 2, 16, 256, 65536} {
		raw, values, ends, starts := runsOf(mean, benchN)
		scanned := make([]uint32, len(raw))
		for r, e := range ends {
			for k := uint64(starts[r]); k < e; k++ {
				scanned[k] = uint32(r + 1)
			}
		}
		runs := uint64(len(values))
		name := func(s string) string { return fmt.Sprintf("%s/mean=%d", s, mean) }
		b.Run(name("mark_u8_u32"), func(b *testing.B) {
			bench(b, 5*benchN, twin.RLEMark[uint8, uint32](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, raw)).Uint64(benchN).Ptr(m.alloc(4 * benchN))
			})
		})
		b.Run(name("scatter_u32"), func(b *testing.B) {
			bench(b, 4*benchN+4*int64(runs), twin.RLEScatter[uint32](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, scanned)).Uint64(benchN).Ptr(m.alloc(4 * int64(runs))).Uint64(runs).Ptr(m.alloc(8))
			})
		})
		b.Run(name("finish_u8_u32_u32"), func(b *testing.B) {
			bench(b, 10*int64(runs), twin.RLEFinish[uint8, uint32, uint32](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, raw)).Uint64(benchN).Ptr(put(m, starts)).Ptr(put(m, []uint64{runs})).Uint64(runs).
					Ptr(m.alloc(int64(runs))).Ptr(m.alloc(4 * int64(runs)))
			})
		})
		b.Run(name("encode_u8_u32"), func(b *testing.B) {
			bench(b, benchN, twin.RLEEncode[uint8, uint32](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, raw)).Uint64(benchN).Ptr(m.alloc(int64(runs))).Ptr(m.alloc(4 * int64(runs))).Uint64(runs).Ptr(m.alloc(8)).Ptr(0).Ptr(0).Uint32(0)
			})
		})
		b.Run(name("decode_pass_u8_u32"), func(b *testing.B) {
			lengths := make([]uint32, runs)
			for r, e := range ends {
				lengths[r] = uint32(e) - starts[r]
			}
			bench(b, benchN, twin.RLEDecodePass[uint8, uint32](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, values)).Ptr(put(m, lengths)).Uint64(runs).Ptr(m.alloc(benchN)).Uint64(0).Uint64(benchN).Ptr(m.alloc(8)).Ptr(0)
			})
		})
		b.Run(name("decode_u8"), func(b *testing.B) {
			bench(b, benchN, twin.RLEDecode[uint8](), func(m *benchMemory) *driver.Args {
				return driver.NewArgs().Ptr(put(m, values)).Ptr(put(m, ends)).Uint64(runs).Ptr(m.alloc(benchN)).Uint64(benchN)
			})
		})
	}
}

func BenchmarkLCS(b *testing.B) {
	const n = 4096
	text := make([]byte, 2*n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range text {
		text[i] = "acgt"[r.IntN(4)]
	}
	bench(b, n*n, twin.LCSSpinWait(), func(m *benchMemory) *driver.Args {
		return driver.NewArgs().Ptr(put(m, text[:n])).Uint64(n).Ptr(put(m, text[n:])).Uint64(n).Ptr(m.alloc(4 * n * n)).Ptr(m.alloc(8))
	})
}

// BenchmarkCopy is the memory speed that the others are held against.
func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 4*benchN), make([]byte, 4*benchN)
	b.SetBytes(8 * benchN)
	for b.Loop() {
		copy(dst, src)
	}
}
