package ptxrun_test

import (
	"fmt"
	"log"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// A kernel of the caller's own on whatever device there is: its PTX, or its Go form
// on the processor.
func ExampleRuntime_LoadModule() {
	rt, err := ptxrun.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	m, err := rt.LoadModule(halvePTX, ptxrun.WithTwin("halve", halveTwin))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	k, err := m.Kernel("halve")
	if err != nil {
		log.Fatal(err)
	}
	s, err := ptxrun.NewStream(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	in, err := ptxrun.NewBufferFrom(s, []uint8{0, 1, 2, 3, 4, 5})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Free()
	out, err := ptxrun.NewBuffer[uint8](rt, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Free()
	if err := s.Launch(k, driver.Config{Grid: driver.D1(1), Block: driver.D1(32)}, in, out, uint32(3)); err != nil {
		log.Fatal(err)
	}
	got := make([]uint8, 3)
	if err := out.CopyTo(s, got); err != nil {
		log.Fatal(err)
	}
	fmt.Println(got)
	// Output: [0 2 4]
}
