package aggregation

import (
	"slices"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Quadtree divides the unit square until no cell has more than Leaf points, but at
// most MostDepth times.
type Quadtree struct {
	Leaf, MostDepth int
	Points          [2][]Point // of nodes at even and odd depths
	Nodes           []Range    // node i's quarters are 4i+1 to 4i+4; the empty range is no node
}

// Range is a node's points: [Begin, End) in the Points of its depth's parity.
type Range struct{ Begin, End uint32 }

// quarter is an item of split_level, in memory as Quarter in kernels.cu.
type quarter struct {
	q, from, to, nodes       driver.Ptr
	index, begin, end, depth uint32
	x, y, half               float32
	leaf, mostDepth          uint32
	_                        uint32
}

// nodes is the size of a full quadtree.
func nodes(depth int) int { return (1<<(2*depth+2) - 1) / 3 }

// BuildQuadtree sorts points of the unit square into a tree.
func (p *Programs) BuildQuadtree(points []Point, leaf, mostDepth int, mode Mode) (t *Quadtree, err error) {
	defer func() {
		if e := p.release(); err == nil {
			err = e
		}
	}()
	from, err := buffer(p, points)
	if err != nil {
		return nil, err
	}
	to, err := buffer(p, points)
	if err != nil {
		return nil, err
	}
	tree, err := buffer(p, make([]Range, nodes(mostDepth)))
	if err != nil {
		return nil, err
	}
	q, err := p.queue("split_node", min(len(points), 1<<(2*mostDepth)))
	if err != nil {
		return nil, err
	}
	root := quarter{q.Ptr(), from.Ptr(), to.Ptr(), tree.Ptr(), 0, 0, uint32(len(points)), 0, 0.5, 0.5, 0.5, uint32(leaf), uint32(mostDepth), 0}
	if mode == Serial {
		err = p.levels(root, min(len(points), 1<<(2*mostDepth)))
	} else {
		err = p.s.Launch(p.kernel["split_node"], driver.Config{Grid: driver.D1(1), Block: driver.D1(128)}, root.q, root.from, root.to, root.nodes,
			root.index, root.begin, root.end, root.depth, root.x, root.y, root.half, root.leaf, root.mostDepth)
		for n := int64(1); err == nil && n > 0; {
			n, err = p.launchChildren(q, mode)
		}
	}
	if err != nil {
		return nil, err
	}
	t = &Quadtree{Leaf: leaf, MostDepth: mostDepth, Nodes: make([]Range, tree.Len())}
	if err := tree.CopyTo(p.s, t.Nodes); err != nil {
		return nil, err
	}
	for i, b := range []*ptxrun.Buffer[Point]{from, to} {
		t.Points[i] = make([]Point, len(points))
		if err := b.CopyTo(p.s, t.Points[i]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// levels is the plain version: a launch for each level, a thread for each node.
func (p *Programs) levels(root quarter, most int) error {
	list := make([]quarter, max(most, 1))
	list[0] = root
	level, err := buffer(p, list)
	if err != nil {
		return err
	}
	next, err := buffer(p, list)
	if err != nil {
		return err
	}
	found, err := filled(p, 1, 0)
	if err != nil {
		return err
	}
	for count := []uint32{1}; count[0] > 0; level, next = next, level {
		if err := found.CopyFrom(p.s, []uint32{0}); err != nil {
			return err
		}
		if err := p.s.Launch(p.kernel["split_level"], covering(int(count[0])), level, count[0], next, found); err != nil {
			return err
		}
		if err := found.CopyTo(p.s, count); err != nil {
			return err
		}
	}
	return nil
}

// compare orders points.
func compare(a, b Point) int {
	switch {
	case a.X < b.X || a.X == b.X && a.Y < b.Y:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Leaves returns the points of each leaf, in order, by the node's index.
func (t *Quadtree) Leaves() map[int][]Point {
	leaves := map[int][]Point{}
	var visit func(i, depth int)
	visit = func(i, depth int) {
		n := t.Nodes[i]
		if n.Begin == n.End {
			return
		}
		if int(n.End-n.Begin) <= t.Leaf || depth == t.MostDepth {
			points := slices.Clone(t.Points[depth%2][n.Begin:n.End])
			slices.SortFunc(points, compare)
			leaves[i] = points
			return
		}
		for k := range 4 {
			visit(4*i+1+k, depth+1)
		}
	}
	visit(0, 0)
	return leaves
}

// Leaves is the plain Go program.
func Leaves(points []Point, leaf, mostDepth int) map[int][]Point {
	leaves := map[int][]Point{}
	var visit func(points []Point, i, depth int, x, y, half float32)
	visit = func(points []Point, i, depth int, x, y, half float32) {
		if len(points) == 0 {
			return
		}
		if len(points) <= leaf || depth == mostDepth {
			points = slices.Clone(points)
			slices.SortFunc(points, compare)
			leaves[i] = points
			return
		}
		var parts [4][]Point
		for _, p := range points {
			k := 0
			if p.X >= x {
				k++
			}
			if p.Y >= y {
				k += 2
			}
			parts[k] = append(parts[k], p)
		}
		h := half / 2
		for k, part := range parts {
			visit(part, 4*i+1+k, depth+1, x+h*float32(2*(k%2)-1), y+h*float32(2*(k/2)-1), h)
		}
	}
	visit(points, 0, 0, 0.5, 0.5, 0.5)
	return leaves
}
