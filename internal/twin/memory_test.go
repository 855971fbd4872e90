package twin_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// TestIllegalAddresses gives every twin one bad pointer at a time, and requires
// an error and untouched memory.
func TestIllegalAddresses(t *testing.T) {
	const n = 100
	type arg struct {
		elements int // of a pointer
		size     int
		value    uint64
		u32      bool
	}
	ptr := func(elements, size int) arg { return arg{elements: elements, size: size} }
	u64 := func(v uint64) arg { return arg{value: v} }
	u32 := func(v uint64) arg { return arg{value: v, u32: true} }
	cases := map[string]struct {
		twin driver.Twin
		args []arg
	}{
		"upsweep":   {twin.ScanUpsweep(twin.Sum[uint32](), 32), []arg{ptr(n, 4), u64(n), ptr(4, 4)}},
		"downsweep": {twin.ScanDownsweep(twin.Sum[uint32](), 32), []arg{ptr(n, 4), ptr(n, 4), u64(n), ptr(4, 4), u32(0), u32(1)}},
		"segmented": {twin.ScanSegmented(twin.Sum[uint32]()), []arg{ptr(n, 4), ptr(n, 4), u64(n), ptr(4, 4), u64(0), u32(0), u32(0), u32(4)}},
		"keys":      {twin.SegmentKeys[uint16](), []arg{ptr(n, 2), u64(n), ptr(4, 4), u32(0)}},
		"flags":     {twin.SegmentFlags(), []arg{ptr(n, 1), u64(n), ptr(4, 4), u32(1)}},
		"offsets":   {twin.SegmentOffsets[uint32](), []arg{ptr(n, 4), u64(n), u64(n), ptr(4, 4), u32(0), ptr(1, 4)}},
		"mark":      {twin.RLEMark[uint32, uint32](), []arg{ptr(n, 4), u64(n), ptr(n, 4)}},
		"scatter":   {twin.RLEScatter[uint32](), []arg{ptr(n, 4), u64(n), ptr(1, 4), u64(n), ptr(1, 8)}},
		"encode":    {twin.RLEEncode[uint16, uint32](), []arg{ptr(n, 2), u64(n), ptr(1, 2), ptr(1, 4), u64(n), ptr(1, 8), u64(0), u64(0), u32(0)}},
		"expand":    {twin.RLEDecodePass[uint16, uint32](), []arg{ptr(n, 2), ptr(n, 4), u64(n), u64(0), u64(0), u64(0), ptr(1, 8), u64(0)}},
		"finish":    {twin.RLEFinish[uint16, uint32, uint64](), []arg{ptr(n, 2), u64(n), ptr(1, 4), ptr(1, 8), u64(n), ptr(1, 2), ptr(1, 8)}},
		"decode":    {twin.RLEDecode[uint16](), []arg{ptr(2, 2), ptr(2, 8), u64(2), ptr(1, 2), u64(1)}},
		"ends":      {twin.RunEndsCheck[int32](), []arg{ptr(n, 4), u64(n), u64(9), ptr(1, 8)}},
		"narrow":    {twin.RunEndsNarrow[int16](), []arg{ptr(n, 8), u64(n), ptr(n, 2)}},
		"lengths":   {twin.RunLengths[int32, uint64](), []arg{ptr(n, 4), u64(n), u64(0), ptr(n, 8)}},
		"index":     {twin.RunIndexCheck[int16, uint32](), []arg{ptr(n, 2), u64(n), ptr(n, 4), u64(n), ptr(1, 8)}},
		"at":        {twin.RunAt[uint16, int32, uint32](), []arg{ptr(n, 2), ptr(n, 4), u64(n), ptr(n, 4), u64(n), ptr(n, 2)}},
		"sum":       {twin.RunsSum[int16, uint32](), []arg{ptr(n, 2), ptr(n, 4), u64(n), u64(2048), ptr(1, 24)}},
		"histogram": {twin.RunsHistogram[int16, uint32](), []arg{ptr(n, 2), ptr(n, 4), u64(n), u64(2048), ptr(3, 2), u64(4), ptr(4, 8), ptr(1, 8)}},
		"combine":   {twin.RunsCombine[int16](), []arg{ptr(n, 2), ptr(n, 8), u64(n), ptr(n, 2), ptr(n, 8), u64(n), u32(0), ptr(2*n, 2), ptr(2*n, 8), ptr(2*n, 1)}},
		"equal":     {twin.RunsEqual[uint16](), []arg{ptr(n, 2), ptr(n, 8), u64(n), ptr(n, 2), ptr(n, 8), u64(n), ptr(1, 8)}},
		"last":      {twin.RunsLast[uint16](), []arg{ptr(n, 2), ptr(n, 8), u64(n), ptr(n, 1)}},
		"lcs":       {twin.LCSSpinWait(), []arg{ptr(n, 1), u64(n), ptr(n, 1), u64(n), ptr(n*n, 4), u64(0)}},
		// Problems, pieces, lanes and slices are ones throughout.
		"lcs pass":  {twin.LCSPass[uint16](32), []arg{ptr(2, 2), ptr(2, 2), ptr(14, 8), u64(1), u64(0), u64(0), u64(0), u64(0), u64(0), u64(1), u64(0), ptr(2, 4), ptr(1, 8), u64(0)}},
		"lcs only":  {twin.LCSPass[uint8](32), []arg{ptr(70, 1), ptr(40, 1), u64(0), u64(0), u64(70), u64(40), u64(3), u64(3), u64(3), u64(3), u64(0), ptr(2, 4), ptr(1, 8), u64(0)}},
		"lcs cross": {twin.LCSCross(32), []arg{ptr(14, 8), u64(1), u64(0), u64(0), u64(0), u64(0)}},
		"lcs save":  {twin.LCSTrace[uint64](32), []arg{ptr(2, 8), ptr(2, 8), ptr(8, 8), u64(0), ptr(3, 4), u64(0), ptr(1, 4), ptr(1, 4)}},
		"lcs many":  {twin.LCSMany[uint32](32), []arg{ptr(2, 4), ptr(16, 4), ptr(8, 8), ptr(4, 8), ptr(2, 1), ptr(1, 4), ptr(4, 4), u64(2), u32(1)}},
		"lcs tiled": {twin.LCSTiled[uint16](64), []arg{ptr(n, 2), u64(n), ptr(n, 2), u64(n), ptr(n, 4), ptr(n, 4), ptr(2, 4), u64(1), u64(0)}},
		"lcs bits":  {twin.LCSUnpack(), []arg{ptr(4, 4), u64(n), ptr(n, 4)}},
		"lcs place": {twin.LCSPlace(), []arg{ptr(1, 8), u64(1), ptr(2, 8), ptr(2, 4)}},
	}
	for name, c := range cases {
		for bad, p := range c.args {
			if p.elements == 0 {
				continue
			}
			for _, fault := range []string{"null", "short", "misaligned"} {
				if fault == "misaligned" && p.size == 1 || fault == "null" && bad == 3 && (name == "downsweep" || name == "segmented") {
					continue // any address will do; no prefixes and no heads are a choice
				}
				t.Run(fmt.Sprintf("%s/%d/%s", name, bad, fault), func(t *testing.T) {
					m := newMemory(t)
					a := driver.NewArgs()
					var blocks [][]byte
					for i, x := range c.args {
						switch {
						case x.u32:
							a.Uint32(uint32(x.value))
							continue
						case x.elements == 0:
							a.Uint64(x.value)
							continue
						}
						bytes := x.elements * x.size
						at := driver.Ptr(0)
						switch {
						case i != bad:
							at = m.alloc(int64(bytes))
						case fault == "short":
							if bytes > 1 {
								at = m.alloc(int64(bytes - 1))
								bytes--
							}
						case fault == "misaligned":
							at = m.alloc(int64(bytes+1)) + 1
						}
						if at != 0 {
							// Ones make every count 1 and every start, value and end equal.
							b := load[byte](m, at, bytes)
							for k := range b {
								b[k] = 0
								if k%x.size == 0 {
									b[k] = 1
								}
							}
							blocks = append(blocks, b)
						}
						a.Ptr(at)
					}
					before := fmt.Sprint(blocks)
					err := run(m, c.twin, a)
					if fault == "misaligned" {
						require.ErrorIs(t, err, driver.ErrMisaligned)
					} else {
						require.ErrorIs(t, err, driver.ErrIllegalAddress)
					}
					assert.Equal(t, before, fmt.Sprint(blocks))
				})
			}
		}
	}
}

// TestNegativeSizes has element counts whose top bit is set.
func TestNegativeSizes(t *testing.T) {
	m := newMemory(t)
	p := m.alloc(64)
	for _, n := range []uint64{1 << 63, ^uint64(0), 1 << 61} {
		require.ErrorIs(t, run(m, twin.ScanUpsweep(twin.Sum[uint64](), 32), driver.NewArgs().Ptr(p).Uint64(n).Ptr(p)), driver.ErrIllegalAddress)
		require.ErrorIs(t, run(m, twin.RLEMark[uint64, uint64](), driver.NewArgs().Ptr(p).Uint64(n).Ptr(p)), driver.ErrIllegalAddress)
	}
	err := run(m, twin.LCSSpinWait(), driver.NewArgs().Ptr(p).Uint64(1<<40).Ptr(p).Uint64(1<<40).Ptr(p).Ptr(0))
	require.Error(t, err)
}
