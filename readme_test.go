package ptxrun

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's kernel, and its Go form, are those that ExampleRuntime_Aggregate runs.
func TestReadmeKernel(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	kernel, err := os.ReadFile("testdata/halve.cu")
	require.NoError(t, err)
	require.Contains(t, string(readme), string(kernel))
	example, err := os.ReadFile("aggregate_example_test.go")
	require.NoError(t, err)
	_, twin, found := strings.Cut(string(example), "\nfunc halveTwin(")
	require.True(t, found)
	twin, _, found = strings.Cut(twin, "\n}\n")
	require.True(t, found)
	require.Contains(t, string(readme), "\nfunc halveTwin("+twin+"\n}\n")
}
