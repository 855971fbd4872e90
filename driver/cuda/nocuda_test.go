//go:build !(cuda && cgo && linux && (amd64 || arm64))

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
)

func TestNotBuilt(t *testing.T) {
	assert.False(t, cuda.Built)
	d, err := cuda.Open(0)
	assert.Nil(t, d)
	assert.ErrorIs(t, err, driver.ErrNoDriver)
	assert.ErrorContains(t, err, "-tags cuda")
	_, err = cuda.Devices()
	assert.ErrorIs(t, err, driver.ErrNoDriver)
}
