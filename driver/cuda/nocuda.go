//go:build !(cuda && cgo && linux && (amd64 || arm64))

package cuda

import "github.com/ptxrun/ptxrun/driver"

// Built reports whether this build has CUDA support.
const Built = false

// Open returns an error with the code driver.ErrNoDriver.
func Open(ordinal int) (driver.Device, error) { return nil, notBuilt("Open") }

// Devices returns an error with the code driver.ErrNoDriver.
func Devices() ([]driver.Info, error) { return nil, notBuilt("Devices") }

func notBuilt(op string) error {
	return driver.Errorf(op, driver.ErrNoDriver,
		"this build has no CUDA support: build on linux/amd64 or linux/arm64 with -tags cuda, CGO_ENABLED=1, and the variables that ptxrun cgoenv prints")
}
