package twin_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// memory is checked memory for one test: poisoned, and nothing may be left or
// damaged when the test ends.
type memory struct {
	testing.TB
	*hostdev.Space
	held []driver.Ptr
}

func newMemory(t testing.TB) *memory {
	space, err := hostdev.NewSpace(hostdev.WithPoison())
	require.NoError(t, err)
	m := &memory{TB: t, Space: space}
	t.Cleanup(func() { m.free(); assert.Empty(t, space.Close("Close")) })
	return m
}

func (m *memory) alloc(bytes int64) driver.Ptr {
	if bytes == 0 {
		return 0
	}
	a, err := m.Alloc("Alloc", bytes, hostdev.ForDevice)
	require.NoError(m, err)
	m.held = append(m.held, a.Base())
	return a.Base()
}

// free releases everything, which checks the bytes around it.
func (m *memory) free() {
	for _, p := range m.held {
		require.NoError(m, m.Free("Free", p, hostdev.ForDevice))
	}
	m.held = nil
}

func sizeOf[T any]() int64 {
	var v T
	return int64(unsafe.Sizeof(v))
}

func store[T any](m *memory, v []T) driver.Ptr {
	p := m.alloc(int64(len(v)) * sizeOf[T]())
	copy(load[T](m, p, len(v)), v)
	return p
}

func space[T any](m *memory, n int) driver.Ptr { return m.alloc(int64(n) * sizeOf[T]()) }

// load is the memory itself, not a copy.
func load[T any](m *memory, p driver.Ptr, n int) []T {
	s, err := driver.Slice[T](m, p, int64(n))
	require.NoError(m, err)
	return s
}

func one[T any](m *memory, p driver.Ptr) T { return load[T](m, p, 1)[0] }

// run calls a twin with indices handed out in no useful order to several
// goroutines: a twin whose pieces depend on each other fails.
func run(m *memory, t driver.Twin, a *driver.Args) error {
	defer a.Release()
	return t(&driver.TwinLaunch{Config: driver.Config{Grid: driver.D1(1)}, Args: a.Reader(), Mem: m, Parallel: func(n int64, f func(int64)) {
		const workers = 3
		var wg sync.WaitGroup
		for w := range int64(workers) {
			wg.Go(func() {
				for i := n - 1 - w; i >= 0; i -= workers {
					f(i)
				}
			})
		}
		wg.Wait()
	}})
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

const tile = 64

var sizes = []int{0, 1, 31, 32, 33, tile - 1, tile, tile + 1, 2 * tile, 5*tile + 17, 1000}

// scanCase holds an operator against op, written another way.
type scanCase[T any] struct {
	name  string
	twin  twin.Op[T]
	op    func(a, b T) T
	value func(r *rand.Rand) T
	equal func(a, b T) bool
}

func (c scanCase[T]) test(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		m := newMemory(t)
		r := rand.New(rand.NewPCG(1, 2))
		same := func(want, got []T, what string) {
			t.Helper()
			require.Len(t, got, len(want))
			for i := range want {
				require.True(t, c.equal(want[i], got[i]), "%s: element %d is %v, not %v", what, i, got[i], want[i])
			}
		}
		for range 3 {
			x, y := c.value(r), c.value(r)
			require.True(t, c.equal(c.op(x, y), c.twin.Combine(x, y)), "%v, %v", x, y)
			require.True(t, c.equal(c.op(c.twin.Identity, x), x), "identity before %v", x)
			require.True(t, c.equal(c.op(x, c.twin.Identity), x), "identity after %v", x)
		}
		for _, n := range sizes {
			in := make([]T, n)
			for i := range in {
				in[i] = c.value(r)
			}
			tiles := (n + tile - 1) / tile
			prefixes := make([]T, tiles)
			sums := make([]T, tiles)
			for b := range tiles {
				prefixes[b] = c.value(r)
				sums[b] = in[b*tile]
				for _, x := range in[b*tile+1 : min(n, (b+1)*tile)] {
					sums[b] = c.op(sums[b], x)
				}
			}
			sumsAt := space[T](m, tiles)
			require.NoError(t, run(m, twin.ScanUpsweep(c.twin, tile),
				driver.NewArgs().Ptr(store(m, in)).Uint64(uint64(n)).Ptr(sumsAt)))
			same(sums, load[T](m, sumsAt, tiles), fmt.Sprintf("sums of %d", n))

			for variant := range 8 {
				exclusive, inPlace, prefixed := variant&1, variant&2 != 0, variant&4 != 0
				init := c.value(r)
				want := make([]T, n)
				for b := range tiles {
					acc := init
					if prefixed {
						acc = prefixes[b]
					}
					for i := b * tile; i < min(n, (b+1)*tile); i++ {
						next := c.op(acc, in[i])
						want[i] = next
						if exclusive == 1 {
							want[i] = acc
						}
						acc = next
					}
				}
				inAt := store(m, in)
				outAt := inAt
				if !inPlace {
					outAt = space[T](m, n)
				}
				var prefixesAt driver.Ptr
				if prefixed {
					prefixesAt = store(m, prefixes)
				}
				require.NoError(t, run(m, twin.ScanDownsweep(c.twin, tile), driver.NewArgs().
					Ptr(inAt).Ptr(outAt).Uint64(uint64(n)).Ptr(prefixesAt).
					Bytes(bytesOf(&init), int(sizeOf[T]())).Uint32(uint32(exclusive))))
				same(want, load[T](m, outAt, n), fmt.Sprintf("n %d, exclusive %d, in place %v, prefixes %v", n, exclusive, inPlace, prefixed))
				m.free()
			}
		}
	})
}

