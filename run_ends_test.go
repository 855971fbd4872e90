package ptxrun

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func testRunEnds[V Number, L RunLength, E RunEnd, I Index](t *testing.T) {
	t.Run(fmt.Sprintf("%v-%v-%v-%v", reflect.TypeFor[V](), reflect.TypeFor[L](), reflect.TypeFor[E](), reflect.TypeFor[I]()), func(t *testing.T) {
		eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
			ctx := t.Context()
			s, err := NewStream(rt)
			require.NoError(t, err)
			for _, n := range d.sizes(runsTile) {
				msg := fmt.Sprintf("%d runs", n)
				r := rand.New(rand.NewPCG(uint64(n), 6))
				values, lengths, ends := make([]V, n), make([]L, n), make([]E, n)
				var elements []V
				for i := range n {
					values[i], lengths[i] = V(i*7), L(1+r.IntN(6))
					for range int(lengths[i]) {
						elements = append(elements, values[i])
					}
					ends[i] = E(len(elements))
				}
				gotEnds, err := RLERunEnds[E](ctx, rt, lengths)
				require.NoError(t, err, msg)
				requireSame(t, ends, gotEnds, "%s: ends", msg)
				gotLengths, err := RLELengths[L](ctx, rt, ends)
				require.NoError(t, err, msg)
				requireSame(t, lengths, gotLengths, "%s: lengths", msg)

				var indices []I
				if n > 0 {
					indices = []I{0, I(len(elements) - 1)}
				}
				for range n {
					indices = append(indices, I(r.IntN(len(elements))))
				}
				want := make([]V, len(indices))
				for i, k := range indices {
					want[i] = elements[k]
				}
				at, err := RLEAt(ctx, rt, values, ends, indices)
				require.NoError(t, err, msg)
				requireSame(t, want, at, "%s: values at indices", msg)

				onValues, onLengths := newGuarded[V](t, s, n, 1), newGuarded[L](t, s, n, 1)
				onEnds, back := newGuarded[E](t, s, n, 3), newGuarded[L](t, s, n, 0)
				onIndices, out := newGuarded[I](t, s, len(indices), 1), newGuarded[V](t, s, len(indices), 1)
				require.NoError(t, onValues.CopyFrom(s, values))
				require.NoError(t, onLengths.CopyFrom(s, lengths))
				require.NoError(t, onIndices.CopyFrom(s, indices))
				require.NoError(t, RLERunEndsBuffer(s, onEnds.Buffer, onLengths.Buffer), msg)
				require.NoError(t, RLELengthsBuffer(s, back.Buffer, onEnds.Buffer), msg)
				require.NoError(t, RLEAtBuffer(s, out.Buffer, onValues.Buffer, onEnds.Buffer, onIndices.Buffer), msg)
				requireSame(t, want, out.check(t, s, msg), "%s: values at indices", msg)
				requireSame(t, lengths, back.check(t, s, msg), "%s: lengths", msg)
				requireSame(t, ends, onEnds.check(t, s, msg), "%s: ends", msg)
				onValues.check(t, s, msg)
				onLengths.check(t, s, msg)
				onIndices.check(t, s, msg)
			}
			require.NoError(t, s.Close())
		})
	})
}

func TestRunEnds(t *testing.T) {
	testRunEnds[uint8, uint32, int16, uint32](t)
	testRunEnds[int16, uint64, int32, uint64](t)
	testRunEnds[float32, uint32, int64, uint32](t)
	testRunEnds[uint64, uint64, int64, uint64](t)
}

// TestRunEndsSkewed: ends beyond 2^32, and the last that each type holds.
func TestRunEndsSkewed(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		lengths := []uint64{1, 1, 1 << 40, 1, 2}
		ends, err := RLERunEnds[int64](ctx, rt, lengths)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 1<<40 + 2, 1<<40 + 3, 1<<40 + 5}, ends)
		back, err := RLELengths[uint64](ctx, rt, ends)
		require.NoError(t, err)
		require.Equal(t, lengths, back)
		at, err := RLEAt(ctx, rt, []uint8{10, 20, 30, 40, 50}, ends, []uint64{1<<40 + 2, 1<<40 + 1, 2, 0, 1<<40 + 4, 1 << 39})
		require.NoError(t, err)
		require.Equal(t, []uint8{40, 30, 30, 10, 50, 30}, at)

		fits16, err := RLERunEnds[int16](ctx, rt, []uint32{1, math.MaxInt16 - 1})
		require.NoError(t, err)
		require.Equal(t, []int16{1, math.MaxInt16}, fits16)
		fits64, err := RLERunEnds[int64](ctx, rt, []uint64{1, math.MaxInt64 - 1})
		require.NoError(t, err)
		require.Equal(t, []int64{1, math.MaxInt64}, fits64)
	})
}

func TestRunEndsErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		refused := func(err error, code driver.Code, text string) {
			t.Helper()
			require.ErrorIs(t, err, code)
			require.ErrorContains(t, err, text)
		}
		_, err := RLERunEnds[int16](ctx, rt, []uint32{1, math.MaxInt16})
		refused(err, driver.ErrOverflow, "32768")
		_, err = RLERunEnds[int32](ctx, rt, []uint64{1 << 40})
		refused(err, driver.ErrOverflow, "int32")
		_, err = RLERunEnds[int64](ctx, rt, []uint64{1 << 62, 1 << 62})
		refused(err, driver.ErrOverflow, "2^63")
		_, err = RLERunEnds[int64](ctx, rt, []uint64{math.MaxUint64, 1})
		refused(err, driver.ErrOverflow, "2^63")
		many := make([]uint32, 3000)
		for i := range many {
			many[i] = 1
		}
		many[2500], many[2600] = 0, 0
		_, err = RLERunEnds[int32](ctx, rt, many)
		refused(err, driver.ErrInvalidValue, "run 2500 of 3000")
		_, err = RLERunEnds[int32](ctx, rt, []uint32{0})
		refused(err, driver.ErrInvalidValue, "run 0")

		for _, c := range []struct {
			ends []int16
			text string
		}{
			{[]int16{1, 2, 2}, "run 2 of 3 ends at 2 after 2"}, {[]int16{5, 3, 9}, "run 1"}, {[]int16{0, 1}, "run 0 of 2 ends at 0 after 0"},
			{[]int16{-4}, "run 0"}, {[]int16{1, -1}, "run 1"}, {[]int16{math.MaxInt16, math.MinInt16}, "run 1"},
		} {
			_, err = RLELengths[uint32](ctx, rt, c.ends)
			refused(err, driver.ErrCorrupt, c.text)
			_, err = RLEAt(ctx, rt, make([]uint8, len(c.ends)), c.ends, []uint32{0})
			refused(err, driver.ErrCorrupt, c.text)
		}
		_, err = RLELengths[uint32](ctx, rt, []int64{1, 1 << 32, 1<<33 + 5})
		refused(err, driver.ErrOverflow, "run 2 of 3 has 4294967301 elements")
		fits, err := RLELengths[uint32](ctx, rt, []int64{math.MaxUint32})
		require.NoError(t, err)
		require.Equal(t, []uint32{math.MaxUint32}, fits)

		_, err = RLEAt(ctx, rt, []uint8{1, 2}, []int32{3, 5}, []uint64{4, 0, 5, 1 << 63})
		refused(err, driver.ErrInvalidValue, "indices[2] is 5; the 2 runs cover 5 elements")
		_, err = RLEAt(ctx, rt, []uint8{}, []int32{}, []uint32{0})
		refused(err, driver.ErrInvalidValue, "indices[0] is 0")
		_, err = RLEAt(ctx, rt, []uint8{1}, []int32{3, 5}, []uint32{0})
		require.ErrorIs(t, err, driver.ErrLength)
		none, err := RLEAt(ctx, rt, []uint8{1}, []int32{3}, []uint32{})
		require.NoError(t, err)
		require.Empty(t, none)
		_, err = RLEAt(ctx, nil, []uint8{1}, []int32{3}, []uint32{0})
		require.ErrorIs(t, err, driver.ErrNil)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = RLELengths[uint32](cancelled, rt, []int16{1})
		require.ErrorIs(t, err, context.Canceled)

		// Nothing is written where something is refused.
		s, err := NewStream(rt)
		require.NoError(t, err)
		lengths, err := NewBufferFrom(s, []uint32{1, math.MaxInt16})
		require.NoError(t, err)
		ends := newGuarded[int16](t, s, 2, 1)
		require.ErrorIs(t, RLERunEndsBuffer(s, ends.Buffer, lengths), driver.ErrOverflow)
		require.NoError(t, ends.CopyFrom(s, []int16{4, 4}))
		require.ErrorIs(t, RLELengthsBuffer(s, lengths, ends.Buffer), driver.ErrCorrupt)
		kept := make([]uint32, 2)
		require.NoError(t, lengths.CopyTo(s, kept))
		require.Equal(t, []uint32{1, math.MaxInt16}, kept)
		values, err := NewBufferFrom(s, []uint8{8, 9})
		require.NoError(t, err)
		indices, err := NewBufferFrom(s, []uint32{3, 4})
		require.NoError(t, err)
		out := newGuarded[uint8](t, s, 2, 1)
		require.ErrorIs(t, RLEAtBuffer(s, out.Buffer, values, ends.Buffer, indices), driver.ErrInvalidValue)
		require.Equal(t, []uint8{canary, canary}, out.check(t, s, ""))
		require.ErrorIs(t, RLEAtBuffer(s, values, values, ends.Buffer, indices), driver.ErrOverlap)
		require.ErrorIs(t, RLEAtBuffer(s, nil, values, ends.Buffer, indices), driver.ErrNil)
		// Ends that do not increase lead to some value, and no further.
		require.NoError(t, indices.CopyFrom(s, []uint32{3, 0}))
		out = newGuarded[uint8](t, s, 2, 1)
		require.NoError(t, RLEAtBuffer(s, out.Buffer, values, ends.Buffer, indices))
		require.Subset(t, []uint8{8, 9}, out.check(t, s, ""))
		short, err := lengths.Slice(0, 1)
		require.NoError(t, err)
		require.ErrorIs(t, RLERunEndsBuffer(s, ends.Buffer, short), driver.ErrLength)
		require.ErrorIs(t, RLERunEndsBuffer(nil, ends.Buffer, short), driver.ErrNil)
		require.Equal(t, []int16{4, 4}, ends.check(t, s, ""))
		require.NoError(t, values.Free())
		require.NoError(t, indices.Free())
		require.NoError(t, lengths.Free())
		require.NoError(t, s.Close())
	})
}
