package emu

import (
	"fmt"
	"sync"
)

// The checks for data races follow which accesses happen before which, with
// vector clocks: in shared memory between the warps of a block, in global memory
// between the blocks of a launch. Every agent counts its releases; an access is
// remembered with its agent's count, and it happens before another agent's if
// that one has learnt of a greater count.
//
// Two accesses of one byte race if neither happens before the other, one writes,
// and not both are strong. Strong accesses also carry knowledge: who reads what
// another wrote learns what that one had released; in global memory only with a
// fence or an acquire, without which a GPU may do the reads behind it earlier.

// clock is the count that each agent is known to have reached.
type clock []uint32

func (c clock) at(agent int) uint32 {
	if agent < len(c) {
		return c[agent]
	}
	return 0
}

// join raises c to what o knows.
func (c clock) join(o clock) clock {
	for len(c) < len(o) {
		c = append(c, 0)
	}
	for i, n := range o {
		c[i] = max(c[i], n)
	}
	return c
}

// record is an access in a shadow of memory.
type record struct {
	agent  int32 // plus one; zero is no access
	lane   int32 // of a warp, or the thread
	count  uint32
	fences uint32
	line   int32
	strong bool
}

// cell is the shadow of a byte. Of reads that nothing orders the last of one
// agent and the last of another are kept, so that a write by either meets one
// that is not its own.
type cell struct{ read, other, write record }

// remember notes a read; before tells which of the noted ones are ordered before
// it and need not be kept.
func (c *cell) remember(now record, before func(*record) bool) {
	if !before(&c.read) {
		c.other = c.read
	} else if before(&c.other) {
		c.other = record{}
	}
	c.read = now
}

// unorderedRead is a noted read that is not ordered before a write, or nil.
func (c *cell) unorderedRead(strong bool, before func(*record) bool) *record {
	for _, o := range [...]*record{&c.read, &c.other} {
		if !before(o) && !(strong && o.strong) {
			return o
		}
	}
	return nil
}

// sharedRaces is the shadow of a block's shared memory.
type sharedRaces struct {
	cells   []cell
	clocks  []clock          // of each warp
	sent    map[uint64]clock // knowledge left at addresses of strong writes
	arrived map[int]clock    // and at barriers, by warps that do not wait
}

func newSharedRaces(n int) *sharedRaces {
	return &sharedRaces{cells: make([]cell, n), clocks: make([]clock, 32)}
}

func (r *sharedRaces) reset() {
	clear(r.cells)
	r.sent = map[uint64]clock{}
	r.arrived = map[int]clock{}
	for i := range r.clocks {
		r.clocks[i] = make(clock, 32)
		for j := range r.clocks[i] {
			r.clocks[i][j] = 0
		}
		r.clocks[i][i] = 1
	}
}

// arrive leaves what a warp has done with those that will wait at a barrier.
func (r *sharedRaces) arrive(w *warp, barrier int) {
	r.arrived[barrier] = r.arrived[barrier].join(r.clocks[w.index])
	r.clocks[w.index][w.index]++
}

// meet makes warps at a barrier know what each has done, and what others had done
// when they arrived.
func (r *sharedRaces) meet(warps []*warp, barrier int) {
	all := r.arrived[barrier]
	delete(r.arrived, barrier)
	for _, w := range warps {
		all = all.join(r.clocks[w.index])
	}
	for _, w := range warps {
		copy(r.clocks[w.index], all)
		r.clocks[w.index][w.index]++
		w.fences++
	}
}

// before reports whether the recorded access happens before what the lane of the
// warp does now.
func (r *sharedRaces) before(o *record, w *warp, lane int) bool {
	switch {
	case o.agent == 0:
		return true
	case int(o.agent)-1 == w.index:
		return int(o.lane) == lane || o.fences < w.fences
	}
	return r.clocks[w.index].at(int(o.agent)-1) >= o.count
}

func (r *sharedRaces) access(w *warp, in *instr, v *view, a access) {
	n := uint64(in.mem.bytes())
	strong := in.mem.strong
	w.active(func(lane int) {
		first := w.addr[lane] - v.first
		now := record{int32(w.index) + 1, int32(lane), r.clocks[w.index][w.index], w.fences, in.line, strong}
		if strong && a != accessWrite {
			r.acquire(w, first)
		}
		before := func(o *record) bool { return r.before(o, w, lane) }
		for i := first; i < first+n; i++ {
			c := &r.cells[i]
			if !before(&c.write) && !(strong && c.write.strong) && !(a == accessWrite && w.same64(in, lane, &c.write)) {
				w.race(in, lane, "shared memory", i, a, accessWrite, r.thread(w, &c.write), c.write.line)
			}
			if a != accessRead {
				if o := c.unorderedRead(strong, before); o != nil {
					w.race(in, lane, "shared memory", i, a, accessRead, r.thread(w, o), o.line)
				}
				c.write = now
			}
			if a != accessWrite {
				c.remember(now, before)
			}
		}
		if strong && a != accessRead {
			r.release(w, first)
		}
	})
}

