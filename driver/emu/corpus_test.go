package emu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

func TestLoadsCorpus(t *testing.T) {
	for _, pattern := range []string{"../../ptx/sm_*/*.ptx", "testdata/*.ptx"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		d, err := Open()
		require.NoError(t, err)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			m, err := d.Load(driver.Image{Name: f, PTX: src})
			require.NoError(t, err)
			require.NoError(t, m.Close())
		}
		require.NoError(t, d.Close())
	}
}
