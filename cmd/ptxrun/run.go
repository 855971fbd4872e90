package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

const description = `Scans, run-length encoding, longest common subsequences and diffs on a GPU, or on the processor where there is none.

Files are named, or - for standard input and output. An output file that exists is replaced with --force only, but for ptx. Exit codes, other than diff's:

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

// What diff ends with, as other programs of that name do.
const (
	exitDifferent = 1
	exitTrouble   = 2
)

type cli struct {
	Device      string           `placeholder:"NAME" help:"auto, cuda, cuda:N, cpu or emu. Without it PTXRUN_DEVICE chooses, else it is auto, the first GPU if there is one, else cpu."`
	Quiet       bool             `short:"q" help:"Show no progress."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and stop."`

	Info       infoCmd       `cmd:"" idle:"quiet" help:"Tell which devices this build knows, which it found, and why not the others."`
	Scan       scanCmd       `cmd:"" help:"Write the running total, or another scan, of a file of numbers."`
	RLE        rleCmd        `cmd:"" name:"rle" help:"Compress and decompress files by run-length encoding, and look into them."`
	LCS        lcsCmd        `cmd:"" name:"lcs" help:"Tell how alike files or lines are, by their longest common subsequences."`
	Diff       diffCmd       `cmd:"" idle:"quiet" help:"Show the lines that two files differ in, as a unified diff."`
	Cgoenv     cgoenvCmd     `cmd:"" idle:"device,quiet" help:"Print the cgo settings to build with -tags cuda: eval \"$$(ptxrun cgoenv)\""`
	PTX        ptxCmd        `cmd:"" idle:"device,quiet" name:"ptx" help:"Compile CUDA C++ with an operator or kernels of your own to PTX. Needs clang or nvcc."`
	EmuProfile emuProfileCmd `cmd:"" idle:"device" name:"emu-profile" help:"Run a command on the emulator and tell what its kernels executed."`
	Version    versionCmd    `cmd:"" idle:"device,quiet" help:"Print the version."`
}

// help prints a command's help without the flags that do nothing for it, which
// the tag idle names.
func help(options kong.HelpOptions, c *kong.Context) error {
	if command := c.Selected(); command != nil {
		for _, flag := range c.Model.Flags {
			flag.Hidden = slices.Contains(strings.Split(command.Tag.Get("idle"), ","), flag.Name)
		}
	}
	return kong.DefaultHelpPrinter(options, c)
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

	open  func() (*ptxrun.Runtime, error) // the device; by default the one that device names
	after func()                          // called before the device is closed
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
	s := &session{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, chunk: scanChunk}
	err := s.execute(args, kong.Exit(func(code int) { panic(exit(code)) }))
	code = exitCode(err)
	if code != 0 && code != exitPipe && !errors.Is(err, errDifferent) {
		report(stderr, err)
	}
	return code
}

// execute parses a command line and runs its command in the session.
func (s *session) execute(args []string, options ...kong.Option) error {
	var c cli
	parser, err := kong.New(&c, append([]kong.Option{
		kong.Name("ptxrun"),
		kong.Description(description),
		kong.Vars{"version": "ptxrun " + version()},
		kong.Writers(s.stdout, s.stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(help),
	}, options...)...)
	if err != nil {
		panic(err) // the grammar above is wrong
	}
	switch {
	case len(args) == 0:
		exit := parser.Exit
		parser.Stdout, parser.Exit = s.stderr, func(int) { exit(exitUsage) }
		args = []string{"--help"}
	case args[0] == "help":
		args = append(args[1:len(args):len(args)], "--help")
	}
	command, err := parser.Parse(args)
	if err != nil {
		return parseError(err)
	}
	s.device, s.quiet = c.Device, c.Quiet
	return command.Run(s)
}

// parseError is kong's error, which calls a command that there is not an argument.
func parseError(err error) error {
	parse, ok := errors.AsType[*kong.ParseError](err)
	name, unexpected := strings.CutPrefix(err.Error(), "unexpected argument ")
	if !ok || !unexpected {
		return err
	}
	at := parse.Context.Model.Node
	if command := parse.Context.Selected(); command != nil {
		at = command
	}
	if len(at.Children) == 0 {
		return err
	}
	if strings.HasSuffix(name, "?") {
		return usagef("unknown command %s", name) // with what was meant
	}
	return usagef("unknown command %s; %s --help lists them", name, at.FullPath())
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
	var trouble troubleError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDifferent):
		return exitDifferent
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitPipe
	case errors.As(err, &trouble):
		return exitTrouble
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

// plain is err as one line, without the program's name and logs.
func plain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	switch e := err.(type) {
	case *driver.Error:
		return oneLine(e.Message())
	case deviceError:
		return reason(e.error)
	case corruptError:
		return e.name + ": " + reason(e.error)
	case troubleError:
		return plain(e.error)
	case interface{ Unwrap() []error }:
		var texts []string
		for _, err := range e.Unwrap() {
			texts = append(texts, plain(err))
		}
		return strings.Join(texts, "; ")
	}
	return oneLine(err.Error())
}

func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// onDevice calls f with the device that was asked for.
func (s *session) onDevice(f func(rt *ptxrun.Runtime) error) error {
	open := s.open
	if open == nil {
		open = func() (*ptxrun.Runtime, error) { return ptxrun.Open(ptxrun.WithDevice(s.device)) }
	}
	rt, err := open()
	if err != nil {
		return deviceError{err}
	}
	err = f(rt)
	if s.after != nil {
		s.after()
	}
	return errors.Join(err, rt.Close())
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
