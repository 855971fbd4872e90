package emu

import (
	"math/bits"
)

// The check for uninitialised memory follows values: reading what nothing wrote
// is no error yet, for vectors that reach beyond the data are read everywhere and
// their ends dropped. It is an error to use such bits: as an address, as a
// condition, in an atomic or a vote, or to store them in global memory. Shared
// memory takes them over, and global memory by strong stores: what blocks tell
// each other need not be used either.
//
// A register's taint has a bit set where the register's bit is undefined.
type taint struct {
	regs  []lanes
	lines []int32 // of the loads that the taints of registers come from
	preds []uint32
	pline []int32
}

// flow is how undefined bits pass through an element-wise instruction.
type flow uint8

const (
	flowAll   flow = iota // one undefined bit makes the whole result undefined
	flowBits              // bit by bit
	flowUp                // to the bit itself and those above, as carries do
	flowMove              // the instruction moves a's bits as b and c say
	flowMove2             // the instruction moves a's and b's bits as c says
)

func (w *warp) newTaint() {
	w.taint = &taint{}
	w.growTaint()
}

func (w *warp) growTaint() {
	t := w.taint
	t.regs = append(t.regs, make([]lanes, len(w.regs)-len(t.regs))...)
	t.lines = append(t.lines, make([]int32, len(w.regs)-len(t.lines))...)
	t.preds = append(t.preds, make([]uint32, len(w.preds)-len(t.preds))...)
	t.pline = append(t.pline, make([]int32, len(w.preds)-len(t.pline))...)
}

func (t *taint) reset() {
	clear(t.regs)
	clear(t.preds)
}

var untainted lanes

// tainted returns the taint of an operand and the line it comes from.
func (w *warp) tainted(s slot) (*lanes, int32) {
	if s < 0 {
		return &untainted, 0
	}
	return &w.taint.regs[w.frame.registers+s], w.taint.lines[w.frame.registers+s]
}

// setTaint taints the masked lanes of a register; keep has its bits.
func (w *warp) setTaint(d slot, v *lanes, keep uint64, line int32) {
	to := &w.taint.regs[w.frame.registers+d]
	any := uint64(0)
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		to[i] = v[i] & keep
		any |= to[i]
	}
	if any != 0 {
		w.taint.lines[w.frame.registers+d] = line
	}
}

// taintedPredicate returns the lanes whose predicate is undefined.
func (w *warp) taintedPredicate(p predicate) (uint32, int32) {
	if p.slot < 0 {
		return 0, 0
	}
	return w.taint.preds[w.frame.predicates+p.slot], w.taint.pline[w.frame.predicates+p.slot]
}

func (w *warp) setTaintedPredicate(slot int32, v uint32, line int32) {
	if slot < 0 {
		return
	}
	at := w.frame.predicates + slot
	w.taint.preds[at] = w.taint.preds[at]&^w.mask | v&w.mask
	if v&w.mask != 0 {
		w.taint.pline[at] = line
	}
}

// defined faults if masked lanes use undefined bits of an operand.
func (w *warp) defined(in *instr, s slot, as string) {
	t, line := w.tainted(s)
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros32(rest) & 31; t[i] != 0 {
			w.undefined(in, 1<<i, as, line)
		}
	}
}

func (w *warp) definedPredicate(in *instr, p predicate, mask uint32, as string) {
	if t, line := w.taintedPredicate(p); t&mask != 0 {
		w.undefined(in, t&mask, as, line)
	}
}

// anyLanes is the lanes that have an undefined bit.
func anyLanes(list ...*lanes) (m uint32) {
	for i := range 32 {
		for _, t := range list {
			if t[i] != 0 {
				m |= 1 << i
				break
			}
		}
	}
	return m
}

