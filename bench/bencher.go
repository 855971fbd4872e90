package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
	"unsafe"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
)

// bencher runs figures on one stream.
type bencher struct {
	rt    *ptxrun.Runtime
	match *regexp.Regexp
	scale int
	log   io.Writer

	s           *ptxrun.Stream
	start, stop driver.Event
	module      driver.Module
	hold, empty driver.Kernel
	holdTime    time.Duration

	rows []Row
	errs []error
}

// figure is work to be timed.
type figure struct {
	id     string
	n      int64
	amount float64 // bytes or cells of a call
	unit   string
	slots  int  // copies of the data, over which calls rotate
	batch  int  // calls between two events
	waits  bool // the host waits for the device within a call
	call   func(slot int) error
	end    func() error // after each batch, once its work is complete and timed; or nil
}

// all runs every group of figures and returns what could be measured.
func (b *bencher) all() (Results, error) {
	if err := b.open(); err != nil {
		return Results{Machine: machine(b.rt.Info())}, errors.Join(err, b.close())
	}
	for _, group := range []func(*bencher){ceilingFigures, scanFigures, orderFigures, selectFigures, callFigures, rleFigures, rleFileFigures, lcsFigures, aggFigures} {
		group(b)
	}
	// Clocks fall when nothing runs.
	b.errs = append(b.errs, b.holdFor(time.Second))
	results := Results{Machine: machine(b.rt.Info()), Rows: b.rows}
	return results, errors.Join(append(b.errs, b.close())...)
}

//go:embed hold.ptx
var holdPTX []byte

func (b *bencher) open() (err error) {
	b.holdTime = firstHold
	if b.s, err = ptxrun.NewStream(b.rt); err != nil {
		return err
	}
	for _, e := range []*driver.Event{&b.start, &b.stop} {
		if *e, err = b.rt.Device().NewEvent(true); err != nil {
			return err
		}
	}
	b.module, err = b.rt.Device().Load(driver.Image{Name: "hold", PTX: holdPTX, Twins: map[string]driver.Twin{
		"hold": func(l *driver.TwinLaunch) error {
			time.Sleep(time.Duration(l.Args.Uint64()))
			return nil
		},
		"empty": func(*driver.TwinLaunch) error { return nil },
	}})
	if err != nil {
		return err
	}
	if b.hold, err = b.module.Kernel("hold"); err != nil {
		return err
	}
	b.empty, err = b.module.Kernel("empty")
	return err
}

func (b *bencher) close() (err error) {
	if b.module != nil {
		err = b.module.Close()
	}
	for _, e := range []driver.Event{b.start, b.stop} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	if b.s != nil {
		err = errors.Join(err, b.s.Close())
	}
	return err
}

// figure runs measure if the figure is wanted. An error is kept, and the other
// figures go on.
func (b *bencher) figure(id string, measure func() error) {
	if !b.wanted(id) {
		return
	}
	if err := measure(); err != nil {
		b.errs = append(b.errs, fmt.Errorf("%s: %w", id, err))
	}
}

func (b *bencher) wanted(id string) bool { return b.match.MatchString(id) }

// size is 2^log, scaled.
func (b *bencher) size(log int) int { return 1 << max(log-b.scale, 0) }

// Limits of one figure's repetitions.
const (
	minRepetitions = 5
	maxRepetitions = 101
	figureTime     = 2 * time.Second
)

// The host must have given the device a repetition's work while the device is
// held. Where it has not, the next hold is twice as long, up to a limit.
const (
	firstHold = 250 * time.Microsecond
	maxHold   = time.Second
)

// measure returns the median milliseconds of a call after a warm-up, in which
// every slot is worked on once.
func (b *bencher) measure(f figure) (float64, error) {
	for slot := range f.slots {
		if err := f.call(slot); err != nil {
			return 0, err
		}
		if err := f.ended(); err != nil {
			return 0, err
		}
	}
	if err := b.s.Synchronize(); err != nil {
		return 0, err
	}
	var times []float64
	slot := 0
	for begin := time.Now(); len(times) < minRepetitions || len(times) < maxRepetitions && time.Since(begin) < figureTime; {
		ms, late, err := b.once(f, &slot)
		if err != nil {
			return 0, err
		}
		if late {
			if b.holdTime *= 2; b.holdTime > maxHold {
				return 0, errors.New("the host cannot queue the calls while the device is held")
			}
			continue
		}
		times = append(times, ms)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// once times one batch of calls. late is whether the device ran ahead of the
// host: then the time holds some of the host's.
func (b *bencher) once(f figure, slot *int) (ms float64, late bool, err error) {
	s := b.s.Driver()
	if !f.waits {
		if err := b.holdFor(b.holdTime); err != nil {
			return 0, false, err
		}
	}
	if err := s.Record(b.start); err != nil {
		return 0, false, err
	}
	for range f.batch {
		if err := f.call(*slot); err != nil {
			return 0, false, err
		}
		*slot = (*slot + 1) % f.slots
	}
	if err := s.Record(b.stop); err != nil {
		return 0, false, err
	}
	if !f.waits {
		if late, err = b.start.Query(); err != nil {
			return 0, false, err
		}
	}
	if err := b.stop.Synchronize(); err != nil {
		return 0, false, err
	}
	if err := f.ended(); err != nil {
		return 0, false, err
	}
	ms, err = b.stop.Since(b.start)
	return ms / float64(f.batch), late, err
}

func (f *figure) ended() error {
	if f.end == nil {
		return nil
	}
	return f.end()
}

// holdFor keeps the stream busy for a while.
func (b *bencher) holdFor(d time.Duration) error {
	a := driver.NewArgs().Uint64(uint64(d.Nanoseconds()))
	defer a.Release()
	return b.s.Driver().Launch(b.hold, driver.Config{Grid: driver.D1(1), Block: driver.D1(1)}, a)
}

// report keeps a measured and verified figure. check is a number of the result
// that a peer's must equal.
func (b *bencher) report(f figure, ms float64, check uint64) *Row {
	b.rows = append(b.rows, Row{ID: f.id, N: f.n, OursMS: rounded(ms), Rate: rounded(f.amount / ms / 1e6), Unit: f.unit, check: check})
	row := &b.rows[len(b.rows)-1]
	fmt.Fprintf(b.log, "%s: %g ms, %g %s\n", row.ID, row.OursMS, row.Rate, row.Unit)
	return row
}

// poison is what outputs hold before they are written.
const poison = 0xab

// poisoned returns a buffer full of poison.
func poisoned[T any](b *bencher, n int) (*ptxrun.Buffer[T], error) {
	buf, err := ptxrun.NewBuffer[T](b.rt, n)
	if err != nil {
		return nil, err
	}
	if err := repoison(b, buf); err != nil {
		return nil, errors.Join(err, buf.Free())
	}
	return buf, nil
}

func repoison[T any](b *bencher, buf *ptxrun.Buffer[T]) error {
	return b.s.Driver().Fill(buf.Ptr(), poison, int64(buf.Len())*sizeOf[T]())
}

func sizeOf[T any]() int64 {
	var zero T
	return int64(unsafe.Sizeof(zero))
}
