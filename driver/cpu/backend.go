package cpu

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

func fallbackName() string { return fmt.Sprintf("%s, %d cores", runtime.GOARCH, runtime.NumCPU()) }

// backend runs twins.
type backend struct{}

func (backend) Load(img driver.Image, space *hostdev.Space) (hostdev.Module, error) {
	if len(img.Twins) == 0 {
		return nil, driver.Errorf("Load", driver.ErrInvalidImage, "%s has no Go twins, which is what the cpu device runs: give them by ptxrun.WithTwin, or open \"emu\", which runs PTX", img.Name)
	}
	m := make(module, len(img.Twins))
	for name, twin := range img.Twins {
		if twin == nil {
			return nil, driver.Errorf("Load", driver.ErrNil, "the twin of kernel %s in %s", name, img.Name)
		}
		m[name] = &kernel{twin, space}
	}
	return m, nil
}

type module map[string]*kernel

func (m module) Kernel(name string) hostdev.Kernel {
	if k := m[name]; k != nil {
		return k
	}
	return nil
}

func (m module) Close() error { return nil }

type kernel struct {
	twin  driver.Twin
	space *hostdev.Space
}

func (k *kernel) Attributes() driver.KernelAttributes {
	return driver.KernelAttributes{MaxThreads: 1024}
}

// Params is unknown: a twin finds out when it reads them.
func (k *kernel) Params() []driver.Param { return nil }

// Occupancy is 1: a core runs one block at a time.
func (k *kernel) Occupancy(int, int64) int { return 1 }

var launches = sync.Pool{New: func() any { return new(driver.TwinLaunch) }}

func (k *kernel) Run(c driver.Config, a *driver.Args) error {
	l := launches.Get().(*driver.TwinLaunch)
	*l = driver.TwinLaunch{Config: c, Args: a.Reader(), Mem: k.space, Parallel: parallel}
	err := k.twin(l)
	*l = driver.TwinLaunch{}
	launches.Put(l)
	return err
}
