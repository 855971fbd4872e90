package aggregation

import (
	"errors"
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

// Search finds shortest paths in a graph, by the number of edges if it has no
// weights, else by their sum. Source: Bellman and Ford, with a frontier of the
// vertices that have improved, which without weights is breadth-first search.
type Search struct {
	memory
	vertices, most                             int // and the most edges of one
	offsets, targets, weights                  *ptxrun.Buffer[uint32]
	distances, marked, frontier, next, counter *ptxrun.Buffer[uint32]
	children                                   *ptxrun.Queue
}

// NewSearch takes a graph to the device. Close it.
func (p *Programs) NewSearch(g *Graph) (s *Search, err error) {
	s = &Search{memory: memory{Programs: p}, vertices: g.Vertices()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for v := range s.vertices {
		s.most = max(s.most, int(g.Offsets[v+1]-g.Offsets[v]))
	}
	if s.offsets, err = upload(&s.memory, g.Offsets); err != nil {
		return s, err
	}
	if s.targets, err = upload(&s.memory, g.Targets); err != nil {
		return s, err
	}
	if g.Weights != nil {
		if s.weights, err = upload(&s.memory, g.Weights); err != nil {
			return s, err
		}
	}
	for _, b := range []**ptxrun.Buffer[uint32]{&s.distances, &s.marked, &s.frontier, &s.next} {
		if *b, err = buffer[uint32](&s.memory, s.vertices); err != nil {
			return s, err
		}
	}
	if s.counter, err = buffer[uint32](&s.memory, 1); err != nil {
		return s, err
	}
	s.children, err = s.queue("relax", s.vertices)
	return s, err
}

// Run finds the distances from a vertex.
func (s *Search) Run(from int, mode Mode) error {
	if mode == Aggregated && s.most < threshold {
		mode = Serial // no vertex would have a child
	}
	if err := errors.Join(fill(&s.memory, s.distances, 0xff, 4), fill(&s.memory, s.marked, 0, 4)); err != nil {
		return err
	}
	start, err1 := s.distances.Slice(from, from+1)
	first, err2 := s.frontier.Slice(0, 1)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := errors.Join(start.CopyFrom(s.s, []uint32{0}), first.CopyFrom(s.s, []uint32{uint32(from)})); err != nil {
		return err
	}
	count := []uint32{1}
	for round := uint32(1); count[0] > 0; round++ {
		if err := fill(&s.memory, s.counter, 0, 4); err != nil {
			return err
		}
		err := s.s.Launch(s.kernel["relax_frontier"], covering(int(count[0])), s.children.Ptr(), s.offsets, s.targets, s.weights.Ptr(),
			s.distances, s.marked, s.frontier, count[0], s.next, s.counter, round, mode.threshold())
		if err != nil {
			return err
		}
		if _, err := s.launchChildren(s.children, mode); err != nil {
			return err
		}
		if err := s.counter.CopyTo(s.s, count); err != nil {
			return err
		}
		s.frontier, s.next = s.next, s.frontier
	}
	return nil
}

// Distances are those that Run found.
func (s *Search) Distances() ([]uint32, error) {
	d := make([]uint32, s.vertices)
	return d, s.distances.CopyTo(s.s, d)
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
