package emu

import (
	"hash/maphash"
	"math/bits"
	"time"
	"unsafe"
)

// A warp's threads each have their own program counter. Those that are at the
// same place form a group, which executes an instruction for all its lanes at
// once. Groups are run lowest program counter first, deepest call first: code is
// laid out so that control flow meets again further down, and the group that is
// behind catches up with the one that waits there, whereupon they become one.
//
// That order alone would let a group that spins on memory starve the group
// that is to write it. So a group that takes backward branches for long yields
// to the others: each runs until it blocks, ends or yields in turn. A warp that
// has only yielded or blocked groups yields to the other warps of its block.
type group struct {
	mask  uint32
	pc    int32
	frame frame
	state groupState
	// barrier is what a group in the state groupBarrier waits for.
	barrier uint8
	loops   int32 // backward branches since it last yielded
}

// frame is where a function's registers, predicates and local memory begin.
type frame struct {
	depth, registers, predicates, local int32
}

type groupState uint8

const (
	groupReady   groupState = iota
	groupYielded            // ready, but others go first
	groupWarp               // waits for lanes of its warp at a warp instruction
	groupBarrier            // waits for the block at a barrier
)

// Backward branches before a group yields: few where the loop looks like a
// wait, many where it does not, for leaving a loop early costs convergence.
const (
	spinLimit = 4
	loopLimit = 4096
)

// callFrame is what a lane returns to.
type callFrame struct {
	pc    [32]int32
	frame [32]frame
}

type warp struct {
	block   *block
	index   int
	threads uint32 // lanes that exist
	live    uint32 // lanes that have not ended
	groups  []group

	regs  []lanes
	preds []uint32
	extra []*lanes
	own   []lanes // the special registers that differ between warps
	carry uint32
	local []byte
	limit int // bytes of local memory a lane has in local
	stack []callFrame

	// Of the group being executed:
	frame frame
	mask  uint32 // lanes of the instruction

	addr lanes // of the memory instruction
	tmp  lanes
	seen regionCache

	alone  [1]part      // spares an allocation for each warp instruction
	copies []laneCopies // cp.async of each lane
	fences uint32       // for the check of races
	taint  *taint       // for the check of uninitialised memory, else nil
}

func (w *warp) src(s slot) *lanes {
	if s >= 0 {
		return &w.regs[w.frame.registers+s]
	}
	return w.extra[^s]
}

func (w *warp) predicate(p predicate) uint32 {
	v := full
	if p.slot >= 0 {
		v = w.preds[w.frame.predicates+p.slot]
	}
	if p.not {
		v = ^v
	}
	return v
}

func (w *warp) setPredicate(slot int32, v uint32) {
	if slot >= 0 {
		p := &w.preds[w.frame.predicates+slot]
		*p = *p&^w.mask | v&w.mask
	}
}

// blend writes the masked lanes of v.
func (w *warp) blend(d slot, v *lanes) {
	to := &w.regs[w.frame.registers+d]
	if w.mask == w.live {
		*to = *v
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		to[i] = v[i]
	}
}

// status is how a warp's turn ended.
type status uint8

const (
	warpEnded   status = iota // no thread is left
	warpBlocked               // all groups wait for something
	warpYielded               // it has more to do
)

// run gives the warp a turn.
func (w *warp) run() status {
	for {
		g := w.pick()
		if g < 0 {
			break
		}
		w.exec(g)
	}
	if len(w.groups) == 0 {
		return warpEnded
	}
	s := warpBlocked
	for i := range w.groups {
		if g := &w.groups[i]; g.state == groupYielded {
			g.state = groupReady
			s = warpYielded
		}
	}
	return s
}

// pick merges groups that have met and returns the one to run, or -1.
func (w *warp) pick() int {
	best := -1
	for i := 0; i < len(w.groups); i++ {
		g := &w.groups[i]
		if g.state > groupYielded {
			continue
		}
		for j := len(w.groups) - 1; j > i; j-- {
			if o := &w.groups[j]; o.state <= groupYielded && o.pc == g.pc && o.frame == g.frame {
				g.mask |= o.mask
				g.state = min(g.state, o.state)
				g.loops = max(g.loops, o.loops)
				w.remove(j)
			}
		}
		if g.state == groupReady && (best < 0 || w.groups[best].after(g)) {
			best = i
		}
	}
	return best
}

// after reports whether o goes before g.
func (g *group) after(o *group) bool {
	if g.frame.depth != o.frame.depth {
		return g.frame.depth < o.frame.depth
	}
	return g.pc > o.pc
}

func (w *warp) remove(i int) {
	last := len(w.groups) - 1
	w.groups[i] = w.groups[last]
	w.groups = w.groups[:last]
}