// release leaves what the warp knows at an address of shared memory, and acquire
// takes it: strong accesses do, and arriving at an mbarrier and passing it.
func (r *sharedRaces) release(w *warp, at uint64) {
	r.sent[at] = append(clock(nil), r.sent[at]...).join(r.clocks[w.index])
	r.clocks[w.index][w.index]++
}

func (r *sharedRaces) acquire(w *warp, at uint64) {
	r.clocks[w.index] = r.clocks[w.index].join(r.sent[at])
}

// same64 reports whether the recorded write is this instruction's own, by a lane
// that stores the same value: whichever comes last, the outcome is the same.
func (w *warp) same64(in *instr, lane int, o *record) bool {
	if int(o.agent)-1 != w.index || o.line != in.line || o.fences != w.fences {
		return false
	}
	for k := range in.mem.count {
		if v := w.src(in.mem.regs[k]); v[lane] != v[o.lane] {
			return false
		}
	}
	return true
}

func (r *sharedRaces) thread(w *warp, o *record) string {
	return "thread " + w.block.warps[o.agent-1].thread(int(o.lane))
}

func (w *warp) race(in *instr, lane int, where string, at uint64, a, other access, who string, line int32) {
	w.fault(in, 1<<lane, faultRace, fmt.Sprintf("this %v at %#x of %s and a %v by %s at line %d are not ordered", a, at, where, other, who, line))
}

// globalRaces is the shadow of the device memory that a launch uses.
type globalRaces struct {
	mu     sync.Mutex
	pages  map[uint64]*[pageBytes]cell
	sent   map[uint64]clock
	blocks map[uint64]*blockClock
}

const pageBytes = 4096

// blockClock is what a block knows, what it has heard by relaxed reads and will
// know after a fence, and what a fence has made visible of what it knows.
type blockClock struct {
	count    uint32
	known    clock
	heard    clock
	released clock
}

func newGlobalRaces() *globalRaces {
	return &globalRaces{pages: map[uint64]*[pageBytes]cell{}, sent: map[uint64]clock{}, blocks: map[uint64]*blockClock{}}
}

func (r *globalRaces) of(b *block) *blockClock {
	c := r.blocks[b.number]
	if c == nil {
		c = &blockClock{count: 1}
		r.blocks[b.number] = c
	}
	return c
}

func (r *globalRaces) fence(b *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	me := r.of(b)
	me.known = me.known.join(me.heard)
	r.release(b, me)
}

// release makes what the block has done until now visible.
func (r *globalRaces) release(b *block, c *blockClock) {
	own := make(clock, b.number+1)
	own[b.number] = c.count
	c.released = own.join(c.known)
	c.count++
}

func (r *globalRaces) access(w *warp, in *instr, v *view, a access) {
	b, m := w.block, in.mem
	n := uint64(m.bytes())
	r.mu.Lock()
	defer r.mu.Unlock()
	me := r.of(b)
	if m.release {
		r.release(b, me)
	}
	before := func(o *record) bool {
		return o.agent == 0 || uint64(o.agent-1) == b.number || me.known.at(int(o.agent-1)) >= o.count
	}
	w.active(func(lane int) {
		first := w.addr[lane]
		now := record{agent: int32(b.number) + 1, lane: int32(w.index*32 + lane), count: me.count, line: in.line, strong: m.strong}
		for i := first; i < first+n; i++ {
			page := r.pages[i/pageBytes]
			if page == nil {
				page = new([pageBytes]cell)
				r.pages[i/pageBytes] = page
			}
			c := &page[i%pageBytes]
			if !before(&c.write) && !(m.strong && c.write.strong) {
				w.race(in, lane, "the "+v.alloc.String(), i-v.first, a, accessWrite, r.block(w, &c.write), c.write.line)
			}
			if a != accessRead {
				if o := c.unorderedRead(m.strong, before); o != nil {
					w.race(in, lane, "the "+v.alloc.String(), i-v.first, a, accessRead, r.block(w, o), o.line)
				}
				c.write = now
			}
			if a != accessWrite {
				c.remember(now, before)
			}
		}
		if m.strong && a != accessRead {
			sent := me.released
			if a == accessAtomic {
				sent = append(clock(nil), sent...).join(r.sent[first])
			}
			r.sent[first] = sent
		}
	})
}

// learn is called after strong reads: what a value carries is sent before the
// value is stored, so whoever has read it finds it.
func (r *globalRaces) learn(w *warp, acquire bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	me := r.of(w.block)
	to := &me.heard
	if acquire {
		to = &me.known
	}
	w.active(func(lane int) { *to = to.join(r.sent[w.addr[lane]]) })
}

func (r *globalRaces) block(w *warp, o *record) string {
	l := w.block.launch
	return fmt.Sprintf("thread %s of block %s", triple(split(uint64(o.lane), l.config.Block)), triple(split(uint64(o.agent-1), l.config.Grid)))
}
