package main

import (
	"errors"
	"fmt"

	"github.com/ptxrun/ptxrun/examples/aggregation"
)

// The data of the examples are formulas, which peers/cdp.cu has as well. Each takes
// its hashes from a range of its own.
func example(kind, i uint64) uint64 { return hash(kind<<40 | i) }

// fraction is a number in [0, 1).
func fraction(kind, i uint64) float32 { return float32(example(kind, i)>>40) / (1 << 24) }

// weighted gives a graph of the given degrees and targets weights from 1 to 100.
func weighted(n int, edges func(v uint64, add func(to uint32))) *aggregation.Graph {
	g := &aggregation.Graph{Offsets: make([]uint32, 1, n+1)}
	for v := range uint64(n) {
		edges(v, func(to uint32) {
			g.Weights = append(g.Weights, uint32(1+example(2, uint64(len(g.Targets)))%100))
			g.Targets = append(g.Targets, to)
		})
		g.Offsets = append(g.Offsets, uint32(len(g.Targets)))
	}
	return g
}

// powerLaw is a graph in which few vertices have most of the edges.
func powerLaw(n int) *aggregation.Graph {
	edge := uint64(0)
	return weighted(n, func(v uint64, add func(uint32)) {
		for range max(uint64(n)/(4*(1+example(0, v)%uint64(n))), 2) {
			add(uint32(example(1, edge) % uint64(n)))
			edge++
		}
	})
}

// road is a grid with one of ten streets missing.
func road(side int) *aggregation.Graph {
	return weighted(side*side, func(v uint64, add func(uint32)) {
		x, y := int(v)%side, int(v)/side
		for d, step := range [4][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
			if u, w := x+step[0], y+step[1]; u >= 0 && u < side && w >= 0 && w < side && example(3, 4*v+uint64(d))%10 > 0 {
				add(uint32(w*side + u))
			}
		}
	})
}

func curves(n int) []aggregation.Curve {
	c := make([]aggregation.Curve, n)
	for i := range c {
		for k := range c[i] {
			at := uint64(6*i + 2*k)
			c[i][k] = aggregation.Point{X: fraction(4, at), Y: fraction(4, at+1)}
		}
	}
	return c
}

// corner are points that crowd in one corner.
func corner(n int) []aggregation.Point {
	p := make([]aggregation.Point, n)
	for i := range p {
		at := uint64(5 * i)
		p[i] = aggregation.Point{X: fraction(5, at) * fraction(5, at+1) * fraction(5, at+2), Y: fraction(5, at+3) * fraction(5, at+4)}
	}
	return p
}

// Shape of the quadtree.
const quadtreeLeaf, quadtreeDepth = 32, 10

// problem is an example on the device.
type problem struct {
	run   func(aggregation.Mode) error
	check func() (uint64, error) // a number of the result
	close func() error
}

