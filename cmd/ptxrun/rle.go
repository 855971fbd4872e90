package main

import (
	"cmp"
	"errors"
	"io"
	"strings"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/rlefile"
)

type rleCmd struct {
	Compress   compressCmd   `cmd:"" help:"Compress a file to an .rle file."`
	Decompress decompressCmd `cmd:"" help:"Restore a file from an .rle file, and verify it."`
	Cat        catCmd        `cmd:"" help:"Write a part of what an .rle file holds, without decompressing the rest."`
	Stat       statCmd       `cmd:"" help:"Tell of a file, compressed or not, how long its runs are."`
}

const rleSuffix = ".rle"

type compressCmd struct {
	Input  string `arg:"" help:"File to compress."`
	Output string `short:"o" placeholder:"FILE" help:"File to write; by default the input's name with .rle added, or - if the input is."`
	Width  int    `enum:"1,2,4,8" default:"1" help:"Bytes of the elements that runs are made of: ${enum}."`
	Force  bool   `short:"f" help:"Replace the output if it exists."`
}

func (c *compressCmd) Run(s *session) error {
	output := c.Output
	if output == "" {
		output = "-"
		if c.Input != "-" {
			output = c.Input + rleSuffix
		}
	}
	if err := s.refuseTerminal(output, "compressed data"); err != nil {
		return err
	}
	return s.filter(c.Input, output, c.Force, "compressing", func(rt *ptxrun.Runtime, w io.Writer, r io.Reader) error {
		z, err := rlefile.NewWriter(s.ctx, rt, w, c.Width)
		if err != nil {
			return err
		}
		_, err = z.ReadFrom(r)
		return cmp.Or(err, z.Close())
	})
}

type decompressCmd struct {
	Input  string `arg:"" help:"File to restore from."`
	Output string `short:"o" placeholder:"FILE" help:"File to write; by default the input's name without .rle, or - if the input is."`
	Force  bool   `short:"f" help:"Replace the output if it exists."`
}

func (c *decompressCmd) Run(s *session) error {
	output := c.Output
	if output == "" {
		name, ok := strings.CutSuffix(c.Input, rleSuffix)
		if c.Input != "-" && (!ok || name == "") {
			return usagef("%s is not NAME%s; name the output by -o", c.Input, rleSuffix)
		}
		output = name
	}
	return s.filter(c.Input, output, c.Force, "decompressing", func(rt *ptxrun.Runtime, w io.Writer, r io.Reader) error {
		z, err := rlefile.NewReader(s.ctx, rt, r)
		if err != nil {
			return err
		}
		_, err = z.WriteTo(w)
		return errors.Join(err, z.Close())
	})
}

// filter runs f from one file to another on the device.
func (s *session) filter(from, to string, force bool, what string, f func(rt *ptxrun.Runtime, w io.Writer, r io.Reader) error) error {
	in, err := s.openInput(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return in.blamed(s.onDevice(func(rt *ptxrun.Runtime) error {
		return s.writeTo(to, force, func(w io.Writer) error {
			r, stop := s.progress(in.Reader, in.size, what)
			defer stop()
			return f(rt, w, r)
		})
	}))
}
