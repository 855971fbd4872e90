package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/ptxrun/ptxrun/driver"
)

// input is a named file or standard input.
type input struct {
	io.Reader
	name string
	file *os.File // to close
	size int64    // -1 if it cannot be known
}

func (in *input) Close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// corruptError says which input is corrupt.
type corruptError struct {
	name string
	error
}

func (e corruptError) Unwrap() error { return e.error }

// blamed is err with the input's name, if that is what is wrong.
func (in *input) blamed(err error) error {
	if errors.Is(err, driver.ErrCorrupt) {
		return corruptError{in.name, err}
	}
	return err
}

// openInput opens the file name, "-" for standard input.
func (s *session) openInput(name string) (*input, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in := s.fromFile(name, f)
		in.file = f
		return in, nil
	}
	if f, ok := s.stdin.(*os.File); ok {
		return s.fromFile(name, f), nil
	}
	return &input{name: name, Reader: &interruptible{ctx: s.ctx, r: s.stdin}, size: -1}, nil
}

func (s *session) fromFile(name string, f *os.File) *input {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return &input{name: name, Reader: f, size: info.Size()}
	}
	return &input{name: name, Reader: &interruptible{ctx: s.ctx, r: f}, size: -1}
}

// interruptible is a reader of a pipe or terminal whose Read returns when ctx is
// done, although nothing came. It must not be read again then.
type interruptible struct {
	ctx context.Context
	r   io.Reader
	buf []byte
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	// The abandoned read may still write to its buffer, so that is not p.
	if i.buf == nil {
		i.buf = make([]byte, 256<<10)
	}
	buf := i.buf[:min(len(p), len(i.buf))]
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := i.r.Read(buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, buf[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}