// track follows undefined bits through an instruction, before it is executed.
// Loads and stores are followed where their addresses are known.
func (w *warp) track(in *instr, group uint32) {
	w.definedPredicate(in, in.guard, group, "a condition")
	if w.mask == 0 {
		return
	}
	switch in.kind {
	case kindALU, kindInsert, kindCarry:
		a, la := w.tainted(in.a)
		b, lb := w.tainted(in.b)
		c, lc := w.tainted(in.c)
		v := w.flow(in, a, b, c)
		w.setTaint(in.d, &v, in.keep, max(la, lb, lc))
	case kindCompare, kindSet:
		a, la := w.tainted(in.a)
		b, lb := w.tainted(in.b)
		r, lr := w.taintedPredicate(in.r)
		v, line := anyLanes(a, b)|r, max(la, lb, lr)
		// A side that decides the result alone makes the other not matter.
		if in.logic == logicAnd || in.logic == logicOr {
			known := w.predicate(in.r) &^ r
			if in.logic == logicAnd {
				known = ^w.predicate(in.r) &^ r
			}
			v &^= known
		}
		if in.kind == kindSet {
			w.setTaint(in.d, spread(v), in.keep, line)
			return
		}
		w.setTaintedPredicate(in.p, v, line)
		w.setTaintedPredicate(in.q, v, line)
	case kindLogic:
		r, lr := w.taintedPredicate(in.r)
		s, ls := w.taintedPredicate(in.s)
		v := r
		x, y := w.predicate(in.r), w.predicate(in.s)
		switch in.logic {
		case logicAnd:
			v = r&(y|s) | s&(x|r)
		case logicOr:
			v = r&(^y|s) | s&(^x|r)
		case logicXor:
			v = r | s
		}
		w.setTaintedPredicate(in.p, v, max(lr, ls))
	case kindSelect:
		a, la := w.tainted(in.a)
		b, lb := w.tainted(in.b)
		r, lr := w.taintedPredicate(in.r)
		p := w.predicate(in.r)
		v := spread(r)
		for i := range v {
			if p>>i&1 != 0 {
				v[i] |= a[i]
			} else {
				v[i] |= b[i]
			}
		}
		w.setTaint(in.d, v, in.keep, max(la, lb, lr))
	case kindPack:
		var v lanes
		var line int32
		for k := range in.mem.count {
			t, l := w.tainted(in.mem.regs[k])
			line = max(line, l)
			for i := range v {
				v[i] |= t[i] << (k * in.mem.size)
			}
		}
		w.setTaint(in.d, &v, in.keep, line)
	case kindUnpack:
		a, line := w.tainted(in.a)
		from := *a
		for k := range in.mem.count {
			var v lanes
			for i := range v {
				v[i] = trim(from[i]>>(k*in.mem.size), in.mem.size)
			}
			w.setTaint(in.mem.regs[k], &v, ^uint64(0), line)
		}
	case kindClock, kindFrame, kindActive:
		w.setTaint(in.d, &untainted, 0, 0)
	case kindParam:
		for k := range in.mem.count {
			w.setTaint(in.mem.regs[k], &untainted, 0, 0)
		}
	case kindLoad, kindStore, kindAtomic:
		if !in.mem.frame {
			w.defined(in, in.mem.base, "an address")
		}
		if in.kind == kindAtomic {
			w.defined(in, in.a, "an atomic's operand")
			w.defined(in, in.b, "an atomic's operand")
			if !in.mem.red {
				w.setTaint(in.d, &untainted, 0, 0)
			}
		}
	case kindIndexed:
		w.defined(in, in.a, "a condition")
	}
}

// spread is all bits of the given lanes.
func spread(m uint32) *lanes {
	v := new(lanes)
	for i := range v {
		v[i] = -uint64(m >> i & 1)
	}
	return v
}

