package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ptxrun/ptxrun"
)

type diffCmd struct {
	A       string `arg:"" help:"One file."`
	B       string `arg:"" help:"The other."`
	Unified int    `short:"U" default:"3" placeholder:"N" help:"Unchanged lines to show around a change; by default ${default}."`
	Color   string `enum:"auto,always,never" default:"auto" placeholder:"WHEN" help:"Colour the output: ${enum}. By default auto, on a terminal only."`
}

func (*diffCmd) Help() string {
	return `Prints, as a unified diff that patch takes, the fewest lines to delete from A and insert into B that make the one of the other. A file that holds a NUL byte is not text: it is told whether the two differ.

Exit codes are diff's: 0 if the files are the same, 1 if they differ, 2 for trouble of any kind; 130 and 141 as for other commands.`
}

func (c *diffCmd) Validate() error {
	if c.Unified < 0 {
		return usagef("-U %d; it may be 0 and more", c.Unified)
	}
	return oneStdin(c.A, c.B)
}

// errDifferent is the result that the files differ: an exit code without words.
var errDifferent = errors.New("the files differ")

// troubleError is why diff has no result.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

func (c *diffCmd) Run(s *session) error {
	different, err := c.diff(s)
	switch {
	case err != nil:
		return troubleError{err}
	case different:
		return errDifferent
	}
	return nil
}

func (c *diffCmd) diff(s *session) (different bool, err error) {
	a, fileA, err := s.readText(c.A)
	if err != nil {
		return false, err
	}
	b, fileB, err := s.readText(c.B)
	if err != nil {
		return false, err
	}
	if strings.Contains(a, "\x00") || strings.Contains(b, "\x00") {
		if a == b {
			return false, nil
		}
		_, err := fmt.Fprintf(s.stdout, "Binary files %s and %s differ\n", c.A, c.B)
		return true, err
	}
	options := []ptxrun.DiffOption{ptxrun.WithDiffContext(c.Unified), ptxrun.WithDiffFiles(fileA, fileB)}
	if c.Color == "always" || c.Color == "auto" && isTerminal(s.stdout) {
		options = append(options, ptxrun.WithDiffColor())
	}
	err = s.onDevice(func(rt *ptxrun.Runtime) error {
		different, err = ptxrun.UnifiedDiff(s.ctx, rt, s.stdout, a, b, options...)
		return err
	})
	return different, err
}

// readText reads a file whole. The time is left out where there is no file.
func (s *session) readText(name string) (string, ptxrun.DiffFile, error) {
	file := ptxrun.DiffFile{Name: name}
	in, err := s.openInput(name)
	if err != nil {
		return "", file, err
	}
	defer in.Close()
	if in.file != nil && in.size >= 0 {
		info, err := in.file.Stat()
		if err != nil {
			return "", file, err
		}
		file.Time = info.ModTime()
	}
	var text strings.Builder
	text.Grow(int(max(in.size, 0)))
	_, err = io.Copy(&text, in)
	return text.String(), file, err
}

func oneStdin(a, b string) error {
	if a == "-" && b == "-" {
		return usagef("only one of the files can be standard input")
	}
	return nil
}
