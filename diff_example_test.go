package ptxrun_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/ptxrun/ptxrun"
)

// What changed in a text, for a person or for patch.
func ExampleUnifiedDiff() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	before := "apples\npears\nplums\n"
	after := "apples\nquinces\nplums\n"
	different, err := ptxrun.UnifiedDiff(ctx, rt, os.Stdout, before, after,
		ptxrun.WithDiffFiles(ptxrun.DiffFile{Name: "before.txt"}, ptxrun.DiffFile{Name: "after.txt"}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(different)
	// Output:
	// --- before.txt
	// +++ after.txt
	// @@ -1,3 +1,3 @@
	//  apples
	// -pears
	// +quinces
	//  plums
	// true
}

// The steps that make one sequence of the other.
func ExampleLCSEdits() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	a, b := []byte("wavefront"), []byte("waterfront")
	edits, err := ptxrun.LCSEdits(ctx, rt, a, b)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range edits {
		fmt.Printf("%v %q %q\n", e.Op, a[e.AStart:e.AEnd], b[e.BStart:e.BEnd])
	}
	// Output:
	// equal "wa" "wa"
	// delete "v" ""
	// insert "" "t"
	// equal "e" "e"
	// insert "" "r"
	// equal "front" "front"
}

// A summary against a person's, word by word.
func ExampleRougeL() {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	summary := strings.Fields("the gunman was killed by police")
	reference := strings.Fields("police killed the gunman")
	a, b := ptxrun.Renumber(summary, reference)
	score, err := ptxrun.RougeL(ctx, rt, a, b, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("precision %.2f, recall %.2f, F %.2f\n", score.Precision, score.Recall, score.F)
	// Output: precision 0.33, recall 0.50, F 0.40
}
