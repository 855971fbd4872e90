package ree_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/arrow/ree"
)

func Example() {
	ctx, mem := context.Background(), memory.DefaultAllocator
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu")) // leave the option out for a GPU
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	b := array.NewInt64Builder(mem)
	defer b.Release()
	b.AppendValues([]int64{5, 5, 5, 0, 0, 7}, []bool{true, true, true, false, false, true})
	plain := b.NewArray()
	defer plain.Release()

	encoded, err := ree.Encode(ctx, rt, mem, plain, arrow.PrimitiveTypes.Int32)
	if err != nil {
		log.Fatal(err)
	}
	defer encoded.Release()
	fmt.Println(encoded.RunEndsArr(), encoded.Values())

	decoded, err := ree.Decode(ctx, rt, mem, encoded)
	if err != nil {
		log.Fatal(err)
	}
	defer decoded.Release()
	fmt.Println(decoded)
	// Output:
	// [3 5 6] [5 (null) 7]
	// [5 5 5 (null) (null) 7]
}
