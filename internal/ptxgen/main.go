// Command ptxgen builds the PTX of every kernel in the kernel table, for every
// target the table names, into ptx/sm_NN. It runs in the module's root.
//
//	go generate ./...                    rebuild
//	go run ./internal/ptxgen -check      rebuild in memory and demand no difference
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/ptxbuild"
)

// compilerMajor is the clang whose output is committed. Another would differ in
// every file.
const compilerMajor = 19

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a committed file differs from what its source gives")
	compiler := flag.String("compiler", "clang-19", "name or path of clang 19")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := generate(ctx, *compiler, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// job is one file to build.
type job struct {
	module *ptxrun.ModuleSpec
	target int
}

func (j job) file() string {
	return filepath.Join("ptx", fmt.Sprintf("sm_%d", j.target), j.module.Name+".ptx")
}

func generate(ctx context.Context, compiler string, check bool) error {
	c, err := ptxbuild.Find(ctx, compiler)
	if err != nil {
		return err
	}
	if c.NVCC || c.Major != compilerMajor {
		return fmt.Errorf("ptxgen: the committed PTX is the output of clang %d, %s is %v", compilerMajor, compiler, c)
	}

	var jobs []job
	modules := ptxrun.Modules()
	wanted := make(map[string]bool)
	for i := range modules {
		for _, t := range modules[i].Targets {
			j := job{&modules[i], t}
			jobs, wanted[j.file()] = append(jobs, j), true
		}
	}
	errs := []error{stale(wanted)}

	// One source that does not compile is reported once, not for every module.
	interrupted := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		slots = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for _, j := range jobs {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			err := j.run(ctx, c.Path, check)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				errs = append(errs, err)
			}
			if errors.Is(err, driver.ErrCompile) {
				cancel()
			}
		})
	}
	work.Wait()
	return errors.Join(append(errs, interrupted.Err())...)
}

// run builds one file and writes it, or compares it with what is there.
func (j job) run(ctx context.Context, compiler string, check bool) error {
	text, err := ptxbuild.Build(ctx, ptxbuild.Options{
		Source:   filepath.Join("ptx", "src", j.module.Source),
		Defines:  j.module.Defines,
		Target:   j.target,
		Compiler: compiler,
		Command:  "go generate ./...",
		Flags:    []string{"-Wall", "-Wextra", "-Werror"},
	})
	if err != nil {
		return err
	}
	file := j.file()
	if !check {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o666)
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(committed, text) {
		return fmt.Errorf("%s is not what ptx/src/%s gives: run go generate ./...", file, j.module.Source)
	}
	return nil
}

// stale reports built files that the kernel table does not list.
func stale(wanted map[string]bool) error {
	files, err := filepath.Glob(filepath.Join("ptx", "sm_*", "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if !wanted[f] {
			errs = append(errs, fmt.Errorf("%s is built by nothing in the kernel table: remove it", f))
		}
	}
	return errors.Join(errs...)
}
