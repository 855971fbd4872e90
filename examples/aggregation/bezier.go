package aggregation

import (
	"errors"
	"math"

	"github.com/ptxrun/ptxrun"
)

// Point is a place in the plane, in memory as in kernels.cu.
type Point struct{ X, Y float32 }

// Curve is a quadratic Bezier curve by its control points.
type Curve [3]Point

// MostVertices is how many a curve is divided into at most.
const MostVertices = 1024

// Tessellation divides curves, each into the more vertices the more it is bent.
type Tessellation struct {
	memory
	curves   int
	control  *ptxrun.Buffer[Curve]
	vertices *ptxrun.Buffer[Point]
	counts   *ptxrun.Buffer[uint32]
	children *ptxrun.Queue
}

// NewTessellation takes curves to the device. Close it.
func (p *Programs) NewTessellation(curves []Curve) (t *Tessellation, err error) {
	t = &Tessellation{memory: memory{Programs: p}, curves: len(curves)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.control, err = upload(&t.memory, curves); err != nil {
		return t, err
	}
	if t.vertices, err = buffer[Point](&t.memory, len(curves)*MostVertices); err != nil {
		return t, err
	}
	if t.counts, err = buffer[uint32](&t.memory, len(curves)); err != nil {
		return t, err
	}
	t.children, err = t.queue("tessellate", len(curves))
	return t, err
}

// Run computes the vertices.
func (t *Tessellation) Run(mode Mode) error {
	err := t.s.Launch(t.kernel["tessellate_curves"], covering(t.curves), t.children.Ptr(), t.control, uint32(t.curves), t.vertices, t.counts,
		uint32(MostVertices), mode.threshold())
	if err != nil {
		return err
	}
	if _, err := t.launchChildren(t.children, mode); err != nil {
		return err
	}
	return t.s.Synchronize()
}

// Vertices are those of each curve that Run computed.
func (t *Tessellation) Vertices() ([][]Point, error) {
	n := make([]uint32, t.curves)
	if err := t.counts.CopyTo(t.s, n); err != nil {
		return nil, err
	}
	all := make([]Point, t.vertices.Len())
	if err := t.vertices.CopyTo(t.s, all); err != nil {
		return nil, err
	}
	out := make([][]Point, t.curves)
	for i := range out {
		out[i] = all[i*MostVertices:][:n[i]]
	}
	return out, nil
}

// Tessellate is the plain Go program, which rounds where the kernel does.
func (c *Curve) Tessellate() []Point {
	length := func(x, y float32) float32 {
		return float32(math.Sqrt(float64(float32(float32(x*x) + float32(y*y)))))
	}
	half := func(a, b float32) float32 { return float32(0.5 * float32(a+b)) }
	bend := length(c[1].X-half(c[0].X, c[2].X), c[1].Y-half(c[0].Y, c[2].Y)) / length(c[2].X-c[0].X, c[2].Y-c[0].Y)
	wanted := float32(bend * 64)
	n := MostVertices
	if wanted < 4 {
		n = 4
	} else if wanted < MostVertices {
		n = int(wanted)
	}
	return c.Divide(n)
}

// Divide returns n vertices, by a plain Go program.
func (c *Curve) Divide(n int) []Point {
	out := make([]Point, n)
	for i := range out {
		u := float32(i) / float32(n-1)
		w := 1 - u
		a, b, d := float32(w*w), float32(float32(2*u)*w), float32(u*u)
		mix := func(x, y, z float32) float32 {
			return float32(float32(a*x)+float32(b*y)) + float32(d*z)
		}
		out[i] = Point{mix(c[0].X, c[1].X, c[2].X), mix(c[0].Y, c[1].Y, c[2].Y)}
	}
	return out
}
