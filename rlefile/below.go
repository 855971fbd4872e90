package rlefile

import (
	"context"
	"io"
	"math"
	"os"

	"github.com/ptxrun/ptxrun/driver"
)

// source is the reader below. A done context ends it before the next Read, so
// that one which gives little at a time does not outlast it.
type source struct {
	ctx   context.Context
	r     io.Reader
	empty int // Reads in a row without bytes or error
}

const maxEmpty = 100 // as in package bufio

// Read implements io.Reader for a p that is not empty. It returns ErrInvalidValue
// for a count that cannot be, io.ErrNoProgress after many Reads of nothing.
func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	if n < 0 || n > len(p) {
		return 0, driver.Errorf("rlefile", driver.ErrInvalidValue, "a Read of %d bytes into %d", n, len(p))
	}
	if n > 0 || err != nil {
		s.empty = 0
	} else if s.empty++; s.empty == maxEmpty {
		err = io.ErrNoProgress
	}
	return n, err
}

// write writes b to the writer below. It returns ErrInvalidValue for a count that
// cannot be, io.ErrShortWrite for one that is too small without an error.
func write(w io.Writer, b []byte) (int, error) {
	n, err := w.Write(b)
	return written(n, len(b), err)
}

// written checks what a Write of size bytes returned.
func written(n, size int, err error) (int, error) {
	switch {
	case n < 0 || n > size:
		return 0, driver.Errorf("rlefile", driver.ErrInvalidValue, "a Write of %d of %d bytes", n, size)
	case err == nil && n < size:
		err = io.ErrShortWrite
	}
	return n, err
}

// fileWriter is what writeFile needs of a file.
type fileWriter interface {
	io.Seeker
	io.WriterAt
}

// asFile returns w as a file and its position, if size bytes can be written there
// in any order: neither to a pipe nor to a file that is open for appending. A type
// that embeds a file is none, because its Write may do more than the file's.
func asFile(w io.Writer, size int64) (f *os.File, at int64, ok bool) {
	if f, ok = w.(*os.File); !ok {
		return nil, 0, false
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at < 0 || at > math.MaxInt64-size {
		return nil, 0, false
	}
	_, err = f.WriteAt(nil, at)
	return f, at, err == nil
}
