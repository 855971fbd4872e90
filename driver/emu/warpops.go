package emu

import (
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// warpOp is an instruction that lanes of a warp execute together.
type warpOp struct {
	op   warpKind
	mode string // of a vote, match or redux
	// shuffle is a shuffle's mode.
	shuffle shuffleMode
	typ     typ
	mask    slot // the lanes taking part
	// constant is the mask if it is no register's, which spares asking all lanes.
	constant   uint32
	isConstant bool
}

type warpKind uint8

const (
	warpShuffle warpKind = iota
	warpVote
	warpMatch
	warpRedux
	warpElect
	warpBarrier
)

type shuffleMode uint8

const (
	shuffleUp shuffleMode = iota
	shuffleDown
	shuffleBfly
	shuffleIdx
)

var shuffleModes = map[string]shuffleMode{"up": shuffleUp, "down": shuffleDown, "bfly": shuffleBfly, "idx": shuffleIdx}

// together decodes what the instructions have in common.
func (d *decoder) together(op warpKind, mode string, t typ, mask ast.Operand) *warpOp {
	w := &warpOp{op: op, mode: mode, typ: t}
	in := d.in
	in.kind, in.class, in.warp = kindWarp, ClassWarp, w
	in.d = -1
	in.a, in.b, in.c = d.extra(extra{}), d.extra(extra{}), d.extra(extra{})
	d.use(&w.mask, mask, b32, exact)
	if n, ok := mask.(*ast.Number); ok {
		w.constant, w.isConstant = uint32(n.Bits), true
	}
	return w
}

// sync refuses the forms without .sync, which sm_70 has not.
func (m *mods) sync() {
	if !m.take("sync") {
		fail(m.at, "%s without .sync is not in sm_70 and later", m.opcode)
	}
}

func decodeShuffle(d *decoder, m *mods) {
	m.sync()
	mode := m.must("up", "down", "bfly", "idx")
	m.require(m.typ(), "b", 32)
	args := d.args(5, 5)
	d.together(warpShuffle, "", b32, args[4]).shuffle = shuffleModes[mode]
	to, p := d.pair(args[0])
	d.def(&d.in.d, to, b32, exact)
	if p != nil {
		d.defPredicate(&d.in.p, p)
	}
	d.sources(args[1:4], exact, b32, b32, b32)
}

func decodeVote(d *decoder, m *mods) {
	m.sync()
	mode := m.must("all", "any", "uni", "ballot")
	t := m.typ()
	args := d.args(3, 3)
	d.together(warpVote, mode, t, args[2])
	if mode == "ballot" {
		m.require(t, "b", 32)
		d.def(&d.in.d, args[0], b32, exact)
	} else {
		m.require(t, "p", 1)
		d.defPredicate(&d.in.p, args[0])
	}
	d.usePredicate(&d.in.r, args[1])
}

func decodeMatch(d *decoder, m *mods) {
	mode := m.must("any", "all")
	m.sync()
	t := m.typ()
	m.require(t, "b", 32, 64)
	args := d.args(3, 3)
	d.together(warpMatch, mode, t, args[2])
	to, p := d.pair(args[0])
	d.def(&d.in.d, to, b32, exact)
	if p != nil {
		if mode == "any" {
			m.bad(t)
		}
		d.defPredicate(&d.in.p, p)
	}
	d.sources(args[1:2], exact, t)
}

func decodeRedux(d *decoder, m *mods) {
	m.sync()
	mode := m.must("add", "min", "max", "and", "or", "xor")
	t := m.typ()
	if mode == "and" || mode == "or" || mode == "xor" {
		m.require(t, "b", 32)
	} else {
		m.require(t, "us", 32)
	}
	args := d.args(3, 3)
	d.together(warpRedux, mode, t, args[2])
	d.def(&d.in.d, args[0], t, exact)
	d.sources(args[1:2], exact, t)
}

func decodeElect(d *decoder, m *mods) {
	m.sync()
	args := d.args(2, 2)
	d.together(warpElect, "", b32, args[1])
	to, p := d.pair(args[0])
	d.def(&d.in.d, to, b32, exact)
	if p == nil {
		fail(m.at, "%s without a predicate", m.opcode)
	}
	d.defPredicate(&d.in.p, p)
}

func decodeActive(d *decoder, m *mods) {
	m.require(m.typ(), "b", 32)
	d.in.kind, d.in.class = kindActive, ClassWarp
	d.def(&d.in.d, d.args(1, 1)[0], b32, exact)
}

// barrierOp is a barrier of the block.
type barrierOp struct {
	arrive  bool   // without waiting
	reduce  string // "popc", "and", "or" of bar.red
	aligned bool   // all lanes of a warp execute the same barrier
	id      slot
	count   slot // threads that take part
	all     bool // every thread of the block takes part
}

func decodeBarrier(d *decoder, m *mods) {
	if m.take("warp") {
		m.sync()
		args := d.args(1, 1)
		d.together(warpBarrier, "", b32, args[0])
		return
	}
	if m.take("cluster") {
		// A block is its own cluster: arriving is enough, and waiting is the
		// barrier.
		refuse(m.at, "%s: clusters", m.opcode)
	}
	m.take("cta")
	op := &barrierOp{aligned: d.ast.Name == "bar" || m.take("aligned")}
	in := d.in
	in.kind, in.class, in.barrier = kindBarrier, ClassBarrier, op
	kind := m.must("sync", "arrive", "red")
	op.arrive = kind == "arrive"
	args := d.args(1, 5)
	if kind == "red" {
		op.reduce = m.must("popc", "and", "or")
		t := m.typ()
		if op.reduce == "popc" {
			m.require(t, "u", 32)
			d.def(&in.d, args[0], t, exact)
		} else {
			m.require(t, "p", 1)
			d.defPredicate(&in.p, args[0])
		}
		d.usePredicate(&in.r, args[len(args)-1])
		args = args[1 : len(args)-1]
	}
	if len(args) < 1 || len(args) > 2 || op.arrive && len(args) != 2 {
		fail(m.at, "%s with %d operands", m.opcode, len(d.ast.Args))
	}
	d.use(&op.id, args[0], u32, exact)
	op.all = len(args) == 1
	if !op.all {
		d.use(&op.count, args[1], u32, exact)
	}
}