func exact[T comparable](a, b T) bool { return a == b }

func sameBits[T any](a, b T) bool { return string(bytesOf(&a)) == string(bytesOf(&b)) }

func bits[T twin.Unsigned](r *rand.Rand) T { return T(r.Uint64()) }

func testUnsigned[T twin.Unsigned](t *testing.T) {
	name := fmt.Sprintf("%T", T(0))
	scanCase[T]{"sum " + name, twin.Sum[T](), func(a, b T) T { return a - (^b + 1) }, bits[T], exact[T]}.test(t)
	scanCase[T]{"product " + name, twin.Product[T](), func(a, b T) T { return T(uint64(a) * uint64(b)) },
		func(r *rand.Rand) T { return bits[T](r) | 1 }, exact[T]}.test(t)
	scanCase[T]{"and " + name, twin.And[T](), func(a, b T) T { return ^(^a | ^b) },
		func(r *rand.Rand) T { return bits[T](r) | bits[T](r) | bits[T](r) | bits[T](r) }, exact[T]}.test(t)
	scanCase[T]{"or " + name, twin.Or[T](), func(a, b T) T { return ^(^a & ^b) },
		func(r *rand.Rand) T { return bits[T](r) & bits[T](r) & bits[T](r) & bits[T](r) }, exact[T]}.test(t)
	scanCase[T]{"xor " + name, twin.Xor[T](), func(a, b T) T { return (a | b) &^ (a & b) }, bits[T], exact[T]}.test(t)
	testOrdered(t, name, bits[T])
}

func testOrdered[T twin.Number](t *testing.T, name string, value func(*rand.Rand) T) {
	less := func(a, b T) T {
		if a < b {
			return a
		}
		return b
	}
	greater := func(a, b T) T {
		if a > b {
			return a
		}
		return b
	}
	scanCase[T]{"min " + name, twin.Min[T](), less, value, exact[T]}.test(t)
	scanCase[T]{"max " + name, twin.Max[T](), greater, value, exact[T]}.test(t)
}

func testFloat[T twin.Float](t *testing.T, eps float64) {
	name := fmt.Sprintf("%T", T(0))
	near := func(a, b T) bool { return math.Abs(float64(a-b)) <= eps*max(1, math.Abs(float64(a))) }
	scanCase[T]{"sum " + name, twin.Sum[T](), func(a, b T) T { return a - -b },
		func(r *rand.Rand) T { return T(r.Float64() - 0.5) }, near}.test(t)
	scanCase[T]{"product " + name, twin.Product[T](), func(a, b T) T { return b * a },
		func(r *rand.Rand) T { return T(0.9 + r.Float64()/5) }, near}.test(t)
	testOrdered(t, name, func(r *rand.Rand) T { return T(r.NormFloat64()) })
}

func TestScan(t *testing.T) {
	testUnsigned[uint8](t)
	testUnsigned[uint16](t)
	testUnsigned[uint32](t)
	testUnsigned[uint64](t)
	testOrdered(t, "int8", func(r *rand.Rand) int8 { return int8(r.Uint64()) })
	testOrdered(t, "int16", func(r *rand.Rand) int16 { return int16(r.Uint64()) })
	testOrdered(t, "int32", func(r *rand.Rand) int32 { return int32(r.Uint64()) })
	testOrdered(t, "int64", func(r *rand.Rand) int64 { return int64(r.Uint64()) })
	testFloat[float32](t, 1e-5)
	testFloat[float64](t, 1e-13)
	scanCase[uint64]{"saturating sum", twin.SaturatingSum(), func(a, b uint64) uint64 {
		if b > math.MaxUint64-a {
			return math.MaxUint64
		}
		return a + b
	}, func(r *rand.Rand) uint64 { return r.Uint64() >> r.IntN(12) }, exact[uint64]}.test(t)
}

// affine is x → a·x+b; composing them does not commute.
type affine struct{ a, b int32 }

