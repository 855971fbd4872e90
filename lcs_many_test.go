package ptxrun

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// lengthLCS is the length by the definition.
func lengthLCS[T Token](a, b []T) uint32 {
	row := make([]uint32, len(b)+1)
	for _, x := range a {
		diagonal := uint32(0)
		for j, y := range b {
			up := row[j+1]
			if row[j+1] = max(up, row[j]); x == y {
				row[j+1] = diagonal + 1
			}
			diagonal = up
		}
	}
	return row[len(b)]
}

func randomBatch[T Token](r *rand.Rand, letters int, lengths ...int) [][]T {
	batch := make([][]T, len(lengths))
	for i, n := range lengths {
		batch[i] = randomTokens[T](r, n, letters)
	}
	return batch
}

func testLCSBatches[T Token](t *testing.T, d testDevice, rt *Runtime) {
	r := rand.New(rand.NewPCG(uint64(sizeOf[T]()), 3))
	band := int(lcsRows(int(sizeOf[T]())))
	ctx := t.Context()
	lengths := []int{40, 0, 1, 31, 32, 33, 100, 64, band, band + 1, 7, 8, 9, 300}
	if !d.slow && !raceEnabled {
		for range 60 {
			lengths = append(lengths, r.IntN(200))
		}
		lengths = append(lengths, 2*band+5, band-1, 3*band)
	}
	a := randomBatch[T](r, 5, lengths...)
	b := randomBatch[T](r, 5, 5, band+9, 0, 70, 128, 33)

	m, err := LCSMatrix(ctx, rt, a, b)
	require.NoError(t, err)
	for i := range a {
		for j := range b {
			require.Equal(t, lengthLCS(a[i], b[j]), m[i][j], "%d elements with %d", len(a[i]), len(b[j]))
		}
	}
	many, err := LCSMany(ctx, rt, a[6], b)
	require.NoError(t, err)
	require.Equal(t, m[6], many)

	self, err := LCSSelfMatrix(ctx, rt, a)
	require.NoError(t, err)
	var all []LCSPair
	for i := range a {
		for j := range a {
			want := lengthLCS(a[i], a[j])
			require.Equal(t, want, self[i][j], "%d elements with %d", len(a[i]), len(a[j]))
			if i < j {
				all = append(all, LCSPair{i, j, int(want), lcsRatio(int(want), len(a[i]), len(a[j]))})
			}
		}
	}

	defer func(n int64) { lcsResults = n }(lcsResults)
	for _, rows := range []int{1000, 5} { // at a time
		lcsResults = int64(4 * rows * len(a))
		for _, cutoff := range []float64{0, 0.6, 0.75, 1} {
			want := slices.DeleteFunc(slices.Clone(all), func(p LCSPair) bool { return p.Ratio < cutoff })
			got, err := LCSSelfPairs(ctx, rt, a, cutoff)
			require.NoError(t, err)
			requireSame(t, want, got, "cutoff %v, %d rows", cutoff, rows)

			want = nil
			for i := range a {
				for j := range b {
					if ratio := lcsRatio(int(m[i][j]), len(a[i]), len(b[j])); ratio >= cutoff {
						want = append(want, LCSPair{i, j, int(m[i][j]), ratio})
					}
				}
			}
			got, err = LCSPairs(ctx, rt, a, b, cutoff)
			require.NoError(t, err)
			requireSame(t, want, got, "cutoff %v, %d rows, two batches", cutoff, rows)
			if d.slow {
				break
			}
		}
	}
	best, err := LCSBest(ctx, rt, a, b, 3)
	require.NoError(t, err)
	for i := range a {
		var row []LCSPair
		for j := range b {
			row = append(row, LCSPair{i, j, int(m[i][j]), lcsRatio(int(m[i][j]), len(a[i]), len(b[j]))})
		}
		slices.SortStableFunc(row, func(x, y LCSPair) int { return cmp.Compare(y.Ratio, x.Ratio) })
		require.Equal(t, row[:3], best[i])
	}
}

func TestLCSBatches(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		t.Run("u8", func(t *testing.T) { testLCSBatches[uint8](t, d, rt) })
		t.Run("u32", func(t *testing.T) { testLCSBatches[uint32](t, d, rt) })
		if !d.slow {
			t.Run("i16", func(t *testing.T) { testLCSBatches[int16](t, d, rt) })
			t.Run("u64", func(t *testing.T) { testLCSBatches[uint64](t, d, rt) })
		}
	})
}

func TestLCSMatrixBuffer(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		s, err := NewStream(rt)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(4, 3))
		a, b := randomBatch[uint8](r, 4, 30, 70, 0, 5), randomBatch[uint8](r, 4, 66, 3)
		for _, self := range []bool{false, true} {
			if self {
				b = a
			}
			out := newGuarded[uint32](t, s, len(a)*len(b), 3)
			if self {
				require.NoError(t, LCSSelfMatrixBuffer(s, out.Buffer, a))
			} else {
				require.NoError(t, LCSMatrixBuffer(s, out.Buffer, a, b))
			}
			var want []uint32
			for i := range a {
				for j := range b {
					want = append(want, lengthLCS(a[i], b[j]))
				}
			}
			require.Equal(t, want, out.check(t, s, fmt.Sprint("self ", self)))
		}
		short, err := NewBuffer[uint32](rt, 3)
		require.NoError(t, err)
		require.ErrorIs(t, LCSMatrixBuffer(s, short, a, b), driver.ErrLength)
		require.ErrorIs(t, LCSMatrixBuffer(s, short, nil, b), driver.ErrNil)
		require.ErrorIs(t, LCSMatrixBuffer[byte](nil, short, a, b), driver.ErrNil)
		require.NoError(t, short.Free())
		require.NoError(t, s.Close())
	})
}

func TestLCSBatchErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		some := [][]byte{[]byte("a"), nil}
		_, err := LCSMatrix(ctx, nil, some, some)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = LCSMatrix(ctx, rt, nil, some)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = LCSSelfMatrix[byte](ctx, rt, nil)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = LCSMany(ctx, rt, []byte("a"), nil)
		require.ErrorIs(t, err, driver.ErrNil)
		for _, cutoff := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
			_, err = LCSPairs(ctx, rt, some, some, cutoff)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
			_, err = LCSSelfPairs(ctx, rt, [][]byte{}, cutoff)
			require.ErrorIs(t, err, driver.ErrInvalidValue)
		}
		_, err = LCSBest(ctx, rt, some, some, 0)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		m, err := LCSMatrix(ctx, rt, some, [][]byte{})
		require.NoError(t, err)
		require.Equal(t, [][]uint32{nil, nil}, m)
		m, err = LCSSelfMatrix(ctx, rt, some)
		require.NoError(t, err)
		require.Equal(t, [][]uint32{{1, 0}, {0, 0}}, m)
		many, err := LCSMany(ctx, rt, nil, some)
		require.NoError(t, err)
		require.Equal(t, []uint32{0, 0}, many)
	})
}
