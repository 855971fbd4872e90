package aggregation

import (
	"errors"
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

// nodeThreads is the block of a node with n points; as node_threads in kernels.cu.
func nodeThreads(n int) uint32 {
	switch {
	case n >= 65536:
		return 1024
	case n >= 4096:
		return 256
	}
	return 64
}

// QuadtreeBuild sorts points of the unit square into a tree.
type QuadtreeBuild struct {
	memory
	points      []Point
	leaf, most  int
	from, to    *ptxrun.Buffer[Point]
	tree        *ptxrun.Buffer[Range]
	level, next *ptxrun.Buffer[quarter] // of the plain version
	counter     *ptxrun.Buffer[uint32]
	input       *ptxrun.Buffer[Point]
	children    *ptxrun.Queue
}

// NewQuadtreeBuild takes points to the device. Close it.
func (p *Programs) NewQuadtreeBuild(points []Point, leaf, mostDepth int) (b *QuadtreeBuild, err error) {
	b = &QuadtreeBuild{memory: memory{Programs: p}, points: points, leaf: leaf, most: mostDepth}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.input, err = upload(&b.memory, points); err != nil {
		return b, err
	}
	for _, part := range []**ptxrun.Buffer[Point]{&b.from, &b.to} {
		if *part, err = buffer[Point](&b.memory, len(points)); err != nil {
			return b, err
		}
	}
	if b.tree, err = buffer[Range](&b.memory, nodes(mostDepth)); err != nil {
		return b, err
	}
	most := max(min(len(points), 1<<(2*mostDepth)), 1) // nodes of a level
	for _, part := range []**ptxrun.Buffer[quarter]{&b.level, &b.next} {
		if *part, err = buffer[quarter](&b.memory, most); err != nil {
			return b, err
		}
	}
	if b.counter, err = buffer[uint32](&b.memory, 1); err != nil {
		return b, err
	}
	b.children, err = b.queue("split_node", most)
	return b, err
}

// Run builds the tree.
func (b *QuadtreeBuild) Run(mode Mode) error {
	d := b.s.Driver()
	err := errors.Join(fill(&b.memory, b.tree, 0, 8),
		d.Copy(b.from.Ptr(), b.input.Ptr(), int64(8*len(b.points))), d.Copy(b.to.Ptr(), b.input.Ptr(), int64(8*len(b.points))))
	if err != nil {
		return err
	}
	root := quarter{b.children.Ptr(), b.from.Ptr(), b.to.Ptr(), b.tree.Ptr(), 0, 0, uint32(len(b.points)), 0, 0.5, 0.5, 0.5,
		uint32(b.leaf), uint32(b.most), 0}
	if mode == Serial {
		return b.levels(root)
	}
	err = b.s.Launch(b.kernel["split_node"], driver.Config{Grid: driver.D1(1), Block: driver.D1(nodeThreads(len(b.points)))}, root.q, root.from, root.to, root.nodes,
		root.index, root.begin, root.end, root.depth, root.x, root.y, root.half, root.leaf, root.mostDepth)
	for n := int64(1); err == nil && n > 0; {
		n, err = b.launchChildren(b.children, mode)
	}
	return err
}

// levels is the plain version: a launch for each level, a thread for each node.
func (b *QuadtreeBuild) levels(root quarter) error {
	first, err := b.level.Slice(0, 1)
	if err != nil {
		return err
	}
	if err := first.CopyFrom(b.s, []quarter{root}); err != nil {
		return err
	}
	for count := []uint32{1}; count[0] > 0; b.level, b.next = b.next, b.level {
		if err := fill(&b.memory, b.counter, 0, 4); err != nil {
			return err
		}
		if err := b.s.Launch(b.kernel["split_level"], covering(int(count[0])), b.level, count[0], b.next, b.counter); err != nil {
			return err
		}
		if err := b.counter.CopyTo(b.s, count); err != nil {
			return err
		}
	}
	return nil
}

// Tree is what Run built.
func (b *QuadtreeBuild) Tree() (*Quadtree, error) {
	t := &Quadtree{Leaf: b.leaf, MostDepth: b.most, Nodes: make([]Range, b.tree.Len())}
	if err := b.tree.CopyTo(b.s, t.Nodes); err != nil {
		return nil, err
	}
	for i, from := range []*ptxrun.Buffer[Point]{b.from, b.to} {
		t.Points[i] = make([]Point, len(b.points))
		if err := from.CopyTo(b.s, t.Points[i]); err != nil {
			return nil, err
		}
	}
	return t, nil
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
