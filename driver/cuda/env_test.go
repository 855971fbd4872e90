package cuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
)

// folders checks the settings and returns the folders that they point to.
func folders(t *testing.T, env []string) (include, link string) {
	t.Helper()
	require.Len(t, env, 3)
	assert.Equal(t, "CGO_ENABLED=1", env[0])
	include, ok := strings.CutPrefix(env[1], "CGO_CFLAGS=-O2 -g -I")
	require.True(t, ok, env[1])
	link, ok = strings.CutPrefix(env[2], "CGO_LDFLAGS=-O2 -g -L")
	require.True(t, ok, env[2])
	assert.FileExists(t, filepath.Join(include, "cuda.h"))
	assert.FileExists(t, filepath.Join(link, "libcuda.so"))
	return include, link
}

// noFlags takes away the flags that the tests themselves are built with.
func noFlags(t *testing.T) {
	t.Setenv("CGO_CFLAGS", "")
	t.Setenv("CGO_LDFLAGS", "")
}

// needGo skips on machines that only run test binaries; wherever the suite is
// built there is Go.
func needGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("Env asks the go command, which is not on this machine")
	}
}

// requiring makes a module that requires ptxrun, which lies at root, in the
// versions that ptxrun itself requires, so that nothing is downloaded.
func requiring(t *testing.T, root string) (dir string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	_, requirements, _ := strings.Cut(string(mod), "\n")
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module example\n%s\nrequire github.com/ptxrun/ptxrun v0.0.0\nreplace github.com/ptxrun/ptxrun => %q\n", requirements, root),
		"go.sum":  string(sum),
		"main.go": "package main\n\nimport \"github.com/ptxrun/ptxrun/driver/cuda\"\n\nfunc main() { print(cuda.Built) }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// here is the root of ptxrun.
func here(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return root
}

func TestEnv(t *testing.T) {
	needGo(t)
	noFlags(t)
	env, err := cuda.Env("")
	require.NoError(t, err)
	include, link := folders(t, env)

	env, err = cuda.Env(requiring(t, here(t)))
	require.NoError(t, err)
	i, l := folders(t, env)
	assert.Equal(t, []string{include, link}, []string{i, l})
}

// A folder with a space in its name survives the go command's splitting.
func TestEnvQuotes(t *testing.T) {
	needGo(t)
	noFlags(t)
	spaced := filepath.Join(t.TempDir(), "a folder")
	require.NoError(t, os.Symlink(here(t), spaced))
	env, err := cuda.Env(requiring(t, spaced))
	require.NoError(t, err)
	assert.Equal(t, "CGO_CFLAGS=-O2 -g '-I"+filepath.Join(spaced, "driver", "cuda", "include")+"'", env[1])
	assert.Equal(t, "CGO_LDFLAGS=-O2 -g '-L"+filepath.Join(spaced, "driver", "cuda", "link")+"'", env[2])
}

// Flags that are set already are kept, and one's own come once.
func TestEnvExtends(t *testing.T) {
	needGo(t)
	t.Setenv("CGO_CFLAGS", "-O3 -I/include")
	t.Setenv("CGO_LDFLAGS", "-L/lib")
	for range 2 {
		env, err := cuda.Env("")
		require.NoError(t, err)
		at := filepath.Join(here(t), "driver", "cuda")
		assert.Equal(t, []string{
			"CGO_ENABLED=1", "CGO_CFLAGS=-O3 -I/include -I" + filepath.Join(at, "include"), "CGO_LDFLAGS=-L/lib -L" + filepath.Join(at, "link"),
		}, env)
		for _, setting := range env {
			name, value, _ := strings.Cut(setting, "=")
			t.Setenv(name, value)
		}
	}
}

func TestEnvErrors(t *testing.T) {
	needGo(t)
	_, err := cuda.Env(t.TempDir())
	assert.ErrorIs(t, err, driver.ErrNotFound)
	assert.ErrorContains(t, err, "run this in the folder of a module that requires it")

	_, err = cuda.Env(filepath.Join(t.TempDir(), "missing"))
	assert.ErrorIs(t, err, driver.ErrNotFound)

	t.Setenv("PATH", "")
	_, err = exec.LookPath("go")
	require.Error(t, err)
	_, err = cuda.Env("")
	assert.ErrorIs(t, err, driver.ErrNotFound)
	assert.ErrorContains(t, err, "the go command is needed")
}
