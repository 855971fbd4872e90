// Command tour runs each of the library's primitives on a real file, checks what
// comes out, and prints sizes and rates. make run starts it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/ptxrun/ptxrun"
)

func main() {
	log.SetFlags(0)
	dir := "testdata"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := tour(context.Background(), os.Stdout, dir); err != nil {
		log.Fatal(err)
	}
}

func tour(ctx context.Context, w io.Writer, dir string) (err error) {
	rt, err := ptxrun.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()

	fmt.Fprintf(w, "device: %s, %s\n", rt.Info().Kind, rt.Info().Name)
	fmt.Fprintf(w, "Best of several calls, copies to the device and back included:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tinput\tresult\ttime\trate")
	for _, step := range []func(context.Context, *ptxrun.Runtime, string) (row, error){compress, scan, compare} {
		r, err := step(ctx, rt, dir)
		if err != nil {
			return err
		}
		fmt.Fprint(t, r)
	}
	return t.Flush()
}

// row is the report of a step, in columns.
type row string

func (r *row) add(what, input, result string, units int, unit string, took time.Duration) {
	*r += row(fmt.Sprintf("%s\t%s\t%s\t%v\t%.0f %s\n", what, input, result,
		took.Round(time.Microsecond), float64(units)/1e6/took.Seconds(), unit))
}

// best calls f a few times and returns its shortest time.
func best(f func() error) (time.Duration, error) {
	shortest := time.Duration(0)
	for begin, i := time.Now(), 0; i < 10 && (i == 0 || time.Since(begin) < time.Second); i++ {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < shortest {
			shortest = took
		}
	}
	return shortest, nil
}

// compress encodes the picture of a printed page to runs, and restores it.
func compress(ctx context.Context, rt *ptxrun.Runtime, dir string) (r row, err error) {
	const name = "declaration.bmp"
	page, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	var values []byte
	var lengths []uint32
	took, err := best(func() error {
		values, lengths, err = ptxrun.RLEEncode(ctx, rt, page)
		return err
	})
	if err != nil {
		return "", err
	}
	runs := fmt.Sprintf("%d runs", len(values))
	r.add("compress", fmt.Sprintf("%s, %d bytes", name, len(page)), runs, len(page), "MB/s", took)

	var restored []byte
	took, err = best(func() error {
		restored, err = ptxrun.RLEDecode(ctx, rt, values, lengths)
		return err
	})
	if err == nil && !bytes.Equal(page, restored) {
		err = fmt.Errorf("%s was not restored", name)
	}
	r.add("restore", runs, fmt.Sprintf("%d bytes, the same", len(restored)), len(page), "MB/s", took)
	return r, err
}

// scan adds up the lightness of the page's dots: the difference of two sums is
// the light in the stretch between them.
func scan(ctx context.Context, rt *ptxrun.Runtime, dir string) (r row, err error) {
	page, err := os.ReadFile(filepath.Join(dir, "declaration.bmp"))
	if err != nil {
		return "", err
	}
	dots, sums := make([]uint32, len(page)), make([]uint32, len(page))
	for i, v := range page {
		dots[i] = uint32(v)
	}
	took, err := best(func() error { return ptxrun.InclusiveScan(ctx, rt, sums, dots, ptxrun.Sum) })
	if err != nil {
		return "", err
	}
	total := uint32(0)
	for i, v := range dots {
		if total += v; sums[i] != total {
			return "", fmt.Errorf("sum %d is %d, not %d", i, sums[i], total)
		}
	}
	r.add("scan", fmt.Sprintf("%d uint32", len(dots)), fmt.Sprintf("running sums to %d", total), len(dots), "M elements/s", took)
	return r, nil
}

// compare tells how alike two versions of a speech are.
func compare(ctx context.Context, rt *ptxrun.Runtime, dir string) (r row, err error) {
	a, err := os.ReadFile(filepath.Join(dir, "gettysburg-first.txt"))
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(dir, "gettysburg-final.txt"))
	if err != nil {
		return "", err
	}
	length := 0
	took, err := best(func() error {
		length, err = ptxrun.LCSLength(ctx, rt, a, b)
		return err
	})
	alike := 200 * float64(length) / float64(len(a)+len(b))
	r.add("compare", fmt.Sprintf("gettysburg-*.txt, %d and %d bytes", len(a), len(b)),
		fmt.Sprintf("%d in common, %.1f%% alike", length, alike), len(a)*len(b), "M cells/s", took)
	return r, err
}
