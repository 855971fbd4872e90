package ptxrun_test

import (
	"context"
	_ "embed"
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

//go:generate go run ./cmd/ptxrun ptx -o testdata/halve.ptx testdata/halve.cu

//go:embed testdata/halve.ptx
var halvePTX []byte // halve(const uint8_t *in, uint8_t *out, uint32_t width)

// halveTwin is halve in Go.
func halveTwin(l *driver.TwinLaunch) error {
	in, out, width := l.Args.Ptr(), l.Args.Ptr(), int64(l.Args.Uint32())
	src, err := driver.Slice[uint8](l.Mem, in, 2*width)
	if err != nil {
		return err
	}
	dst, err := driver.Slice[uint8](l.Mem, out, width)
	if err != nil {
		return err
	}
	l.Parallel(width, func(i int64) { dst[i] = src[2*i] })
	return nil
}

// Three launches are made as one.
func ExampleRuntime_Aggregate() {
	if err := halveThree(); err != nil {
		log.Fatal(err)
	}
	// Output: [0 2 4 0 0 6 8 0 0 10]
}

func halveThree() error {
	ctx := context.Background()
	rt, err := ptxrun.Open()
	if err != nil {
		return err
	}
	defer rt.Close()
	m, err := rt.LoadModule(halvePTX, ptxrun.WithTwin("halve", halveTwin))
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := m.Kernel("halve")
	if err != nil {
		return err
	}
	agg, err := rt.Aggregate(k)
	if err != nil {
		return err
	}
	defer agg.Close() // before m's

	s, err := ptxrun.NewStream(rt)
	if err != nil {
		return err
	}
	defer s.Close()
	in, err := ptxrun.NewBufferFrom(s, []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	if err != nil {
		return err
	}
	defer in.Free()
	out, err := ptxrun.NewBufferFrom(s, make([]uint8, 10))
	if err != nil {
		return err
	}
	defer out.Free()
	if err := s.Wait(ctx); err != nil { // launches that are recorded are not in s's order
		return err
	}
	for _, row := range []struct {
		from, to driver.Ptr
		width    uint32
	}{{0, 0, 3}, {6, 5, 2}, {10, 9, 1}} {
		c := driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}
		if _, err := agg.Launch(c, in.Ptr()+row.from, out.Ptr()+row.to, row.width); err != nil {
			return err
		}
	}
	if err := agg.Flush(ctx); err != nil {
		return err
	}
	got := make([]uint8, out.Len())
	if err := out.CopyTo(s, got); err != nil {
		return err
	}
	fmt.Println(got)
	return nil
}
