package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/internal/ptxbuild"
)

type ptxCmd struct {
	Source   string   `arg:"" help:"CUDA C++ source, or -. It can include <ptxrun/scan.cuh> and ptxrun's other headers."`
	Output   string   `short:"o" required:"" placeholder:"FILE" help:"PTX file to write, or -. It is replaced if it exists."`
	Target   string   `default:"sm_70" placeholder:"sm_NN" help:"Oldest GPU architecture that loads the PTX; newer ones do, too. By default sm_70."`
	Define   []string `short:"D" sep:"none" placeholder:"NAME=VALUE" help:"Define a macro."`
	Include  []string `short:"I" sep:"none" placeholder:"DIR" help:"Search a folder for headers."`
	Compiler string   `placeholder:"PATH" help:"clang or nvcc to compile with; by default the first that is found."`
}

func (c *ptxCmd) target() (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(c.Target, "sm_"))
	if err != nil || !slices.Contains(ptxbuild.Targets(), n) {
		return 0, usagef("--target %s; known are sm_%s", c.Target, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ptxbuild.Targets())), " sm_"), "[]"))
	}
	return n, nil
}

func (c *ptxCmd) Run(s *session) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	source, includes := c.Source, c.Include
	if source == "-" {
		dir, err := os.MkdirTemp("", "ptxrun")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if source, err = s.saveInput(dir); err != nil {
			return err
		}
		includes = append([]string{"."}, includes...) // as if the source lay here
	}
	code, err := ptxbuild.Build(s.ctx, ptxbuild.Options{
		Source: source, Defines: c.Define, Includes: includes, Target: target, Compiler: c.Compiler,
		Command: fmt.Sprintf("ptxrun ptx -o %s %s", filepath.Base(c.Output), filepath.Base(c.Source)),
	})
	if err != nil {
		return err
	}
	// A build replaces what the last one made.
	return s.writeTo(c.Output, true, func(w io.Writer) error {
		_, err := w.Write(code)
		return err
	})
}

// saveInput copies standard input to a source file in dir.
func (s *session) saveInput(dir string) (path string, err error) {
	in, err := s.openInput("-")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "stdin.cu")
	return path, os.WriteFile(path, text, 0o600)
}

type cgoenvCmd struct{}

func (cgoenvCmd) Help() string {
	return `Run it in a module that requires ptxrun, then build:

    eval "$(go tool ptxrun cgoenv)"
    go build -tags cuda ./...

It prints an export for a shell. Flags that CGO_CFLAGS and CGO_LDFLAGS hold already are kept.`
}

func (cgoenvCmd) Run(s *session) error {
	settings, err := cuda.Env("")
	if err != nil {
		return err
	}
	line := "export"
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		line += " " + name + "=" + shellWord(value)
	}
	_, err = fmt.Fprintln(s.stdout, line)
	return err
}

// shellWord quotes s for a shell where that is needed.
func shellWord(s string) string {
	if strings.ContainsAny(s, " \t'\"\\$`*?[]{}()<>|&;!#~") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
