package ptxrun

import (
	"bufio"
	"context"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/ptxrun/ptxrun/driver"
)

// DiffFile names a text in the header of a unified diff.
type DiffFile struct {
	Name string
	Time time.Time // of the last change; the zero time is left out
}

// DiffOption changes how a unified diff is written.
type DiffOption func(*unified)

// WithDiffFiles gives the names of the texts; by default they are a and b.
// Names with spaces, quotes, backslashes and control characters are written in
// quotes, as GNU diff does and patch reads.
func WithDiffFiles(a, b DiffFile) DiffOption {
	return func(u *unified) { u.files = [2]DiffFile{a, b} }
}

// WithDiffContext sets how many unchanged lines are shown around a change; by
// default 3.
func WithDiffContext(lines int) DiffOption { return func(u *unified) { u.context = lines } }

// WithDiffColor adds the terminal's colour sequences, as GNU diff's --color: bold
// headers, cyan ranges, red deletions, green insertions.
func WithDiffColor() DiffOption { return func(u *unified) { u.color = true } }

// UnifiedDiff writes the lines that turn the text a into the text b in the
// unified format, as GNU diff -u does and patch and git apply take it, and
// reports whether there are any. Equal texts write nothing. Lines keep their
// carriage returns. The lines are those of [DiffLines]; where several scripts
// are as short, GNU diff may choose another.
//
// Nothing is written before the whole difference is known. Errors are
// ErrInvalidValue for a negative context, ErrNil for a nil writer or option,
// those of [LCSMatches], and the writer's own, as they are.
func UnifiedDiff(ctx context.Context, rt *Runtime, w io.Writer, a, b string, opts ...DiffOption) (different bool, err error) {
	const call = "UnifiedDiff"
	u := unified{context: 3, files: [2]DiffFile{{Name: "a"}, {Name: "b"}}}
	for _, o := range opts {
		if o == nil {
			return false, driver.Errorf(call, driver.ErrNil, "option")
		}
		o(&u)
	}
	if w == nil {
		return false, driver.Errorf(call, driver.ErrNil, "writer")
	}
	if u.context < 0 {
		return false, driver.Errorf(call, driver.ErrInvalidValue, "%d lines of context; at least 0", u.context)
	}
	u.a, u.b = splitLines(a), splitLines(b)
	edits, err := diffLines(ctx, call, rt, u.a, u.b)
	if err != nil {
		return false, err
	}
	u.w = bufio.NewWriter(w)
	u.write(edits)
	return len(edits) > 1 || len(edits) == 1 && edits[0].Op != EditEqual, u.w.Flush()
}

// unified is a unified diff on its way. The writer keeps its first error.
type unified struct {
	w       *bufio.Writer
	a, b    []string // lines
	files   [2]DiffFile
	context int
	color   bool
}

// Colours of a terminal.
const (
	styleHeader = "\x1b[1m"
	styleRange  = "\x1b[36m"
	styleDelete = "\x1b[31m"
	styleInsert = "\x1b[32m"
	styleReset  = "\x1b[0m"
)

func (u *unified) write(edits []Edit) {
	header := false
	for hunk := range hunks(edits, u.context) {
		if !header {
			u.line(styleHeader, "--- ", u.files[0].label()+"\n")
			u.line(styleHeader, "+++ ", u.files[1].label()+"\n")
			header = true
		}
		first, last := hunk[0], hunk[len(hunk)-1]
		u.line(styleRange, "@@ -", lineRange(first.AStart, last.AEnd)+" +"+lineRange(first.BStart, last.BEnd)+" @@\n")
		for _, e := range hunk {
			switch e.Op {
			case EditEqual:
				u.lines("", " ", u.a[e.AStart:e.AEnd])
			case EditDelete:
				u.lines(styleDelete, "-", u.a[e.AStart:e.AEnd])
			case EditInsert:
				u.lines(styleInsert, "+", u.b[e.BStart:e.BEnd])
			}
		}
	}
}

func (u *unified) lines(style, mark string, lines []string) {
	for _, line := range lines {
		u.line(style, mark, line)
	}
}

// line writes a line of the diff, its end outside the colour.
func (u *unified) line(style, mark, text string) {
	text, ended := strings.CutSuffix(text, "\n")
	reset := styleReset
	if !u.color || style == "" {
		style, reset = "", ""
	}
	for _, s := range [...]string{style, mark, text, reset, "\n"} {
		u.w.WriteString(s)
	}
	if !ended {
		u.w.WriteString("\\ No newline at end of file\n")
	}
}

// hunks yields the changes of an edit script with up to context lines around
// them. Changes whose contexts touch are one hunk. The slice is valid until the
// next one.
func hunks(edits []Edit, context int) iter.Seq[[]Edit] {
	return func(yield func([]Edit) bool) {
		var hunk []Edit
		for i, e := range edits {
			if e.Op != EditEqual {
				hunk = append(hunk, e)
				continue
			}
			n, last := e.AEnd-e.AStart, i == len(edits)-1
			if len(hunk) > 0 {
				if !last && n-context <= context {
					hunk = append(hunk, e)
					continue
				}
				before := min(n, context)
				hunk = append(hunk, Edit{EditEqual, e.AStart, e.AStart + before, e.BStart, e.BStart + before})
				if !yield(hunk) {
					return
				}
				hunk = hunk[:0]
			}
			if !last {
				after := min(n, context)
				hunk = append(hunk, Edit{EditEqual, e.AEnd - after, e.AEnd, e.BEnd - after, e.BEnd})
			}
		}
		if len(hunk) > 0 {
			yield(hunk)
		}
	}
}

// lineRange is how a hunk's header names the lines from start to end: by the
// first, counted from 1, and how many unless it is one. Where there are none it
// names the line before.
func lineRange(start, end int) string {
	switch n := end - start; n {
	case 0:
		return strconv.Itoa(start) + ",0"
	case 1:
		return strconv.Itoa(start + 1)
	default:
		return strconv.Itoa(start+1) + "," + strconv.Itoa(n)
	}
}

// label is the file in a header.
func (f DiffFile) label() string {
	label := quoteName(f.Name)
	if !f.Time.IsZero() {
		label += f.Time.Format("\t2006-01-02 15:04:05.000000000 -0700")
	}
	return label
}

// quoteName writes a name like a C string if it would not be read back
// otherwise: a header's name ends at white space, and the header at a newline.
func quoteName(name string) string {
	special := func(c rune) bool { return c <= ' ' || c == '"' || c == '\\' || c == 0x7f }
	if name != "" && !strings.ContainsFunc(name, special) {
		return name
	}
	quoted := []byte{'"'}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			quoted = append(quoted, '\\', c)
		case c < ' ' || c == 0x7f:
			quoted = append(quoted, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		default:
			quoted = append(quoted, c)
		}
	}
	return string(append(quoted, '"'))
}
