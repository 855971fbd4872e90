package ptxrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// What is wrong with twins is found on every device, and is not put on the PTX.
func TestLoadModuleTwins(t *testing.T) {
	const text = `.version 6.0
.target sm_70
.address_size 64
.func helper() { ret; }
.visible .entry halve() { ret; }
.visible .entry twice() { ret; }
.visible .entry trap() { trap; }
`
	twin := func(*driver.TwinLaunch) error { return nil }
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		for _, c := range []struct {
			text string
			opts []ModuleOption
			code driver.Code
			says string
		}{
			{text, []ModuleOption{WithTwin("halv", twin)}, driver.ErrNotFound, `WithTwin: no entry "halv"; the entries of PTX: halve, twice, trap`},
			{text, []ModuleOption{WithTwin("helper", twin), WithModuleName("m")}, driver.ErrNotFound, `no entry "helper"; the entries of m: halve`},
			{text, []ModuleOption{WithTwin("halve", nil)}, driver.ErrNil, "the twin of halve"},
			{"", nil, driver.ErrNil, "Runtime.LoadModule: nil argument: PTX is empty"},
		} {
			_, err := rt.LoadModule([]byte(c.text), c.opts...)
			require.ErrorIs(t, err, c.code)
			require.ErrorContains(t, err, c.says)
		}
		m, err := rt.LoadModule([]byte(text), WithTwin("halve", twin))
		require.NoError(t, err)
		_, err = m.Kernel("halve")
		require.NoError(t, err)
		_, err = m.Kernel("third")
		require.ErrorIs(t, err, driver.ErrNotFound)
		require.ErrorContains(t, err, "no entry of that name in PTX")
		if rt.Info().Kind == driver.KindEmu {
			s, err := NewStream(rt)
			require.NoError(t, err)
			k, err := m.Kernel("trap")
			require.NoError(t, err)
			require.NoError(t, s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}))
			require.ErrorContains(t, s.Synchronize(), "Stream.Synchronize: a kernel failed: trap at line 7 of PTX")
			require.NoError(t, s.Close())
		}
		_, err = m.Kernel("twice")
		if rt.Info().Kind == driver.KindCPU {
			require.ErrorIs(t, err, driver.ErrNotFound)
			require.ErrorContains(t, err, "Module.Kernel: not found: twice of PTX has no Go twin")
			_, err = rt.LoadModule([]byte(text))
			require.ErrorIs(t, err, driver.ErrInvalidImage)
			require.ErrorContains(t, err, "ptxrun.WithTwin")
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, m.Close())
	})
}
