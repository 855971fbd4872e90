package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

const description = `Scans, run-length encoding and longest common subsequences on a GPU, or on the processor where there is none.

Files are named, or - for standard input and output. Exit codes:

    0    done
    1    failed: reading, writing, memory, a fault of the device
    2    wrong use, or the output exists and --force is not given
    3    the input is corrupt: a damaged .rle file, not a number
    4    the device asked for cannot be had
    130  interrupted
    141  the reader of the output has gone`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitCorrupt     = 3
	exitNoDevice    = 4
	exitInterrupted = 128 + int(syscall.SIGINT)
	exitPipe        = 128 + int(syscall.SIGPIPE)
)

type cli struct {
	Device      string           `env:"PTXRUN_DEVICE" placeholder:"NAME" help:"auto, cuda, cuda:N, cpu or emu. The default, auto, is the first GPU if there is one, else cpu."`
	Quiet       bool             `short:"q" help:"Show no progress."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and stop."`

	Info    infoCmd    `cmd:"" help:"Tell which devices this build knows, which it found, and why not the others."`
	Scan    scanCmd    `cmd:"" help:"Write the running total, or another scan, of a file of numbers."`
	RLE     rleCmd     `cmd:"" name:"rle" help:"Compress and decompress files by run-length encoding."`
	LCS     lcsCmd     `cmd:"" name:"lcs" help:"Tell how alike two files are, by their longest common subsequence of bytes."`
	Cgoenv  cgoenvCmd  `cmd:"" help:"Print the cgo settings to build with -tags cuda: export $$(ptxrun cgoenv)"`
	PTX     ptxCmd     `cmd:"" name:"ptx" help:"Compile CUDA C++ with an operator or kernels of your own to PTX. Needs clang or nvcc."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// session is what a command works with.
type session struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	device string
	quiet  bool
	chunk  int // bytes that scan works on at a time
}

// run is the program, without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	// kong ends a program after --help by calling its exit function, and goes
	// on should that return.
	type exit int
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("ptxrun"),
		kong.Description(description),
		kong.Vars{"version": version()},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic(err) // the grammar above is wrong
	}
	command, err := parser.Parse(args)
	if err == nil {
		err = command.Run(&session{
			ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr,
			device: c.Device, quiet: c.Quiet, chunk: scanChunk,
		})
	}
	code = exitCode(err)
	if code != 0 && code != exitPipe {
		report(stderr, err)
	}
	return code
}

// usageError is a wrong use that kong cannot see.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// deviceError is why the device cannot be had.
type deviceError struct{ error }

func (e deviceError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var parse *kong.ParseError
	var usage usageError
	var device deviceError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitPipe
	case errors.As(err, &parse), errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &device):
		return exitNoDevice
	case errors.Is(err, driver.ErrCorrupt):
		return exitCorrupt
	}
	return exitFailed
}

// report writes err as one line, after the log of a compiler if it has one.
func report(stderr io.Writer, err error) {
	var e *driver.Error
	if errors.As(err, &e) && e.Log != "" {
		fmt.Fprintln(stderr, strings.TrimRight(e.Log, "\n\x00"))
	}
	fmt.Fprintln(stderr, "ptxrun:", plain(err))
}

// plain is err's text as one line, without the program's name and logs.
func plain(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := err.Error()
	var e *driver.Error
	if errors.As(err, &e) && e.Log != "" {
		text = strings.ReplaceAll(text, strings.TrimRight(e.Log, "\n\x00"), "")
	}
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	return strings.ReplaceAll(text, "ptxrun: ", "")
}

// onDevice calls f with the device that was asked for.
func (s *session) onDevice(f func(rt *ptxrun.Runtime) error) error {
	rt, err := ptxrun.Open(ptxrun.WithDevice(s.device))
	if err != nil {
		return deviceError{err}
	}
	return errors.Join(f(rt), rt.Close())
}

type versionCmd struct{}

func (versionCmd) Run(s *session) error {
	_, err := fmt.Fprintln(s.stdout, "ptxrun", version())
	return err
}

// version is the module's version as the go command recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
