// Command cudasym keeps driver/cuda in step with its binding, gorgonia.org/cu.
//
// Without flags it writes driver/cuda/symbols.inc: one line for each symbol of
// the CUDA driver library that the binding or driver/cuda refers to, under the
// version that driver/cuda/include/cuda.h gives it. The trampolines and the
// slot table are made from that list.
//
// With -check DIR it compares every value and every layout in our cuda.h with
// the toolkit's cuda.h in DIR, by compiling and running a program against each;
// it is run in the module's folder.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const binding = "gorgonia.org/cu"

func main() {
	check := flag.String("check", "", "compare our cuda.h with the one in `DIR`")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "cudasym:", err)
		os.Exit(1)
	}
}

func run(check string) error {
	if check != "" {
		// From the module's folder, so that it runs where there is no Go.
		report, err := compareHeaders(filepath.Join("driver", "cuda", "include"), check)
		fmt.Print(report)
		return err
	}
	root, err := moduleDir("github.com/ptxrun/ptxrun")
	if err != nil {
		return err
	}
	pkg := filepath.Join(root, "driver", "cuda")
	list, err := symbolList(pkg)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(pkg, "symbols.inc"), list, 0o644)
}

// symbolList is what symbols.inc must hold for the package in dir.
func symbolList(dir string) ([]byte, error) {
	h, err := readHeader(filepath.Join(dir, "include", "cuda.h"))
	if err != nil {
		return nil, err
	}
	bindingDir, err := moduleDir(binding)
	if err != nil {
		return nil, err
	}
	theirs, err := references(bindingDir)
	if err != nil {
		return nil, err
	}
	ours, err := references(dir)
	if err != nil {
		return nil, err
	}
	return h.list(append(theirs, ours...))
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go list -m %s: %s", module, bytes.TrimSpace(exit.Stderr))
	}
	return string(bytes.TrimSpace(out)), err
}