// meeting is the lowest program counter past pc at which another group of the
// same frame is: there g looks whether to join it.
func (w *warp) meeting(g int) int32 {
	at := int32(1<<31 - 1)
	for i := range w.groups {
		if o := &w.groups[i]; i != g && o.frame == w.groups[g].frame && o.pc > w.groups[g].pc {
			at = min(at, o.pc)
		}
	}
	return at
}

// exec runs group g until it ends, blocks, yields, splits or meets another.
func (w *warp) exec(gi int) {
	g := &w.groups[gi]
	code := w.block.launch.program.code
	w.frame = g.frame
	pc, stop := g.pc, w.meeting(gi)
	profile := w.block.counts
	for first := true; ; first = false {
		if pc >= stop && !first {
			g.pc = pc
			return
		}
		in := &code[pc]
		mask := g.mask
		if in.guard.slot >= 0 || in.guard.not {
			mask &= w.predicate(in.guard)
		}
		w.mask = mask
		if profile != nil {
			profile.count(pc, mask)
		}
		if w.taint != nil {
			w.track(in, g.mask)
		}
		if mask == 0 {
			pc++
			continue
		}
		switch in.kind {
		case kindALU:
			if mask == w.live {
				in.alu(&w.regs[w.frame.registers+in.d], w.src(in.a), w.src(in.b), w.src(in.c))
			} else {
				in.alu(&w.tmp, w.src(in.a), w.src(in.b), w.src(in.c))
				w.blend(in.d, &w.tmp)
			}
		case kindCompare:
			// Either result may take the place of r.
			v, r := in.cmp(w.src(in.a), w.src(in.b)), w.predicate(in.r)
			w.setPredicate(in.p, in.logic.combine(v, r))
			w.setPredicate(in.q, in.logic.combine(^v, r))
		case kindSet:
			v := in.logic.combine(in.cmp(w.src(in.a), w.src(in.b)), w.predicate(in.r))
			for i := range w.tmp {
				w.tmp[i] = uint64(in.imm) & -uint64(v>>i&1)
			}
			w.blend(in.d, &w.tmp)
		case kindSelect:
			v, a, b := w.predicate(in.r), w.src(in.a), w.src(in.b)
			d := &w.regs[w.frame.registers+in.d]
			if mask != w.live {
				d = &w.tmp
			}
			for i := range d {
				x := a[i]
				if v>>i&1 == 0 {
					x = b[i]
				}
				d[i] = x
			}
			if mask != w.live {
				w.blend(in.d, d)
			}
		case kindLogic:
			w.setPredicate(in.p, in.logic.combine(w.predicate(in.r), w.predicate(in.s)))
		case kindCarry:
			c := in.carry(&w.tmp, w.src(in.a), w.src(in.b), w.src(in.c), w.carry&w.predicate(in.r))
			if in.setsCC {
				w.carry = w.carry&^mask | c&mask
			}
			w.blend(in.d, &w.tmp)
		case kindPack, kindUnpack, kindInsert:
			w.parts(in)
		case kindClock:
			w.clock(in)
		case kindFrame:
			fill(&w.tmp, uint64(int64(w.frame.local)+in.imm))
			w.blend(in.d, &w.tmp)
		case kindParam:
			w.loadParam(in)
		case kindLoad:
			w.load(in, pc)
		case kindStore:
			w.store(in, pc)
		case kindAtomic:
			w.atomic(in, pc)
		case kindBranch:
			if mask == g.mask {
				if in.target > pc {
					pc = in.target
					continue
				}
				pc = in.target
				if g.turned(in) {
					g.pc = pc
					return
				}
				stop = w.nextMeeting(gi, pc)
				continue
			}
			// Lanes part: those that fall through become a group of their own.
			w.groups = append(w.groups, group{mask: g.mask &^ mask, pc: pc + 1, frame: g.frame, loops: g.loops})
			g = &w.groups[gi]
			g.mask, g.pc = mask, in.target
			if in.target <= pc {
				g.turned(in)
			}
			return
		case kindIndexed:
			w.indexed(gi, in, pc)
			return
		case kindCall:
			if w.call(gi, in, pc) {
				return
			}
		case kindReturn:
			w.ret(gi, pc)
			return
		case kindExit:
			g.mask &^= mask
			w.exit(mask, pc)
			g.pc = pc + 1
			if g.mask == 0 {
				w.remove(gi)
			}
			return
		case kindWarp:
			g.pc = pc
			if !w.together(gi, in) {
				return
			}
			g = &w.groups[gi]
			stop = w.meeting(gi)
		case kindActive:
			fill(&w.tmp, uint64(mask))
			w.blend(in.d, &w.tmp)
		case kindBarrier:
			g.pc = pc
			if !w.barrier(gi, in) {
				return
			}
			g = &w.groups[gi]
		case kindFence:
			w.fence()
		case kindAsync:
			w.async(in, pc)
		case kindYield:
			g.pc, g.state, g.loops = pc+1, groupYielded, 0
			return
		case kindTrap:
			w.fault(in, mask, faultTrap)
		}
		pc++
	}
}

