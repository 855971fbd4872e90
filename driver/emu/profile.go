package emu

import (
	"cmp"
	"math/bits"
	"slices"
)

// Class groups instructions in a [Profile].
type Class uint8

const (
	ClassInteger Class = iota
	ClassFloat32
	ClassFloat64
	ClassHalf // f16 and bf16
	ClassConvert
	ClassMove
	ClassPredicate // comparisons and logic of predicates
	ClassBranch    // branches, calls, returns
	ClassLoad
	ClassStore
	ClassAtomic
	ClassWarp    // shuffles, votes and their like
	ClassBarrier // barriers of the block, mbarriers
	ClassFence
	ClassAsync // cp.async and bulk copies
	ClassOther
	classCount
)

var classNames = [classCount]string{
	"integer", "float32", "float64", "half", "convert", "move", "predicate", "branch",
	"load", "store", "atomic", "warp", "barrier", "fence", "async", "other",
}

func (c Class) String() string { return classNames[c] }

// Profile is what the launches of a kernel have executed, since the device was
// opened or its profile was reset.
type Profile struct {
	Module, Kernel string
	Launches       uint64
	Blocks         uint64
	Classes        [classCount]Count // by Class
	Global         Traffic
	Shared         Traffic
	Local          Traffic
	Lines          []Line // the instructions that were executed, in the order of the PTX
}

// Total is the sum of the classes.
func (p *Profile) Total() Count {
	var sum Count
	for _, c := range p.Classes {
		sum.add(c)
	}
	return sum
}

// Count is how often instructions were executed: by a warp, and by its threads
// that were active.
type Count struct{ Warps, Threads uint64 }

func (c *Count) add(o Count) {
	c.Warps += o.Warps
	c.Threads += o.Threads
}

// Traffic is a memory space's traffic.
type Traffic struct{ Loads, Stores, Atomics Access }

// Access sums up the requests of warps to memory.
type Access struct {
	Requests  uint64 // warp instructions
	Bytes     uint64 // that threads asked for
	Sectors   uint64 // of 32 bytes that the requests touched, in global memory
	Used      uint64 // bytes of the sectors that any thread of the request asked for
	Conflicts uint64 // extra rounds because of bank conflicts, in shared memory
}

func (a *Access) add(o Access) {
	a.Requests += o.Requests
	a.Bytes += o.Bytes
	a.Sectors += o.Sectors
	a.Used += o.Used
	a.Conflicts += o.Conflicts
}

// SectorsPerRequest is 4 for a warp that reads 4-byte values side by side, and
// 32 if each thread touches a sector of its own.
func (a Access) SectorsPerRequest() float64 {
	if a.Requests == 0 {
		return 0
	}
	return float64(a.Sectors) / float64(a.Requests)
}

// Line is an instruction of the PTX.
type Line struct {
	Line        int
	Instruction string // its opcode
	Class       Class
	Count       Count
	Memory      Access // zero for instructions that do not access memory
}

// Profile returns what has been executed, a record a kernel, sorted by module
// and name. Without [WithProfile] there is none.
func (d *Device) Profile() []Profile {
	b := d.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Profile
	for _, p := range b.profiles {
		c := *p
		c.Lines = slices.Clone(p.Lines)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Kernel, b.Kernel))
	})
	return list
}

// ResetProfile forgets what has been executed.
func (d *Device) ResetProfile() {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	clear(d.backend.profiles)
}

// counts are the counts of a program's instructions.
type counts struct {
	exec   []Count
	memory []memoryCount
	blocks uint64
}

type memoryCount struct {
	space  space
	access access
	Access
}

func newCounts(n int) *counts { return &counts{exec: make([]Count, n), memory: make([]memoryCount, n)} }

func (c *counts) count(pc int32, mask uint32) {
	c.exec[pc].Warps++
	c.exec[pc].Threads += uint64(bits.OnesCount32(mask))
}

