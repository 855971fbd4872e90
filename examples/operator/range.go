// Package operator shows how a service brings a scan operator of its own: the
// CUDA C++ in range.cu, compiled to PTX by go generate, and the same in Go for
// machines without a GPU.
package operator

import (
	_ "embed"

	"github.com/ptxrun/ptxrun"
)

//go:generate go run github.com/ptxrun/ptxrun/cmd/ptxrun ptx -o range.ptx range.cu
//go:generate go run github.com/ptxrun/ptxrun/cmd/ptxrun ptx --target sm_90 -o range_sm_90.ptx range.cu

//go:embed range.ptx
var ptx []byte

// ptx90 is faster on GPUs that can run it.
//
//go:embed range_sm_90.ptx
var ptx90 []byte

// Range is the numbers from Lo to Hi, without Hi. Its memory is that of Range in
// range.cu.
type Range struct{ Lo, Hi uint32 }

var (
	// Empty combines with any range to that range.
	Empty = Range{0, 0}
	// Broken is what ranges combine to that do not follow on each other.
	Broken = Range{1, 0}
)

// Join returns the range from the start of a to the end of b, if b begins where
// a ends.
func Join(a, b Range) Range {
	switch {
	case a == Empty:
		return b
	case b == Empty:
		return a
	case a == Broken || b == Broken || a.Hi != b.Lo:
		return Broken
	}
	return Range{a.Lo, b.Hi}
}

// New loads the operator on a runtime's device.
func New(rt *ptxrun.Runtime) (*ptxrun.Operator[Range], error) {
	return ptxrun.NewOperator(rt, ptxrun.OperatorSpec[Range]{
		Name:     "range",
		PTX:      [][]byte{ptx, ptx90},
		Identity: Empty,
		Combine:  Join,
	})
}
