package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

type lcsCmd struct {
	A      string `arg:"" optional:"" help:"One file."`
	B      string `arg:"" optional:"" help:"The other."`
	Unit   string `enum:"bytes,runes,words,lines" default:"bytes" placeholder:"UNIT" help:"What the files are sequences of: ${enum}. By default bytes."`
	Show   bool   `help:"Write the subsequence itself: bytes, runes and lines as they are, words one a line."`
	Matrix string `placeholder:"FILE" help:"Compare every line of a file with every other, in place of two files."`
	To     string `enum:"csv,raw" default:"csv" help:"Form of the matrix: csv or raw, see above."`
	Output string `short:"o" default:"-" placeholder:"FILE" help:"File to write, by default standard output."`
	Force  bool   `short:"f" help:"Replace the output if it exists."`
}

func (*lcsCmd) Help() string {
	return `Prints two lines: the length of the longest sequence that is had from either file by leaving something out, and the ratio of twice that length to both files' lengths, from 0 to 1 for files that are the same.

Runes are the characters of UTF-8 text. Words are what white space separates. Lines include their newline, so that a last line without one is another line.

With --matrix every line of a file, without its line end, is one sequence, and what is written are the lengths for all pairs of them, a row a line in the file's order: as numbers with commas between them (csv), or as little-endian 32-bit unsigned integers without anything between them (raw).`
}

func (c *lcsCmd) Validate() error {
	switch {
	case c.Matrix == "" && c.B == "":
		return usagef("expected <a> and <b>, or --matrix")
	case c.Matrix == "" && c.To != "csv":
		return usagef("--to is for --matrix")
	case c.Matrix == "":
		return oneStdin(c.A, c.B)
	case c.A != "":
		return usagef("--matrix takes no other files")
	case c.Show:
		return usagef("--show is for two files, not for --matrix")
	case c.Unit == "lines":
		return usagef("--matrix compares lines, not texts of several")
	}
	return nil
}

func (c *lcsCmd) Run(s *session) error {
	if c.Matrix != "" {
		return c.matrix(s)
	}
	a, _, err := s.readText(c.A)
	if err != nil {
		return err
	}
	b, _, err := s.readText(c.B)
	if err != nil {
		return err
	}
	switch c.Unit {
	case "runes":
		runesA, err := runes(c.A, a)
		if err != nil {
			return err
		}
		runesB, err := runes(c.B, b)
		if err != nil {
			return err
		}
		return compare(s, c, runesA, runesB, func(from, to int) string { return string(runesA[from:to]) })
	case "words":
		words := strings.Fields(a)
		numbersA, numbersB := ptxrun.Renumber(words, strings.Fields(b))
		return compare(s, c, numbersA, numbersB, func(from, to int) string { return strings.Join(words[from:to], "\n") + "\n" })
	case "lines":
		lines := slices.Collect(strings.Lines(a))
		numbersA, numbersB := ptxrun.Renumber(lines, slices.Collect(strings.Lines(b)))
		return compare(s, c, numbersA, numbersB, func(from, to int) string { return strings.Join(lines[from:to], "") })
	}
	return compare(s, c, []byte(a), []byte(b), func(from, to int) string { return a[from:to] })
}

// compare writes what is asked for about a and b; part is a stretch of a as text.
func compare[T ptxrun.Token](s *session, c *lcsCmd, a, b []T, part func(from, to int) string) error {
	return s.onDevice(func(rt *ptxrun.Runtime) error {
		return s.writeTo(c.Output, c.Force, func(w io.Writer) error {
			if !c.Show {
				alike, err := ptxrun.LCSSimilarity(s.ctx, rt, a, b)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(w, "length %d\nratio %.6f\n", alike.Common, alike.Ratio())
				return err
			}
			matches, err := ptxrun.LCSMatches(s.ctx, rt, a, b)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(w)
			for _, m := range matches {
				out.WriteString(part(m.A, m.A+m.Len))
			}
			return out.Flush()
		})
	})
}

// runes are the characters of text, which name is called.
func runes(name, text string) ([]rune, error) {
	if utf8.ValidString(text) {
		return []rune(text), nil
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return nil, driver.Errorf("lcs", driver.ErrCorrupt, "%s: byte %d (%#02x) is not UTF-8; --unit bytes takes any file", name, at, text[at])
}

func (c *lcsCmd) matrix(s *session) error {
	if c.To == "raw" {
		if err := s.refuseTerminal(c.Output, "raw numbers"); err != nil {
			return err
		}
	}
	text, _, err := s.readText(c.Matrix)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
	}
	switch c.Unit {
	case "runes":
		all := make([][]rune, len(lines))
		for i, line := range lines {
			if all[i], err = runes(fmt.Sprintf("%s: line %d", c.Matrix, i+1), line); err != nil {
				return err
			}
		}
		return matrix(s, c, all)
	case "words":
		var words []string
		ends := make([]int, len(lines))
		for i, line := range lines {
			words = append(words, strings.Fields(line)...)
			ends[i] = len(words)
		}
		numbers, _ := ptxrun.Renumber(words, nil)
		all, start := make([][]uint32, len(lines)), 0
		for i, end := range ends {
			all[i], start = numbers[start:end], end
		}
		return matrix(s, c, all)
	}
	all := make([][]byte, len(lines))
	for i, line := range lines {
		all[i] = []byte(line)
	}
	return matrix(s, c, all)
}

// Rows of the matrix are computed together, so that a call is worth its start:
// twice as many as before while a call takes less than matrixCall, up to
// matrixLengths of results.
const (
	matrixCall    = 200 * time.Millisecond
	matrixLengths = 1 << 24
)

func matrix[T ptxrun.Token](s *session, c *lcsCmd, all [][]T) error {
	return s.onDevice(func(rt *ptxrun.Runtime) error {
		return s.writeTo(c.Output, c.Force, func(w io.Writer) error {
			n := len(all)
			p := s.steps(int64(n)*int64(n+1)/2, "comparing")
			defer p.stop()
			out := bufio.NewWriterSize(w, 1<<16)
			// The matrix is its own mirror: a row's start, known from the rows
			// above, waits here for its turn.
			starts := make([][]uint32, n)
			most := max(1, matrixLengths/max(1, n))
			for first, rows := 0, min(16, most); first < n; {
				begin := time.Now()
				next := min(first+rows, n)
				lengths, err := ptxrun.LCSMatrix(s.ctx, rt, all[first:next], all[first:])
				if err != nil {
					return err
				}
				if time.Since(begin) < matrixCall {
					rows = min(2*rows, most)
				}
				for i, row := range lengths {
					c.writeRow(out, append(starts[first+i], row...))
					starts[first+i] = nil
					for j := next; j < n; j++ {
						starts[j] = append(starts[j], row[j-first])
					}
					p.count(int64(n - first - i))
				}
				if err := out.Flush(); err != nil {
					return err
				}
				first = next
			}
			return nil
		})
	})
}

func (c *lcsCmd) writeRow(w *bufio.Writer, row []uint32) {
	var number []byte
	for i, length := range row {
		number = number[:0]
		switch {
		case c.To == "raw":
			number = binary.LittleEndian.AppendUint32(number, length)
		case i > 0:
			number = strconv.AppendUint(append(number, ','), uint64(length), 10)
		default:
			number = strconv.AppendUint(number, uint64(length), 10)
		}
		w.Write(number)
	}
	if c.To == "csv" {
		w.WriteByte('\n')
	}
}
