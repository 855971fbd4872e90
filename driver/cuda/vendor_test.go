//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver/cuda"
)

// A module that vendors this one builds with CUDA from its vendor folder alone.
func TestVendored(t *testing.T) {
	needGo(t)
	noFlags(t)
	dir := requiring(t, here(t))
	run := func(env []string, name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
		return string(out)
	}
	run(nil, "go", "mod", "vendor")
	env, err := cuda.Env(dir)
	require.NoError(t, err)
	include, link := folders(t, env)
	vendored := filepath.Join(dir, "vendor", "github.com", "ptxrun", "ptxrun", "driver", "cuda")
	assert.Equal(t, []string{filepath.Join(vendored, "include"), filepath.Join(vendored, "link")}, []string{include, link})
	run(env, "go", "build", "-tags", "cuda", "-o", "example")
	assert.Equal(t, "true", run([]string{libEnv + "=/nonexistent"}, filepath.Join(dir, "example")))
}
