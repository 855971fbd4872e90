package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/internal/ptxbuild"
)

type ptxCmd struct {
	Source   string   `arg:"" help:"CUDA C++ source. It can include <ptxrun/scan.cuh> and ptxrun's other headers."`
	Output   string   `short:"o" required:"" placeholder:"FILE" help:"PTX file to write, or -; it is replaced if it exists."`
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
	code, err := ptxbuild.Build(s.ctx, ptxbuild.Options{
		Source: c.Source, Defines: c.Define, Includes: c.Include, Target: target, Compiler: c.Compiler,
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

type cgoenvCmd struct{}

func (cgoenvCmd) Help() string {
	return `Run it in a module that requires ptxrun, then build:

    export $(ptxrun cgoenv)
    go build -tags cuda

Where a path holds spaces, use eval "$(ptxrun cgoenv)" and export the two variables.`
}

func (cgoenvCmd) Run(s *session) error {
	lines, err := cuda.Env("")
	if err != nil {
		return err
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if _, err := fmt.Fprintf(s.stdout, "%s=%s\n", name, shellWord(value)); err != nil {
			return err
		}
	}
	return nil
}

// shellWord quotes s for a shell where that is needed.
func shellWord(s string) string {
	if strings.ContainsAny(s, " \t'\"\\$`*?[]{}()<>|&;!#~") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
