package ptxrun

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// TestLCSStrategies are the strategies that fill the table itself.
func TestLCSStrategies(t *testing.T) {
	for _, s := range []LCSStrategy{LCSSpinWait, LCSTiled} {
		t.Run(s.String(), func(t *testing.T) { testLCSStrategy(t, s) })
	}
}

func testLCSStrategy(t *testing.T, strategy LCSStrategy) {
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
				got, err := LCSLength(t.Context(), rt, a, b, WithLCSStrategy(strategy))
				require.NoError(t, err)
				require.Equal(t, int(lengthLCS(a, b)), got, "%d × %d", m, n)
			}
		}
		same := []byte("the same on both sides, longer than a block's edge")
		got, err := LCSLength(t.Context(), rt, same, same, WithLCSStrategy(strategy))
		require.NoError(t, err)
		require.Equal(t, len(same), got)
		got, err = LCSLength(t.Context(), rt, []byte("aaaa"), []byte("bbbbbbb"), WithLCSStrategy(strategy))
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestLCSErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		one, other := []byte("a"), []byte("b")
		_, err := LCSLength(ctx, nil, one, other)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = LCSMatches(nil, rt, one, other) //nolint:staticcheck // what a careless caller does
		require.ErrorIs(t, err, driver.ErrNil)
		for _, empty := range [][2][]byte{{nil, nil}, {one, nil}, {nil, other}} {
			n, err := LCSLength(ctx, rt, empty[0], empty[1])
			require.NoError(t, err)
			require.Zero(t, n)
			matches, err := LCSMatches(ctx, rt, empty[0], empty[1])
			require.NoError(t, err)
			require.Empty(t, matches)
			prefixes, err := LCSPrefixes(ctx, rt, empty[0], empty[1])
			require.NoError(t, err)
			require.Equal(t, make([]uint32, len(empty[1])+1), prefixes)
		}
		unknown := WithLCSStrategy(lcsStrategies)
		_, err = LCSLength(ctx, rt, one, other, unknown)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = LCSLength(ctx, rt, nil, other, unknown)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		_, err = LCSMatches(ctx, rt, one, other, unknown)
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		for _, s := range []LCSStrategy{LCSSpinWait, LCSTiled} {
			_, err = LCSMatches(ctx, rt, one, other, WithLCSStrategy(s))
			require.ErrorIs(t, err, driver.ErrNotSupported)
			_, err = LCSPrefixes(ctx, rt, one, other, WithLCSStrategy(s))
			require.ErrorIs(t, err, driver.ErrNotSupported)
		}
		_, err = LCSLength(ctx, rt, make([]byte, 1<<15+1), make([]byte, 1<<15), WithLCSStrategy(LCSSpinWait))
		require.ErrorIs(t, err, driver.ErrTooLarge)
		_, err = LCSLength(ctx, rt, []uint16{1}, []uint16{1}, WithLCSStrategy(LCSSpinWait))
		require.ErrorIs(t, err, driver.ErrNotSupported)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = LCSLength(cancelled, rt, one, other)
		require.ErrorIs(t, err, context.Canceled)
		_, err = LCS(cancelled, rt, one, other)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestRenumber(t *testing.T) {
	a, b := Renumber([]string{"x", "y", "x"}, []string{"z", "y"})
	require.Equal(t, []uint32{0, 1, 0}, a)
	require.Equal(t, []uint32{2, 1}, b)
}
