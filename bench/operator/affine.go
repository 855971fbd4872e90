// Package operator is a user's scan operator, for the benchmark.
package operator

import (
	_ "embed"

	"github.com/ptxrun/ptxrun"
)

//go:generate go -C ../.. run ./cmd/ptxrun ptx --compiler clang-19 -o bench/operator/affine.ptx bench/operator/affine.cu
//go:generate go -C ../.. run ./cmd/ptxrun ptx --compiler clang-19 --target sm_90 -o bench/operator/affine_sm_90.ptx bench/operator/affine.cu

//go:embed affine.ptx
var ptx []byte

//go:embed affine_sm_90.ptx
var ptx90 []byte

// Affine is the map from x to M·x + C modulo 2^32.
type Affine struct{ M, C uint32 }

// Identity maps every x to itself.
var Identity = Affine{M: 1}

// Compose is the map that applies a, then b.
func Compose(a, b Affine) Affine { return Affine{a.M * b.M, a.C*b.M + b.C} }

// New loads the operator on a runtime's device.
func New(rt *ptxrun.Runtime) (*ptxrun.Operator[Affine], error) {
	return ptxrun.NewOperator(rt, ptxrun.OperatorSpec[Affine]{
		Name:     "affine",
		PTX:      [][]byte{ptx, ptx90},
		Identity: Identity,
		Combine:  Compose,
	})
}
