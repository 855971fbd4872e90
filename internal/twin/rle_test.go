package twin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// lengthsOf are the shapes of data that run-length code meets.
var lengthsOf = map[string]func(r *rand.Rand) int{
	"one run":  func(*rand.Rand) int { return 1 << 30 },
	"distinct": func(*rand.Rand) int { return 1 },
	"pairs":    func(*rand.Rand) int { return 2 },
	"short":    func(r *rand.Rand) int { return 1 + r.IntN(9) },
	"mixed":    func(r *rand.Rand) int { return 1 + r.IntN(1<<r.IntN(12)) },
	"long":     func(r *rand.Rand) int { return 200 + r.IntN(100_000) },
}

func testRLE[V, I, L twin.Unsigned](t *testing.T) {
	t.Run(fmt.Sprintf("%T %T %T", V(0), I(0), L(0)), func(t *testing.T) {
		m := newMemory(t)
		for name, length := range lengthsOf {
			for _, n := range []int{1, 2, 31, 32, 33, 1000, 1<<16 - 1, 1 << 16, 1<<16 + 1, 200_001} {
				roundTrip[V, I, L](m, fmt.Sprintf("%s, n %d", name, n), n, length)
				m.free()
			}
		}
	})
}

// roundTrip goes through all run-length kernels and compares each one's output
// with what the data was made from.
func roundTrip[V, I, L twin.Unsigned](m *memory, what string, n int, length func(*rand.Rand) int) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	var raw, values []V
	var lengths []L
	var starts []I
	var ends []uint64
	flags := make([]I, n)
	for v := V(r.Uint64()); len(raw) < n; v += V(1 + r.IntN(100)) {
		k := min(length(r), n-len(raw))
		flags[len(raw)] = 1
		starts, values, lengths = append(starts, I(len(raw))), append(values, v), append(lengths, L(k))
		for range k {
			raw = append(raw, v)
		}
		ends = append(ends, uint64(len(raw)))
	}
	runs := len(values)
	size := uint64(n)
	rawAt := store(m, raw)

	flagsAt := space[I](m, n)
	require.NoError(m, run(m, twin.RLEMark[V, I](), driver.NewArgs().Ptr(rawAt).Uint64(size).Ptr(flagsAt)), what)
	require.True(m, slices.Equal(flags, load[I](m, flagsAt, n)), "flags: "+what)

	scanned := load[I](m, flagsAt, n)
	for i := 1; i < n; i++ {
		scanned[i] += scanned[i-1]
	}
	startsAt, countAt := space[I](m, runs), space[uint64](m, 1)
	require.NoError(m, run(m, twin.RLEScatter[I](), driver.NewArgs().
		Ptr(flagsAt).Uint64(size).Ptr(startsAt).Uint64(uint64(runs)).Ptr(countAt)), what)
	require.EqualValues(m, runs, one[uint64](m, countAt), what)
	require.True(m, slices.Equal(starts, load[I](m, startsAt, runs)), "starts: "+what)

	valuesAt, lengthsAt := space[V](m, runs), space[L](m, runs)
	require.NoError(m, run(m, twin.RLEFinish[V, I, L](), driver.NewArgs().
		Ptr(rawAt).Uint64(size).Ptr(startsAt).Ptr(countAt).Uint64(uint64(runs)).Ptr(valuesAt).Ptr(lengthsAt)), what)
	require.True(m, slices.Equal(values, load[V](m, valuesAt, runs)), "values: "+what)
	require.True(m, slices.Equal(lengths, load[L](m, lengthsAt, runs)), "lengths: "+what)

	valuesAt, lengthsAt = space[V](m, runs), space[L](m, runs)
	require.NoError(m, run(m, twin.RLEEncode[V, L](), driver.NewArgs().
		Ptr(rawAt).Uint64(size).Ptr(valuesAt).Ptr(lengthsAt).Uint64(uint64(runs)).Ptr(countAt).Ptr(0).Ptr(0).Uint32(0)), what)
	require.EqualValues(m, runs, one[uint64](m, countAt), what)
	require.True(m, slices.Equal(values, load[V](m, valuesAt, runs)), "values in one pass: "+what)
	require.True(m, slices.Equal(lengths, load[L](m, lengthsAt, runs)), "lengths in one pass: "+what)

	totalAt := space[uint64](m, 1)
	for _, window := range [][2]int{{0, n}, {n / 3, n / 2}} {
		from, part := window[0], min(window[1], n-window[0])
		outAt := space[V](m, part)
		require.NoError(m, run(m, twin.RLEDecodePass[V, L](), driver.NewArgs().
			Ptr(valuesAt).Ptr(lengthsAt).Uint64(uint64(runs)).Ptr(outAt).Uint64(uint64(from)).Uint64(uint64(window[1])).Ptr(totalAt).Ptr(0)), what)
		require.EqualValues(m, n, one[uint64](m, totalAt), what)
		require.True(m, slices.Equal(raw[from:from+part], load[V](m, outAt, part)), "decoded in one pass: "+what)
	}

	endsAt := store(m, ends)

	outAt := space[V](m, n)
	require.NoError(m, run(m, twin.RLEDecode[V](), driver.NewArgs().
		Ptr(valuesAt).Ptr(endsAt).Uint64(uint64(runs)).Ptr(outAt).Uint64(size)), what)
	require.True(m, slices.Equal(raw, load[V](m, outAt, n)), "decoded: "+what)
}

