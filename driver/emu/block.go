package emu

import (
	"hash/maphash"
	"math/bits"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

// block is a thread block: its warps take turns on one goroutine, so that what
// they share needs no locks. A context is used for one block after the other.
type block struct {
	launch   *launch
	number   uint64 // in the order of starting
	index    driver.Dim3
	warps    []*warp
	shared   []byte
	barriers [16]barrier
	live     int // threads that have not ended
	threads  int
	// absent are the threads that have ended by exit. The ISA has barriers of the
	// block go on without them; a kernel that returns before one is wrong.
	absent int
	ended  lastEnd
	index3 [3]lanes // %ctaid

	// changed is set when the block changes memory, moved when threads end or
	// pass a barrier; turn clears them.
	changed bool
	moved   bool
	stuck   stuckness
	watched bool
	races   *sharedRaces
	written []uint64 // bits of shared memory that something wrote
	counts  *counts
}

// lastEnd is a thread that has ended, for the message about a barrier that it
// never came to.
type lastEnd struct {
	warp *warp
	lane int
	pc   int32
}

// stuckness is what is known about a block that only waits.
type stuckness struct {
	turns uint64 // without a change
	// hash is of the state at some earlier turn, and epoch the memory's then.
	hash, epoch uint64
	// at is the epoch in which the state has come back, so that the block will
	// not get on unless memory changes.
	at   uint64
	held bool
}

// newMemory returns zeroed bytes aligned to 16.
func newMemory(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([][2]uint64, (n+15)/16)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// sharedFill is in shared and local memory before a kernel writes there.
const sharedFill = 0xcd

func newBlock(l *launch) *block {
	b := &block{launch: l, threads: int(l.config.Block.Count())}
	b.shared = newMemory(int(l.sharedBytes))
	b.watched = l.checks.race || l.checks.init || l.checks.profile
	if l.checks.race {
		b.races = newSharedRaces(len(b.shared))
	}
	if l.checks.init {
		b.written = make(writtenBits, (len(b.shared)+63)/64)
	}
	if l.checks.profile {
		b.counts = newCounts(len(l.program.code))
	}
	count := (b.threads + 31) / 32
	for i := range b.barriers {
		b.barriers[i].waiting = make([]uint32, count)
	}
	for i := range count {
		b.warps = append(b.warps, newWarp(b, i))
	}
	return b
}

func newWarp(b *block, index int) *warp {
	l := b.launch
	w := &warp{block: b, index: index}
	left := b.threads - 32*index
	w.threads = full
	if left < 32 {
		w.threads = 1<<left - 1
	}
	w.reserve(frame{}, l.kernel)
	if l.checks.init {
		w.newTaint()
	}
	w.bindExtra()
	return w
}

// bindExtra sets up the operands that are no registers.
func (w *warp) bindExtra() {
	l := w.block.launch
	w.extra = make([]*lanes, len(l.program.extra))
	for i, e := range l.program.extra {
		switch e.special {
		case specialNone, specialNtidX, specialNtidY, specialNtidZ, specialNctaidX, specialNctaidY, specialNctaidZ,
			specialWarps, specialSM, specialSMs, specialGrid, specialDynamicShared, specialTotalShared, specialDynamicBase,
			specialZero, specialOne:
			w.extra[i] = &l.extra[i]
		case specialCtaidX, specialCtaidY, specialCtaidZ:
			w.extra[i] = &w.block.index3[e.special-specialCtaidX]
		default:
			v := new(lanes)
			for lane := range v {
				v[lane] = w.special(e.special, lane)
			}
			w.extra[i] = v
		}
	}
}

// special is the value of a register that differs between threads of a block.
func (w *warp) special(s special, lane int) uint64 {
	t := split(uint64(w.index*32+lane), w.block.launch.config.Block)
	bit := uint64(1) << lane
	switch s {
	case specialTidX:
		return uint64(t.X)
	case specialTidY:
		return uint64(t.Y)
	case specialTidZ:
		return uint64(t.Z)
	case specialLane:
		return uint64(lane)
	case specialWarp:
		return uint64(w.index)
	case specialMaskEq:
		return bit
	case specialMaskLt:
		return bit - 1
	case specialMaskLe:
		return bit<<1 - 1
	case specialMaskGe:
		return trim(-bit, 32)
	default: // specialMaskGt
		return trim(-bit<<1, 32)
	}
}

// start makes the context that of block number n.
func (b *block) start(n uint64) {
	l := b.launch
	b.number = n
	b.index = split(n, l.config.Grid)
	fill(&b.index3[0], uint64(b.index.X))
	fill(&b.index3[1], uint64(b.index.Y))
	fill(&b.index3[2], uint64(b.index.Z))
	for i := range b.shared {
		b.shared[i] = sharedFill
	}
	for i := range b.barriers {
		b.barriers[i].reset()
	}
	b.live, b.absent, b.ended, b.stuck, b.changed = b.threads, 0, lastEnd{}, stuckness{}, false
	clear(b.written)
	if b.races != nil {
		b.races.reset()
	}
	for _, w := range b.warps {
		w.live = w.threads
		w.groups = append(w.groups[:0], group{mask: w.threads, pc: l.kernel.start})
		clear(w.regs)
		clear(w.preds)
		for i := range w.local {
			w.local[i] = sharedFill
		}
		if w.taint != nil {
			w.taint.reset()
		}
		w.carry, w.fences = 0, 0
		w.seen = regionCache{}
		w.copies = nil
	}
}

// turn runs the block until it has ended, or has only waited for a round of its
// warps, or has run for long.
func (b *block) turn() (t turn) {
	const most = 64 // rounds before other blocks may run
	for range most {
		b.changed, b.moved = false, false
		yielded := false
		for _, w := range b.warps {
			if len(w.groups) > 0 && w.run() == warpYielded {
				yielded = true
			}
		}
		if b.changed {
			b.launch.signal()
		}
		switch {
		case b.live == 0:
			return turnEnded
		case b.changed || b.moved:
			b.stuck = stuckness{}
		case !yielded:
			panic(b.stalled("no thread can go on"))
		default:
			return turnWaited
		}
	}
	return turnLong
}

// turn says how a block's turn ended.
type turn uint8

const (
	turnEnded turn = iota
	turnWaited
	turnLong
)

// change notes that memory is no longer what it was. What other blocks can see
// at once is passed on to those that wait.
func (b *block) change(visible bool) {
	b.changed = true
	if visible && b.launch.parked.Load() > 0 {
		b.launch.signal()
	}
}

// exited takes note of threads that have ended at an instruction.
func (b *block) exited(w *warp, mask uint32, pc int32) {
	n := bits.OnesCount32(mask)
	b.live -= n
	b.moved = true
	if b.launch.program.code[pc].name == "exit" {
		b.absent += n
	} else {
		b.ended = lastEnd{w, bits.TrailingZeros32(mask), pc}
	}
	if b.live > 0 {
		for id := range b.barriers {
			if bar := &b.barriers[id]; bar.threads > 0 && bar.expected == 0 {
				b.complete(id)
			}
		}
	}
}

// complete lets the threads at a barrier go on if all have come.
func (b *block) complete(id int) {
	bar := &b.barriers[id]
	if bar.expected != 0 && bar.arrived < bar.expected || bar.expected == 0 && bar.threads < b.live {
		return
	}
	code := b.launch.program.code
	votes, threads := bar.votes, bar.threads
	var met []*warp
	for _, w := range b.warps {
		waiting := bar.waiting[w.index]
		if waiting == 0 {
			continue
		}
		met = append(met, w)
		first := int32(-1)
		for i := range w.groups {
			g := &w.groups[i]
			if g.state != groupBarrier || int(g.barrier) != id {
				continue
			}
			in := &code[g.pc]
			if b.launch.checks.sync {
				if bar.expected == 0 && b.live+b.absent < b.threads {
					e := b.ended
					w.fault(in, g.mask, faultPartial, threads, b.threads-b.absent, e.warp.thread(e.lane), code[e.pc].line)
				}
				if first >= 0 && first != g.pc && in.barrier.aligned {
					w.fault(in, g.mask, faultDivergent, code[first].line, in.line)
				}
			}
			first = g.pc
			w.releaseGroup(g, in, votes, threads)
		}
	}
	bar.reset()
	b.moved = true
	if b.races != nil {
		b.races.meet(met, id)
	}
}

// releaseGroup lets a group go on behind its barrier, with the result of bar.red.
func (w *warp) releaseGroup(g *group, in *instr, votes, threads int) {
	frame, mask := w.frame, w.mask
	w.frame, w.mask = g.frame, g.mask
	var yes bool
	switch in.barrier.reduce {
	case "popc":
		fill(&w.tmp, uint64(votes))
		w.blend(in.d, &w.tmp)
	case "and":
		yes = votes == threads
	case "or":
		yes = votes > 0
	}
	if yes {
		w.setPredicate(in.p, full)
	} else {
		w.setPredicate(in.p, 0)
	}
	w.frame, w.mask = frame, mask
	g.state = groupReady
	g.pc++
}

var hashSeed = maphash.MakeSeed()

// hash is of everything that decides what the block does as long as memory does
// not change.
func (b *block) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, w := range b.warps {
		w.hash(&h)
	}
	return h.Sum64()
}

// waits decides, after a turn in which the block has only waited, whether it is
// stuck: whether its state is one that it was in before, with memory unchanged
// in between, so that it repeats itself until memory changes.
func (b *block) waits(epoch uint64) {
	s := &b.stuck
	h := b.hash()
	if s.turns > 0 && s.epoch == epoch && s.hash == h {
		s.held, s.at = true, epoch
		return
	}
	// The state to compare with moves on at powers of two, so that a cycle of
	// any length is found.
	if s.epoch != epoch {
		s.turns = 0
	}
	if s.turns&(s.turns-1) == 0 {
		s.hash, s.epoch = h, epoch
	}
	s.turns++
}
