//go:build !(cuda && cgo && linux && (amd64 || arm64))

package cuda

import (
	"runtime"

	"github.com/ptxrun/ptxrun/driver"
)

// Built reports whether this build has CUDA support.
const Built = false

// Open returns an error with the code driver.ErrNoDriver.
func Open(ordinal int) (driver.Device, error) { return nil, notBuilt("Open") }

// Devices returns an error with the code driver.ErrNoDriver.
func Devices() ([]driver.Info, error) { return nil, notBuilt("Devices") }

func notBuilt(op string) error {
	return driver.Errorf(op, driver.ErrNoDriver, "%s", whyNot(runtime.GOOS, runtime.GOARCH, tagged))
}

// whyNot says what a build for a system lacks.
func whyNot(goos, goarch string, tagged bool) string {
	switch {
	case goos != "linux" || goarch != "amd64" && goarch != "arm64":
		return "CUDA is supported on linux/amd64 and linux/arm64, this build is for " + goos + "/" + goarch
	case !tagged:
		return "this build has no CUDA: it was made without -tags cuda (README, With a GPU)"
	default:
		return "this build has no CUDA: it was made with -tags cuda but without cgo, which takes CGO_ENABLED=1 and a C compiler"
	}
}
