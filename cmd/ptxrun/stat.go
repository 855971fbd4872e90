package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"text/tabwriter"
	"unsafe"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/rlefile"
)

type statCmd struct {
	Input string `arg:"" help:"File to look at: an .rle file, or data that might become one."`
	Width *int   `placeholder:"BYTES" help:"Bytes of the elements that runs are made of: 1, 2, 4 or 8. By default 1, or that of the .rle file."`
}

func (c *statCmd) Help() string {
	return `Tells how many runs there are, their distribution by length, and how large the data is as an .rle file. An .rle file is verified as well.`
}

func (c *statCmd) Validate() error {
	if c.Width != nil && !slices.Contains([]int{1, 2, 4, 8}, *c.Width) {
		return usagef("--width must be one of 1, 2, 4, 8 but is %d", *c.Width)
	}
	return nil
}

func (c *statCmd) Run(s *session) error {
	in, err := s.openInput(c.Input)
	if err != nil {
		return err
	}
	defer in.Close()
	return in.blamed(s.onDevice(func(rt *ptxrun.Runtime) error {
		r, stop := s.progress(in.Reader, in.size, "reading")
		defer stop()
		d, err := c.measure(s, rt, r)
		if err != nil {
			return err
		}
		stop()
		return d.write(s.stdout, c.Input)
	}))
}

// measure reads all of r.
func (c *statCmd) measure(s *session, rt *ptxrun.Runtime, r io.Reader) (*distribution, error) {
	buffered := bufio.NewReaderSize(r, 1<<20)
	if head, _ := buffered.Peek(len(rlefile.Magic)); string(head) == rlefile.Magic {
		z, err := rlefile.NewReader(s.ctx, rt, buffered)
		if err != nil {
			return nil, err
		}
		width := z.Width()
		if c.Width != nil {
			width = *c.Width
		}
		d, err := distributionOf(s, rt, z, width)
		if err = errors.Join(err, z.Close()); err != nil {
			return nil, err
		}
		d.encoded = z.Stats().Encoded
		return d, nil
	}
	width := 1
	if c.Width != nil {
		width = *c.Width
	}
	z, err := rlefile.NewWriter(s.ctx, rt, io.Discard, width)
	if err != nil {
		return nil, err
	}
	d, err := distributionOf(s, rt, io.TeeReader(buffered, z), width)
	if err == nil {
		err = z.Close()
	} else {
		z.Close() // to free it
	}
	if err != nil {
		return nil, err
	}
	d.encoded = z.Stats().Encoded
	return d, nil
}

// distribution is of runs by their length.
type distribution struct {
	width         int
	bytes         int64 // of the data, with what is no whole element
	elements      int64
	runs, longest int64
	encoded       int64 // bytes as an .rle file
	// classes[k] are the runs of 2^(k-1)+1 to 2^k elements.
	classes [64]struct{ runs, elements int64 }
}

func (d *distribution) add(length int64) {
	d.runs++
	d.longest = max(d.longest, length)
	c := &d.classes[bits.Len64(uint64(length-1))]
	c.runs++
	c.elements += length
}

func distributionOf(s *session, rt *ptxrun.Runtime, r io.Reader, width int) (*distribution, error) {
	switch width {
	case 1:
		return collect[uint8](s, rt, r)
	case 2:
		return collect[uint16](s, rt, r)
	case 4:
		return collect[uint32](s, rt, r)
	}
	return collect[uint64](s, rt, r)
}

// collect finds the runs of r, a chunk at a time; one that goes on in the next
// chunk is one run.
func collect[V ptxrun.Number](s *session, rt *ptxrun.Runtime, r io.Reader) (*distribution, error) {
	d := &distribution{width: sizeOf[V]()}
	chunk := make([]V, max(1, s.chunk/4/d.width))
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&chunk[0])), len(chunk)*d.width)
	var last V
	var open int64 // elements of the run that may go on
	for {
		n, err := io.ReadFull(r, raw)
		if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		d.bytes += int64(n)
		d.elements += int64(n / d.width)
		values, lengths, failed := ptxrun.RLEEncode64(s.ctx, rt, chunk[:n/d.width])
		if failed != nil {
			return nil, failed
		}
		for i, v := range values {
			if open > 0 && v != last {
				d.add(open)
				open = 0
			}
			open += int64(lengths[i])
			last = v
		}
		if err != nil {
			break
		}
	}
	if open > 0 {
		d.add(open)
	}
	return d, nil
}

// barWidth is the characters of the longest bar.
const barWidth = 40

func (d *distribution) write(out io.Writer, name string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d bytes, %d elements of %d, %d runs", name, d.bytes, d.elements, d.width, d.runs)
	if d.runs > 0 {
		fmt.Fprintf(&b, " of %.1f elements on average, the longest of %d", float64(d.elements)/float64(d.runs), d.longest)
	}
	fmt.Fprintf(&b, "\nas an .rle file: %d bytes", d.encoded)
	if d.bytes > 0 {
		fmt.Fprintf(&b, ", %.1f%%", 100*float64(d.encoded)/float64(d.bytes))
	}
	b.WriteString("\n")
	if d.runs > 0 {
		d.writeTable(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (d *distribution) writeTable(out io.Writer) {
	first, last, most := len(d.classes), 0, int64(0)
	for k, c := range d.classes {
		if c.runs > 0 {
			first, last, most = min(first, k), k, max(most, c.runs)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nlength\truns\tshare\telements\tshare\t")
	for k := first; k <= last; k++ {
		c := d.classes[k]
		length := "1"
		switch {
		case k == 1:
			length = "2"
		case k > 1:
			length = fmt.Sprintf("%d-%d", uint64(1)<<(k-1)+1, uint64(1)<<k)
		}
		bar := ""
		if c.runs > 0 {
			bar = "  " + strings.Repeat("#", int((c.runs*barWidth+most-1)/most))
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f%%\t%d\t%.1f%%\t%s\n", length,
			c.runs, 100*float64(c.runs)/float64(d.runs),
			c.elements, 100*float64(c.elements)/float64(d.elements),
			bar)
	}
	w.Flush()
}
