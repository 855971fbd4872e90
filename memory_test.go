package ptxrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cpu"
)

// stingy is a device whose streams allocate left more times.
type stingy struct {
	driver.Device
	left int
}

type stingyStream struct {
	driver.Stream
	d *stingy
}

func (d *stingy) NewStream() (driver.Stream, error) {
	s, err := d.Device.NewStream()
	return &stingyStream{s, d}, err
}

func (s *stingyStream) Alloc(bytes int64) (driver.Ptr, error) {
	if s.d.left == 0 {
		return 0, driver.Errorf("Alloc", driver.ErrOutOfMemory, "%d bytes", bytes)
	}
	s.d.left--
	return s.Stream.Alloc(bytes)
}

// TestRunsOutOfMemory: whichever allocation fails, the call says so and nothing
// is left.
func TestRunsOutOfMemory(t *testing.T) {
	dev, err := cpu.Open(cpu.WithMemoryChecks())
	require.NoError(t, err)
	const plenty = 1 << 30
	d := &stingy{Device: dev, left: plenty}
	rt := NewRuntime(d)
	setup, err := NewStream(rt)
	require.NoError(t, err)
	e := Runs[uint8, uint32]{[]uint8{1, 2, 2, 3}, []uint32{4, 5, 1, 6}}
	a, freeA := runsOnDevice(t, setup, e, 0)
	b, freeB := runsOnDevice(t, setup, e, 0)
	dst, err := NewBuffer[uint8](rt, 8)
	require.NoError(t, err)
	lengths, err := NewBuffer[uint32](rt, 8)
	require.NoError(t, err)
	count, err := NewBuffer[uint64](rt, 1)
	require.NoError(t, err)
	ends, err := NewBufferFrom(setup, []int32{4, 9, 10, 16})
	require.NoError(t, err)
	four, err := dst.Slice(0, 4)
	require.NoError(t, err)
	checksum, err := View[uint32](dst, 4, 1)
	require.NoError(t, err)
	out := BufferRuns[uint8, uint32]{dst, lengths}

	for name, call := range map[string]func(s *Stream) error{
		"sum":       func(s *Stream) error { _, err := RLESumBuffer[uint64](s, a); return err },
		"minmax":    func(s *Stream) error { _, _, err := RLEMinMaxBuffer(s, a); return err },
		"count":     func(s *Stream) error { _, err := RLECountWhereBuffer(s, a, Equal, 2); return err },
		"histogram": func(s *Stream) error { _, err := RLEHistogramBuffer(s, a, []uint8{2}); return err },
		"equal":     func(s *Stream) error { _, err := RLEEqualBuffer(s, a, b); return err },
		"normalize": func(s *Stream) error { return RLENormalizeBuffer(s, out, count, a) },
		"combine":   func(s *Stream) error { return RLECombineBuffer(s, out, count, CombineAdd, a, b) },
		"compare":   func(s *Stream) error { return RLECompareBuffer(s, out, count, Less, a, b) },
		"ends":      func(s *Stream) error { return RLERunEndsBuffer(s, ends, a.Lengths) },
		"lengths":   func(s *Stream) error { return RLELengthsBuffer(s, a.Lengths, ends) },
		"checksum":  func(s *Stream) error { return CRC32CBuffer(s, checksum, a.Lengths) },
		"at":        func(s *Stream) error { return RLEAtBuffer(s, four, a.Values, ends, a.Lengths) },
	} {
		for allowed := 0; ; allowed++ {
			s, err := NewStream(rt) // it has kept nothing yet
			require.NoError(t, err)
			d.left = allowed
			err = call(s)
			d.left = plenty
			require.NoError(t, s.Close())
			if err == nil {
				require.Positive(t, allowed, "%s: nothing failed", name)
				break
			}
			require.ErrorIs(t, err, driver.ErrOutOfMemory, name)
			require.Less(t, allowed, 50, name)
		}
	}
	freeA()
	freeB()
	for _, free := range []func() error{dst.Free, lengths.Free, count.Free, ends.Free, setup.Close, rt.Close} {
		require.NoError(t, free())
	}
}
