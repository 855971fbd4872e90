package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/rlefile"
)

const (
	bitmap    = "../../testdata/declaration.bmp"
	textFirst = "../../testdata/gettysburg-first.txt"
	textFinal = "../../testdata/gettysburg-final.txt"
)

// result is what a run left.
type result struct {
	code           int
	stdout, stderr string
}

// invoke runs the program on the cpu device, unless args choose another.
func invoke(stdin io.Reader, args ...string) result {
	var stdout, stderr bytes.Buffer
	args = append([]string{"--device=cpu"}, args...)
	code := run(context.Background(), args, stdin, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func text(s string) io.Reader { return strings.NewReader(s) }

// requireDone requires success, in silence on standard error.
func requireDone(t *testing.T, r result) {
	t.Helper()
	require.Zero(t, r.code, r.stderr)
	require.Empty(t, r.stderr)
}

// requireFailed requires an exit code and one line on standard error that has
// the words.
func requireFailed(t *testing.T, r result, code int, words ...string) {
	t.Helper()
	require.Equal(t, code, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "lines in %q", r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "ptxrun: "), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "ptxrun: "), r.stderr)
	for _, w := range words {
		require.Contains(t, r.stderr, w)
	}
}

// requireFiles requires that dir holds the named files and no others, such as
// temporary ones.
func requireFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(t, names, found)
}

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestRLEFiles(t *testing.T) {
	dir, raw := t.TempDir(), read(t, bitmap)
	page := write(t, dir, "page.bmp", raw)

	requireDone(t, invoke(nil, "rle", "compress", page))
	requireFiles(t, dir, "page.bmp", "page.bmp.rle")
	assert.Less(t, len(read(t, page+".rle")), len(raw)/5)
	require.NoError(t, os.Remove(page))
	requireDone(t, invoke(nil, "rle", "decompress", page+".rle"))
	assert.True(t, bytes.Equal(raw, read(t, page)))

	for _, width := range []string{"1", "2", "4", "8"} {
		rle, out := filepath.Join(dir, width+".rle"), filepath.Join(dir, width+".bmp")
		requireDone(t, invoke(nil, "rle", "compress", "--width", width, "-o", rle, page))
		requireDone(t, invoke(nil, "rle", "decompress", "-o", out, rle))
		assert.True(t, bytes.Equal(raw, read(t, out)), "width %s", width)
	}
}

func TestRLEPipes(t *testing.T) {
	raw := string(read(t, bitmap))
	small := invoke(text(raw), "rle", "compress", "-")
	requireDone(t, small)
	whole := invoke(text(small.stdout), "rle", "decompress", "-")
	requireDone(t, whole)
	assert.True(t, raw == whole.stdout)

	empty := invoke(text(""), "rle", "compress", "-")
	requireDone(t, empty)
	whole = invoke(text(empty.stdout), "rle", "decompress", "-")
	requireDone(t, whole)
	assert.Empty(t, whole.stdout)
}

func TestRLECorrupt(t *testing.T) {
	dir := t.TempDir()
	good := invoke(text(string(read(t, bitmap))), "rle", "compress", "-").stdout
	flipped := []byte(good)
	flipped[len(flipped)/2] ^= 4
	for name, c := range map[string]struct{ file, want string }{
		"empty":     {"", "not an .rle file"},
		"other":     {"BM and so on", "not an .rle file"},
		"truncated": {good[:len(good)-100], "frame 0 at byte 16"},
		"no end":    {good[:len(good)-28], "frame 1"},
		"changed":   {string(flipped), "frame 0 at byte 16"},
		"trailing":  {good + "x", "more bytes follow"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, t.TempDir(), "bad.rle", []byte(c.file))
			out := filepath.Join(dir, "out")
			requireFailed(t, invoke(nil, "rle", "decompress", "-o", out, path), exitCorrupt, "corrupt input", c.want)
			requireFiles(t, dir)
		})
	}
	// What stands there is left alone when the replacement fails.
	out := write(t, dir, "out", []byte("old"))
	requireFailed(t, invoke(text("BM"), "rle", "decompress", "-f", "-o", out, "-"), exitCorrupt)
	assert.Equal(t, "old", string(read(t, out)))
	requireFiles(t, dir, "out")
}

func TestOutputFiles(t *testing.T) {
	dir := t.TempDir()
	out := write(t, dir, "out", []byte("old"))
	require.NoError(t, os.Chmod(out, 0o600))

	requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", out, "-"), exitUsage, "out exists", "--force")
	assert.Equal(t, "old", string(read(t, out)))

	require.NoError(t, os.Symlink("out", filepath.Join(dir, "link")))
	requireDone(t, invoke(text("abc"), "rle", "compress", "--force", "-o", filepath.Join(dir, "link"), "-"))
	requireFiles(t, dir, "out", "link")
	requireDone(t, invoke(nil, "rle", "decompress", "-o", "-", out))
	info, err := os.Lstat(out)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm(), "the file's mode is kept")

	requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", dir, "-"), exitUsage, "is a directory")
	requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", filepath.Join(dir, "no", "out"), "-"), exitFailed, "create "+filepath.Join(dir, "no", "out")+": no such file")
	requireDone(t, invoke(text("abc"), "rle", "compress", "-o", os.DevNull, "-"))
	null, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	assert.False(t, null.Mode().IsRegular(), "a device was replaced by a file")
	requireFiles(t, dir, "out", "link")
}

