package aggregation

import (
	"math"

	"github.com/ptxrun/ptxrun"
)

// Point is a place in the plane, in memory as in kernels.cu.
type Point struct{ X, Y float32 }

// Curve is a quadratic Bezier curve by its control points.
type Curve [3]Point

// MostVertices is how many a curve is divided into at most.
const MostVertices = 1024

// Tessellate returns the vertices of each curve, more the more it is bent.
func (p *Programs) Tessellate(curves []Curve, mode Mode) (out [][]Point, err error) {
	defer func() {
		if e := p.release(); err == nil {
			err = e
		}
	}()
	control, err := buffer(p, curves)
	if err != nil {
		return nil, err
	}
	vertices, err := ptxrun.NewBuffer[Point](p.rt, len(curves)*MostVertices)
	if err != nil {
		return nil, err
	}
	p.held = append(p.held, vertices.Free)
	counts, err := filled(p, len(curves), 0)
	if err != nil {
		return nil, err
	}
	q, err := p.queue("tessellate", len(curves))
	if err != nil {
		return nil, err
	}
	err = p.s.Launch(p.kernel["tessellate_curves"], covering(len(curves)), q.Ptr(), control, uint32(len(curves)), vertices, counts,
		uint32(MostVertices), mode.threshold())
	if err != nil {
		return nil, err
	}
	if _, err := p.launchChildren(q, mode); err != nil {
		return nil, err
	}
	n := make([]uint32, len(curves))
	if err := counts.CopyTo(p.s, n); err != nil {
		return nil, err
	}
	out = make([][]Point, len(curves))
	for i := range out {
		part, err := vertices.Slice(i*MostVertices, i*MostVertices+int(n[i]))
		if err != nil {
			return nil, err
		}
		out[i] = make([]Point, n[i])
		if err := part.CopyTo(p.s, out[i]); err != nil {
			return nil, err
		}
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
	wanted := float32(bend * 16)
	n := MostVertices
	if wanted < 4 {
		n = 4
	} else if wanted < MostVertices {
		n = int(wanted)
	}
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
