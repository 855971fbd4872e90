package main

import (
	"bufio"
	"io"
	"strings"

	"github.com/ptxrun/ptxrun"
)

// scanChunk is how many bytes a scan works on at a time; the total so far is
// carried from one chunk to the next.
const scanChunk = 64 << 20

type scanCmd struct {
	Input     string `arg:"" help:"File of numbers."`
	Type      string `required:"" placeholder:"TYPE" enum:"u8,u16,u32,u64,i8,i16,i32,i64,f32,f64" help:"Type of the numbers: ${enum}."`
	Op        string `enum:"sum,prod,min,max,and,or,xor" default:"sum" help:"Operator: ${enum}. Integer sums and products wrap."`
	Exclusive bool   `short:"x" help:"Leave a number's own value out of its result."`
	From      string `enum:"raw,text" default:"raw" help:"Form of the input: raw little-endian numbers, or text with a number a line."`
	To        string `enum:"raw,text,same" default:"same" help:"Form of the output: raw, text, or the same as the input's."`
	Output    string `short:"o" default:"-" placeholder:"FILE" help:"File to write, by default standard output."`
	Force     bool   `short:"f" help:"Replace the output if it exists."`
}

var scanOps = map[string]ptxrun.Op{
	"sum": ptxrun.Sum, "prod": ptxrun.Product, "min": ptxrun.Min, "max": ptxrun.Max,
	"and": ptxrun.And, "or": ptxrun.Or, "xor": ptxrun.Xor,
}

func (c *scanCmd) Validate() error {
	if op := scanOps[c.Op]; strings.HasPrefix(c.Type, "f") && (op == ptxrun.And || op == ptxrun.Or || op == ptxrun.Xor) {
		return usagef("--op %s is for integers, not %s", c.Op, c.Type)
	}
	return nil
}

func (c *scanCmd) Run(s *session) error {
	to := c.To
	if to == "same" {
		to = c.From
	}
	if to == "raw" {
		if err := s.refuseTerminal(c.Output, "raw numbers"); err != nil {
			return err
		}
	}
	return s.filter(c.Input, c.Output, c.Force, "scanning", func(rt *ptxrun.Runtime, w io.Writer, r io.Reader) error {
		out := bufio.NewWriter(w)
		if err := scanTypes[c.Type](s, rt, c, out, to, r); err != nil {
			return err
		}
		return out.Flush()
	})
}

// scanTypes are the scans by the name of their type.
var scanTypes = map[string]func(s *session, rt *ptxrun.Runtime, c *scanCmd, w *bufio.Writer, to string, r io.Reader) error{
	"u8": scanNumbers(unsigned[uint8]()), "u16": scanNumbers(unsigned[uint16]()),
	"u32": scanNumbers(unsigned[uint32]()), "u64": scanNumbers(unsigned[uint64]()),
	"i8": scanNumbers(signed[int8]()), "i16": scanNumbers(signed[int16]()),
	"i32": scanNumbers(signed[int32]()), "i64": scanNumbers(signed[int64]()),
	"f32": scanNumbers(float[float32]()), "f64": scanNumbers(float[float64]()),
}

func scanNumbers[T ptxrun.Number](n notation[T]) func(*session, *ptxrun.Runtime, *scanCmd, *bufio.Writer, string, io.Reader) error {
	return func(s *session, rt *ptxrun.Runtime, c *scanCmd, w *bufio.Writer, to string, r io.Reader) error {
		next, put := rawSource[T](r), rawSink[T](w)
		if c.From == "text" {
			next = textSource(r, n, c.Type)
		}
		if to == "text" {
			put = textSink(w, n)
		}
		scan := ptxrun.InclusiveScan[T]
		if c.Exclusive {
			scan = ptxrun.ExclusiveScan[T]
		}
		return scanChunks(max(1, s.chunk/sizeOf[T]()), c.Exclusive, next, put, func(v []T) error {
			return scan(s.ctx, rt, v, v, scanOps[c.Op])
		})
	}
}

// scanChunks scans what next gives, chunk elements at a time, and puts it. scan
// works in place.
func scanChunks[T any](chunk int, exclusive bool, next source[T], put sink[T], scan func([]T) error) error {
	buf := make([]T, 1+chunk+1)
	lead := 0 // 1 when buf[0] is the total of the chunks before
	for {
		n, err := next(buf[1 : 1+chunk])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		v := buf[1-lead : 1+n]
		if exclusive {
			// The result one past the end is the total.
			v = buf[1-lead : 1+n+1]
		}
		if err := scan(v); err != nil {
			return err
		}
		if err := put(v[lead : lead+n]); err != nil {
			return err
		}
		buf[0], lead = v[len(v)-1], 1
	}
}
