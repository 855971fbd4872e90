package main

import (
	"fmt"
	"io"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

type lcsCmd struct {
	A string `arg:"" help:"One file."`
	B string `arg:"" help:"The other."`
}

func (c *lcsCmd) Help() string {
	return fmt.Sprintf(`Prints two lines: the length of the longest sequence of bytes that is had from either file by leaving bytes out, and the ratio of twice that length to both files' sizes, from 0 to 1 for files that are the same. The sequence itself is not printed.

The product of the sizes is at most %d: the table of all pairs of bytes takes 4 bytes of device memory a pair.`, ptxrun.LCSSpinWaitMaxCells)
}

func (c *lcsCmd) Validate() error {
	if c.A == "-" && c.B == "-" {
		return usagef("only one of the files can be standard input")
	}
	return nil
}

func (c *lcsCmd) Run(s *session) error {
	a, err := s.readAll(c.A)
	if err != nil {
		return err
	}
	b, err := s.readAll(c.B)
	if err != nil {
		return err
	}
	if len(b) > 0 && len(a) > ptxrun.LCSSpinWaitMaxCells/len(b) {
		return driver.Errorf("lcs", driver.ErrTooLarge, "%d × %d bytes; their product may be at most %d", len(a), len(b), ptxrun.LCSSpinWaitMaxCells)
	}
	return s.onDevice(func(rt *ptxrun.Runtime) error {
		length, err := ptxrun.LCSLength(s.ctx, rt, a, b)
		if err != nil {
			return err
		}
		ratio := 1.0
		if both := len(a) + len(b); both > 0 {
			ratio = 2 * float64(length) / float64(both)
		}
		_, err = fmt.Fprintf(s.stdout, "length %d\nratio %.6f\n", length, ratio)
		return err
	})
}

// readAll reads a file that is not larger than any that lcs takes.
func (s *session) readAll(name string) ([]byte, error) {
	in, err := s.openInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, ptxrun.LCSSpinWaitMaxCells+1))
	if err == nil && len(data) > ptxrun.LCSSpinWaitMaxCells {
		err = driver.Errorf("lcs", driver.ErrTooLarge, "%s has more than %d bytes", name, ptxrun.LCSSpinWaitMaxCells)
	}
	return data, err
}
