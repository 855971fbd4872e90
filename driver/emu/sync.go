package emu

import (
	"math/bits"
)

// part is the lanes of one group that take part in a warp instruction.
type part struct {
	in    *instr
	frame frame
	mask  uint32
}

// together executes a warp instruction once all lanes that its mask names have
// come to it, at the same place or at another instruction of the same name. It
// returns false if the group has changed.
func (w *warp) together(gi int, in *instr) bool {
	g := &w.groups[gi]
	want := w.src(in.warp.mask)
	m := in.warp.constant
	if !in.warp.isConstant {
		m = uint32(want[bits.TrailingZeros32(w.mask)&31])
	}
	if m&w.live == w.mask && (in.warp.isConstant || w.same(want, w.mask, m)) {
		w.alone[0] = part{in, g.frame, w.mask}
		w.execute(w.alone[:])
		return true
	}
	// Lanes that are not to execute it go on.
	if rest := g.mask &^ w.mask; rest != 0 {
		w.groups = append(w.groups, group{mask: rest, pc: g.pc + 1, frame: g.frame, loops: g.loops})
		g = &w.groups[gi]
		g.mask = w.mask
	}
	g.state = groupWarp
	code := w.block.launch.program.code
	for rest := g.mask; rest != 0; {
		m := uint32(want[bits.TrailingZeros32(rest)&31])
		var parts []part
		var have uint32
		for i := range w.groups {
			o := &w.groups[i]
			oin := &code[o.pc]
			if o.state != groupWarp || oin.name != in.name {
				continue
			}
			w.frame = o.frame
			lanes := w.having(w.src(oin.warp.mask), o.mask, m)
			if lanes != 0 {
				parts = append(parts, part{oin, o.frame, lanes})
				have |= lanes
			}
			w.frame = w.groups[gi].frame
		}
		mine := w.having(want, rest, m)
		rest &^= mine
		if out := mine &^ m; out != 0 {
			w.fault(in, out, faultMask, m)
		}
		if have == m&w.live {
			w.execute(parts)
			w.advance(have)
		}
	}
	return false
}

// same reports whether the masked lanes of v are all m.
func (w *warp) same(v *lanes, mask, m uint32) bool { return w.having(v, mask, m) == mask }

func (w *warp) having(v *lanes, mask, m uint32) (lanes uint32) {
	for rest := mask; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros32(rest) & 31; uint32(v[i]) == m {
			lanes |= 1 << i
		}
	}
	return lanes
}

// advance lets lanes that waited at a warp instruction go on behind it.
func (w *warp) advance(lanes uint32) {
	for i := len(w.groups) - 1; i >= 0; i-- {
		g := &w.groups[i]
		if g.state != groupWarp || g.mask&lanes == 0 {
			continue
		}
		on := group{mask: g.mask & lanes, pc: g.pc + 1, frame: g.frame, loops: g.loops}
		if g.mask &^= lanes; g.mask == 0 {
			*g = on
		} else {
			w.groups = append(w.groups, on)
		}
	}
}

// execute runs a warp instruction for the parts.
func (w *warp) execute(parts []part) {
	saved, savedMask := w.frame, w.mask
	var gathered [3]lanes
	var d lanes
	var votes, lanes, p uint32
	a, b, c := w.src(parts[0].in.a), w.src(parts[0].in.b), w.src(parts[0].in.c)
	if len(parts) > 1 {
		a, b, c = &gathered[0], &gathered[1], &gathered[2]
	}
	for _, t := range parts {
		w.frame = t.frame
		votes |= w.predicate(t.in.r) & t.mask
		lanes |= t.mask
		if len(parts) == 1 {
			break
		}
		x, y, z := w.src(t.in.a), w.src(t.in.b), w.src(t.in.c)
		for rest := t.mask; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros32(rest) & 31
			a[i], b[i], c[i] = x[i], y[i], z[i]
		}
	}
	op := parts[0].in.warp
	all := func(v bool) uint32 {
		if v {
			return full
		}
		return 0
	}
	switch op.op {
	case warpShuffle:
		p = w.shuffle(parts, lanes, a, b, c, &d)
	case warpVote:
		switch op.mode {
		case "all":
			p = all(votes == lanes)
		case "any":
			p = all(votes != 0)
		case "uni":
			p = all(votes == 0 || votes == lanes)
		default:
			fill(&d, uint64(votes))
		}
	case warpMatch:
		for i := range d {
			for rest := lanes; rest != 0; rest &= rest - 1 {
				if j := bits.TrailingZeros32(rest) & 31; a[j] == a[i] {
					d[i] |= 1 << j
				}
			}
		}
		if op.mode == "all" {
			for i := range d {
				if d[i] == uint64(lanes) {
					p |= 1 << i
				} else {
					d[i] = 0
				}
			}
		}
	case warpRedux:
		fill(&d, reduce(op, lanes, a))
	case warpElect:
		leader := bits.TrailingZeros32(lanes)
		fill(&d, uint64(leader))
		p = 1 << leader
	case warpBarrier:
		w.fences++
	}
	var taints *[32]uint64
	if w.taint != nil {
		taints = w.warpTaint(parts, lanes, b, c)
	}
	for _, t := range parts {
		w.frame, w.mask = t.frame, t.mask
		if taints != nil && t.in.d >= 0 {
			w.setTaint(t.in.d, taints, t.in.keep, t.in.line)
		}
		if taints != nil {
			w.setTaintedPredicate(t.in.p, 0, 0)
		}
		if t.in.d >= 0 {
			w.blend(t.in.d, &d)
		}
		w.setPredicate(t.in.p, p)
	}
	w.frame, w.mask = saved, savedMask
}