// nextMeeting is meeting for a group that has gone back to pc.
func (w *warp) nextMeeting(gi int, pc int32) int32 {
	if len(w.groups) == 1 {
		return 1<<31 - 1
	}
	w.groups[gi].pc = pc
	return w.meeting(gi)
}

// turned counts a backward branch and reports whether the group has yielded.
func (g *group) turned(in *instr) bool {
	g.loops++
	if g.loops < spinLimit || !in.spins && g.loops < loopLimit {
		return false
	}
	g.loops, g.state = 0, groupYielded
	return true
}

func fill(d *lanes, v uint64) {
	for i := range d {
		d[i] = v
	}
}

// parts executes pack, unpack and bfi.
func (w *warp) parts(in *instr) {
	m := in.mem
	switch in.kind {
	case kindPack:
		w.tmp = lanes{}
		for k := range m.count {
			p := w.src(m.regs[k])
			for i := range w.tmp {
				w.tmp[i] |= p[i] << (k * m.size)
			}
		}
		w.blend(in.d, &w.tmp)
	case kindUnpack:
		a := w.src(in.a)
		for k := range m.count {
			for i := range w.tmp {
				w.tmp[i] = trim(a[i]>>(k*m.size), m.size)
			}
			w.blend(m.regs[k], &w.tmp)
		}
	case kindInsert:
		a, b, c, n := w.src(in.a), w.src(in.b), w.src(in.c), w.src(m.regs[0])
		for i := range w.tmp {
			w.tmp[i] = insertField(int(in.imm), a[i], b[i], c[i], n[i])
		}
		w.blend(in.d, &w.tmp)
	}
}

// clock reads a special register that changes. A clock counts nanoseconds as a
// GPU of 1 GHz would count cycles.
func (w *warp) clock(in *instr) {
	var v uint64
	if in.imm < 3 {
		v = uint64(time.Since(w.block.launch.began)) + 1
	} else {
		v = uint64(time.Now().UnixNano())
	}
	switch in.imm {
	case 0, 4:
		v = uint64(uint32(v))
	case 1, 5:
		v >>= 32
	}
	fill(&w.tmp, v)
	w.blend(in.d, &w.tmp)
}

// indexed splits the group by the target of brx.idx.
func (w *warp) indexed(gi int, in *instr, pc int32) {
	g := w.groups[gi]
	a := w.src(in.a)
	w.remove(gi)
	rest := w.mask
	if other := g.mask &^ rest; other != 0 {
		w.groups = append(w.groups, group{mask: other, pc: pc + 1, frame: g.frame, loops: g.loops})
	}
	for rest != 0 {
		i := bits.TrailingZeros32(rest) & 31
		if a[i] >= uint64(len(in.targets)) {
			w.fault(in, 1<<i, faultIndex, a[i], len(in.targets))
		}
		to := in.targets[a[i]]
		var lanesTo uint32
		for m := rest; m != 0; m &= m - 1 {
			j := bits.TrailingZeros32(m) & 31
			if a[j] < uint64(len(in.targets)) && in.targets[a[j]] == to {
				lanesTo |= 1 << j
			}
		}
		rest &^= lanesTo
		ng := group{mask: lanesTo, pc: to, frame: g.frame, loops: g.loops}
		if to <= pc {
			ng.turned(in)
		}
		w.groups = append(w.groups, ng)
	}
}

// exit ends threads.
func (w *warp) exit(mask uint32, pc int32) {
	w.live &^= mask
	w.finishCopies(mask)
	w.block.exited(w, mask, pc)
	// Groups that wait for the lanes that are gone have to look again.
	for i := range w.groups {
		if g := &w.groups[i]; g.state == groupWarp {
			g.state = groupReady
		}
	}
}

// hash adds everything that decides what the warp does next.
func (w *warp) hash(h *maphash.Hash) {
	maphash.WriteComparable(h, [2]uint32{w.live, w.carry})
	for _, g := range w.groups {
		maphash.WriteComparable(h, g)
	}
	_, _ = h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w.regs))), len(w.regs)*int(unsafe.Sizeof(lanes{}))))
	_, _ = h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w.preds))), len(w.preds)*4))
}
