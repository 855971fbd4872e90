package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTour(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, tour(context.Background(), &out, "../../testdata"))
	for _, want := range []string{"device: ", "66009 runs", "894986 bytes, the same", "running sums to", "1215 in common, 87.7% alike"} {
		assert.Contains(t, out.String(), want)
	}
	require.ErrorContains(t, tour(context.Background(), &out, t.TempDir()), "declaration.bmp")
}
