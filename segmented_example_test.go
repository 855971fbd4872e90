package ptxrun_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
)

// Running totals by account, of transactions that are sorted by account.
func ExampleInclusiveSegmentedScan() {
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	accounts := []uint64{7, 7, 7, 12, 12, 30}
	amounts := []int64{100, -20, 5, 1000, -1, 8}
	balances := make([]int64, len(amounts))
	if err := ptxrun.InclusiveSegmentedScan(context.Background(), rt, balances, amounts, ptxrun.SegmentKeys(accounts), ptxrun.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Println(balances)
	// Output: [100 80 85 1000 999 8]
}

// A batch of scans of different lengths, the second of them of nothing, in one
// call.
func ExampleSegmentOffsets() {
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	rows := []uint32{0, 3, 3, 5}
	lengths := []uint32{2, 1, 4, 9, 1}
	starts := make([]uint32, len(lengths))
	if err := ptxrun.ExclusiveSegmentedScan(context.Background(), rt, starts, lengths, ptxrun.SegmentOffsets(rows), ptxrun.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Println(starts)
	// Output: [0 2 3 0 9]
}