func TestRLE(t *testing.T) {
	testRLE[uint8, uint32, uint32](t)
	testRLE[uint8, uint64, uint64](t)
	testRLE[uint16, uint32, uint64](t)
	testRLE[uint32, uint64, uint32](t)
	testRLE[uint64, uint32, uint32](t)
}

// TestRLETooManyRuns has room for fewer runs than there are: the count is told,
// what fits is stored, and nothing else is written.
func TestRLETooManyRuns(t *testing.T) {
	m := newMemory(t)
	const n, capacity = 1000, 600
	scanned := make([]uint32, n)
	for i := range scanned {
		scanned[i] = uint32(i + 1)
	}
	startsAt, countAt := space[uint32](m, capacity), space[uint64](m, 1)
	require.NoError(t, run(m, twin.RLEScatter[uint32](), driver.NewArgs().
		Ptr(store(m, scanned)).Uint64(n).Ptr(startsAt).Uint64(capacity).Ptr(countAt)))
	assert.EqualValues(t, n, one[uint64](m, countAt))
	for i, s := range load[uint32](m, startsAt, capacity) {
		require.EqualValues(t, i, s)
	}

	raw := make([]uint8, n)
	for i := range raw {
		raw[i] = uint8(i)
	}
	const fits = capacity - 1 // the last run stored ends where the next begins
	finish := func(twin driver.Twin, args *driver.Args, valuesAt, lengthsAt driver.Ptr) {
		require.NoError(t, run(m, twin, args))
		assert.Equal(t, raw[:fits], load[uint8](m, valuesAt, fits))
		assert.Equal(t, slices.Repeat([]uint32{1}, fits), load[uint32](m, lengthsAt, fits))
		assert.EqualValues(t, n, one[uint64](m, countAt))
	}
	valuesAt, lengthsAt := store(m, make([]uint8, fits)), store(m, make([]uint32, fits))
	finish(twin.RLEFinish[uint8, uint32, uint32](), driver.NewArgs().
		Ptr(store(m, raw)).Uint64(n).Ptr(startsAt).Ptr(countAt).Uint64(fits).Ptr(valuesAt).Ptr(lengthsAt), valuesAt, lengthsAt)
	valuesAt, lengthsAt = store(m, make([]uint8, fits)), store(m, make([]uint32, fits))
	finish(twin.RLEEncode[uint8, uint32](), driver.NewArgs().
		Ptr(store(m, raw)).Uint64(n).Ptr(valuesAt).Ptr(lengthsAt).Uint64(fits).Ptr(countAt).Ptr(0).Ptr(0).Uint32(0), valuesAt, lengthsAt)
}

// TestDecodeEmptyRuns has runs of no elements before, between and after others.
func TestDecodeEmptyRuns(t *testing.T) {
	m := newMemory(t)
	outAt := space[uint8](m, 5)
	require.NoError(t, run(m, twin.RLEDecode[uint8](), driver.NewArgs().
		Ptr(store(m, []uint8{9, 1, 8, 7, 2, 6})).Ptr(store(m, []uint64{0, 2, 2, 2, 5, 5})).Uint64(6).Ptr(outAt).Uint64(5)))
	assert.Equal(t, []uint8{1, 1, 2, 2, 2}, load[uint8](m, outAt, 5))
}

// TestDecodeUncovered checks that run ends which do not cover the output are
// refused before anything is written.
func TestDecodeUncovered(t *testing.T) {
	m := newMemory(t)
	outAt := store(m, []uint8{0, 0, 0})
	err := run(m, twin.RLEDecode[uint8](), driver.NewArgs().
		Ptr(store(m, []uint8{9})).Ptr(store(m, []uint64{2})).Uint64(1).Ptr(outAt).Uint64(3))
	require.ErrorIs(t, err, driver.ErrCorrupt)
	assert.Equal(t, []uint8{0, 0, 0}, load[uint8](m, outAt, 3))
	err = run(m, twin.RLEDecode[uint8](), driver.NewArgs().Ptr(0).Ptr(0).Uint64(0).Ptr(outAt).Uint64(3))
	require.ErrorIs(t, err, driver.ErrCorrupt)
}
