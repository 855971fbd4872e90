package main

import (
	"fmt"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/bench/operator"
)

// Calls on small inputs are timed in batches.
const (
	smallLog   = 20
	smallBatch = 100
)

func scanFigures(b *bencher) {
	for log := 10; log <= 30; log += 2 {
		batch := 1
		if log <= smallLog {
			batch = smallBatch
		}
		sumFigure[uint32](b, fmt.Sprintf("scan/uint32/2^%d", log), log, batch, ptxrun.ScanSinglePass)
	}
	sumFigure[uint64](b, "scan/uint64/2^28", 28, 1, ptxrun.ScanSinglePass)
	sumFigure[float64](b, "scan/float64/2^28", 28, 1, ptxrun.ScanSinglePass)
	sumFigure[uint16](b, "scan/uint16/2^28", 28, 1, ptxrun.ScanSinglePass)
	sumFigure[uint8](b, "scan/uint8/2^28", 28, 1, ptxrun.ScanSinglePass)
	sumFigure[uint8](b, "scan/uint8/2^33", 33, 1, ptxrun.ScanSinglePass)
	sumFigure[uint32](b, "scan/recursive/uint32/2^28", 28, 1, ptxrun.ScanRecursive)
	scanFigure(b, scanCase[uint8, uint32]{
		id: "scan/uint8-uint32/2^28", log: 28, batch: 1,
		element: number[uint8],
		combine: func(a uint32, v uint8) uint32 { return a + uint32(v) },
		scan: func(dst *ptxrun.Buffer[uint32], src *ptxrun.Buffer[uint8], o ...ptxrun.ScanOption) error {
			return ptxrun.InclusiveSumBuffer(b.s, dst, src, o...)
		},
	})
	scanFigure(b, scanCase[uint32, uint32]{
		id: "scan/max-uint32/2^28", log: 28, batch: 1,
		element: rising,
		combine: func(a, v uint32) uint32 { return max(a, v) },
		scan: func(dst, src *ptxrun.Buffer[uint32], o ...ptxrun.ScanOption) error {
			return ptxrun.InclusiveScanBuffer(b.s, dst, src, ptxrun.Max, o...)
		},
	})
	operatorFigure(b)
}

// sumFigure is a sum of numbers in their own type.
func sumFigure[T ptxrun.Number](b *bencher, id string, log, batch int, strategy ptxrun.ScanStrategy) {
	scanFigure(b, scanCase[T, T]{
		id: id, log: log, batch: batch, strategy: strategy,
		element: number[T],
		combine: func(a, v T) T { return a + v },
		scan: func(dst, src *ptxrun.Buffer[T], o ...ptxrun.ScanOption) error {
			return ptxrun.InclusiveScanBuffer(b.s, dst, src, ptxrun.Sum, append(o, ptxrun.WithScanStrategy(strategy))...)
		},
	})
}

// operatorFigure is a scan with a user's operator, which does not commute.
func operatorFigure(b *bencher) {
	const id = "scan/user8/2^28"
	var op *ptxrun.Operator[operator.Affine]
	b.figure(id, func() (err error) {
		op, err = operator.New(b.rt)
		return err
	})
	if op == nil {
		return
	}
	scanFigure(b, scanCase[operator.Affine, operator.Affine]{
		id: id, log: 28, batch: 1,
		element: func(i uint64) operator.Affine { return operator.Affine{M: uint32(hash(i)>>32) | 1, C: uint32(hash(i))} },
		combine: operator.Compose,
		start:   operator.Identity,
		scan: func(dst, src *ptxrun.Buffer[operator.Affine], o ...ptxrun.ScanOption) error {
			return op.InclusiveScanBuffer(b.s, dst, src, o...)
		},
	})
	if err := op.Close(); err != nil {
		b.errs = append(b.errs, err)
	}
}

// scanCase is an inclusive scan of 2^log elements of In into Out.
type scanCase[In, Out comparable] struct {
	id         string
	log, batch int
	strategy   ptxrun.ScanStrategy
	element    func(i uint64) In
	combine    func(a Out, v In) Out
	start      Out // combine's identity
	// scan is given its workspace, unless it is small.
	scan func(dst *ptxrun.Buffer[Out], src *ptxrun.Buffer[In], o ...ptxrun.ScanOption) error
}

func scanFigure[In, Out comparable](b *bencher, c scanCase[In, Out]) {
	b.figure(c.id, func() error { return c.measure(b) })
}

func (c scanCase[In, Out]) measure(b *bencher) error {
	n, moved := b.size(c.log), sizeOf[In]()+sizeOf[Out]()
	slots := newCopies(n, moved, b.rt.Info().L2)
	input := elements(slots.total(), c.element)
	src, err := ptxrun.NewBufferFrom(b.s, input)
	if err != nil {
		return err
	}
	defer src.Free()
	dst, err := poisoned[Out](b, slots.total())
	if err != nil {
		return err
	}
	defer dst.Free()
	// A small scan's memory is the stream's own.
	var options []ptxrun.ScanOption
	if c.batch == 1 {
		plan, err := ptxrun.PlanScan(c.strategy, int64(n), sizeOf[Out]())
		if err != nil {
			return err
		}
		// A sum in a wider type has a single pass, and its state, for one tile as well.
		workspace, err := ptxrun.NewBuffer[byte](b.rt, int(max(plan.Bytes, 1<<10)))
		if err != nil {
			return err
		}
		defer workspace.Free()
		options = append(options, ptxrun.WithScanWorkspace(workspace))
	}
	from, err := views(slots, src)
	if err != nil {
		return err
	}
	to, err := views(slots, dst)
	if err != nil {
		return err
	}

	f := figure{id: c.id, n: int64(n), amount: float64(moved) * float64(n), unit: "GB/s", slots: slots.count, batch: c.batch,
		call: func(slot int) error { return c.scan(to[slot], from[slot], options...) }}
	ms, err := b.measure(f)
	if err != nil {
		return err
	}
	output := make([]Out, slots.total())
	if err := dst.CopyTo(b.s, output); err != nil {
		return err
	}
	if err := c.verify(slots, input, output); err != nil {
		return err
	}
	b.report(f, ms, digest(output[n-1]))
	return nil
}

// verify requires that every element of every slot is the one before it
// combined with its input, which makes it the scan.
func (c scanCase[In, Out]) verify(slots copies, input []In, output []Out) error {
	want := func(i int) Out {
		before := c.start
		if i%slots.stride > 0 {
			before = output[i-1]
		}
		return c.combine(before, input[i])
	}
	i := firstWrong(slots.total(), func(i int) bool { return i%slots.stride >= slots.n || output[i] == want(i) })
	if i < slots.total() {
		return fmt.Errorf("element %d of copy %d is %v, want %v", i%slots.stride, i/slots.stride, output[i], want(i))
	}
	return nil
}
