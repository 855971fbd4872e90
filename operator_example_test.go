package ptxrun_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
)

// affine is the function x → mul·x + add.
type affine struct{ mul, add uint32 }

// The composition of functions, which does not commute. With PTX in its OperatorSpec
// the operator runs on GPUs as well, as in examples/operator.
func ExampleNewOperator() {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	op, err := ptxrun.NewOperator(rt, ptxrun.OperatorSpec[affine]{
		Name: "affine", Identity: affine{1, 0},
		Combine: func(a, b affine) affine { return affine{a.mul * b.mul, a.add*b.mul + b.add} },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer op.Close()
	all := make([]affine, 3)
	if err := op.InclusiveScan(context.Background(), all, []affine{{2, 1}, {3, 0}, {1, 5}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(all)
	// Output: [{2 1} {6 3} {6 8}]
}
