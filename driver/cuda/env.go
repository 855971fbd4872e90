package cuda

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
)

const packagePath = "github.com/ptxrun/ptxrun/driver/cuda"

// Env returns the settings with which go build -tags cuda finds this package's
// cuda.h and libcuda.so, as NAME=value: CGO_ENABLED, without which a machine
// that lacks a C compiler would build without CUDA in silence, then CGO_CFLAGS
// and CGO_LDFLAGS, which are what they are now with a flag more. It asks the go
// command where this package lies, as seen from the folder dir ("" is the
// current one), which is that of a module that requires ptxrun or of ptxrun.
func Env(dir string) ([]string, error) {
	var pkg struct{ Dir string }
	if err := ask(dir, &pkg, "list", "-find", "-json=Dir", packagePath); err != nil {
		return nil, err
	}
	var now struct{ CGO_CFLAGS, CGO_LDFLAGS string }
	if err := ask(dir, &now, "env", "-json", "CGO_CFLAGS", "CGO_LDFLAGS"); err != nil {
		return nil, err
	}
	return []string{
		"CGO_ENABLED=1",
		"CGO_CFLAGS=" + with(now.CGO_CFLAGS, "-I"+filepath.Join(pkg.Dir, "include")),
		"CGO_LDFLAGS=" + with(now.CGO_LDFLAGS, "-L"+filepath.Join(pkg.Dir, "link")),
	}, nil
}

// with adds a flag to flags, unless it is there.
func with(flags, add string) string {
	add = quote(add)
	if strings.Contains(" "+flags+" ", " "+add+" ") {
		return flags
	}
	return strings.TrimSpace(flags + " " + add)
}

// quote quotes a flag in the way that the go command splits these variables.
func quote(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t'\""):
		return s
	case !strings.Contains(s, "'"):
		return "'" + s + "'"
	default:
		return `"` + s + `"`
	}
}

// ask decodes the JSON that the go command answers with in a folder.
func ask(dir string, answer any, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return driver.Errorf("cgoenv", driver.ErrNotFound,
			"the go command does not find %s; run this in the folder of a module that requires it: %s", packagePath, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return driver.Errorf("cgoenv", driver.ErrNotFound, "the go command is needed to find %s: %v", packagePath, err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return driver.Errorf("cgoenv", driver.ErrUnknown, "the answer of go %s: %v", args[0], err)
	}
	return nil
}