// shuffle computes d and returns which lanes had a source in their segment.
func (w *warp) shuffle(parts []part, lanes uint32, a, b, c, d *lanes) (p uint32) {
	mode := parts[0].in.warp.shuffle
	for rest := lanes; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		lane := uint32(i)
		by, clamp, seg := uint32(b[i])&31, uint32(c[i])&31, uint32(c[i])>>8&31
		last := lane&seg | clamp&^seg
		var from uint32
		var ok bool
		switch mode {
		case shuffleUp:
			from = lane - by
			ok = int32(from) >= int32(last)
		case shuffleDown:
			from = lane + by
			ok = from <= last
		case shuffleBfly:
			from = lane ^ by
			ok = from <= last
		default:
			from = lane&seg | by&^seg
			ok = from <= last
		}
		if !ok {
			from = lane
		} else {
			p |= 1 << i
		}
		if lanes>>from&1 == 0 && w.block.launch.checks.sync {
			w.fault(parts[0].in, 1<<i, faultInactive, from)
		}
		d[i] = a[from&31]
	}
	return p
}

func reduce(op *warpOp, lanes uint32, a *lanes) uint64 {
	r := a[bits.TrailingZeros32(lanes)&31]
	for rest := lanes & (lanes - 1); rest != 0; rest &= rest - 1 {
		v := a[bits.TrailingZeros32(rest)&31]
		less := v < r
		if op.typ.signed() {
			less = int32(v) < int32(r)
		}
		switch op.mode {
		case "add":
			r = uint64(uint32(r + v))
		case "and":
			r &= v
		case "or":
			r |= v
		case "xor":
			r ^= v
		case "min":
			if less {
				r = v
			}
		case "max":
			if !less {
				r = v
			}
		}
	}
	return r
}

// barrier is one of a block's 16 barriers.
type barrier struct {
	arrived  int      // threads, counted as the barrier counts them
	threads  int      // threads, each counted once
	expected int      // 0 where every thread of the block takes part
	waiting  []uint32 // lanes of each warp
	votes    int      // of bar.red: threads that arrived with true
	line     int32    // of an instruction that arrived
}

func (b *barrier) reset() {
	clear(b.waiting)
	*b = barrier{waiting: b.waiting}
}

// barrier lets the masked lanes arrive. It returns true if they go on at once.
func (w *warp) barrier(gi int, in *instr) bool {
	op := in.barrier
	g := &w.groups[gi]
	ids := w.src(op.id)
	first := bits.TrailingZeros32(w.mask) & 31
	id := uint32(ids[first])
	if id >= uint32(len(w.block.barriers)) || !w.same(ids, w.mask, id) {
		w.fault(in, w.mask, faultBarrierID, id)
	}
	bar := &w.block.barriers[id]
	expected := 0
	if !op.all {
		expected = int(uint32(w.src(op.count)[first]))
		if expected == 0 || expected%32 != 0 {
			w.fault(in, w.mask, faultBarrierCount, expected)
		}
	}
	if bar.threads > 0 && bar.expected != expected {
		w.fault(in, w.mask, faultBarrierMixed, bar.expected, bar.line, expected)
	}
	n := bits.OnesCount32(w.mask)
	bar.expected, bar.line = expected, in.line
	bar.threads += n
	if w.mask == w.live {
		bar.arrived += 32
	} else {
		bar.arrived += n
	}
	bar.votes += bits.OnesCount32(w.predicate(in.r) & w.mask)
	if !op.arrive {
		if rest := g.mask &^ w.mask; rest != 0 {
			w.groups = append(w.groups, group{mask: rest, pc: g.pc + 1, frame: g.frame, loops: g.loops})
			g = &w.groups[gi]
			g.mask = w.mask
		}
		g.state, g.barrier = groupBarrier, uint8(id)
		bar.waiting[w.index] |= w.mask
	} else if w.block.races != nil {
		w.block.races.arrive(w, int(id))
	}
	w.block.complete(int(id))
	return op.arrive
}
