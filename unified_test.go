package ptxrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func unifiedDiff(t testing.TB, rt *Runtime, a, b string, opts ...DiffOption) string {
	t.Helper()
	var out bytes.Buffer
	different, err := UnifiedDiff(t.Context(), rt, &out, a, b, opts...)
	require.NoError(t, err)
	require.Equal(t, a != b, different)
	require.Equal(t, a != b, out.Len() > 0)
	return out.String()
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$`)

// applyUnified applies a unified diff to the text, as strictly as the format
// allows: nothing is searched for, and every number in a header must be right.
func applyUnified(text, diff string, context int) (string, error) {
	if diff == "" {
		return text, nil
	}
	in, lines := splitLines(text), splitLines(diff)
	context = min(context, len(text))
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "--- ") || !strings.HasPrefix(lines[1], "+++ ") {
		return "", errors.New("no header")
	}
	var out []string
	at := 0 // lines of in that are used
	for lines = lines[2:]; len(lines) > 0; {
		fields := hunkHeader.FindStringSubmatch(strings.TrimSuffix(lines[0], "\n"))
		if fields == nil {
			return "", fmt.Errorf("%q is no hunk's header", lines[0])
		}
		begin := func(line, count string) (before, n int) {
			n = 1
			if count != "" {
				n, _ = strconv.Atoi(count)
				if n == 1 {
					return -1, -1
				}
			}
			before, _ = strconv.Atoi(line)
			if n > 0 {
				before--
			}
			return before, n
		}
		oldAt, oldLines := begin(fields[1], fields[2])
		newAt, newLines := begin(fields[3], fields[4])
		if oldAt < at || oldAt > len(in) || at > 0 && oldAt == at {
			return "", fmt.Errorf("%q after line %d of %d", lines[0], at, len(in))
		}
		out, at = append(out, in[at:oldAt]...), oldAt
		if newAt != len(out) {
			return "", fmt.Errorf("%q has the new text's place wrong, it is %d", lines[0], len(out))
		}
		var marks strings.Builder
		lines = lines[1:]
		for len(lines) > 0 && lines[0][0] != '@' {
			mark, line := lines[0][0], lines[0][1:]
			lines = lines[1:]
			if len(lines) > 0 && lines[0] == "\\ No newline at end of file\n" {
				line, lines = strings.TrimSuffix(line, "\n"), lines[1:]
			}
			if mark != '+' {
				if at >= len(in) || in[at] != line {
					return "", fmt.Errorf("line %d is not %q", at, line)
				}
				at++
			}
			if mark != '-' {
				out = append(out, line)
			}
			marks.WriteByte(mark)
		}
		shape := marks.String()
		if at-oldAt != oldLines || len(out)-newAt != newLines {
			return "", fmt.Errorf("a hunk of %d and %d lines says %d and %d", at-oldAt, len(out)-newAt, oldLines, newLines)
		}
		first, last := strings.IndexAny(shape, "+-"), strings.LastIndexAny(shape, "+-")
		if first < 0 || first != min(context, oldAt+first) || len(shape)-1-last != min(context, len(in)-at+len(shape)-1-last) {
			return "", fmt.Errorf("%q with %d lines of context of a text of %d lines, at %d", shape, context, len(in), oldAt)
		}
		if strings.Contains(shape, strings.Repeat(" ", 2*context+1)) || strings.Contains(shape, "+-") {
			return "", fmt.Errorf("a hunk of the shape %q", shape)
		}
	}
	return strings.Join(append(out, in[at:]...), ""), nil
}

func TestUnifiedDiff(t *testing.T) {
	const header = "--- a\n+++ b\n"
	cases := []struct{ name, a, b, want string }{
		{"equal", "x\ny\n", "x\ny\n", ""},
		{"both empty", "", "", ""},
		{"from empty", "", "x\ny\n", header + "@@ -0,0 +1,2 @@\n+x\n+y\n"},
		{"to empty", "x\n", "", header + "@@ -1 +0,0 @@\n-x\n"},
		{"one line", "x\n", "y\n", header + "@@ -1 +1 @@\n-x\n+y\n"},
		{"newline added", "x", "x\n", header + "@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n"},
		{"newline removed", "w\nx\n", "w\nx", header + "@@ -1,2 +1,2 @@\n w\n-x\n+x\n\\ No newline at end of file\n"},
		{"newline missing in context", "1\nx", "2\nx", header + "@@ -1,2 +1,2 @@\n-1\n+2\n x\n\\ No newline at end of file\n"},
		{"carriage returns", "x\r\ny\r\n", "x\r\ny\n", header + "@@ -1,2 +1,2 @@\n x\r\n-y\r\n+y\n"},
		{"context", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n-\n6\n7\n8\n9\n", header + "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+-\n 6\n 7\n 8\n"},
		{"one hunk", "-\n1\n2\n3\n4\n5\n6\n-\n", "1\n2\n3\n4\n5\n6\n", header + "@@ -1,8 +1,6 @@\n--\n 1\n 2\n 3\n 4\n 5\n 6\n--\n"},
		{"two hunks", "-\n1\n2\n3\n4\n5\n6\n7\n-\n", "1\n2\n3\n4\n5\n6\n7\n", header + "@@ -1,4 +1,3 @@\n--\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n--\n"},
		{"not text", "\xff\x00\n", "\xfe\n", header + "@@ -1 +1 @@\n-\xff\x00\n+\xfe\n"},
	}
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		for _, c := range cases {
			got := unifiedDiff(t, rt, c.a, c.b)
			require.Equal(t, c.want, got, c.name)
			b, err := applyUnified(c.a, got, 3)
			require.NoError(t, err, c.name)
			require.Equal(t, c.b, b, c.name)
		}
	})
}

func TestUnifiedDiffOptions(t *testing.T) {
	rt := openCPU(t)
	require.Equal(t, "--- a\n+++ b\n@@ -2 +1,0 @@\n-y\n", unifiedDiff(t, rt, "x\ny\nz\n", "x\nz\n", WithDiffContext(0)))
	require.Equal(t, "--- a\n+++ b\n@@ -1,0 +2 @@\n+y\n", unifiedDiff(t, rt, "x\nz\n", "x\ny\nz\n", WithDiffContext(0)))
	require.Equal(t, "--- a\n+++ b\n@@ -1,3 +1,2 @@\n x\n-y\n z\n", unifiedDiff(t, rt, "x\ny\nz\n", "x\nz\n", WithDiffContext(math.MaxInt)))
	require.Equal(t, "\x1b[1m--- a\x1b[0m\n\x1b[1m+++ b\x1b[0m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n x\n\x1b[31m-y\x1b[0m\n\\ No newline at end of file\n\x1b[32m+z\x1b[0m\n",
		unifiedDiff(t, rt, "x\ny", "x\nz\n", WithDiffColor()))

	at := time.Date(2004, 7, 25, 13, 14, 15, 16, time.FixedZone("", 2*60*60))
	for name, want := range map[string]string{
		"plain.txt":     "plain.txt",
		"ümläut":        "ümläut",
		"two words":     `"two words"`,
		"":              `""`,
		"tab\there":     `"tab\011here"`,
		"line\nend":     `"line\012end"`,
		`quo"te\`:       `"quo\"te\\"`,
		"\x7f\x01 \xff": `"\177\001 ` + "\xff" + `"`,
	} {
		got := unifiedDiff(t, rt, "x\n", "y\n", WithDiffFiles(DiffFile{Name: name, Time: at}, DiffFile{Name: name}))
		require.Equal(t, "--- "+want+"\t2004-07-25 13:14:15.000000016 +0200\n+++ "+want+"\n@@ -1 +1 @@\n-x\n+y\n", got)
	}
}

type failingWriter struct{ error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.error }

func TestUnifiedDiffErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		ctx := t.Context()
		var out bytes.Buffer
		_, err := UnifiedDiff(ctx, nil, &out, "a", "b")
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = UnifiedDiff(ctx, rt, nil, "a", "b")
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = UnifiedDiff(ctx, rt, &out, "a", "b", nil)
		require.ErrorIs(t, err, driver.ErrNil)
		_, err = UnifiedDiff(ctx, rt, &out, "a", "b", WithDiffContext(-1))
		require.ErrorIs(t, err, driver.ErrInvalidValue)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = UnifiedDiff(cancelled, rt, &out, "a", "b")
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, out.Len())
		full := errors.New("the writer is full")
		_, err = UnifiedDiff(ctx, rt, failingWriter{full}, "a", "b")
		require.Equal(t, full, err)
		_, err = DiffLines(ctx, nil, "a", "b")
		require.ErrorContains(t, err, "DiffLines: nil argument")
	})
}

// randomText has few different lines, so that they repeat, and may lack the last
// newline.
func randomText(r *rand.Rand, lines int) string {
	var text strings.Builder
	for range lines {
		text.WriteString([]string{"\n", "}\n", "x\n", "x\r\n", " y\n", "-- z\n", "++ z\n", "@@ -1 +1 @@\n", "\\ No newline\n", "\r\n"}[r.IntN(10)])
	}
	if text.Len() > 0 && r.IntN(4) == 0 {
		return strings.TrimSuffix(text.String(), "\n")
	}
	return text.String()
}

// randomEdit changes some stretches of a text.
func randomEdit(r *rand.Rand, text string) string {
	lines := splitLines(text)
	for range 1 + r.IntN(4) {
		from := r.IntN(len(lines) + 1)
		to := from + r.IntN(min(4, len(lines)-from+1))
		if from == len(lines) && from > 0 {
			lines[from-1] = strings.TrimSuffix(lines[from-1], "\n") + "\n"
		}
		put := splitLines(randomText(r, r.IntN(4)))
		if n := len(put); n > 0 && to < len(lines) {
			put[n-1] = strings.TrimSuffix(put[n-1], "\n") + "\n"
		}
		lines = append(lines[:from:from], append(put, lines[to:]...)...)
	}
	return strings.Join(lines, "")
}

func TestUnifiedDiffRandom(t *testing.T) {
	eachDevice(t, func(t *testing.T, d testDevice, rt *Runtime) {
		r := rand.New(rand.NewPCG(7, 8))
		cases := 2000
		if d.slow {
			cases = 10
		}
		for range cases {
			a := randomText(r, r.IntN(60))
			b := randomEdit(r, a)
			lines := r.IntN(5)
			diff := unifiedDiff(t, rt, a, b, WithDiffContext(lines))
			got, err := applyUnified(a, diff, lines)
			require.NoError(t, err, "%q to %q:\n%s", a, b, diff)
			require.Equal(t, b, got, "%q:\n%s", a, diff)

			edits, err := DiffLines(t.Context(), rt, a, b)
			require.NoError(t, err)
			from, to := splitLines(a), splitLines(b)
			most, _ := referenceLCS(Renumber(from, to))
			require.EqualValues(t, most[len(to)], requireScript(t, edits, from, to), "lines kept")
		}
	})
}

// patchers are the programs that apply a diff to the file that it names.
var patchers = map[string][]string{
	"patch": {"--silent", "--strip=0", "--input=diff"},
	"git":   {"apply", "-p0", "--whitespace=nowarn", "diff"},
}

func TestUnifiedDiffPatch(t *testing.T) {
	for program, args := range patchers {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skipf("%s is not here; TestUnifiedDiffRandom applies diffs without it", program)
			}
			rt, dir := openCPU(t), t.TempDir()
			diff := filepath.Join(dir, "diff")
			checkNamed := func(name DiffFile, a, b string) {
				if a == b {
					return
				}
				file := filepath.Join(dir, name.Name)
				text := unifiedDiff(t, rt, a, b, WithDiffFiles(name, name))
				require.NoError(t, os.WriteFile(file, []byte(a), 0o600))
				require.NoError(t, os.WriteFile(diff, []byte(text), 0o600))
				c := exec.Command(path, args...)
				c.Dir = dir
				// git looks for no repository around the folder and no settings.
				c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
				out, err := c.CombinedOutput()
				require.NoError(t, err, "%s\n%q to %q:\n%s", out, a, b, text)
				got, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, b, string(got), "%q:\n%s", a, text)
			}
			check := func(a, b string) { checkNamed(DiffFile{Name: "f"}, a, b) }
			for _, name := range []string{"two words", "tab\there", `quo"te\`, "ümläut and space", "line\nend"} {
				checkNamed(DiffFile{Name: name}, "x\n", "y\n")
				checkNamed(DiffFile{Name: name, Time: time.Now()}, "x\n", "y\n")
			}
			check("", "x\n")
			check("", "x")
			check("x\n", "x")
			check("x", "x\n")
			check("w\r\nx\r\n", "w\nx\r\n")
			check("x\n", "\n")
			for a, b := range realTexts(t) {
				check(a, b)
				check(b, a)
			}
			r := rand.New(rand.NewPCG(9, 10))
			for range 100 {
				a := randomText(r, 1+r.IntN(60))
				b := randomEdit(r, a)
				if b != "" { // both programs may remove a file that becomes empty
					check(a, b)
				}
			}
		})
	}
}

