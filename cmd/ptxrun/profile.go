package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver/emu"
)

type emuProfileCmd struct {
	Capability int      `enum:"70,80,90" default:"90" placeholder:"NN" help:"Compute capability of the emulated GPU, times ten: ${enum}. It decides which kernels run."`
	Lines      bool     `help:"List every instruction that accessed memory, by its line in the PTX."`
	Command    []string `arg:"" passthrough:"" help:"The command to run, with its arguments: scan --type u32 numbers.bin -o sums.bin"`
}

func (c *emuProfileCmd) Help() string {
	return `Runs another command on the emulator and tells, on standard error, what its kernels executed: instructions by class, how many lanes of a warp took part, bytes that were asked for in global memory and how much of the 32-byte sectors they lie in was used, and extra rounds because of bank conflicts in shared memory. No GPU is needed.`
}

func (c *emuProfileCmd) Run(s *session) error {
	sub := *s
	var dev *emu.Device
	sub.open = func() (*ptxrun.Runtime, error) {
		d, err := emu.Open(emu.WithCapability(c.Capability), emu.WithProfile())
		if err != nil {
			return nil, err
		}
		dev = d.(*emu.Device)
		return ptxrun.NewRuntime(d), nil
	}
	var profiles []emu.Profile
	sub.after = func() { profiles = append(profiles, dev.Profile()...) }
	result := sub.execute(c.Command)
	if result != nil && !errors.Is(result, errDifferent) {
		return result
	}
	if len(profiles) == 0 {
		return usagef("%s launches no kernel", c.Command[0])
	}
	for i := range profiles {
		if err := c.write(s.stderr, &profiles[i]); err != nil {
			return err
		}
	}
	return result
}

func (c *emuProfileCmd) write(out io.Writer, p *emu.Profile) error {
	total := p.Total()
	fmt.Fprintf(out, "%s: %d launches, %d blocks, %d warp instructions, %.1f lanes in each\n",
		p.Kernel, p.Launches, p.Blocks, total.Warps, ratio(total.Threads, total.Warps))
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	for class, n := range p.Classes {
		if n.Warps > 0 {
			fmt.Fprintf(w, "  %v\t%d\t%.1f%%\n", emu.Class(class), n.Warps, 100*ratio(n.Warps, total.Warps))
		}
	}
	for _, space := range []struct {
		name string
		emu.Traffic
	}{{"global", p.Global}, {"shared", p.Shared}, {"local", p.Local}} {
		for _, t := range []struct {
			name string
			emu.Access
		}{{"loads", space.Loads}, {"stores", space.Stores}, {"atomics", space.Atomics}} {
			if t.Requests > 0 {
				fmt.Fprintf(w, "  %s %s\t%d requests\t%s\n", space.name, t.name, t.Requests, accessText(t.Access))
			}
		}
	}
	if c.Lines {
		for _, l := range p.Lines {
			if l.Memory.Requests > 0 {
				fmt.Fprintf(w, "  line %d\t%s\t%d requests\t%s\n", l.Line, l.Instruction, l.Memory.Requests, accessText(l.Memory))
			}
		}
	}
	return w.Flush()
}

// accessText is what a request cost: of sectors in global memory, of rounds in
// shared memory.
func accessText(a emu.Access) string {
	text := fmt.Sprintf("%d bytes", a.Bytes)
	if a.Sectors > 0 {
		text += fmt.Sprintf(", %.1f sectors a request, %.0f%% of them used", a.SectorsPerRequest(), 100*ratio(a.Used, 32*a.Sectors))
	}
	if a.Conflicts > 0 {
		text += fmt.Sprintf(", %d bank conflicts", a.Conflicts)
	}
	return text
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
