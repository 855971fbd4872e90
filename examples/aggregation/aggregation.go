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

// Programs are the kernels on one device. They and the problems made of them are
// for one goroutine.
type Programs struct {
	rt     *ptxrun.Runtime
	s      *ptxrun.Stream
	m      *ptxrun.Module
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
	var errs []error
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

// memory is what a problem holds on the device.
type memory struct {
	*Programs
	held []func() error
}

// Close frees it. The programs stay open.
func (m *memory) Close() error {
	var errs []error
	for _, free := range m.held {
		errs = append(errs, free())
	}
	m.held = nil
	return errors.Join(errs...)
}

// buffer is device memory for n elements.
func buffer[T any](m *memory, n int) (*ptxrun.Buffer[T], error) {
	b, err := ptxrun.NewBuffer[T](m.rt, n)
	if err == nil {
		m.held = append(m.held, b.Free)
	}
	return b, err
}

// upload is device memory with a copy of data.
func upload[T any](m *memory, data []T) (*ptxrun.Buffer[T], error) {
	b, err := buffer[T](m, len(data))
	if err == nil {
		err = b.CopyFrom(m.s, data)
	}
	return b, err
}

// fill sets all bytes of a buffer.
func fill[T any](m *memory, b *ptxrun.Buffer[T], value byte, size int) error {
	return m.s.Driver().Fill(b.Ptr(), value, int64(b.Len()*size))
}

// queue is a queue for children of a kernel.
func (m *memory) queue(kernel string, capacity int) (*ptxrun.Queue, error) {
	q, err := m.agg[kernel].NewQueue(max(capacity, 1))
	if err == nil {
		m.held = append(m.held, q.Close)
	}
	return q, err
}

// launchChildren launches what a parent has recorded.
func (m *memory) launchChildren(q *ptxrun.Queue, mode Mode) (int64, error) {
	switch mode {
	case Serial: // the parent has done it
		return 0, nil
	case Separate:
		return q.LaunchEach(m.s)
	}
	return q.Launch(m.s)
}

// covering is a launch of n threads in blocks of 256.
func covering(n int) driver.Config {
	return driver.Config{Grid: driver.D1(uint32((n + 255) / 256)), Block: driver.D1(256), N: int64(n)}
}