func compose(f, g affine) affine { return affine{g.a * f.a, g.a*f.b + g.b} }

func TestScanCustom(t *testing.T) {
	scanCase[affine]{"affine", twin.Custom(affine{1, 0}, compose), func(f, g affine) affine {
		at := func(x int32) int32 { return g.a*(f.a*x+f.b) + g.b }
		return affine{at(1) - at(0), at(0)}
	}, func(r *rand.Rand) affine { return affine{r.Int32(), r.Int32()} }, exact[affine]}.test(t)
}

// TestFloatOrder goes through all pairs and triples of the values that floats
// are special about, bit for bit.
func TestFloatOrder(t *testing.T) {
	f32 := []float32{float32(math.Inf(-1)), -1, float32(math.Copysign(0, -1)), 0, math.SmallestNonzeroFloat32, 1, float32(math.Inf(1)),
		math.Float32frombits(0x7fc00000), math.Float32frombits(0xffc12345), math.Float32frombits(0x7fffffff)}
	floatOrder(t, f32, math.Float32frombits(0x7fffffff))
	f64 := []float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, 1, math.Inf(1),
		math.NaN(), math.Float64frombits(0xfff8000000012345), math.Float64frombits(0x7fffffffffffffff)}
	floatOrder(t, f64, math.Float64frombits(0x7fffffffffffffff))
}

// floatOrder gets values in ascending order, the last three being NaNs.
func floatOrder[T twin.Float](t *testing.T, values []T, nan T) {
	numbers := len(values) - 3
	lesser, greater := twin.Min[T](), twin.Max[T]()
	for i, a := range values {
		for j, b := range values {
			low, high := values[min(i, j)], values[max(i, j)]
			if max(i, j) >= numbers {
				low, high = nan, nan
			}
			require.True(t, sameBits(low, lesser.Combine(a, b)), "min %v %v", a, b)
			require.True(t, sameBits(high, greater.Combine(a, b)), "max %v %v", a, b)
			require.True(t, sameBits(low, lesser.Reduce(a, []T{b})), "reduce min %v %v", a, b)
			require.True(t, sameBits(high, greater.Reduce(a, []T{b})), "reduce max %v %v", a, b)
			for _, c := range values {
				for _, op := range []twin.Op[T]{lesser, greater} {
					dst := make([]T, 3)
					op.Scan(op.Identity, dst, []T{a, b, c})
					require.True(t, sameBits(op.Combine(op.Combine(a, b), c), dst[2]), "%v %v %v", a, b, c)
					require.True(t, sameBits(op.Combine(a, op.Combine(b, c)), dst[2]), "%v %v %v", a, b, c)
				}
			}
		}
	}
}

// TestFloatIdentities: an identity leaves all bits alone, the sign of zero too.
func TestFloatIdentities(t *testing.T) {
	for _, op := range []twin.Op[float64]{twin.Sum[float64](), twin.Product[float64](), twin.Min[float64](), twin.Max[float64]()} {
		for _, x := range []float64{math.Copysign(0, -1), 0, 1, -1, math.Inf(1), math.Inf(-1)} {
			require.True(t, sameBits(x, op.Combine(op.Identity, x)), "%v and %v", op.Identity, x)
			require.True(t, sameBits(x, op.Combine(x, op.Identity)), "%v and %v", x, op.Identity)
		}
	}
}

// TestLCS compares with the recurrence as textbooks state it, at sizes on both
// sides of the squares that cores share out.
func TestLCS(t *testing.T) {
	m := newMemory(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 600}, {600, 1}, {31, 33}, {511, 513}, {512, 512}, {513, 1030}, {1100, 700}} {
		a, b := make([]byte, size[0]), make([]byte, size[1])
		for _, s := range [][]byte{a, b} {
			for i := range s {
				s[i] = 'a' + byte(r.IntN(4))
			}
		}
		tableAt := space[int32](m, len(a)*len(b))
		require.NoError(t, run(m, twin.LCSSpinWait(), driver.NewArgs().
			Ptr(store(m, a)).Uint64(uint64(len(a))).Ptr(store(m, b)).Uint64(uint64(len(b))).Ptr(tableAt).Ptr(0)))
		want := make([][]int32, len(a)+1)
		want[0] = make([]int32, len(b)+1)
		got := load[int32](m, tableAt, len(a)*len(b))
		for i := range a {
			want[i+1] = make([]int32, len(b)+1)
			for j := range b {
				if a[i] == b[j] {
					want[i+1][j+1] = want[i][j] + 1
				} else {
					want[i+1][j+1] = max(want[i][j+1], want[i+1][j])
				}
			}
			if len(b) > 0 {
				require.Equal(t, want[i+1][1:], got[i*len(b):(i+1)*len(b)], "row %d of %v", i, size)
			}
		}
		m.free()
	}
}