func TestOutputLinks(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	link := func(target, name string) string {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
		return filepath.Join(dir, name)
	}
	// Links to what is not there yet lead to a new file.
	link("folder", "way")
	for name, target := range map[string]string{"a": "new-a", "b": filepath.Join(dir, "new-b"), "c": "way/../new-c", "d": "way/new-d"} {
		for _, force := range []string{"--force", "--quiet"} {
			requireDone(t, invoke(text("abc"), "rle", "compress", force, "-o", link(target, name), "-"))
			made := filepath.Join(dir, "new-"+name)
			if name == "d" {
				made = filepath.Join(folder, "new-d")
			}
			info, err := os.Lstat(made)
			require.NoError(t, err)
			require.True(t, info.Mode().IsRegular())
			info, err = os.Lstat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.NotZero(t, info.Mode()&os.ModeSymlink, "the link was replaced")
			requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", filepath.Join(dir, name), "-"), exitUsage, "exists")
			require.NoError(t, os.Remove(made))
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	loop := link("loop", "loop")
	requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", loop, "-"), exitFailed, "too many levels of symbolic links")
	requireFailed(t, invoke(text("abc"), "rle", "compress", "-o", link("none/out", "lost"), "-"), exitFailed, "no such file")
	requireFiles(t, dir, "folder", "way", "loop", "lost")
}

// The longest names there are have room for a temporary file beside them.
func TestOutputLongName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("x", 255), strings.Repeat("é", 127)} {
		out := filepath.Join(dir, name)
		requireDone(t, invoke(text("abc"), "rle", "compress", "-o", out, "-"))
		requireFiles(t, dir, name)
		require.NoError(t, os.Remove(out))
	}
	for _, name := range []string{"a", strings.Repeat("x", 255), strings.Repeat("é", 127), strings.Repeat("\xff", 250)} {
		temp := tempName(name)
		assert.LessOrEqual(t, len(temp), 255)
		assert.True(t, strings.HasPrefix(temp, ".") && strings.HasSuffix(temp, ".tmp"), temp)
	}
}

// The mode of a replaced file is kept, also what the umask takes from new files.
func TestOutputMode(t *testing.T) {
	out := write(t, t.TempDir(), "out", []byte("old"))
	for _, mode := range []os.FileMode{0o666, 0o777, 0o600, 0o400} {
		require.NoError(t, os.Chmod(out, mode))
		requireDone(t, invoke(text("abc"), "rle", "compress", "--force", "-o", out, "-"))
		info, err := os.Stat(out)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm())
	}
}

func TestCat(t *testing.T) {
	dir, raw := t.TempDir(), read(t, bitmap)
	rle := filepath.Join(dir, "page.rle")
	requireDone(t, invoke(nil, "rle", "compress", "-o", rle, bitmap))
	n := len(raw)
	for arg, want := range map[string][2]int{
		"":                                 {0, n},
		"--range=:":                        {0, n},
		"--range=0:0":                      {0, 0},
		"--range=17:1000":                  {17, 1000},
		"--range=:5":                       {0, 5},
		"--range=800000:":                  {800000, n},
		fmt.Sprintf("--range=%d:%[1]d", n): {n, n},
	} {
		args := []string{"rle", "cat", rle}
		if arg != "" {
			args = append(args, arg)
		}
		r := invoke(nil, args...)
		requireDone(t, r)
		assert.True(t, string(raw[want[0]:want[1]]) == r.stdout, arg)
	}
	out := filepath.Join(dir, "part")
	requireDone(t, invoke(nil, "rle", "cat", "--range=2:6", "-o", out, rle))
	assert.Equal(t, raw[2:6], read(t, out))
	requireFailed(t, invoke(nil, "rle", "cat", "--range=2:6", "-o", out, rle), exitUsage, "exists")

	requireFailed(t, invoke(nil, "rle", "cat", "--range=0:894987", rle), exitUsage, "--range 0:894987 is beyond the end: "+rle+" holds 894986 bytes")
	requireFailed(t, invoke(nil, "rle", "cat", "--range=894987:", rle), exitUsage, "--range 894987: is beyond the end")
	for _, bad := range []string{"5", "a:b", "5:4", "-1:4", "1:99999999999999999999"} {
		requireFailed(t, invoke(nil, "rle", "cat", "--range="+bad, rle), exitUsage, "--range")
	}
	requireFailed(t, invoke(text(string(read(t, rle))), "rle", "cat", "-"), exitUsage, "- is a pipe")
	requireFailed(t, invoke(nil, "rle", "cat", bitmap), exitCorrupt, "ptxrun: "+bitmap+": corrupt input: not an .rle file")
	requireFiles(t, dir, "page.rle", "part")
}

