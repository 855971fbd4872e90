package ptxrun

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver/emu"
)

// Float sums of one length have the same bits on every GPU, whether the kernel with
// bulk copies runs or, on an older one or memory that is not aligned for it, the
// other.
func TestFloatSumBits(t *testing.T) {
	t.Run("float32", testFloatSumBits[float32])
	t.Run("float64", testFloatSumBits[float64])
}

func testFloatSumBits[T float32 | float64](t *testing.T) {
	tile := int(passTile(int(sizeOf[T]())))
	n := 5*tile + 77 // more than bulkTiles for each of two multiprocessors
	r := rand.New(rand.NewPCG(1, 1))
	src := make([]T, n)
	for i := range src {
		src[i] = T(r.NormFloat64() * math.Exp(4*r.NormFloat64()))
	}
	want := map[bool][]T{}
	for _, capability := range []int{70, 90} {
		dev, err := emu.Open(emu.WithCapability(capability), emu.WithWorkers(2))
		require.NoError(t, err)
		rt := NewRuntime(dev)
		require.Greater(t, n, tile*bulkTiles*rt.Info().Multiprocessors, "sm_90 takes the bulk kernel")
		s, err := NewStream(rt)
		require.NoError(t, err)
		for _, skew := range []int{0, 1} {
			for _, reverse := range []bool{false, true} {
				b := newGuarded[T](t, s, n, skew)
				require.NoError(t, b.CopyFrom(s, src))
				require.NoError(t, InclusiveScanBuffer(s, b.Buffer, b.Buffer, Sum, ScanOption{reverse: reverse}))
				got := b.check(t, s, "scan")
				if want[reverse] == nil {
					want[reverse] = got
				}
				requireSame(t, want[reverse], got, "sm_%d, %d elements behind an aligned address, reverse %v", capability, skew, reverse)
			}
		}
		require.NoError(t, s.Close())
		require.NoError(t, rt.Close())
	}
}