// exampleProblems are the worked examples, by the end of their ids.
var exampleProblems = []struct {
	name string
	open func(b *bencher, p *aggregation.Programs) (n int, _ problem, err error)
}{
	{"bfs-power", func(b *bencher, p *aggregation.Programs) (int, problem, error) {
		g := powerLaw(b.size(20))
		g.Weights = nil
		return search(p, g)
	}},
	{"bfs-road", func(b *bencher, p *aggregation.Programs) (int, problem, error) {
		g := road(b.size(10))
		g.Weights = nil
		return search(p, g)
	}},
	{"sssp-power", func(b *bencher, p *aggregation.Programs) (int, problem, error) {
		return search(p, powerLaw(b.size(20)))
	}},
	{"sssp-road", func(b *bencher, p *aggregation.Programs) (int, problem, error) { return search(p, road(b.size(10))) }},
	{"bezier", func(b *bencher, p *aggregation.Programs) (int, problem, error) {
		c := curves(b.size(16))
		t, err := p.NewTessellation(c)
		if err != nil {
			return 0, problem{}, err
		}
		return len(c), problem{t.Run, func() (sum uint64, err error) {
			all, err := t.Vertices()
			for i, got := range all {
				want := c[i].Tessellate()
				if len(got) != len(want) {
					return 0, fmt.Errorf("curve %d has %d vertices, want %d", i, len(got), len(want))
				}
				for k := range got {
					if !near(got[k].X, want[k].X) || !near(got[k].Y, want[k].Y) {
						return 0, fmt.Errorf("vertex %d of curve %d is %v, want %v", k, i, got[k], want[k])
					}
				}
				sum += uint64(len(got))
			}
			return sum, err
		}, t.Close}, nil
	}},
	{"quadtree", func(b *bencher, p *aggregation.Programs) (int, problem, error) {
		points := corner(b.size(20))
		t, err := p.NewQuadtreeBuild(points, quadtreeLeaf, quadtreeDepth)
		if err != nil {
			return 0, problem{}, err
		}
		return len(points), problem{t.Run, func() (uint64, error) {
			tree, err := t.Tree()
			if err != nil {
				return 0, err
			}
			got, want := tree.Leaves(), aggregation.Leaves(points, quadtreeLeaf, quadtreeDepth)
			if len(got) != len(want) {
				return 0, fmt.Errorf("%d leaves, want %d", len(got), len(want))
			}
			for i := range want {
				if len(got[i]) != len(want[i]) {
					return 0, fmt.Errorf("leaf %d has %d points, want %d", i, len(got[i]), len(want[i]))
				}
			}
			return uint64(len(got)), nil
		}, t.Close}, nil
	}},
}

// near allows what a fused multiplication and addition changes.
func near(a, b float32) bool { return a-b < 1e-5 && b-a < 1e-5 }

func search(p *aggregation.Programs, g *aggregation.Graph) (int, problem, error) {
	s, err := p.NewSearch(g)
	if err != nil {
		return 0, problem{}, err
	}
	return g.Vertices(), problem{func(mode aggregation.Mode) error { return s.Run(0, mode) }, func() (sum uint64, err error) {
		got, err := s.Distances()
		if err != nil {
			return 0, err
		}
		for v, want := range g.Compute(0) {
			if got[v] != want {
				return 0, fmt.Errorf("vertex %d is at %d, want %d", v, got[v], want)
			}
			if want != aggregation.Unreached {
				sum += uint64(want)
			}
		}
		return sum, nil
	}, s.Close}, nil
}

// exampleFigures are the worked examples with all data on the device before:
// agg/examples/… for a peer, agg/plain/… beside a thread for each parent.
func (b *bencher) exampleFigures() {
	for _, e := range exampleProblems {
		id, plain := "agg/examples/"+e.name, "agg/plain/"+e.name
		if !b.wanted(id) && !b.wanted(plain) {
			continue
		}
		if err := b.example(id, plain, e.open); err != nil {
			b.errs = append(b.errs, fmt.Errorf("%s: %w", id, err))
		}
	}
}

func (b *bencher) example(id, plain string, open func(*bencher, *aggregation.Programs) (int, problem, error)) (err error) {
	p, err := aggregation.Open(b.rt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	n, problem, err := open(b, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, problem.close()) }()
	var checks [2]uint64
	modes := [2]aggregation.Mode{aggregation.Aggregated, aggregation.Serial}
	for i, mode := range modes {
		if err := problem.run(mode); err != nil {
			return err
		}
		if checks[i], err = problem.check(); err != nil {
			return fmt.Errorf("%v: %w", mode, err)
		}
	}
	ms, err := b.inTurn(func() error { return problem.run(modes[0]) }, func() error { return problem.run(modes[1]) })
	if err != nil {
		return err
	}
	f := figure{n: int64(n), amount: 1e9, unit: "calls/s"}
	if f.id = id; b.wanted(id) {
		b.report(f, ms[0], checks[0])
	}
	if f.id = plain; b.wanted(plain) {
		b.report(f, ms[0], checks[0]).against("a thread each", ms[1])
	}
	return nil
}