// flow is the taint of an element-wise instruction's result.
func (w *warp) flow(in *instr, a, b, c *lanes) (v lanes) {
	f := in.flow
	moved := anyLanes(b, c)
	if f == flowMove2 {
		moved = anyLanes(c)
	}
	if f >= flowMove && moved != 0 {
		f = flowAll
	}
	switch f {
	case flowBits:
		for i := range v {
			v[i] = a[i] | b[i] | c[i]
		}
		if in.known != nil {
			in.known(&v, w.src(in.a), w.src(in.b), a, b)
		}
	case flowUp:
		for i := range v {
			t := a[i] | b[i] | c[i]
			v[i] = t | -t
		}
	case flowMove:
		in.alu(&v, a, w.src(in.b), w.src(in.c))
	case flowMove2:
		in.alu(&v, a, b, w.src(in.c))
	default:
		v = *spread(anyLanes(a, b, c))
	}
	return v
}

// knownAnd and knownOr clear the taint of bits that one defined operand decides.
func knownAnd(v, a, b, ta, tb *lanes) {
	for i := range v {
		v[i] &= (a[i] | ta[i]) & (b[i] | tb[i])
	}
}

func knownOr(v, a, b, ta, tb *lanes) {
	for i := range v {
		v[i] &= (^a[i] | ta[i]) & (^b[i] | tb[i])
	}
}

// readTaint gives the registers of a load the taint of the bytes read.
func (w *warp) readTaint(in *instr, v *view) {
	m := in.mem
	var have writtenBits
	if v.space == spaceGlobal || v.space == spaceShared {
		have = w.written(v)
	}
	for k := range m.count {
		var t lanes
		if have != nil {
			w.active(func(lane int) {
				first := w.addr[lane] - v.first + uint64(k*m.size)
				if have.all(first, uint64(m.size)) {
					return
				}
				for i := range uint64(m.size) {
					if !have.all(first+i, 1) {
						t[lane] |= 0xff << (8 * i)
					}
				}
				if m.signed && m.size < 8 && t[lane]>>(8*m.size-1)&1 != 0 {
					t[lane] |= ^uint64(0) << (8 * m.size)
				}
			})
		}
		w.setTaint(m.regs[k], &t, ^uint64(0)>>(64-m.bits[k]), in.line)
	}
}

// writeTaint notes which bytes a store defines, and which it undefines.
func (w *warp) writeTaint(in *instr, v *view) {
	m := in.mem
	have := w.written(v)
	for k := range m.count {
		t, line := w.tainted(m.regs[k])
		w.active(func(lane int) {
			first := w.addr[lane] - v.first + uint64(k*m.size)
			if trim(t[lane], 8*m.size) == 0 {
				have.set(first, uint64(m.size))
				return
			}
			if v.space == spaceGlobal && !m.strong {
				w.undefined(in, 1<<lane, "what it stores", line)
			}
			for i := range uint64(m.size) {
				if t[lane]>>(8*i)&0xff == 0 {
					have.set(first+i, 1)
				} else {
					have.unset(first+i, 1)
				}
			}
		})
	}
}

// warpTaint is the taint of a warp instruction's result: a shuffle passes on
// what it reads, a redux joins its operands, the others may use defined bits
// only. b and c are the lanes' operands.
func (w *warp) warpTaint(parts []part, all uint32, b, c *lanes) *lanes {
	var t lanes
	savedFrame, savedMask := w.frame, w.mask
	defer func() { w.frame, w.mask = savedFrame, savedMask }()
	op := parts[0].in.warp.op
	for _, p := range parts {
		w.frame, w.mask = p.frame, p.mask
		w.defined(p.in, p.in.warp.mask, "a mask")
		w.defined(p.in, p.in.b, "a lane number")
		w.defined(p.in, p.in.c, "a lane number")
		w.definedPredicate(p.in, p.in.r, p.mask, "a vote")
		if op != warpShuffle && op != warpRedux {
			w.defined(p.in, p.in.a, "an operand")
			continue
		}
		a, _ := w.tainted(p.in.a)
		w.active(func(lane int) { t[lane] = a[lane] })
	}
	var v lanes
	switch op {
	case warpShuffle:
		w.shuffle(parts, all, &t, b, c, &v)
	case warpRedux:
		if anyLanes(&t)&all != 0 {
			v = *spread(full)
		}
	}
	return &v
}
