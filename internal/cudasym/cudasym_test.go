package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pkg = "../../driver/cuda"

// The committed list is what the binding and driver/cuda refer to today.
func TestListIsCurrent(t *testing.T) {
	want, err := symbolList(pkg)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(pkg, "symbols.inc"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run go generate ./driver/cuda")
}

// A parser that sees too little would make every other test pass.
func TestEveryBindingCallIsFound(t *testing.T) {
	dir, err := moduleDir(binding)
	require.NoError(t, err)
	refs, err := references(dir)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, r := range refs {
		found[r.name] = true
	}
	for _, name := range []string{
		"cuInit", "cuLaunchKernel", "cuMemAllocManaged", // Go, C
		"cuGraphAddKernelNode", "cuTexRefSetAddress2D", "cuCtxResetPersistingL2Cache",
	} {
		assert.True(t, found[name], name)
	}
	for _, name := range []string{"cuAllocAndCopy", "cuLaunchAndSync", "cuDeviceGetAttributes", "cuDeviceComputeCapability"} {
		assert.False(t, found[name], "%s is the binding's own, or only in a comment", name)
	}
}

func TestMissingDeclarationIsAnError(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(pkg, "include", "cuda.h"))
	require.NoError(t, err)
	bindingDir, err := moduleDir(binding)
	require.NoError(t, err)
	refs, err := references(bindingDir)
	require.NoError(t, err)
	ours, err := references(pkg)
	require.NoError(t, err)
	refs = append(refs, ours...)

	for _, symbol := range []string{"cuMemAlloc_v2", "cuLaunchKernel", "cuMemAllocAsync"} {
		line := regexp.MustCompile(`(?m)^CUresult ` + symbol + `\(.*\n`)
		require.True(t, line.Match(text))
		_, err := parseHeader(string(line.ReplaceAll(text, nil))).list(refs)
		assert.ErrorContains(t, err, "does not declare "+symbol+",")
	}
	_, err = parseHeader(string(text) + "\nCUresult cuNobody(void);\n").list(refs)
	assert.ErrorContains(t, err, "cuNobody, to which nothing refers")
}

func TestCompareHeaders(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc on the PATH")
	}
	ours := filepath.Join(pkg, "include")
	report, err := compareHeaders(ours, ours)
	require.NoError(t, err)
	h, err := readHeader(filepath.Join(ours, "cuda.h"))
	require.NoError(t, err)
	assert.Greater(t, len(h.constants), 290)
	assert.Len(t, h.structs, 9)
	assert.Contains(t, report, " 0 differ, 0 not in that toolkit")

	text, err := os.ReadFile(filepath.Join(ours, "cuda.h"))
	require.NoError(t, err)
	theirs := t.TempDir()
	changed := strings.NewReplacer(
		"CUDA_ERROR_NOT_READY = 600", "CUDA_ERROR_NOT_READY = 601",
		"size_t Width, Height;", "size_t Height, Width;",
		"CU_AD_FORMAT_HALF = 16,", "",
	).Replace(string(text))
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "cuda.h"), []byte(changed), 0o644))
	report, err = compareHeaders(ours, theirs)
	assert.ErrorContains(t, err, "CUDA_ERROR_NOT_READY is 600, should be 601")
	assert.ErrorContains(t, err, "offsetof(CUDA_ARRAY_DESCRIPTOR_v2, Width) is 0, should be 8")
	assert.Contains(t, report, " 3 differ, 1 not in that toolkit: CU_AD_FORMAT_HALF")
}
