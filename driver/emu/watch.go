package emu

import (
	"math/bits"
)

// access is what an instruction does to memory.
type access uint8

const (
	accessRead access = iota
	accessWrite
	accessAtomic
)

func (a access) String() string { return [...]string{"read", "write", "atomic"}[a] }

// watch does the checks and counts that are off by default. The lanes' addresses
// are in w.addr.
func (w *warp) watch(in *instr, pc int32, v *view, a access) {
	c := &w.block.launch.checks
	if c.profile {
		w.block.counts.traffic(w, in.mem, pc, v, a)
	}
	if c.init && a == accessRead {
		w.readTaint(in, v)
	}
	if v.space != spaceGlobal && v.space != spaceShared {
		return
	}
	if c.init && a == accessWrite {
		w.writeTaint(in, v)
	}
	if c.init && a == accessAtomic {
		w.active(func(lane int) {
			w.requireWritten(in, lane, v, w.addr[lane], uint64(in.mem.size))
		})
	}
	if c.race {
		if v.space == spaceShared {
			w.block.races.access(w, in, v, a)
		} else {
			w.block.launch.races.access(w, in, v, a)
		}
	}
}

// learn tells the check of races that strong reads are done.
func (w *warp) learn(m *memory, v *view) {
	if r := w.block.launch.races; r != nil && v.space == spaceGlobal {
		r.learn(w, m.acquire)
	}
}

// active calls f for each masked lane.
func (w *warp) active(f func(lane int)) {
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		f(bits.TrailingZeros32(rest) & 31)
	}
}

// fence orders the block's accesses for the check of races.
func (w *warp) fence() {
	if r := w.block.launch.races; r != nil {
		r.fence(w.block)
	}
}