func TestStat(t *testing.T) {
	const data = "aaaaaaabbbbcddd"
	want := `-: 15 bytes, 15 elements of 1, 4 runs of 3.8 elements on average, the longest of 7
as an .rle file: 116 bytes, 773.3%

  length  runs  share  elements  share
       1     1  25.0%         1   6.7%  ####################
       2     0   0.0%         0   0.0%
     3-4     2  50.0%         7  46.7%  ########################################
     5-8     1  25.0%         7  46.7%  ####################
`
	r := invoke(text(data), "rle", "stat", "-")
	requireDone(t, r)
	assert.Equal(t, want, r.stdout)
	r = invoke(text(invoke(text(data), "rle", "compress", "-").stdout), "rle", "stat", "-")
	requireDone(t, r)
	assert.Equal(t, want, r.stdout, "of the .rle file")

	r = invoke(text(data), "rle", "stat", "--width=2", "-")
	requireDone(t, r)
	assert.Contains(t, r.stdout, "-: 15 bytes, 7 elements of 2, 5 runs of 1.4 elements on average, the longest of 3\n")
	r = invoke(text(""), "rle", "stat", "-")
	requireDone(t, r)
	assert.Equal(t, "-: 0 bytes, 0 elements of 1, 0 runs\nas an .rle file: 72 bytes\n", r.stdout)
	requireFailed(t, invoke(text(rlefile.Magic), "rle", "stat", "-"), exitCorrupt, "ptxrun: -: corrupt input: the file ends in its header")

	// A run that goes through several chunks is one.
	var out bytes.Buffer
	s := &session{ctx: context.Background(), stdin: text(strings.Repeat("a", 1000) + "b"), stdout: &out, device: "cpu", chunk: 400}
	require.NoError(t, (&statCmd{Input: "-"}).Run(s))
	assert.Contains(t, out.String(), "2 runs of 500.5 elements on average, the longest of 1000")
}

