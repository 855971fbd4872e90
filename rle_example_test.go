package ptxrun_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
)

// Two masks, as runs of 0 and 1, are intersected and measured without decoding
// them.
func ExampleRLECombine() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	a := ptxrun.Runs[uint8, uint32]{Values: []uint8{0, 1, 0}, Lengths: []uint32{100, 50, 850}}
	b := ptxrun.Runs[uint8, uint32]{Values: []uint8{0, 1}, Lengths: []uint32{120, 880}}
	both, err := ptxrun.RLECombine(ctx, rt, ptxrun.CombineAnd, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(both.Values, both.Lengths)

	area, err := ptxrun.RLESum[uint64](ctx, rt, both)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(area)
	// Output:
	// [0 1 0] [120 30 850]
	// 30
}

// Elements are looked up by run ends, as Apache Arrow stores them.
func ExampleRLEAt() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	values, lengths := []byte("abc"), []uint32{3, 1, 5}
	ends, err := ptxrun.RLERunEnds[int32](ctx, rt, lengths)
	if err != nil {
		log.Fatal(err)
	}
	at, err := ptxrun.RLEAt(ctx, rt, values, ends, []uint32{8, 0, 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ends, string(at))
	// Output: [3 4 9] cab
}
