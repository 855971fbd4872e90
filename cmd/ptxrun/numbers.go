package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// source fills a part of the slice from its start and returns how many elements
// that were: at least one, or an error, io.EOF after the last.
type source[T any] func([]T) (int, error)

// sink writes elements.
type sink[T any] func([]T) error

// notation is how numbers of a type are written in text.
type notation[T any] struct {
	parse  func(string) (T, error)
	format func([]byte, T) []byte
}

func unsigned[T ~uint8 | ~uint16 | ~uint32 | ~uint64]() notation[T] {
	return notation[T]{
		func(s string) (T, error) { v, err := strconv.ParseUint(s, 10, 8*sizeOf[T]()); return T(v), err },
		func(b []byte, v T) []byte { return strconv.AppendUint(b, uint64(v), 10) },
	}
}

func signed[T ~int8 | ~int16 | ~int32 | ~int64]() notation[T] {
	return notation[T]{
		func(s string) (T, error) { v, err := strconv.ParseInt(s, 10, 8*sizeOf[T]()); return T(v), err },
		func(b []byte, v T) []byte { return strconv.AppendInt(b, int64(v), 10) },
	}
}

func float[T ~float32 | ~float64]() notation[T] {
	return notation[T]{
		func(s string) (T, error) { v, err := strconv.ParseFloat(s, 8*sizeOf[T]()); return T(v), err },
		func(b []byte, v T) []byte { return strconv.AppendFloat(b, float64(v), 'g', -1, 8*sizeOf[T]()) },
	}
}

func sizeOf[T any]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// rawSource reads little-endian numbers.
func rawSource[T any](r io.Reader) source[T] {
	var buf []byte
	return func(dst []T) (int, error) {
		size := sizeOf[T]()
		if buf == nil {
			buf = make([]byte, len(dst)*size)
		}
		n, err := io.ReadFull(r, buf[:len(dst)*size])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		if err != nil {
			return 0, err
		}
		if n%size != 0 {
			hint := ""
			if strings.Trim(string(buf[:n]), "0123456789+-.eE \t\r\n") == "" {
				hint = "; is it text (--from text)?"
			}
			return 0, driver.Errorf("scan", driver.ErrCorrupt, "the input ends %d bytes into a number of %d bytes%s", n%size, size, hint)
		}
		_, err = binary.Decode(buf[:n], binary.LittleEndian, dst[:n/size])
		return n / size, err
	}
}

// textSource reads a number a line, of the type that its user calls kind. Empty
// lines are passed over.
func textSource[T any](r io.Reader, f notation[T], kind string) source[T] {
	lines, line := bufio.NewScanner(r), 0
	return func(dst []T) (int, error) {
		for n := range dst {
			text := ""
			for text == "" {
				line++
				if !lines.Scan() {
					return n, endOfText(lines.Err(), n, line)
				}
				text = strings.TrimSpace(lines.Text())
			}
			v, err := f.parse(text)
			if err != nil {
				var reason *strconv.NumError
				errors.As(err, &reason)
				return 0, driver.Errorf("scan", driver.ErrCorrupt, "line %d: %q as %s: %v", line, text, kind, reason.Err)
			}
			dst[n] = v
		}
		return len(dst), nil
	}
}

// endOfText is the error after n elements of a call, when line could not be had.
func endOfText(err error, n, line int) error {
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return driver.Errorf("scan", driver.ErrCorrupt, "line %d is too long for a number", line)
	case err == nil && n == 0:
		return io.EOF
	}
	return err
}

func rawSink[T any](w io.Writer) sink[T] {
	var buf []byte
	return func(src []T) error {
		var err error
		if buf, err = binary.Append(buf[:0], binary.LittleEndian, src); err != nil {
			return err
		}
		_, err = w.Write(buf)
		return err
	}
}

func textSink[T any](w io.Writer, f notation[T]) sink[T] {
	var line []byte
	return func(src []T) error {
		for _, v := range src {
			line = append(f.format(line[:0], v), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	}
}
