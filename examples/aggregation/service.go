package aggregation

import (
	"context"
	"errors"
	"unsafe"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// Service tessellates one curve a request. Requests that come at about the same
// time become one launch. Curves and vertices are in page-locked memory, which the
// kernel uses in place.
type Service struct {
	*Programs
	agg   *ptxrun.Aggregator
	host  driver.HostMemory
	slots chan slot
}

// slot is the memory of one request: three control points, then vertices.
type slot struct {
	points []Point
	at     driver.Ptr
}

const slotPoints = 3 + MostVertices

// NewService makes a service for so many requests at a time; more wait. Close it
// when none is running.
func (p *Programs) NewService(requests int, opts ...ptxrun.AggregateOption) (*Service, error) {
	const size = int64(unsafe.Sizeof(Point{}))
	host, err := p.rt.Device().AllocHost(int64(requests) * slotPoints * size)
	if err != nil {
		return nil, err
	}
	s := &Service{Programs: p, host: host, slots: make(chan slot, requests)}
	if s.agg, err = p.rt.Aggregate(p.kernel["tessellate"], opts...); err != nil {
		return nil, errors.Join(err, p.rt.Device().FreeHost(host))
	}
	all := unsafe.Slice((*Point)(unsafe.Pointer(unsafe.SliceData(host.Bytes))), requests*slotPoints)
	for i := range requests {
		s.slots <- slot{all[i*slotPoints:][:slotPoints], host.Ptr + driver.Ptr(int64(i)*slotPoints*size)}
	}
	return s, nil
}

// Tessellate returns n vertices of a curve, 2 to MostVertices. It may be called by
// any number of goroutines.
func (s *Service) Tessellate(ctx context.Context, c Curve, n int) ([]Point, error) {
	if n < 2 || n > MostVertices {
		return nil, driver.Errorf("Service.Tessellate", driver.ErrInvalidValue, "%d vertices", n)
	}
	var mine slot
	select {
	case mine = <-s.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	copy(mine.points, c[:])
	const block = 128
	grid := driver.D1(uint32((n + block - 1) / block))
	pending, err := s.agg.Launch(driver.Config{Grid: grid, Block: driver.D1(block)}, mine.at, mine.at+driver.Ptr(3*unsafe.Sizeof(Point{})), uint32(n))
	if err != nil {
		s.slots <- mine
		return nil, err
	}
	if err = pending.Wait(ctx); err != nil {
		go func() { // the kernel may still use the slot
			<-pending.Done()
			s.slots <- mine
		}()
		return nil, err
	}
	out := append([]Point(nil), mine.points[3:3+n]...)
	s.slots <- mine
	return out, nil
}

// Close waits for what is launched and frees the memory.
func (s *Service) Close() error {
	return errors.Join(s.agg.Close(), s.rt.Device().FreeHost(s.host))
}
