package rlefile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/rlefile"
)

func Example() {
	ctx := context.Background()
	rt, err := ptxrun.Open(ptxrun.WithDevice("cpu")) // leave the option out for a GPU
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	var file bytes.Buffer
	w, err := rlefile.NewWriter(ctx, rt, &file, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(w, "%s%s%s", bytes.Repeat([]byte("a"), 100_000), "the middle", bytes.Repeat([]byte("b"), 100_000))
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Len(), "bytes for", w.Stats().Raw)

	f, err := rlefile.Open(ctx, rt, bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	middle := make([]byte, 10)
	if _, err := f.ReadAt(middle, 100_000); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", middle)

	r, err := rlefile.NewReader(ctx, rt, &file)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	n, err := io.Copy(io.Discard, r)
	fmt.Println(n, "bytes verified,", err)
	// Output:
	// 147 bytes for 200010
	// the middle
	// 200010 bytes verified, <nil>
}