// A file that appears while the command works is not replaced.
func TestOutputRace(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	appear := iotest.ErrReader(io.EOF)
	input := io.MultiReader(text("abc"), readerFunc(func(p []byte) (int, error) {
		write(t, dir, "out", []byte("other"))
		return appear.Read(p)
	}))
	requireFailed(t, invoke(input, "rle", "compress", "-o", out, "-"), exitUsage, "out exists")
	assert.Equal(t, "other", string(read(t, out)))
	requireFiles(t, dir, "out")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"rle", "expected one of"},
		{"nonsense", "unknown command nonsense; ptxrun --help lists them"},
		{"sca", `unknown command sca, did you mean one of "scan", "lcs"?`},
		{"rle nonsense", "unknown command nonsense; ptxrun rle --help lists them"},
		{"emu-profile nonsense", "unknown command nonsense; ptxrun --help lists them"},
		{"scan --type u8 a b", "unexpected argument b"},
		{"info --nonsense", "unknown flag --nonsense"},
		{"rle compress", "<input>"},
		{"rle compress --width 3 -", "--width must be one of"},
		{"rle decompress page.bmp", "page.bmp is not NAME.rle; name"},
		{"rle decompress .rle", ".rle is not NAME.rle"},
		{"rle stat --width 0 -", "--width must be one of 1, 2, 4, 8 but is 0"},
		{"rle cat --range -5: page.rle", "expected FROM:TO value"},
		{"scan -", "--type"},
		{"scan --type u128 -", "--type must be one of"},
		{"scan --type u8 --op mean -", "--op must be one of"},
		{"scan --type f32 --op xor -", "--op xor is for integers, not f32"},
		{"lcs", "<a> and <b>, or --matrix"},
		{"lcs a", "<a> and <b>, or --matrix"},
		{"lcs - -", "only one"},
		{"lcs --unit letters a b", "--unit must be one of"},
		{"lcs --to raw a b", "--to is for --matrix"},
		{"lcs --matrix a b", "no other files"},
		{"lcs --matrix a --show", "--show is for two files"},
		{"lcs --matrix a --unit lines", "--matrix compares lines"},
		{"diff a", "<b>"},
		{"diff - -", "only one"},
		{"diff -U-1 a b", "-U -1; it may be 0 and more"},
		{"diff -Ufew a b", "few"},
		{"diff --color=red a b", "--color must be one of"},
		{"ptx x.cu", "--output"},
		{"ptx -o x.ptx --target sm_35 x.cu", "--target sm_35; known are sm_70"},
		{"ptx -o x.ptx --target newest x.cu", "--target newest"},
	} {
		t.Run(c.args, func(t *testing.T) {
			requireFailed(t, invoke(text(""), strings.Fields(c.args)...), exitUsage, c.want)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	help := invoke(nil, "--help")
	requireDone(t, help)
	for _, code := range []int{0, exitFailed, exitUsage, exitCorrupt, exitNoDevice, exitInterrupted, exitPipe} {
		assert.Contains(t, help.stdout, fmt.Sprintf("\n    %d ", code), "the exit code is documented")
	}
	assert.Contains(t, help.stdout, "--device")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run(context.Background(), nil, nil, &stdout, &stderr))
	assert.Equal(t, help.stdout, stderr.String(), "without arguments")
	assert.Empty(t, stdout.String())

	for command, flags := range map[string]struct{ device, quiet bool }{
		"info": {true, false}, "scan": {true, true}, "rle compress": {true, true}, "rle decompress": {true, true},
		"lcs": {true, true}, "diff": {true, false}, "cgoenv": {}, "ptx": {}, "version": {},
	} {
		args := strings.Fields(command)
		r := invoke(nil, append(args, "--help")...)
		requireDone(t, r)
		assert.Equal(t, flags.device, strings.Contains(r.stdout, "--device"), command)
		assert.Equal(t, flags.quiet, strings.Contains(r.stdout, "--quiet"), command)
		stdout.Reset()
		require.Zero(t, run(context.Background(), append([]string{"help"}, args...), nil, &stdout, io.Discard))
		assert.Equal(t, r.stdout, stdout.String())
	}

	for _, args := range [][]string{{"version"}, {"--version"}} {
		v := invoke(nil, args...)
		requireDone(t, v)
		assert.Equal(t, "ptxrun "+version()+"\n", v.stdout)
	}
}

func TestMissingInput(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.rle")
	for _, args := range [][]string{
		{"rle", "compress", missing},
		{"rle", "decompress", missing},
		{"scan", "--type", "u8", "-o", filepath.Join(dir, "out"), missing},
		{"lcs", missing, textFirst},
		{"lcs", textFirst, missing},
		{"ptx", "-o", filepath.Join(dir, "x.ptx"), filepath.Join(dir, "missing.cu")},
	} {
		requireFailed(t, invoke(nil, args...), exitFailed, "missing", "no such file")
		requireFiles(t, dir)
	}
	requireFailed(t, invoke(nil, "rle", "compress", "-o", filepath.Join(dir, "out"), dir), exitFailed, "is a directory")
	requireFiles(t, dir)
}

func TestDevices(t *testing.T) {
	for name, want := range map[string]string{
		"gpu": "unknown device", "cuda:x": "unknown device", "cpu:1": "no device with that index", "cuda:4096": "",
	} {
		requireFailed(t, invoke(text("abc"), "--device", name, "rle", "compress", "-"), exitNoDevice, want)
		t.Setenv("PTXRUN_DEVICE", name)
		var stderr bytes.Buffer
		code := run(context.Background(), []string{"rle", "compress", "-"}, text("abc"), io.Discard, &stderr)
		requireFailed(t, result{code, "", stderr.String()}, exitNoDevice, want)
		if name == "gpu" {
			assert.Contains(t, stderr.String(), "PTXRUN_DEVICE=gpu: known are")
		}
	}
}

func TestInfo(t *testing.T) {
	r := invoke(nil, "info")
	requireDone(t, r)
	assert.Contains(t, r.stdout, "\n* cpu ")
	assert.Contains(t, r.stdout, "cuda")
	assert.Contains(t, r.stdout, "emu")
	if !cuda.Built {
		assert.Contains(t, r.stdout, "cuda  no: this build has no CUDA")
	}

	r = invoke(nil, "info", "--json")
	requireDone(t, r)
	var report infoReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	assert.Equal(t, "cpu", report.Chosen)
	assert.Equal(t, cuda.Built, report.CUDA)
	kinds := map[string]bool{}
	for _, d := range report.Devices {
		kind, _, _ := strings.Cut(d.Device, ":")
		kinds[kind] = true
		assert.NotEqual(t, d.Found, d.Reason != "", "a reason where a device is missing, and only there: %+v", d)
		assert.Equal(t, d.Found, d.Memory > 0 && d.Multiprocessors > 0, "%+v", d)
	}
	assert.Equal(t, map[string]bool{"cuda": true, "cpu": true, "emu": true}, kinds)

	// The list is printed although the device that was asked for is not there.
	r = invoke(nil, "info", "--device", "cuda:4096")
	requireFailed(t, r, exitNoDevice)
	assert.Contains(t, r.stdout, "cpu")
	assert.NotContains(t, r.stdout, "*")
}

func raw[T any](v ...T) string {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestScanText(t *testing.T) {
	for _, c := range []struct{ args, in, want string }{
		{"--type u32", "1\n2\n3\n", "1\n3\n6\n"},
		{"--type u32 -x", "1\n2\n3\n", "0\n1\n3\n"},
		{"--type u8", "200\r\n\n 100 ", "200\n44\n"},
		{"--type i64 --op min", "5\n-7\n3\n", "5\n-7\n-7\n"},
		{"--type i16 --op max -x", "5\n7\n", "-32768\n5\n"},
		{"--type u16 --op prod", "2\n3\n4\n", "2\n6\n24\n"},
		{"--type u64 --op xor", "18446744073709551615\n1\n", "18446744073709551615\n18446744073709551614\n"},
		{"--type i8 --op and", "-1\n6\n3\n", "-1\n6\n2\n"},
		{"--type i32 --op or", "1\n6\n", "1\n7\n"},
		{"--type f32", "0.5\n1e-1\n", "0.5\n0.6\n"},
		{"--type f64", "1e300\n-2.5\n", "1e+300\n1e+300\n"},
		{"--type u32", "", ""},
		{"--type u32 --to raw", "1\n2\n", raw[uint32](1, 3)},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := invoke(text(c.in), append(strings.Fields("scan --from text - "), strings.Fields(c.args)...)...)
			requireDone(t, r)
			assert.Equal(t, c.want, r.stdout)
		})
	}
}

