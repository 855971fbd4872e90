package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/rlefile"
)

type catCmd struct {
	Input  string    `arg:"" help:".rle file to read; not a pipe."`
	Range  byteRange `default:":" placeholder:"FROM:TO" help:"Bytes to write, from offset FROM up to but not including TO. Either may be left out."`
	Output string    `short:"o" default:"-" placeholder:"FILE" help:"File to write, by default standard output."`
	Force  bool      `short:"f" help:"Replace the output if it exists."`
}

// byteRange is from its first offset up to its second, -1 for the end.
type byteRange struct{ from, to int64 }

// Decode parses a flag's value.
func (r *byteRange) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("FROM:TO", &text); err != nil {
		return err
	}
	from, to, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("%q is not FROM:TO", text)
	}
	*r = byteRange{0, -1}
	for _, end := range []struct {
		text  string
		value *int64
	}{{from, &r.from}, {to, &r.to}} {
		if end.text == "" {
			continue
		}
		v, err := strconv.ParseUint(end.text, 10, 63)
		if err != nil {
			return fmt.Errorf("%q is not an offset in bytes", end.text)
		}
		*end.value = int64(v)
	}
	if r.to >= 0 && r.to < r.from {
		return fmt.Errorf("%s ends before it begins", text)
	}
	return nil
}

func (r byteRange) String() string {
	if r.to < 0 {
		return fmt.Sprintf("%d:", r.from)
	}
	return fmt.Sprintf("%d:%d", r.from, r.to)
}

func (c *catCmd) Run(s *session) error {
	in, err := s.openInput(c.Input)
	if err != nil {
		return err
	}
	defer in.Close()
	file, ok := in.Reader.(io.ReaderAt)
	if !ok || in.size < 0 {
		return usagef("%s is a pipe or the like, cat needs a file; decompress does not", c.Input)
	}
	return in.blamed(s.onDevice(func(rt *ptxrun.Runtime) error {
		f, err := rlefile.Open(s.ctx, rt, file, in.size)
		if err != nil {
			return err
		}
		return errors.Join(s.writeTo(c.Output, c.Force, func(w io.Writer) error { return c.copy(s, w, f) }), f.Close())
	}))
}

// copy writes the range of f.
func (c *catCmd) copy(s *session, w io.Writer, f *rlefile.File) error {
	from, to := c.Range.from, c.Range.to
	if to < 0 {
		to = f.Size()
	}
	if from > f.Size() || to > f.Size() {
		return usagef("--range %v is beyond the end: %s holds %d bytes", c.Range, c.Input, f.Size())
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	r, stop := s.progress(io.LimitReader(f, to-from), to-from, "reading")
	defer stop()
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, 1<<20))
	return err
}
