package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEmuProfile(t *testing.T) {
	dir := t.TempDir()
	sums := filepath.Join(dir, "sums")
	r := invoke(nil, "emu-profile", "scan", "--type", "u8", bitmap, "-o", sums)
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `scan_bulk_sum_u8: \d+ launches, \d+ blocks, \d+ warp instructions`, r.stderr)
	require.Regexp(t, `global stores +\d+ requests +\d+ bytes, 1[56]\.\d sectors a request, (9\d|100)% of them used`, r.stderr, "stores are coalesced")
	plain := filepath.Join(dir, "plain")
	requireDone(t, invoke(nil, "scan", "--type", "u8", bitmap, "-o", plain))
	require.Equal(t, read(t, plain), read(t, sums))

	r = invoke(nil, "emu-profile", "--capability", "70", "--lines", "lcs", textFirst, textFinal)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "length 1215")
	require.Regexp(t, `(?m)^lcs_\w+: 1 launches`, r.stderr)
	require.Regexp(t, `line \d+ +ld\.global`, r.stderr)
	r = invoke(nil, "emu-profile", "diff", textFirst, textFinal)
	require.Equal(t, exitDifferent, r.code, "the result of the command is the result of both")
	require.Regexp(t, `^lcs_\w+: 1 launches`, r.stderr)

	requireFailed(t, invoke(nil, "emu-profile", "version"), exitUsage, "version launches no kernel")
	requireFailed(t, invoke(nil, "emu-profile"), exitUsage, "<command>")
	requireFailed(t, invoke(nil, "emu-profile", "--capability", "11", "lcs", textFirst, textFinal), exitUsage, "must be one of")
	requireFailed(t, invoke(nil, "emu-profile", "lcs", textFirst, "nowhere"), exitFailed, "nowhere")
}