func TestScanRaw(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in", []byte(raw[int16](1, -2, 3)))
	out := filepath.Join(dir, "out")
	requireDone(t, invoke(nil, "scan", "--type", "i16", in, "-o", out))
	assert.Equal(t, raw[int16](1, -1, 2), string(read(t, out)))
	r := invoke(nil, "scan", "--type", "i16", "--to", "text", in)
	requireDone(t, r)
	assert.Equal(t, "1\n-1\n2\n", r.stdout)
	r = invoke(text(""), "scan", "--type", "f64", "-")
	requireDone(t, r)
	assert.Empty(t, r.stdout)
}

func TestScanCorrupt(t *testing.T) {
	for _, c := range []struct{ args, in, want string }{
		{"--type u32", raw[uint32](1, 2) + "xy", "ends 2 bytes into a number of 4 bytes"},
		{"--type u32", "1\n2\n-3", "-: corrupt input: the input ends 2 bytes into a number of 4 bytes; is it text (--from text)?"},
		{"--type u8 --from text", "1\ntwo\n", `line 2: "two" as u8: invalid syntax`},
		{"--type u8 --from text", "1\n\n256\n", `line 3: "256" as u8: value out of range`},
		{"--type u8 --from text", "-1\n", "line 1"},
		{"--type f32 --from text", "1e39\n", "value out of range"},
		{"--type u8 --from text", strings.Repeat("1", 1<<17), "line 1 is too long"},
	} {
		t.Run(c.args, func(t *testing.T) {
			dir := t.TempDir()
			args := append(strings.Fields("scan - -o "+filepath.Join(dir, "out")), strings.Fields(c.args)...)
			requireFailed(t, invoke(text(c.in), args...), exitCorrupt, c.want)
			requireFiles(t, dir)
		})
	}
}

// The total is carried from chunk to chunk: one element a chunk, several, and
// one chunk for all give the same.
func TestScanChunks(t *testing.T) {
	var in []uint32
	for i := range uint32(1000) {
		in = append(in, i*i+1)
	}
	scan := func(chunk int, args string) string {
		var out, w bytes.Buffer
		var c cli
		parser, err := kong.New(&c, kong.Vars{"version": ""})
		require.NoError(t, err)
		_, err = parser.Parse(append([]string{"scan", "-", "--type", "u32"}, strings.Fields(args)...))
		require.NoError(t, err)
		s := &session{ctx: context.Background(), stdin: text(raw(in...)), stdout: &out, stderr: &w, device: "cpu", chunk: chunk}
		require.NoError(t, c.Scan.Run(s))
		return out.String()
	}
	for _, args := range []string{"", "-x", "--op max", "--op max -x", "--op prod"} {
		want := scan(1<<20, args)
		require.Len(t, want, 4000)
		for _, chunk := range []int{1, 4, 12, 3996, 4000, 4004} {
			require.Equal(t, want, scan(chunk, args), "%q, chunks of %d bytes", args, chunk)
		}
	}
}

func TestLCS(t *testing.T) {
	dir := t.TempDir()
	file := func(name, s string) string { return write(t, dir, name, []byte(s)) }
	r := invoke(nil, "lcs", file("a", "XMJYAUZ"), file("b", "MZJAWXU"))
	requireDone(t, r)
	assert.Equal(t, "length 4\nratio 0.571429\n", r.stdout)
	r = invoke(text(""), "lcs", "-", file("empty", ""))
	requireDone(t, r)
	assert.Equal(t, "length 0\nratio 1.000000\n", r.stdout)
	r = invoke(text("a"), "lcs", filepath.Join(dir, "empty"), "-")
	requireDone(t, r)
	assert.Equal(t, "length 0\nratio 0.000000\n", r.stdout)
	r = invoke(nil, "lcs", textFirst, textFinal)
	requireDone(t, r)
	assert.Equal(t, fmt.Sprintf("length %d\n", naiveLCS(read(t, textFirst), read(t, textFinal))), r.stdout[:strings.Index(r.stdout, "\n")+1])

	out := filepath.Join(dir, "out")
	requireDone(t, invoke(nil, "lcs", "-o", out, textFirst, textFirst))
	assert.Contains(t, string(read(t, out)), "ratio 1.000000\n")
	requireFailed(t, invoke(nil, "lcs", "-o", out, textFirst, textFirst), exitUsage, "out exists", "--force")
}

