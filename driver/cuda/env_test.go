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

// folders checks the two settings and returns the folders that they point to.
func folders(t *testing.T, env []string) (include, link string) {
	t.Helper()
	require.Len(t, env, 2)
	include, ok := strings.CutPrefix(env[0], "CGO_CFLAGS=-I")
	require.True(t, ok, env[0])
	link, ok = strings.CutPrefix(env[1], "CGO_LDFLAGS=-L")
	require.True(t, ok, env[1])
	assert.FileExists(t, filepath.Join(include, "cuda.h"))
	assert.FileExists(t, filepath.Join(link, "libcuda.so"))
	return include, link
}

// needGo skips on machines that only run test binaries; wherever the suite is
// built there is Go.
func needGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("Env asks the go command, which is not on this machine")
	}
}

func TestEnv(t *testing.T) {
	needGo(t)
	env, err := cuda.Env("")
	require.NoError(t, err)
	include, link := folders(t, env)

	// From a module that requires ptxrun.
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	mod := fmt.Sprintf("module example\n\ngo 1.26\n\nrequire github.com/ptxrun/ptxrun v0.0.0\n\nreplace github.com/ptxrun/ptxrun => %s\n", filepath.Join(here, "..", ".."))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644))
	env, err = cuda.Env(dir)
	require.NoError(t, err)
	i, l := folders(t, env)
	assert.Equal(t, []string{include, link}, []string{i, l})
}

// A folder with a space in its name survives the go command's splitting.
func TestEnvQuotes(t *testing.T) {
	needGo(t)
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	spaced := filepath.Join(dir, "a folder")
	require.NoError(t, os.Symlink(filepath.Join(here, "..", ".."), spaced))
	mod := fmt.Sprintf("module example\n\ngo 1.26\n\nrequire github.com/ptxrun/ptxrun v0.0.0\n\nreplace github.com/ptxrun/ptxrun => %q\n", spaced)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644))
	env, err := cuda.Env(dir)
	require.NoError(t, err)
	assert.Equal(t, "CGO_CFLAGS='-I"+filepath.Join(spaced, "driver", "cuda", "include")+"'", env[0])
	assert.Equal(t, "CGO_LDFLAGS='-L"+filepath.Join(spaced, "driver", "cuda", "link")+"'", env[1])
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
