package aggregation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
)

// each runs f in every mode on the emulator with its checks, and on the GPU where
// there is one.
func each(t *testing.T, f func(t *testing.T, p *Programs, mode Mode)) {
	run := func(name string, rt *ptxrun.Runtime) {
		p, err := Open(rt)
		require.NoError(t, err)
		for _, mode := range Modes {
			t.Run(name+"/"+mode.String(), func(t *testing.T) { f(t, p, mode) })
		}
		require.NoError(t, p.Close())
		require.NoError(t, rt.Close(), "nothing is left on the device")
	}
	dev, err := emu.Open(emu.WithMemoryChecks(), emu.WithRaceCheck(), emu.WithInitCheck())
	require.NoError(t, err)
	run("emu", ptxrun.NewRuntime(dev))
	rt, err := ptxrun.Open(ptxrun.WithDevice("cuda"))
	if errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrNoDevice) {
		return
	}
	require.NoError(t, err)
	run("cuda", rt)
}

func TestPaths(t *testing.T) {
	graphs := map[string]*Graph{"power law": PowerLaw(200, 1), "road": Road(7, 1), "one vertex": {Offsets: []uint32{0, 0}, Targets: []uint32{0}}}
	each(t, func(t *testing.T, p *Programs, mode Mode) {
		for name, g := range graphs {
			for _, g := range []*Graph{g, {Offsets: g.Offsets, Targets: g.Targets}} {
				s, err := p.NewSearch(g)
				require.NoError(t, err)
				for _, from := range []int{0, g.Vertices() / 2} {
					require.NoError(t, s.Run(from, mode), name)
					got, err := s.Distances()
					require.NoError(t, err)
					require.Equal(t, g.Compute(from), got, name)
				}
				require.NoError(t, s.Close())
			}
		}
	})
}

func TestTessellate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	curves := make([]Curve, 70)
	for i := range curves {
		for k := range curves[i] {
			curves[i][k] = Point{r.Float32(), r.Float32()}
		}
		if i%9 == 0 { // bent far
			curves[i][2] = Point{curves[i][0].X + 0.05, curves[i][0].Y}
		}
	}
	each(t, func(t *testing.T, p *Programs, mode Mode) {
		b, err := p.NewTessellation(curves)
		require.NoError(t, err)
		require.NoError(t, b.Run(mode))
		got, err := b.Vertices()
		require.NoError(t, err)
		require.NoError(t, b.Close())
		for i := range curves {
			require.Equal(t, curves[i].Tessellate(), got[i], i)
		}
	})
}

func TestQuadtree(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	points := make([]Point, 4500) // more than a small block's
	for i := range points {
		points[i] = Point{r.Float32() * r.Float32() * r.Float32(), r.Float32() * r.Float32()}
	}
	each(t, func(t *testing.T, p *Programs, mode Mode) {
		for _, n := range []int{1, 5, 700, len(points)} {
			b, err := p.NewQuadtreeBuild(points[:n], 9, 5)
			require.NoError(t, err)
			require.NoError(t, b.Run(mode))
			tree, err := b.Tree()
			require.NoError(t, err)
			require.Equal(t, Leaves(points[:n], 9, 5), tree.Leaves())
			require.NoError(t, b.Close())
		}
	})
}

// TestService makes requests from many goroutines, some of which give up.
func TestService(t *testing.T) {
	dev, err := emu.Open(emu.WithMemoryChecks())
	require.NoError(t, err)
	rt := ptxrun.NewRuntime(dev)
	p, err := Open(rt)
	require.NoError(t, err)
	s, err := p.NewService(8, ptxrun.WithFlushAfter(200*time.Microsecond))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			for range 6 {
				c, n := Curve{{r.Float32(), 0}, {r.Float32(), r.Float32()}, {1, r.Float32()}}, 2+r.IntN(300)
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(4) == 0 {
					cancel()
				}
				got, err := s.Tessellate(ctx, c, n)
				cancel()
				if errors.Is(err, context.Canceled) {
					continue
				}
				assert.NoError(t, err)
				assert.Equal(t, c.Divide(n), got)
			}
		})
	}
	wg.Wait()
	_, err = s.Tessellate(context.Background(), Curve{}, 1)
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
	require.NoError(t, rt.Close(), "nothing is left on the device")
}