func TestLCSUnits(t *testing.T) {
	dir := t.TempDir()
	a := write(t, dir, "a", []byte("über  den\tFluß\r\nund\nzurück\n"))
	b := write(t, dir, "b", []byte("den\nÜber Fluß\r\nund\nzurück"))
	for unit, want := range map[string]struct{ numbers, shown string }{
		"bytes": {"length 23\nratio 0.793103\n", ""},
		"runes": {"length 20\nratio 0.769231\n", "ber Fluß\r\nund\nzurück"},
		"words": {"length 4\nratio 0.800000\n", "den\nFluß\nund\nzurück\n"},
		"lines": {"length 1\nratio 0.285714\n", "und\n"},
	} {
		r := invoke(nil, "lcs", "--unit", unit, a, b)
		requireDone(t, r)
		assert.Equal(t, want.numbers, r.stdout, unit)
		r = invoke(nil, "lcs", "--show", "--unit", unit, a, b)
		requireDone(t, r)
		if want.shown != "" {
			assert.Equal(t, want.shown, r.stdout, unit)
		}
	}
	r := invoke(nil, "lcs", "--show", textFirst, textFinal)
	requireDone(t, r)
	for _, name := range []string{textFirst, textFinal} {
		assert.Equal(t, len(r.stdout), naiveLCS([]byte(r.stdout), read(t, name)), "what is shown is had from %s", name)
	}
	assert.Len(t, r.stdout, naiveLCS(read(t, textFirst), read(t, textFinal)))

	bad := write(t, dir, "bad", []byte("ab\u20ac\xe2\x82"))
	requireFailed(t, invoke(nil, "lcs", "--unit", "runes", a, bad), exitCorrupt, "bad: byte 5 (0xe2) is not UTF-8")
	requireFailed(t, invoke(text("a\nb\xff\n"), "lcs", "--unit", "runes", "--matrix", "-"), exitCorrupt, "-: line 2: byte 1 (0xff) is not UTF-8")
	requireDone(t, invoke(nil, "lcs", "--unit", "words", a, bad))
}

func TestLCSMatrix(t *testing.T) {
	for _, c := range []struct{ args, in, want string }{
		{"", "abc\nac\n\ncab", "3,2,0,2\n2,2,0,1\n0,0,0,0\n2,1,0,3\n"},
		{"", "abc\r\nac\r\n", "3,2\n2,2\n"},
		{"", "", ""},
		{"", "\n", "0\n"},
		{"--unit runes", "äö\nöß\n", "2,1\n1,2\n"},
		{"--unit bytes", "äö\nöß\n", "4,2\n2,4\n"},
		{"--unit words", "a bc\nbc a\nb c\n", "2,1,0\n1,2,0\n0,0,2\n"},
		{"--to raw", "abc\nac\n", raw[uint32](3, 2, 2, 2)},
		{"--to raw", "", ""},
	} {
		r := invoke(text(c.in), append(strings.Fields("lcs --matrix - "), strings.Fields(c.args)...)...)
		requireDone(t, r)
		assert.Equal(t, c.want, r.stdout, "%q %s", c.in, c.args)
	}

	// More rows than a call takes at first.
	r := rand.New(rand.NewPCG(1, 2))
	var lines [][]byte
	for range 100 {
		line := make([]byte, r.IntN(80))
		for i := range line {
			line[i] = "ACGT"[r.IntN(4)]
		}
		lines = append(lines, line)
	}
	var want strings.Builder
	for _, a := range lines {
		for j, b := range lines {
			if j > 0 {
				want.WriteByte(',')
			}
			fmt.Fprint(&want, naiveLCS(a, b))
		}
		want.WriteByte('\n')
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out.csv")
	requireDone(t, invoke(bytes.NewReader(bytes.Join(lines, []byte("\n"))), "lcs", "--matrix", "-", "-o", out))
	assert.Equal(t, want.String(), string(read(t, out)))
	requireFiles(t, dir, "out.csv")
}

func TestDiff(t *testing.T) {
	dir := t.TempDir()
	file := func(name, s string) string { return write(t, dir, name, []byte(s)) }
	t.Chdir(dir)
	file("a", "1\n2\n3\n4\n5\n")
	file("b", "1\n2\nthree\n4\n5")
	at := time.Date(2004, 7, 25, 13, 14, 15, 0, time.Local)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Chtimes(name, at, at))
	}
	stamp := at.Format("\t2006-01-02 15:04:05.000000000 -0700\n")
	r := invoke(nil, "diff", "a", "b")
	require.Equal(t, exitDifferent, r.code)
	require.Empty(t, r.stderr)
	const hunk = "@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n-5\n+5\n\\ No newline at end of file\n"
	require.Equal(t, "--- a"+stamp+"+++ b"+stamp+hunk, r.stdout)
	require.Equal(t, r, invoke(nil, "diff", "--color=never", "a", "b"))

	r = invoke(text("2\n"), "diff", "-U0", "a", "-")
	require.Equal(t, "--- a"+stamp+"+++ -\n@@ -1 +0,0 @@\n-1\n@@ -3,3 +1,0 @@\n-3\n-4\n-5\n", r.stdout)
	r = invoke(nil, "diff", "--color=always", "-U", "0", "a", "b")
	require.Equal(t, exitDifferent, r.code)
	require.Contains(t, r.stdout, "\n\x1b[31m-3\x1b[0m\n")

	r = invoke(text("1\n2\n3\n4\n5\n"), "diff", "a", "-")
	requireDone(t, r)
	require.Empty(t, r.stdout)

	file("binary", "1\n\x00")
	r = invoke(nil, "diff", "a", "binary")
	require.Equal(t, result{exitDifferent, "Binary files a and binary differ\n", ""}, r)
	requireDone(t, invoke(nil, "diff", "binary", "binary"))

	requireFailed(t, invoke(nil, "diff", "a", "missing"), exitTrouble, "missing", "no such file")
	requireFailed(t, invoke(nil, "diff", "missing", "a"), exitTrouble, "missing", "no such file")
	requireFailed(t, invoke(nil, "diff", "a", "."), exitTrouble, "is a directory")
	requireFailed(t, invoke(nil, "diff", "--device=cuda:4096", "a", "b"), exitTrouble)
}

