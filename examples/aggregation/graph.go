package aggregation

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ptxrun/ptxrun"
)

// Graph is a directed graph: the edges of vertex v are [Offsets[v], Offsets[v+1]).
type Graph struct {
	Offsets []uint32 // one more than vertices
	Targets []uint32
	Weights []uint32 // of the edges, positive; nil for ones
}

// Vertices is the number of vertices.
func (g *Graph) Vertices() int { return len(g.Offsets) - 1 }

// Unreached is the distance of a vertex that no path leads to.
const Unreached = math.MaxUint32

// newGraph has the edges that each gives for every vertex.
func newGraph(n int, each func(v int) []uint32, r *rand.Rand) *Graph {
	g := &Graph{Offsets: make([]uint32, 1, n+1)}
	for v := range n {
		for _, to := range each(v) {
			g.Targets = append(g.Targets, to)
			g.Weights = append(g.Weights, 1+r.Uint32N(100))
		}
		g.Offsets = append(g.Offsets, uint32(len(g.Targets)))
	}
	return g
}

// PowerLaw is a graph of n vertices in which few have most of the edges: vertex v
// has about n/(4·rank), at least 2, where ranks are the vertices in a random order.
func PowerLaw(n int, seed uint64) *Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	rank := r.Perm(n)
	return newGraph(n, func(v int) []uint32 {
		to := make([]uint32, max(n/(4*(rank[v]+1)), 2))
		for i := range to {
			to[i] = r.Uint32N(uint32(n))
		}
		return to
	}, r)
}

// Road is a grid of side·side vertices, of which some streets are missing.
func Road(side int, seed uint64) *Graph {
	r := rand.New(rand.NewPCG(seed, 2))
	return newGraph(side*side, func(v int) (to []uint32) {
		x, y := v%side, v/side
		for _, d := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
			if u, w := x+d[0], y+d[1]; u >= 0 && u < side && w >= 0 && w < side && r.IntN(10) > 0 {
				to = append(to, uint32(w*side+u))
			}
		}
		return to
	}, r)
}

// BFS returns the number of edges on a shortest path from a vertex to each.
func (p *Programs) BFS(g *Graph, from int, mode Mode) ([]uint32, error) {
	return p.paths(&Graph{Offsets: g.Offsets, Targets: g.Targets}, from, mode)
}

// SSSP returns the least sum of weights on a path from a vertex to each. Source:
// Bellman and Ford, with a frontier of the vertices that have improved.
func (p *Programs) SSSP(g *Graph, from int, mode Mode) ([]uint32, error) {
	return p.paths(g, from, mode)
}

func (p *Programs) paths(g *Graph, from int, mode Mode) (distances []uint32, err error) {
	defer func() {
		if e := p.release(); err == nil {
			err = e
		}
	}()
	n := g.Vertices()
	offsets, err := buffer(p, g.Offsets)
	if err != nil {
		return nil, err
	}
	targets, err := buffer(p, g.Targets)
	if err != nil {
		return nil, err
	}
	var weights *ptxrun.Buffer[uint32]
	if g.Weights != nil {
		if weights, err = buffer(p, g.Weights); err != nil {
			return nil, err
		}
	}
	start := slices.Repeat([]uint32{Unreached}, n)
	start[from] = 0
	dist, err := buffer(p, start)
	if err != nil {
		return nil, err
	}
	marked, err := filled(p, n, 0)
	if err != nil {
		return nil, err
	}
	frontier, err := filled(p, n, 0)
	if err != nil {
		return nil, err
	}
	next, err := filled(p, n, 0)
	if err != nil {
		return nil, err
	}
	first, err := frontier.Slice(0, 1)
	if err != nil {
		return nil, err
	}
	if err := first.CopyFrom(p.s, []uint32{uint32(from)}); err != nil {
		return nil, err
	}
	found, err := filled(p, 1, 0)
	if err != nil {
		return nil, err
	}
	q, err := p.queue("relax", n)
	if err != nil {
		return nil, err
	}
	count := []uint32{1}
	for round := uint32(1); count[0] > 0; round++ {
		if err := found.CopyFrom(p.s, []uint32{0}); err != nil {
			return nil, err
		}
		err := p.s.Launch(p.kernel["relax_frontier"], covering(int(count[0])), q.Ptr(), offsets, targets, weights.Ptr(), dist, marked,
			frontier, count[0], next, found, round, mode.threshold())
		if err != nil {
			return nil, err
		}
		if _, err := p.launchChildren(q, mode); err != nil {
			return nil, err
		}
		if err := found.CopyTo(p.s, count); err != nil {
			return nil, err
		}
		frontier, next = next, frontier
	}
	distances = make([]uint32, n)
	return distances, dist.CopyTo(p.s, distances)
}

// Compute returns the distances by a plain Go program, for comparison.
func (g *Graph) Compute(from int) []uint32 {
	dist := slices.Repeat([]uint32{Unreached}, g.Vertices())
	dist[from] = 0
	frontier := []uint32{uint32(from)}
	for len(frontier) > 0 {
		var next []uint32
		for _, v := range frontier {
			for e := g.Offsets[v]; e < g.Offsets[v+1]; e++ {
				w := uint32(1)
				if g.Weights != nil {
					w = g.Weights[e]
				}
				if to, d := g.Targets[e], dist[v]+w; d < dist[to] {
					dist[to] = d
					next = append(next, to)
				}
			}
		}
		frontier = next
	}
	return dist
}
