// Package aggregation shows launch aggregation on four irregular problems:
// breadth-first search, single-source shortest paths, the tessellation of Bezier
// curves and the building of a quadtree. Each has a parent kernel whose threads ask
// for children of a size that depends on the data, and three ways to run them.
//
// It needs PTX to be executed: a CUDA device or the emulator.
package aggregation

import (
	_ "embed"
	"errors"
	"math"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

//go:generate go run github.com/ptxrun/ptxrun/cmd/ptxrun ptx -o kernels.ptx kernels.cu

//go:embed kernels.ptx
var ptx []byte

// Mode is how children are run.
type Mode uint8

const (
	// Serial has each parent thread do its child's work itself.
	Serial Mode = iota
	// Separate launches each child by itself.
	Separate
	// Aggregated launches all children of a level at once, but for those of fewer
	// than threshold threads, which their parent runs.
	Aggregated
)

func (m Mode) String() string { return [...]string{"serial", "separate", "aggregated"}[m] }

// Modes are all of them.
var Modes = []Mode{Serial, Separate, Aggregated}

// threshold of an aggregated run: a child smaller than a warp costs more as one.
const threshold = 32

func (m Mode) threshold() uint32 {
	switch m {
	case Serial:
		return math.MaxUint32
	case Aggregated:
		return threshold
	}
	return 0
}

// Programs are the kernels on one device. Its methods are for one goroutine.
type Programs struct {
	rt     *ptxrun.Runtime
	s      *ptxrun.Stream
	m      *ptxrun.Module
	held   []func() error
	kernel map[string]*ptxrun.Kernel
	agg    map[string]*ptxrun.Aggregator
}

// Open loads the programs.
func Open(rt *ptxrun.Runtime) (p *Programs, err error) {
	p = &Programs{rt: rt, kernel: map[string]*ptxrun.Kernel{}, agg: map[string]*ptxrun.Aggregator{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.s, err = ptxrun.NewStream(rt); err != nil {
		return p, err
	}
	if p.m, err = rt.LoadModule(ptx, ptxrun.WithModuleName("kernels.ptx")); err != nil {
		return p, err
	}
	for _, name := range []string{"relax", "relax_frontier", "tessellate", "tessellate_curves", "split_node", "split_level"} {
		if p.kernel[name], err = p.m.Kernel(name); err != nil {
			return p, err
		}
	}
	for _, name := range []string{"relax", "tessellate", "split_node"} {
		if p.agg[name], err = rt.Aggregate(p.kernel[name]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Close unloads them.
func (p *Programs) Close() error {
	errs := []error{p.release()}
	for _, a := range p.agg {
		if a != nil {
			errs = append(errs, a.Close())
		}
	}
	if p.m != nil {
		errs = append(errs, p.m.Close())
	}
	if p.s != nil {
		errs = append(errs, p.s.Close())
	}
	return errors.Join(errs...)
}

// release frees what buffer and queue have made.
func (p *Programs) release() error {
	var errs []error
	for _, free := range p.held {
		errs = append(errs, free())
	}
	p.held = nil
	return errors.Join(errs...)
}

// buffer is device memory with a copy of data, until release.
func buffer[T any](p *Programs, data []T) (*ptxrun.Buffer[T], error) {
	b, err := ptxrun.NewBufferFrom(p.s, data)
	if err == nil {
		p.held = append(p.held, b.Free)
	}
	return b, err
}

// filled is device memory of n words of the given byte, until release.
func filled(p *Programs, n int, value byte) (*ptxrun.Buffer[uint32], error) {
	b, err := ptxrun.NewBuffer[uint32](p.rt, n)
	if err != nil {
		return nil, err
	}
	p.held = append(p.held, b.Free)
	return b, p.s.Driver().Fill(b.Ptr(), value, int64(4*n))
}

// queue is a queue for children of a kernel, until release.
func (p *Programs) queue(kernel string, capacity int) (*ptxrun.Queue, error) {
	q, err := p.agg[kernel].NewQueue(max(capacity, 1))
	if err == nil {
		p.held = append(p.held, q.Close)
	}
	return q, err
}

// launchChildren launches what a parent has recorded.
func (p *Programs) launchChildren(q *ptxrun.Queue, mode Mode) (int64, error) {
	switch mode {
	case Serial: // the parent has done it
		return 0, nil
	case Separate:
		return q.LaunchEach(p.s)
	}
	return q.Launch(p.s)
}

// covering is a launch of n threads in blocks of 256.
func covering(n int) driver.Config {
	return driver.Config{Grid: driver.D1(uint32((n + 255) / 256)), Block: driver.D1(256), N: int64(n)}
}
