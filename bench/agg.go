package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

//go:generate go -C .. run ./cmd/ptxrun ptx --compiler clang-19 -o bench/children/children.ptx bench/children/children.cu

//go:embed children/children.ptx
var childrenPTX []byte

// Shapes of children.cu.
const (
	childRoom  = 1024 // elements that a child may write
	childBlock = 128
	addBlock   = 256
)

// childSize is the threads of child i.
func childSize(i uint64) uint32 { return 1 + uint32(hash(i)%1023) }

// twinParent is the kernel parent_grid, and those of the other granularities.
func twinParent(l *driver.TwinLaunch) error {
	q, out, n := l.Args.Ptr(), l.Args.Ptr(), l.Args.Uint32()
	for i := range n {
		size := childSize(uint64(i))
		a := driver.NewArgs().Ptr(out + driver.Ptr(4*childRoom*uint64(i))).Uint32(i).Uint32(size)
		err := ptxrun.RecordChild(l, q, driver.Config{Grid: driver.D1((size + childBlock - 1) / childBlock), Block: driver.D1(childBlock)}, a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// childrenTwins are the kernels of children.cu in Go.
var childrenTwins = map[string]driver.Twin{
	"child": func(l *driver.TwinLaunch) error {
		p, i, n := l.Args.Ptr(), l.Args.Uint32(), l.Args.Uint32()
		out, err := driver.Slice[uint32](l.Mem, p, int64(n))
		for t := range out {
			out[t] = i + uint32(t)
		}
		return err
	},
	"parent_grid": twinParent, "parent_block": twinParent, "parent_warp": twinParent,
	"hand_parent": func(l *driver.TwinLaunch) error {
		n := int64(l.Args.Uint32())
		sizes, err1 := driver.Slice[uint32](l.Mem, l.Args.Ptr(), n)
		l.Args.Ptr()
		l.Args.Ptr()
		total, err2 := driver.Slice[uint32](l.Mem, l.Args.Ptr(), 1)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for i := range n {
			sizes[i] = childSize(uint64(i))
			total[0] += (sizes[i] + childBlock - 1) / childBlock
		}
		return nil
	},
	"hand_children": func(l *driver.TwinLaunch) error {
		out, sizesAt := l.Args.Ptr(), l.Args.Ptr()
		sizes, err := driver.Slice[uint32](l.Mem, sizesAt, l.N)
		if err != nil {
			return err
		}
		for i, size := range sizes {
			o, err := driver.Slice[uint32](l.Mem, out+driver.Ptr(4*childRoom*i), int64(size))
			if err != nil {
				return err
			}
			for t := range o {
				o[t] = uint32(i + t)
			}
		}
		return nil
	},
	"add_one": func(l *driver.TwinLaunch) error {
		from, to, n := l.Args.Ptr(), l.Args.Ptr(), 4*int64(l.Args.Uint64())
		in, err1 := driver.Slice[uint32](l.Mem, from, n)
		out, err2 := driver.Slice[uint32](l.Mem, to, n)
		for i := range out {
			out[i] = in[i] + 1
		}
		return errors.Join(err1, err2)
	},
}

// aggFigures are of launch aggregation. Those with a peer in this program are
// measured in turn with it.
func aggFigures(b *bencher) {
	b.figure("agg/rewrite", b.aggRewrite)
	b.figure("agg/small1000", b.aggSmall)
	for _, n := range []int{1024, 16384, 131072} {
		id := fmt.Sprintf("agg/cdp/%d", n)
		b.figure(id, func() error { return b.aggIrregular(id, "parent_grid", n, n <= mostHeld, false) })
	}
	b.figure("agg/call/1024", func() error { return b.aggIrregular("agg/call/1024", "parent_grid", 1024, false, false) })
	for _, granularity := range []string{"block", "warp"} {
		id := "agg/" + granularity + "/16384"
		b.figure(id, func() error { return b.aggIrregular(id, "parent_"+granularity, 16384, false, false) })
	}
	b.figure("agg/hand/131072", func() error { return b.aggIrregular("agg/hand/131072", "parent_grid", 131072, false, true) })
	if b.rt.Info().Kind == driver.KindCPU {
		fmt.Fprintln(b.log, "agg/prologue, agg/examples and agg/plain: not on the cpu device, which executes no PTX")
		return
	}
	b.figure("agg/prologue", b.aggPrologue)
	b.exampleFigures()
}

// children are the kernels of children.cu.
type children struct {
	*bencher
	m    *ptxrun.Module
	free []func() error
}

func (b *bencher) openChildren() (*children, error) {
	var opts []ptxrun.ModuleOption
	for name, t := range childrenTwins {
		opts = append(opts, ptxrun.WithTwin(name, t))
	}
	m, err := b.rt.LoadModule(childrenPTX, append(opts, ptxrun.WithModuleName("children.ptx"))...)
	if err != nil {
		return nil, err
	}
	return &children{b, m, []func() error{m.Close}}, nil
}

// close frees what was made, the last first.
func (c *children) close(err error) error {
	for _, f := range slices.Backward(c.free) {
		err = errors.Join(err, f())
	}
	return err
}

func (c *children) aggregator(kernel string, opts ...ptxrun.AggregateOption) (*ptxrun.Kernel, *ptxrun.Aggregator, error) {
	k, err := c.m.Kernel(kernel)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.rt.Aggregate(k, append(opts, ptxrun.WithFlushAfter(0))...)
	if err == nil {
		c.free = append(c.free, a.Close)
	}
	return k, a, err
}

// childBuffer is poisoned memory until close.
func childBuffer[T any](c *children, n int) (*ptxrun.Buffer[T], error) {
	buf, err := poisoned[T](c.bencher, n)
	if err == nil {
		c.free = append(c.free, buf.Free)
	}
	return buf, err
}

// inTurn returns the median milliseconds of each call on the host's clock.
func (b *bencher) inTurn(calls ...func() error) ([]float64, error) {
	times := make([][]float64, len(calls))
	for begin := time.Now(); len(times[0]) < minRepetitions || len(times[0]) < maxCalls && time.Since(begin) < figureTime; {
		for i, call := range calls {
			start := time.Now()
			if err := call(); err != nil {
				return nil, err
			}
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/1e6)
		}
	}
	medians := make([]float64, len(calls))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians, nil
}

// against sets another way, measured here, beside a row.
func (r *Row) against(name string, ms float64) {
	r.Peer, r.PeerMS, r.Ratio = name, rounded(ms), rounded(ms/r.OursMS)
}

// aggRewrite is the time from a kernel's text to its aggregated form, uncached.
func (b *bencher) aggRewrite() error {
	text, _, err := ptx.Source("scan_pass_sum_u32", 70)
	if err != nil {
		return err
	}
	ms, err := b.inTurn(func() error {
		f, err := ast.Parse("scan", text)
		if err != nil {
			return err
		}
		f, _, err = aggregate.Rewrite(f, aggregate.Options{}, "scan_pass_sum_u32")
		if err == nil && len(f.String()) == 0 {
			err = errors.New("nothing was written")
		}
		return err
	})
	if err != nil {
		return err
	}
	b.report(figure{id: "agg/rewrite", n: int64(len(text)), amount: 1e9, unit: "calls/s"}, ms[0], 0)
	return nil
}

// aggSmall launches 1000 small kernels from Go, aggregated and one by one, to
// the end of their work.
func (b *bencher) aggSmall() (err error) {
	const id, launches, threads = "agg/small1000", 1000, 64
	c, err := b.openChildren()
	if err != nil {
		return err
	}
	defer func() { err = c.close(err) }()
	k, a, err := c.aggregator("child")
	if err != nil {
		return err
	}
	out, err := childBuffer[uint32](c, launches*threads)
	if err != nil {
		return err
	}
	one := driver.Config{Grid: driver.D1(1), Block: driver.D1(threads)}
	at := func(i uint32) driver.Ptr { return out.Ptr() + driver.Ptr(4*threads*i) }
	together := func() error {
		for i := range uint32(launches) {
			if _, err := a.Launch(one, at(i), i, uint32(threads)); err != nil {
				return err
			}
		}
		return a.Flush(context.Background())
	}
	separate := func() error {
		for i := range uint32(launches) {
			if err := b.s.Launch(k, one, at(i), i, uint32(threads)); err != nil {
				return err
			}
		}
		return b.s.Synchronize()
	}
	got := make([]uint32, launches*threads)
	for _, call := range []func() error{together, separate} {
		// The aggregator launches on streams of its own.
		if err := errors.Join(repoison(b, out), b.s.Synchronize(), call(), out.CopyTo(b.s, got)); err != nil {
			return err
		}
		if i := firstWrong(len(got), func(i int) bool { return got[i] == uint32(i/threads+i%threads) }); i < len(got) {
			return fmt.Errorf("element %d is %d", i, got[i])
		}
	}
	ms, err := b.inTurn(together, separate)
	if err != nil {
		return err
	}
	b.report(figure{id: id, n: launches, amount: launches * 1e9, unit: "calls/s"}, ms[0], 0).against("separate launches", ms[1])
	return nil
}

// aggPrologue is a kernel that saturates memory, as the only child of an
// aggregated launch and as it is. The aggregated kernel is launched without an
// aggregator, so that the host's part is not measured.
func (b *bencher) aggPrologue() (err error) {
	const id = "agg/prologue"
	c, err := b.openChildren()
	if err != nil {
		return err
	}
	defer func() { err = c.close(err) }()
	k, err := c.m.Kernel("add_one")
	if err != nil {
		return err
	}
	tree, err := ast.Parse("children.ptx", childrenPTX)
	if err != nil {
		return err
	}
	tree, entries, err := aggregate.Rewrite(tree, aggregate.Options{}, "add_one")
	if err != nil {
		return err
	}
	m, err := b.rt.LoadModule([]byte(tree.String()))
	if err != nil {
		return err
	}
	c.free = append(c.free, m.Close)
	aggregated, err := m.Kernel(entries[0].Name)
	if err != nil {
		return err
	}
	n := max(b.size(28), 4)
	input := elements(n, number[uint32])
	in, err := childBuffer[uint32](c, n)
	if err != nil {
		return err
	}
	if err := in.CopyFrom(b.s, input); err != nil {
		return err
	}
	out, err := childBuffer[uint32](c, n)
	if err != nil {
		return err
	}
	plain := driver.Config{Grid: driver.D1(uint32((n/4 + addBlock - 1) / addBlock)), Block: driver.D1(addBlock)}
	packed := make([]byte, aggregate.ConfigBytes)
	aggregate.PutConfig(packed, plain)
	config, err := childBuffer[byte](c, len(packed))
	if err != nil {
		return err
	}
	args, err := childBuffer[uint64](c, 3)
	if err != nil {
		return err
	}
	if err := errors.Join(config.CopyFrom(b.s, packed), args.CopyFrom(b.s, []uint64{uint64(in.Ptr()), uint64(out.Ptr()), uint64(n / 4)})); err != nil {
		return err
	}
	l := aggregate.Launch{Children: 1, End: plain.Grid.Count(), Blocks: plain.Grid.Count(), Configs: aggregate.Column{Base: config.Ptr()}}
	for i := range driver.Ptr(3) {
		l.Args = append(l.Args, aggregate.Column{Base: args.Ptr() + 8*i})
	}
	var ms [2]float64
	output := make([]uint32, n)
	f := figure{id: id, n: int64(n), amount: 8 * float64(n), unit: "GB/s", slots: 1, batch: 1}
	for i, call := range []func(int) error{
		func(int) error {
			packed := l.Pack()
			defer packed.Release()
			return b.s.Driver().Launch(aggregated.Driver(), plain, packed)
		},
		func(int) error { return b.s.Launch(k, plain, in, out, uint64(n/4)) },
	} {
		if err := repoison(b, out); err != nil {
			return err
		}
		f.call = call
		if ms[i], err = b.measure(f); err != nil {
			return err
		}
		if err := out.CopyTo(b.s, output); err != nil {
			return err
		}
		if i := firstWrong(n, func(i int) bool { return output[i] == input[i]+1 }); i < n {
			return fmt.Errorf("element %d is %d", i, output[i])
		}
	}
	b.report(f, ms[0], 0).against("the kernel itself", ms[1])
	return nil
}

// coarsening is how many of their blocks a block of irregular children takes.
const coarsening = 4

// mostHeld is the parents whose children a launch ahead runs all of. Then the host
// has nothing to do until they are done, and the stream is held as for other figures.
const mostHeld = 1024

// aggIrregular launches the children of n parents of a kernel: as a whole call, or if
// held is set as what the device does for it, with the hand-written kernels beside it
// if byHand is set.
func (b *bencher) aggIrregular(id, parentName string, n int, held, byHand bool) (err error) {
	n = max(n>>b.scale, 1)
	c, err := b.openChildren()
	if err != nil {
		return err
	}
	defer func() { err = c.close(err) }()
	// Launching an empty block takes as long as a child's block does.
	_, a, err := c.aggregator("child", ptxrun.WithCoarsening(coarsening))
	if err != nil {
		return err
	}
	q, err := a.NewQueue(n)
	if err != nil {
		return err
	}
	c.free = append(c.free, q.Close)
	out, err := childBuffer[uint32](c, n*childRoom)
	if err != nil {
		return err
	}
	parent, err := c.m.Kernel(parentName)
	if err != nil {
		return err
	}
	over := driver.Config{Grid: driver.D1(uint32((n + 255) / 256)), Block: driver.D1(256)}
	var threads uint64
	for i := range n {
		threads += uint64(childSize(uint64(i)))
	}
	counted := func(launched int64, err error) error {
		if err == nil && launched != int64(n) {
			err = fmt.Errorf("%d children, want %d", launched, n)
		}
		return err
	}
	f := figure{id: id, n: int64(n), amount: 4 * float64(threads), unit: "GB/s", slots: 1, batch: 1, waits: true, call: func(int) error {
		if err := b.s.Launch(parent, over, q.Ptr(), out, uint32(n)); err != nil {
			return err
		}
		return counted(q.Launch(b.s))
	}}
	if held {
		f.waits = false
		f.call = func(int) error {
			if err := b.s.Launch(parent, over, q.Ptr(), out, uint32(n)); err != nil {
				return err
			}
			return q.Start(b.s)
		}
		f.end = func() error { return counted(q.Wait()) }
	}
	run := func() (float64, error) {
		if err := repoison(b, out); err != nil {
			return 0, err
		}
		ms, err := b.measure(f)
		if err != nil {
			return 0, err
		}
		if f.end != nil { // what is timed has run all children
			if err := errors.Join(repoison(b, out), f.call(0)); err != nil {
				return 0, err
			}
		}
		got := make([]uint32, n*childRoom)
		if err := errors.Join(out.CopyTo(b.s, got), f.ended()); err != nil {
			return 0, err
		}
		const untouched = poison<<24 | poison<<16 | poison<<8 | poison
		wrong := firstWrong(len(got), func(k int) bool {
			i, t := k/childRoom, k%childRoom
			if t < int(childSize(uint64(i))) {
				return got[k] == uint32(i+t)
			}
			return got[k] == untouched
		})
		if wrong < len(got) {
			return 0, fmt.Errorf("element %d is %d", wrong, got[wrong])
		}
		return ms, nil
	}
	ms, err := run()
	if err != nil {
		return err
	}
	if !byHand {
		b.report(f, ms, threads)
		return nil
	}
	if f.call, err = c.handWritten(n, over, out); err != nil {
		return err
	}
	hand, err := run()
	if err != nil {
		return err
	}
	b.report(f, ms, 0).against("by hand", hand)
	return nil
}

// handWritten is the work of aggIrregular by kernels that were written for it.
func (c *children) handWritten(n int, over driver.Config, out *ptxrun.Buffer[uint32]) (func(int) error, error) {
	parent, err1 := c.m.Kernel("hand_parent")
	kernel, err2 := c.m.Kernel("hand_children")
	sizes, err3 := childBuffer[uint32](c, n)
	starts, err4 := childBuffer[uint32](c, n)
	owners, err5 := childBuffer[uint32](c, n*childRoom/childBlock)
	total, err6 := childBuffer[uint32](c, 1)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	host, err := c.rt.Device().AllocHost(4)
	if err != nil {
		return nil, err
	}
	c.free = append(c.free, func() error { return c.rt.Device().FreeHost(host) })
	return func(int) error {
		d := c.s.Driver()
		if err := d.Fill(total.Ptr(), 0, 4); err != nil {
			return err
		}
		if err := c.s.Launch(parent, over, uint32(n), sizes, starts, owners, total); err != nil {
			return err
		}
		if err := d.CopyToHost(host.Bytes[:4], total.Ptr()); err != nil {
			return err
		}
		if err := d.Synchronize(); err != nil {
			return err
		}
		blocks := binary.LittleEndian.Uint32(host.Bytes)
		return c.s.Launch(kernel, driver.Config{Grid: driver.D1(blocks), Block: driver.D1(childBlock), N: int64(n)}, out, sizes, starts, owners)
	}, nil
}