// naiveLCS is the textbook recurrence, a row at a time.
func naiveLCS(a, b []byte) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			up := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(up, row[j])
			}
			diagonal = up
		}
	}
	return row[len(b)]
}

// A command that waits for its input ends when it is interrupted, and leaves
// nothing behind.
func TestInterrupt(t *testing.T) {
	for args, begin := range map[string]string{
		"rle compress -":               "abc",
		"rle decompress -":             "\x89RLE\r\n",
		"scan --type u8 -":             "abc",
		"scan --type u8 --from text -": "12",
		"lcs --matrix -":               "ab\n",
	} {
		t.Run(args, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			r, w := io.Pipe()
			defer w.Close()
			go func() {
				w.Write([]byte(begin))
				cancel()
			}()
			var stderr bytes.Buffer
			code := run(ctx, append(strings.Fields(args), "--device=cpu", "-o", filepath.Join(dir, "out")), r, io.Discard, &stderr)
			requireFailed(t, result{code, "", stderr.String()}, exitInterrupted, "interrupted")
			requireFiles(t, dir)
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stderr bytes.Buffer
	code := run(ctx, []string{"--device=cpu", "lcs", textFirst, textFinal}, nil, io.Discard, &stderr)
	requireFailed(t, result{code, "", stderr.String()}, exitInterrupted, "interrupted")
	stderr.Reset()
	code = run(ctx, []string{"--device=cpu", "diff", textFirst, textFinal}, nil, io.Discard, &stderr)
	requireFailed(t, result{code, "", stderr.String()}, exitInterrupted, "interrupted")
}

// errWriter refuses what is written to it.
type errWriter struct{ error }

func (w errWriter) Write([]byte) (int, error) { return 0, w.error }

func TestStandardOutputFails(t *testing.T) {
	for _, args := range []string{"rle compress -", "rle stat -", "scan --type u8 -", "scan --type u8 --from text -", "lcs - " + textFirst, "lcs --matrix -", "lcs --show " + textFirst + " " + textFinal, "info", "info --json", "version"} {
		for err, code := range map[error]int{syscall.EPIPE: exitPipe, syscall.ENOSPC: exitFailed} {
			var stderr bytes.Buffer
			got := run(context.Background(), append([]string{"--device=cpu"}, strings.Fields(args)...), text("1\n2\n"), errWriter{err}, &stderr)
			require.Equal(t, code, got, "%s: %s", args, stderr.String())
			if code == exitPipe {
				require.Empty(t, stderr.String())
			} else {
				requireFailed(t, result{got, "", stderr.String()}, exitFailed, "no space left")
			}
		}
	}
}

func TestDiffOutputFails(t *testing.T) {
	for err, code := range map[error]int{syscall.EPIPE: exitPipe, syscall.ENOSPC: exitTrouble} {
		for _, second := range []string{textFinal, bitmap} {
			var stderr bytes.Buffer
			require.Equal(t, code, run(context.Background(), []string{"--device=cpu", "diff", textFirst, second}, nil, errWriter{err}, &stderr), second)
			require.Equal(t, code == exitPipe, stderr.Len() == 0)
		}
	}
}

func TestCgoenv(t *testing.T) {
	t.Setenv("CGO_CFLAGS", "-O3 '-Dx=a b'")
	t.Setenv("CGO_LDFLAGS", "-lm")
	r := invoke(nil, "cgoenv")
	requireDone(t, r)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("export CGO_ENABLED=1 CGO_CFLAGS='-O3 '\\''-Dx=a b'\\'' -I%s/driver/cuda/include' CGO_LDFLAGS='-lm -L%[1]s/driver/cuda/link'\n", root), r.stdout)
	out, err := exec.Command("sh", "-c", r.stdout+`sh -c 'echo "$CGO_ENABLED $CGO_CFLAGS"'`).Output()
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("1 -O3 '-Dx=a b' -I%s/driver/cuda/include\n", root), string(out))

	t.Chdir(t.TempDir())
	requireFailed(t, invoke(nil, "cgoenv"), exitFailed, "a module that requires it")
}

