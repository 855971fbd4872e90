package twin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// selection is a criterion: its kernels' twins, the parameters before n, and the
// definition of what it keeps.
type selection[V twin.Unsigned] struct {
	name    string
	sel     driver.Twin
	count   driver.Twin
	flagged bool // flags follow in; counting reads nothing else
	scalars func(a *driver.Args)
	keep    func(in []V, flags []uint8, i int) bool
}

func selections[V twin.Unsigned](value func(a *driver.Args, v V)) []selection[V] {
	none := func(*driver.Args) {}
	within := func(negate uint32) func(a *driver.Args) {
		return func(a *driver.Args) {
			value(a, 0)
			value(a, 3)
			value(a, 4)
			a.Uint32(negate)
		}
	}
	return []selection[V]{
		{"flagged", twin.SelectFlagged[V](), twin.CountFlagged(), true, none, func(_ []V, flags []uint8, i int) bool { return flags[i] != 0 }},
		{"within", twin.SelectCompare[V](), twin.CountCompare[V](), false, within(0), func(in []V, _ []uint8, i int) bool { return in[i] >= 3 && in[i] <= 7 }},
		{"outside", twin.SelectCompare[V](), twin.CountCompare[V](), false, within(1), func(in []V, _ []uint8, i int) bool { return in[i] < 3 || in[i] > 7 }},
		{"unique", twin.SelectUnique[V](), twin.CountUnique[V](), false, none, func(in []V, _ []uint8, i int) bool { return i == 0 || in[i] != in[i-1] }},
	}
}

func testSelect[V twin.Unsigned](t *testing.T, value func(a *driver.Args, v V)) {
	t.Run(fmt.Sprintf("%T", V(0)), func(t *testing.T) {
		m := newMemory(t)
		r := rand.New(rand.NewPCG(7, 8))
		for _, n := range []int{1, 33, 4095, 4096, 4097, 1<<16 - 1, 1 << 16, 1<<16 + 1, 200_001, 65<<16 + 3} {
			for _, chance := range []int{0, 1, 2, 3} { // of four elements
				if n > 1<<16+1 && chance != 2 || n > 1<<20 && sizeOf[V]() > 1 {
					continue
				}
				in, flags := make([]V, n), make([]uint8, n)
				for i := range in {
					if i == 0 || r.IntN(4) < chance {
						in[i] = V(r.IntN(10))
						flags[i] = uint8(r.IntN(256))
					} else {
						in[i] = in[i-1]
					}
				}
				for _, c := range selections(value) {
					c.check(m, in, flags, fmt.Sprintf("%s, n %d, chance %d", c.name, n, chance))
					m.free()
				}
			}
		}
	})
}

func (c selection[V]) check(m *memory, in []V, flags []uint8, what string) {
	n := len(in)
	var kept, rest []V
	for i, v := range in {
		if c.keep(in, flags, i) {
			kept = append(kept, v)
		} else {
			rest = append(rest, v)
		}
	}
	inAt, flagsAt := store(m, in), store(m, flags)
	criterion := func(counting bool) *driver.Args {
		a := driver.NewArgs()
		if !counting || !c.flagged {
			a.Ptr(inAt)
		}
		if c.flagged {
			a.Ptr(flagsAt)
		}
		c.scalars(a)
		return a.Uint64(uint64(n))
	}
	// stored runs the kernel.
	stored := func(outAt, countAt driver.Ptr, capacity int, mode uint32) {
		require.NoError(m, run(m, c.sel, criterion(false).Ptr(outAt).Ptr(countAt).Uint64(uint64(capacity)).Uint32(mode).Ptr(0).Uint32(0)), what)
	}
	same := func(want []V, at driver.Ptr, how string) {
		require.True(m, slices.Equal(want, load[V](m, at, len(want))), "%s: %s", what, how)
	}

	countAt := store(m, []uint64{1000})
	require.NoError(m, run(m, c.count, criterion(true).Ptr(countAt)), what)
	require.EqualValues(m, 1000+len(kept), one[uint64](m, countAt), "a count is added to: "+what)
	countAt = store(m, []uint64{uint64(len(kept))})

	outAt := space[V](m, n)
	stored(outAt, countAt, n, twin.SelectPartition)
	same(slices.Concat(kept, rest), outAt, "partition")
	untouched := store(m, slices.Repeat([]V{99}, len(kept)))
	if len(kept) > 0 {
		stored(untouched, countAt, len(kept)-1, twin.SelectIfFits)
		same(slices.Repeat([]V{99}, len(kept)), untouched, "too little room")
	}
	stored(untouched, countAt, len(kept), twin.SelectIfFits)
	same(kept, untouched, "just room")
	same(in, inAt, "input")
	countAt = space[uint64](m, 1)
	stored(inAt, countAt, n, twin.SelectCount)
	require.EqualValues(m, len(kept), one[uint64](m, countAt), what)
	same(slices.Concat(kept, in[len(kept):]), inAt, "in place")
}

func TestSelect(t *testing.T) {
	testSelect(t, func(a *driver.Args, v uint8) { a.Bytes([]byte{v}, 1) })
	testSelect(t, func(a *driver.Args, v uint16) { a.Bytes([]byte{byte(v), byte(v >> 8)}, 2) })
	testSelect(t, func(a *driver.Args, v uint32) { a.Uint32(v) })
	testSelect(t, func(a *driver.Args, v uint64) { a.Uint64(v) })
}

func TestSelectIndices(t *testing.T) {
	m := newMemory(t)
	const n = 200_001
	flags := make([]uint8, n)
	var want []uint64
	for i := 3; i < n; i += 7 {
		flags[i] = uint8(i | 1)
		want = append(want, uint64(i))
	}
	outAt, countAt := space[uint64](m, len(want)), space[uint64](m, 1)
	require.NoError(m, run(m, twin.SelectIndices[uint64](), driver.NewArgs().
		Ptr(store(m, flags)).Uint64(n).Ptr(outAt).Ptr(countAt).Uint64(n).Uint32(twin.SelectCount).Ptr(0).Uint32(0)))
	require.EqualValues(m, len(want), one[uint64](m, countAt))
	require.Equal(m, want, load[uint64](m, outAt, len(want)))
}

// TestFoldedFloats: the keys of floats rise with them, through both zeros.
func TestFoldedFloats(t *testing.T) {
	m := newMemory(t)
	const negative, fold = 1 << 31, 1<<31 - 1
	in := []uint32{negative | 5, negative | 1, negative, 0, 1, 5} // -5, …, -0, +0, …
	outAt, countAt := space[uint32](m, 2), space[uint64](m, 1)
	require.NoError(m, run(m, twin.SelectCompare[uint32](), driver.NewArgs().
		Ptr(store(m, in)).Uint32(fold).Uint32(^uint32(0)).Uint32(1).Uint32(0).Uint64(6).
		Ptr(outAt).Ptr(countAt).Uint64(6).Uint32(twin.SelectCount).Ptr(0).Uint32(0)))
	require.EqualValues(m, 2, one[uint64](m, countAt))
	require.Equal(m, []uint32{negative, 0}, load[uint32](m, outAt, 2))
}
