//go:build !(cuda && cgo && linux && (amd64 || arm64))

package cuda

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ptxrun/ptxrun/driver"
)

func TestNotBuilt(t *testing.T) {
	assert.False(t, Built)
	d, err := Open(0)
	assert.Nil(t, d)
	assert.ErrorIs(t, err, driver.ErrNoDriver)
	_, err = Devices()
	assert.ErrorIs(t, err, driver.ErrNoDriver)
	assert.ErrorContains(t, err, "CUDA")
}

func TestWhyNot(t *testing.T) {
	assert.Contains(t, whyNot("linux", "amd64", false), "without -tags cuda")
	assert.Contains(t, whyNot("linux", "arm64", true), "without cgo")
	assert.Contains(t, whyNot("darwin", "arm64", true), "this build is for darwin/arm64")
	assert.Contains(t, whyNot("linux", "riscv64", false), "this build is for linux/riscv64")
}