func TestShellWord(t *testing.T) {
	for _, s := range []string{"-I/usr/include", "-I/my folder", "'-I/my folder'", `"-I/it's"`, "$HOME `x`", ""} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellWord(s)).Output()
		require.NoError(t, err)
		assert.Equal(t, s, string(out))
	}
}

func TestProgress(t *testing.T) {
	var bar bytes.Buffer
	p := &progressReader{text("abcdefgh"), &steps{w: &bar, total: 8, what: "compressing", bytes: true, start: time.Now()}}
	io.ReadFull(p, make([]byte, 2))
	assert.Empty(t, bar.String(), "short work shows no bar")
	p.start = time.Now().Add(-time.Minute)
	io.ReadFull(p, make([]byte, 2))
	assert.Contains(t, bar.String(), "compressing")
	assert.Contains(t, bar.String(), "50%")
	p.stop()

	bar.Reset()
	content := strings.NewReader("abcdefgh")
	f := &progressFile{&progressReader{content, &steps{w: &bar, total: 8, what: "compressing", bytes: true, start: time.Now().Add(-time.Minute)}}, content}
	_, err := f.ReadAt(make([]byte, 2), 4)
	require.NoError(t, err)
	assert.Contains(t, bar.String(), "25%", "a read at an offset")
	f.stop()
}

// fakeClang answers like clang and writes its arguments in place of PTX; a
// source with an #error fails.
const fakeClang = `#!/bin/sh
if [ "$1" = --version ]; then echo "Debian clang version 19.1.7"; exit; fi
for a; do
	[ "$last" = -o ] && out=$a
	last=$a
done
if grep '#error' "$last" >&2; then exit 1; fi
echo "$*" > "$out"
`

func TestPTX(t *testing.T) {
	dir := t.TempDir()
	source := write(t, dir, "op.cu", []byte("// nothing\n"))
	out := filepath.Join(dir, "op.ptx")
	bin := t.TempDir()
	clang := write(t, bin, "clang", []byte(fakeClang))
	require.NoError(t, os.Chmod(clang, 0o755))

	requireDone(t, invoke(nil, "ptx", "-o", out, "--compiler", clang, "--target", "sm_80", "-D", "A=1,2", "-I", "inc", source))
	code := string(read(t, out))
	assert.True(t, strings.HasPrefix(code, "// Code generated by ptxrun ptx -o op.ptx op.cu; DO NOT EDIT.\n"), code)
	for _, arg := range []string{"sm_80", "-DA=1,2", "-Iinc"} {
		assert.Contains(t, code, arg)
	}
	requireDone(t, invoke(nil, "ptx", "-o", out, "--compiler", clang, source))
	assert.NotContains(t, string(read(t, out)), "sm_80", "an output is replaced by the next build")

	piped := invoke(text("// nothing\n"), "ptx", "-o", "-", "--compiler", clang, "-")
	requireDone(t, piped)
	assert.Contains(t, piped.stdout, "ptxrun ptx -o - -; DO NOT EDIT")
	assert.Contains(t, piped.stdout, "-I. ")

	wrong := write(t, dir, "wrong.cu", []byte("#error no\n"))
	r := invoke(nil, "ptx", "-o", filepath.Join(dir, "wrong.ptx"), "--compiler", clang, wrong)
	require.Equal(t, exitFailed, r.code)
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	require.Len(t, lines, 2, "the compiler's log, then one line")
	assert.Equal(t, "#error no", lines[0])
	assert.True(t, strings.HasPrefix(lines[1], "ptxrun: "), lines[1])
	requireFiles(t, dir, "op.cu", "op.ptx", "wrong.cu")

	requireFailed(t, invoke(nil, "ptx", "-o", out, "--compiler", "no-such-compiler", source), exitFailed, "no-such-compiler")
}
