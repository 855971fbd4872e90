package ptxrun_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
)

func Example() {
	ctx := context.Background()
	rt, err := ptxrun.Open() // the first GPU, or the processor
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	sums := make([]uint32, 5)
	if err := ptxrun.InclusiveScan(ctx, rt, sums, []uint32{3, 1, 4, 1, 5}, ptxrun.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sums)

	large := make([]uint32, 5)
	count, err := ptxrun.SelectWhere(ctx, rt, large, sums, ptxrun.Greater, 7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(large[:count])

	values, lengths, err := ptxrun.RLEEncode(ctx, rt, []byte("aaabccccc"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(values), lengths)

	common, err := ptxrun.LCSLength(ctx, rt, []byte("wavefront"), []byte("waterfront"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(common)
	// Output:
	// [3 4 8 9 14]
	// [8 9 14]
	// abc [3 1 5]
	// 8
}

// A GPU asked for by name is not replaced by the processor.
func ExampleWithDevice() {
	_, err := ptxrun.Open(ptxrun.WithDevice("cuda:4096"))
	fmt.Println(err != nil)
	// Output: true
}

// Data that stays on the device between calls: no copy but the last.
func ExampleStream() {
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	s, err := ptxrun.NewStream(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	b, err := ptxrun.NewBufferFrom(s, []int64{5, -2, 7, -4})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Free()
	if err := ptxrun.InclusiveScanBuffer(s, b, b, ptxrun.Sum); err != nil { // in place
		log.Fatal(err)
	}
	if err := ptxrun.InclusiveScanBuffer(s, b, b, ptxrun.Max); err != nil {
		log.Fatal(err)
	}
	highest := make([]int64, b.Len())
	if err := b.CopyTo(s, highest); err != nil {
		log.Fatal(err)
	}
	fmt.Println(highest)
	// Output: [5 5 10 10]
}

// The rows of a table that are marked, by their numbers, and the others after
// them.
func ExamplePartitionFlagged() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	prices := []float64{9.5, 20, 3, 14}
	marked := []bool{false, true, false, true}
	rows := make([]uint32, len(marked))
	n, err := ptxrun.FlaggedIndices(ctx, rt, rows, marked)
	if err != nil {
		log.Fatal(err)
	}
	both := make([]float64, len(prices))
	if _, err := ptxrun.PartitionFlagged(ctx, rt, both, prices, marked); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows[:n], both)
	// Output: [1 3] [20 14 9.5 3]
}