// add takes over what o has counted for a block, and clears it.
func (c *counts) add(o *counts) {
	for i := range o.exec {
		c.exec[i].add(o.exec[i])
		m := &o.memory[i]
		if m.Requests > 0 {
			c.memory[i].space, c.memory[i].access = m.space, m.access
			c.memory[i].add(m.Access)
		}
	}
	c.blocks++
	clear(o.exec)
	clear(o.memory)
}

// traffic counts a request. A vector counts as one.
func (c *counts) traffic(w *warp, m *memory, pc int32, v *view, a access) {
	n := &c.memory[pc]
	n.space, n.access = v.space, a
	n.Requests++
	size := uint64(m.bytes())
	n.Bytes += size * uint64(bits.OnesCount32(w.mask))
	switch v.space {
	case spaceGlobal:
		touched, used := sectors(w, size)
		n.Sectors += touched
		n.Used += used
	case spaceShared:
		n.Conflicts += conflicts(w, v.first, size)
	}
}

// sectors counts the pieces of 32 bytes that the masked lanes touch, and their
// bytes that lanes ask for: accesses are aligned to their size, so two are of the
// same bytes or of none in common.
func sectors(w *warp, size uint64) (touched, used uint64) {
	seen, asked := make([]uint64, 0, 64), make([]uint64, 0, 32)
	w.active(func(lane int) {
		asked = append(asked, w.addr[lane])
		for s := w.addr[lane] / 32; s <= (w.addr[lane]+size-1)/32; s++ {
			seen = append(seen, s)
		}
	})
	slices.Sort(seen)
	slices.Sort(asked)
	return uint64(len(slices.Compact(seen))), size * uint64(len(slices.Compact(asked)))
}

// conflicts counts the rounds beyond the first that a request to shared memory
// takes: a round serves 128 bytes, one word of each of the 32 banks, and lanes
// that want the same word share it.
func conflicts(w *warp, first, size uint64) (extra uint64) {
	group := int(min(32, 128/max(size, 4)))
	for at := 0; at < 32; at += group {
		var words [32][]uint64
		rounds := 0
		for lane := at; lane < at+group; lane++ {
			if w.mask>>lane&1 == 0 {
				continue
			}
			addr := w.addr[lane] - first
			for word := addr / 4; word <= (addr+size-1)/4; word++ {
				bank := &words[word%32]
				if !slices.Contains(*bank, word) {
					*bank = append(*bank, word)
					rounds = max(rounds, len(*bank))
				}
			}
		}
		extra += uint64(max(rounds, 1) - 1)
	}
	return extra
}

// record adds a launch to the kernel's profile.
func (b *backend) record(k *kernel, l *launch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := l.program.name + "\x00" + k.fn.name
	p := b.profiles[key]
	if p == nil {
		p = &Profile{Module: l.program.name, Kernel: k.fn.name}
		b.profiles[key] = p
	}
	p.Launches++
	p.Blocks += l.profile.blocks
	at := 0
	for i, n := range l.profile.exec {
		if n.Warps == 0 {
			continue
		}
		in := &l.program.code[i]
		p.Classes[in.class].add(n)
		m := &l.profile.memory[i]
		if m.Requests > 0 {
			p.traffic(m)
		}
		for at < len(p.Lines) && p.Lines[at].Line < int(in.line) {
			at++
		}
		if at == len(p.Lines) || p.Lines[at].Line != int(in.line) {
			p.Lines = slices.Insert(p.Lines, at, Line{Line: int(in.line), Instruction: in.name, Class: in.class})
		}
		p.Lines[at].Count.add(n)
		p.Lines[at].Memory.add(m.Access)
	}
}

func (p *Profile) traffic(m *memoryCount) {
	var t *Traffic
	switch m.space {
	case spaceGlobal:
		t = &p.Global
	case spaceShared:
		t = &p.Shared
	case spaceLocal:
		t = &p.Local
	default:
		return
	}
	[...]*Access{&t.Loads, &t.Stores, &t.Atomics}[m.access].add(m.Access)
}
