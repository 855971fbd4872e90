package emu

import (
	"math/bits"
	"unsafe"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// asyncOp is an asynchronous copy or an operation on an mbarrier.
type asyncOp struct {
	op       asyncKind
	size     int64 // of cp.async
	to, from *memory
	bar      *memory
	n        slot // bytes, arrivals or groups
	hasN     bool
	expect   bool // arrive.expect_tx
	drop     bool // arrive_drop
	hold     bool // arrive.noComplete
	parity   bool // test_wait.parity
	state    slot // of test_wait, pending_count
	noInc    bool
	ignore   bool // in.r says whether the source is ignored
}

type asyncKind uint8

const (
	asyncCopy    asyncKind = iota // cp.async
	asyncCommit                   // cp.async.commit_group
	asyncWait                     // cp.async.wait_group, wait_all
	asyncNotify                   // cp.async.mbarrier.arrive
	asyncBulkIn                   // cp.async.bulk to shared memory
	asyncBulkOut                  // cp.async.bulk to global memory
	asyncInit
	asyncInvalidate
	asyncArrive
	asyncExpect
	asyncComplete
	asyncTest // test_wait, try_wait
	asyncPending
)

// laneCopies are a lane's cp.async that are not complete: they are carried out
// when they are waited for, so that a kernel that does not wait finds stale
// data.
type laneCopies struct {
	open   []pendingCopy
	groups [][]pendingCopy
}

// pendingCopy moves bytes, and writes zeros behind them.
type pendingCopy struct {
	to, from    place
	bytes, zero int
}

// place is an address in a view.
type place struct {
	view
	addr uint64
}

func (p place) bytes(n int) []byte { return unsafe.Slice((*byte)(p.at(p.addr)), n) }

func (w *warp) carryOut(list ...pendingCopy) {
	for _, c := range list {
		to := c.to.bytes(c.bytes + c.zero)
		if c.bytes > 0 {
			copy(to, c.from.bytes(c.bytes))
		}
		clear(to[c.bytes:])
		w.block.change(c.to.space == spaceGlobal)
		if w.block.launch.checks.init {
			w.written(&c.to.view).set(c.to.addr-c.to.first, uint64(len(to)))
		}
	}
}

func (d *decoder) async(op asyncKind, class Class) *asyncOp {
	a := &asyncOp{op: op}
	in := d.in
	in.kind, in.class, in.async = kindAsync, class, a
	return a
}

func (d *decoder) place2(o ast.Operand, s space) *memory {
	m := &memory{space: s, size: 1, count: 1}
	d.location(m, o)
	return m
}

func decodeAsync(d *decoder, m *mods) {
	if m.take("reduce") {
		refuse(m.at, "%s", m.opcode)
	}
	m.must("async")
	switch {
	case m.take("bulk"):
		decodeBulk(d, m)
	case m.take("commit_group"):
		d.args(0, 0)
		d.async(asyncCommit, ClassAsync)
	case m.take("wait_all"):
		d.args(0, 0)
		d.async(asyncWait, ClassAsync).n = d.extra(extra{})
		d.in.imm = 1 // the open group, too
	case m.take("wait_group"):
		d.use(&d.async(asyncWait, ClassAsync).n, d.args(1, 1)[0], u32, exact)
	case m.take("mbarrier"):
		m.must("arrive")
		a := d.async(asyncNotify, ClassAsync)
		a.noInc = m.take("noinc")
		a.bar = d.barrierAddress(m, d.args(1, 1)[0])
		m.require(m.typ(), "b", 64)
	default:
		decodeCopy(d, m)
	}
}

func decodeCopy(d *decoder, m *mods) {
	large := m.must("ca", "cg") == "cg"
	m.must("shared", "shared::cta")
	m.must("global")
	hint := false
	for _, name := range []string{"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"} {
		if m.take(name) {
			hint = hint || name == "L2::cache_hint"
		}
	}
	args := d.args(3, 5)
	if hint {
		d.policy(true, args)
		args = args[:len(args)-1]
	}
	a := d.async(asyncCopy, ClassAsync)
	a.to, a.from = d.place2(args[0], spaceShared), d.place2(args[1], spaceGlobal)
	n, ok := args[2].(*ast.Number)
	if !ok || n.Bits != 16 && (large || n.Bits != 4 && n.Bits != 8) {
		fail(m.at, "%s of %s bytes", m.opcode, ast.Format(args[2]))
	}
	a.size = int64(n.Bits)
	a.to.size, a.from.size = int(a.size), int(a.size)
	if len(args) == 4 {
		if s := d.registerOf(args[3]); s != nil && s.typ == pred {
			a.ignore = true
			d.usePredicate(&d.in.r, args[3])
			return
		}
		a.hasN = true
		d.use(&a.n, args[3], u32, exact)
	} else if len(args) > 4 {
		fail(m.at, "%s with %d operands", m.opcode, len(args))
	}
}

func decodeBulk(d *decoder, m *mods) {
	switch {
	case m.take("commit_group"):
		d.args(0, 0)
		d.in.kind, d.in.class = kindNothing, ClassAsync
		return
	case m.take("wait_group"):
		m.take("read")
		d.args(1, 1)
		d.in.kind, d.in.class = kindNothing, ClassAsync
		return
	case m.take("prefetch"):
		d.in.kind, d.in.class = kindNothing, ClassAsync
		m.left = nil
		return
	}
	hint := m.take("L2::cache_hint")
	args := d.args(3, 5)
	if hint {
		d.policy(true, args)
		args = args[:len(args)-1]
	}
	to := m.must("shared::cluster", "shared::cta", "global")
	from := m.must("global", "shared::cta")
	switch {
	case to != "global" && from == "global":
		m.must("mbarrier::complete_tx::bytes")
		if len(args) != 4 {
			fail(m.at, "%s with %d operands", m.opcode, len(d.ast.Args))
		}
		a := d.async(asyncBulkIn, ClassAsync)
		a.to, a.from, a.bar = d.place2(args[0], spaceShared), d.place2(args[1], spaceGlobal), d.place2(args[3], spaceShared)
		a.bar.size = 8
		d.use(&a.n, args[2], u32, exact)
	case to == "global" && from == "shared::cta":
		m.must("bulk_group")
		if len(args) != 3 {
			fail(m.at, "%s with %d operands", m.opcode, len(d.ast.Args))
		}
		a := d.async(asyncBulkOut, ClassAsync)
		a.to, a.from = d.place2(args[0], spaceGlobal), d.place2(args[1], spaceShared)
		d.use(&a.n, args[2], u32, exact)
	default:
		refuse(m.at, "%s", m.opcode)
	}
}

// barrierAddress decodes the address of an mbarrier.
func (d *decoder) barrierAddress(m *mods, o ast.Operand) *memory {
	s := spaceGeneric
	if m.one("shared", "shared::cta", "shared::cluster") != "" {
		s = spaceShared
	}
	a := d.place2(o, s)
	a.size = 8
	return a
}

func decodeMbarrier(d *decoder, m *mods) {
	what := m.must("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count")
	m.one("acquire", "release", "relaxed")
	m.one("cta", "cluster")
	in := d.in
	switch what {
	case "init", "expect_tx", "complete_tx":
		a := d.async(map[string]asyncKind{"init": asyncInit, "expect_tx": asyncExpect, "complete_tx": asyncComplete}[what], ClassBarrier)
		args := d.args(2, 2)
		a.bar = d.barrierAddress(m, args[0])
		d.use(&a.n, args[1], u32, exact)
	case "inval":
		d.async(asyncInvalidate, ClassBarrier).bar = d.barrierAddress(m, d.args(1, 1)[0])
	case "arrive", "arrive_drop":
		a := d.async(asyncArrive, ClassBarrier)
		a.drop = what == "arrive_drop"
		a.expect, a.hold = m.take("expect_tx"), m.take("noComplete")
		args := d.args(1, 3)
		in.d = -1
		if _, ok := args[0].(*ast.Address); !ok {
			d.def(&in.d, args[0], b64, exact)
			args = args[1:]
		}
		if len(args) < 1 || len(args) > 2 || len(args) == 1 && (a.expect || a.hold) {
			fail(m.at, "%s with %d operands", m.opcode, len(d.ast.Args))
		}
		a.bar = d.barrierAddress(m, args[0])
		if a.hasN = len(args) == 2; a.hasN {
			d.use(&a.n, args[1], u32, exact)
		}
	case "test_wait", "try_wait":
		a := d.async(asyncTest, ClassBarrier)
		a.parity = m.take("parity")
		most := 3
		if what == "try_wait" {
			most = 4
		}
		args := d.args(3, most)
		d.defPredicate(&in.p, args[0])
		a.bar = d.barrierAddress(m, args[1])
		t := b64
		if a.parity {
			t = u32
		}
		d.use(&a.state, args[2], t, exact)
		if len(args) == 4 {
			var hint slot
			d.use(&hint, args[3], u32, exact)
		}
	case "pending_count":
		a := d.async(asyncPending, ClassBarrier)
		args := d.args(2, 2)
		d.def(&in.d, args[0], u32, exact)
		d.use(&a.state, args[1], b64, exact)
	}
	m.require(m.typ(), "b", 64)
}

// mbarrierState is an mbarrier's 64 bits: the phase, then the arrivals expected
// in every phase and pending in this one, then the bytes still to come.
type mbarrierState uint64

const mbarrierMost = 1<<20 - 1

func (s mbarrierState) phase() uint64   { return uint64(s & 1) }
func (s mbarrierState) expected() int64 { return int64(s >> 1 & mbarrierMost) }
func (s mbarrierState) pending() int64  { return int64(s >> 21 & mbarrierMost) }
func (s mbarrierState) bytes() int64    { return int64(s) >> 41 }

func makeMbarrier(phase uint64, expected, pending, bytes int64) mbarrierState {
	return mbarrierState(phase | uint64(expected)<<1 | uint64(pending)<<21 | uint64(bytes)<<41)
}

// change applies arrivals and bytes, and begins the next phase when nothing is
// pending. problem is empty if that is allowed.
func (s mbarrierState) change(arrivals, drops, bytes int64) (next mbarrierState, problem string) {
	expected, pending, left := s.expected()-drops, s.pending()-arrivals, s.bytes()+bytes
	switch {
	case s.expected() == 0:
		return s, "it is not initialised"
	case pending < 0:
		return s, "more threads arrive than it expects"
	case left > mbarrierMost || left < -mbarrierMost:
		return s, "more bytes than it can count"
	case pending == 0 && left == 0:
		return makeMbarrier(1-s.phase(), expected, expected, 0), ""
	}
	return makeMbarrier(s.phase(), expected, pending, left), ""
}

// single finds the memory of one lane's access.
func (w *warp) single(in *instr, m *memory, bytes uint64) place {
	lo, hi, or := w.addresses(m)
	align := min(bytes&-bytes, 16)
	v, _ := w.look(in, m, align, lo, hi, or)
	if bytes > align { // the end lies in the same place
		lane := bits.TrailingZeros32(w.mask) & 31
		w.addr[lane] = hi + bytes - align
		if end, _ := w.look(in, m, align, w.addr[lane], w.addr[lane], or); end.alloc != v.alloc {
			w.illegal(in, m, bytes)
		}
	}
	return place{v, lo}
}

// source is single for what a copy reads, n bytes of it.
func (w *warp) source(in *instr, m *memory, bytes, n uint64) place {
	p := w.single(in, m, bytes)
	if w.block.launch.checks.init {
		w.requireWritten(in, bits.TrailingZeros32(w.mask), &p.view, p.addr, n)
	}
	return p
}

// async executes an asynchronous instruction, lane after lane.
func (w *warp) async(in *instr, pc int32) {
	if w.copies == nil {
		w.copies = make([]laneCopies, 32)
	}
	saved := w.mask
	for rest := saved; rest != 0; rest &= rest - 1 {
		w.mask = rest & -rest
		w.asyncLane(in, bits.TrailingZeros32(rest)&31)
	}
	w.mask = saved
}

func (w *warp) asyncLane(in *instr, lane int) {
	a := in.async
	value := func(s slot) int64 { return int64(w.src(s)[lane]) }
	c := &w.copies[lane]
	switch a.op {
	case asyncCopy:
		n := a.size
		if a.hasN {
			n = value(a.n)
		}
		if a.ignore && w.predicate(in.r)&w.mask != 0 {
			n = 0
		}
		if n > a.size {
			w.fault(in, w.mask, faultCopy, n)
		}
		p := pendingCopy{to: w.single(in, a.to, uint64(a.size)), bytes: int(n), zero: int(a.size - n)}
		if n > 0 {
			p.from = w.source(in, a.from, uint64(a.size), uint64(n))
		}
		c.open = append(c.open, p)
	case asyncCommit:
		c.groups = append(c.groups, c.open)
		c.open = nil
	case asyncWait:
		left := int(min(value(a.n), int64(len(c.groups))))
		for len(c.groups) > left {
			w.carryOut(c.groups[0]...)
			c.groups = c.groups[1:]
		}
		if in.imm != 0 {
			w.carryOut(c.open...)
			c.open = nil
		}
	case asyncNotify:
		w.finishLane(lane)
		if a.noInc {
			w.arrive(in, a.bar, 1, 0, 0)
			return
		}
		// Adds a pending arrival and at once takes it away again.
		w.arrive(in, a.bar, 0, 0, 0)
	case asyncBulkIn, asyncBulkOut:
		n := value(a.n)
		if n%16 != 0 || n == 0 {
			w.fault(in, w.mask, faultCopy, n)
		}
		from := w.source(in, a.from, uint64(n), uint64(n))
		w.carryOut(pendingCopy{to: w.single(in, a.to, uint64(n)), from: from, bytes: int(n)})
		if a.bar != nil {
			w.arrive(in, a.bar, 0, 0, -n)
		}
	case asyncInit:
		p := w.single(in, a.bar, 8)
		n := value(a.n)
		if n < 1 || n > mbarrierMost {
			w.fault(in, w.mask, faultMbarrier, p.addr, "initialised for no threads or too many")
		}
		w.setMbarrier(p, makeMbarrier(0, n, n, 0))
	case asyncInvalidate:
		w.setMbarrier(w.single(in, a.bar, 8), 0)
	case asyncArrive:
		arrivals, bytes := int64(1), int64(0)
		if a.hasN && a.expect {
			bytes = value(a.n)
		} else if a.hasN {
			arrivals = value(a.n)
		}
		drops := int64(0)
		if a.drop {
			drops = arrivals
		}
		old := w.arrive(in, a.bar, arrivals, drops, bytes)
		if in.d >= 0 {
			w.regs[w.frame.registers+in.d][lane] = uint64(old)
		}
	case asyncExpect:
		w.arrive(in, a.bar, 0, 0, value(a.n))
	case asyncComplete:
		w.arrive(in, a.bar, 0, 0, -value(a.n))
	case asyncTest:
		p := w.single(in, a.bar, 8)
		s := mbarrier(p)
		if s == 0 {
			w.fault(in, w.mask, faultMbarrier, p.addr, "it is not initialised")
		}
		done := uint32(0)
		if uint64(value(a.state))&1 != s.phase() {
			done = full
			if r := w.block.races; r != nil {
				r.acquire(w, p.addr-p.first)
				w.fences++ // lanes of the warp may have met here
			}
		}
		w.setPredicate(in.p, done)
	case asyncPending:
		w.regs[w.frame.registers+in.d][lane] = uint64(mbarrierState(value(a.state)).pending())
	}
}

// arrive changes an mbarrier and returns its state before.
func (w *warp) arrive(in *instr, m *memory, arrivals, drops, bytes int64) mbarrierState {
	p := w.single(in, m, 8)
	old := mbarrier(p)
	next, problem := old.change(arrivals, drops, bytes)
	if problem != "" {
		w.fault(in, w.mask, faultMbarrier, p.addr, problem)
	}
	if r := w.block.races; r != nil {
		r.release(w, p.addr-p.first)
	}
	if next != old {
		w.setMbarrier(p, next)
	}
	return old
}

func mbarrier(p place) mbarrierState { return mbarrierState(*(*uint64)(p.at(p.addr))) }

func (w *warp) setMbarrier(p place, s mbarrierState) {
	*(*uint64)(p.at(p.addr)) = uint64(s)
	w.block.change(false)
}

func (w *warp) finishLane(lane int) {
	c := &w.copies[lane]
	for _, g := range c.groups {
		w.carryOut(g...)
	}
	w.carryOut(c.open...)
	*c = laneCopies{}
}

// finishCopies completes what threads that end have not waited for.
func (w *warp) finishCopies(mask uint32) {
	if w.copies == nil {
		return
	}
	for rest := mask; rest != 0; rest &= rest - 1 {
		w.finishLane(bits.TrailingZeros32(rest) & 31)
	}
}
