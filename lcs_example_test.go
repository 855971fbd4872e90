package ptxrun_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
)

func ExampleLCSMatches() {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, b := []byte("the cat sat"), []byte("a cat had sat")
	matches, err := ptxrun.LCSMatches(context.Background(), rt, a, b)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range matches {
		fmt.Printf("%q at %d and %d\n", a[m.A:m.A+m.Len], m.A, m.B)
	}
	// Output:
	// " cat" at 3 and 1
	// " sat" at 7 and 9
}

func ExampleLCSSelfPairs() {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	names := [][]byte{[]byte("Meier"), []byte("Mayer"), []byte("Schmidt"), []byte("Schmitt")}
	pairs, err := ptxrun.LCSSelfPairs(context.Background(), rt, names, 0.8)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range pairs {
		fmt.Printf("%s %s %.2f\n", names[p.A], names[p.B], p.Ratio)
	}
	// Output:
	// Schmidt Schmitt 0.86
}

func ExampleRenumber() {
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, b := ptxrun.Renumber([]string{"to", "be", "or", "not"}, []string{"not", "to", "be"})
	n, err := ptxrun.LCSLength(context.Background(), rt, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 2
}
