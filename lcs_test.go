package ptxrun

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func naiveLCS(a, b []byte) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(up, row[j])
			}
			diagonal = up
		}
	}
	return row[len(b)]
}

func TestLCSSpinWait(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(1, 2))
		lengths := []int{1, 2, 15, 16, 17, 31, 32, 33, 100, 257}
		if !d.slow {
			lengths = append(lengths, 1000)
		}
		for _, m := range lengths {
			for _, n := range lengths {
				a, b := make([]byte, m), make([]byte, n)
				for i := range a {
					a[i] = byte(r.IntN(4))
				}
				for i := range b {
					b[i] = byte(r.IntN(4))
				}
				got, err := LCSLength(t.Context(), rt, a, b, WithLCSStrategy(LCSSpinWait))
				require.NoError(t, err)
				require.Equal(t, naiveLCS(a, b), got, "%d × %d", m, n)
			}
		}
		same := []byte("the same on both sides, longer than a block's edge")
		got, err := LCSLength(t.Context(), rt, same, same)
		require.NoError(t, err)
		require.Equal(t, len(same), got)
		got, err = LCSLength(t.Context(), rt, []byte("aaaa"), []byte("bbbbbbb"))
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestLCSErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		_, err := LCSLength(ctx, nil, []byte("a"), []byte("b"))
		require.ErrorIs(t, err, driver.ErrNil)
		for _, empty := range [][2][]byte{{nil, nil}, {[]byte("a"), nil}, {nil, []byte("b")}} {
			n, err := LCSLength(ctx, rt, empty[0], empty[1])
			require.NoError(t, err)
			require.Zero(t, n)
		}
		_, err = LCSLength(ctx, rt, []byte("a"), []byte("b"), WithLCSStrategy(lcsStrategies))
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = LCSLength(ctx, rt, make([]byte, 1<<15+1), make([]byte, 1<<15), WithLCSStrategy(LCSSpinWait))
		require.ErrorIs(t, err, driver.ErrTooLarge)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = LCSLength(cancelled, rt, []byte("a"), []byte("b"))
		require.ErrorIs(t, err, context.Canceled)
	})
}