// realTexts are two versions each of a speech, and of sources.
func realTexts(t testing.TB) map[string]string {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	sources, err := filepath.Glob("driver/emu/*.go")
	require.NoError(t, err)
	emulator := ""
	for _, name := range sources {
		emulator += read(name)
	}
	require.Greater(t, strings.Count(emulator, "\n"), 10_000)
	functions := strings.SplitAfter(emulator, "\n}\n")
	var moved strings.Builder
	for i, f := range functions {
		switch i % 9 {
		case 2: // removed
		case 5:
			moved.WriteString(strings.ReplaceAll(f, "err", "failure"))
		case 7:
			moved.WriteString(f + functions[(i*7)%len(functions)])
		default:
			moved.WriteString(f)
		}
	}
	return map[string]string{
		read("testdata/gettysburg-first.txt"): read("testdata/gettysburg-final.txt"),
		read("scan.go"):                       read("segmented.go"),
		emulator:                              moved.String(),
	}
}

func TestUnifiedDiffRealText(t *testing.T) {
	rt := openCPU(t)
	for a, b := range realTexts(t) {
		for _, lines := range []int{0, 1, 3, 1000} {
			got, err := applyUnified(a, unifiedDiff(t, rt, a, b, WithDiffContext(lines)), lines)
			require.NoError(t, err)
			require.True(t, b == got)
		}
	}
}

func FuzzUnifiedDiff(f *testing.F) {
	for _, s := range [][2]string{{"", "x"}, {"x\n", "x"}, {"x\r\ny\n", "y\n"}, {"1\n2\n3\n4\n", "1\n3\n2\n4\n"}} {
		f.Add(s[0], s[1], 1)
	}
	rt := openCPU(f)
	f.Fuzz(func(t *testing.T, a, b string, context int) {
		if context < 0 {
			return
		}
		got, err := applyUnified(a, unifiedDiff(t, rt, a, b, WithDiffContext(context)), context)
		require.NoError(t, err)
		require.Equal(t, b, got)
	})
}
