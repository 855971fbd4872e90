package cuda

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
)

const modulePath = "github.com/ptxrun/ptxrun"

// Env returns the settings with which go build -tags cuda finds this package's
// cuda.h and libcuda.so, as NAME=value: CGO_CFLAGS, then CGO_LDFLAGS. It asks
// the go command where the module lies, as seen from the folder dir ("" is the
// current one), which is that of a module that requires ptxrun or of ptxrun.
func Env(dir string) ([]string, error) {
	root, err := moduleDir(dir)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(root, "driver", "cuda")
	return []string{
		"CGO_CFLAGS=" + flag("-I"+filepath.Join(at, "include")),
		"CGO_LDFLAGS=" + flag("-L"+filepath.Join(at, "link")),
	}, nil
}

// flag quotes a flag in the way that the go command splits these variables.
func flag(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t'\""):
		return s
	case !strings.Contains(s, "'"):
		return "'" + s + "'"
	default:
		return `"` + s + `"`
	}
}

func moduleDir(dir string) (string, error) {
	fail := func(format string, args ...any) (string, error) {
		return "", driver.Errorf("cgoenv", driver.ErrNotFound, format, args...)
	}
	// -mod=readonly: a vendor folder has no Dir to report, and would lack the
	// folders that hold no Go files.
	cmd := exec.Command("go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", modulePath)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fail("the go command does not know the module %s here; run this in the folder of a module that requires it: %s",
			modulePath, bytes.TrimSpace(exit.Stderr))
	case err != nil:
		return fail("the go command is needed to find the module %s: %v", modulePath, err)
	}
	root := string(bytes.TrimSpace(out))
	if root == "" {
		return fail("the module %s is not downloaded; run go mod download", modulePath)
	}
	return root, nil
}
