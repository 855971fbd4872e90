// Package fake is a CUDA driver library for tests, in C: device memory is host
// memory, kernels are recorded, any call can be made to fail. A process uses it
// when it starts with PTXRUN_LIBCUDA set to the file that Build makes; it then
// drives it with the functions of this package, which need the build tag cuda.
//
// In the environment, FAKE_CUDA_INIT is the code that cuInit returns and
// FAKE_CUDA_DEVICES the number of devices; without them it is a machine with two.
package fake

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variants of the driver library.
const (
	Driver    = ""           // CUDA 12.4
	OldDriver = "OLD_DRIVER" // CUDA 11.0: no memory pools, no cuFuncGetParamInfo
)

// packageDir is where driver/cuda lies: the working directory of its own tests,
// which also run as a binary on machines without Go, or what the go command says.
func packageDir() (string, error) {
	if _, err := os.Stat("fake/src/libcuda.c"); err == nil {
		return ".", nil
	}
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/ptxrun/ptxrun/driver/cuda").Output()
	if err != nil {
		return "", fmt.Errorf("finding the fake driver's source: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Build compiles a variant with gcc into dir and returns the library's path.
func Build(dir, variant string) (string, error) {
	root, err := packageDir()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libcuda"+variant+".so.1")
	args := []string{"-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread",
		"-I" + filepath.Join(root, "include"), "-o", lib, filepath.Join(root, "fake", "src", "libcuda.c")}
	if variant != Driver {
		args = append([]string{"-D" + variant}, args...)
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the fake driver: %w\n%s", err, out)
	}
	return lib, nil
}
