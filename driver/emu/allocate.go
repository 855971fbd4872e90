package emu

import (
	"cmp"
	"math/bits"
	"slices"
)

// PTX has as many registers as a compiler likes; a warp's slots should fit in
// the cache. allocate gives registers that are never live together one slot:
// liveness over the control flow graph, then a linear scan.
//
// Lanes of a warp that have diverged are at different places at once, but each
// has its own element of a slot, so that what holds for one thread holds for
// all. An instruction under a guard may leave its result as it was and does not
// end a live range.

// bitset is a set of virtual registers.
type bitset []uint64

func (s bitset) add(i int32)      { s[i>>6] |= 1 << (i & 63) }
func (s bitset) remove(i int32)   { s[i>>6] &^= 1 << (i & 63) }
func (s bitset) has(i int32) bool { return s[i>>6]>>(i&63)&1 != 0 }

// basic is a basic block: instructions [first, last].
type basic struct {
	first, last int32
	next        []int32
	gen, kill   bitset
	in, out     bitset
}

// successors calls f for each place that control can go to after code[i];
// places are relative to the function's start.
func successors(code []instr, i, start int32, f func(int32)) {
	in := &code[i]
	always := in.guard.slot < 0 && !in.guard.not
	switch in.kind {
	case kindBranch:
		f(in.target - start)
		if always {
			return
		}
	case kindIndexed:
		for _, t := range in.targets {
			f(t - start)
		}
		if always {
			return
		}
	case kindReturn, kindExit, kindTrap:
		if always {
			return
		}
	}
	if int(i)+1 < len(code) {
		f(i + 1)
	}
}

func (d *decoder) allocate(code []instr) {
	start := d.fn.start
	n := len(d.virtual)
	if n == 0 {
		return
	}
	words := (n + 63) / 64

	perInstr := make([][]fixup, len(code))
	for _, f := range d.fixups {
		perInstr[f.pc-start] = append(perInstr[f.pc-start], f)
	}

	leader := make([]bool, len(code)+1)
	leader[0] = true
	for i := range code {
		straight := true
		count := 0
		successors(code, int32(i), start, func(t int32) {
			count++
			if t != int32(i)+1 {
				straight = false
				leader[t] = true
			}
		})
		if !straight || count != 1 {
			leader[i+1] = true
		}
	}
	var blocks []basic
	blockOf := make([]int32, len(code))
	for i := range code {
		if leader[i] {
			sets := make(bitset, 4*words)
			blocks = append(blocks, basic{first: int32(i), gen: sets[:words:words], kill: sets[words : 2*words : 2*words],
				in: sets[2*words : 3*words : 3*words], out: sets[3*words:]})
		}
		blockOf[i] = int32(len(blocks) - 1)
		b := &blocks[len(blocks)-1]
		b.last = int32(i)
		for _, f := range perInstr[i] {
			if !f.def && !b.kill.has(f.reg) {
				b.gen.add(f.reg)
			}
		}
		if guard := code[i].guard; guard.slot < 0 && !guard.not {
			for _, f := range perInstr[i] {
				if f.def {
					b.kill.add(f.reg)
				}
			}
		}
	}
	for i := range blocks {
		b := &blocks[i]
		successors(code, b.last, start, func(t int32) { b.next = append(b.next, blockOf[t]) })
	}
	// Results that are registers are read by whoever returns.
	for i := range code {
		if code[i].kind == kindReturn {
			b := &blocks[blockOf[i]]
			for _, r := range d.fn.results {
				if r.isRegister && !b.kill.has(r.register) {
					b.gen.add(r.register)
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i := len(blocks) - 1; i >= 0; i-- {
			b := &blocks[i]
			for _, next := range b.next {
				for w, v := range blocks[next].in {
					b.out[w] |= v
				}
			}
			for w := range b.in {
				v := b.gen[w] | b.out[w]&^b.kill[w]
				if v != b.in[w] {
					b.in[w] = v
					changed = true
				}
			}
		}
	}

	ranges := make([]liveRange, n)
	for i := range ranges {
		ranges[i] = liveRange{reg: int32(i), first: -1}
	}
	extendAll := func(set bitset, at int32) {
		for w, v := range set {
			for ; v != 0; v &= v - 1 {
				ranges[w*64+bits.TrailingZeros64(v)].extend(at)
			}
		}
	}
	// Positions: an instruction reads at 2i and writes at 2i+1, so that an
	// element-wise instruction may write over what it reads.
	for i := range blocks {
		b := &blocks[i]
		extendAll(b.in, 2*b.first)
		extendAll(b.out, 2*b.last+1)
	}
	for i := range code {
		elementwise := code[i].kind <= kindSelect
		for _, f := range perInstr[i] {
			at := 2 * int32(i)
			if f.def || !elementwise {
				at++
			}
			ranges[f.reg].extend(at)
		}
	}
	end := int32(2 * len(code))
	for _, p := range d.fn.params {
		if p.isRegister {
			ranges[p.register].extend(0)
		}
	}
	for _, r := range d.fn.results {
		if r.isRegister {
			ranges[r.register].extend(0)
			ranges[r.register].extend(end)
		}
	}
	color := d.scan(ranges)
	for _, f := range d.fixups {
		*f.field = color[f.reg]
	}
	for _, list := range [][]param{d.fn.params, d.fn.results} {
		for i := range list {
			if list[i].isRegister {
				list[i].register = color[list[i].register]
			}
		}
	}
}

// liveRange is the stretch of code in which a register's value is needed; first
// is negative for a register that is never used.
type liveRange struct {
	reg         int32
	first, last int32
}

func (r *liveRange) extend(at int32) {
	if r.first < 0 {
		r.first, r.last = at, at
		return
	}
	r.first, r.last = min(r.first, at), max(r.last, at)
}

// scan assigns slots by a linear scan and returns each register's.
func (d *decoder) scan(ranges []liveRange) []int32 {
	color := make([]int32, len(ranges))
	slices.SortFunc(ranges, func(a, b liveRange) int { return cmp.Compare(a.first, b.first) })
	var registers, predicates slots
	for _, r := range ranges {
		if r.first < 0 {
			continue
		}
		class := &registers
		if d.virtual[r.reg] == pred {
			class = &predicates
		}
		color[r.reg] = class.take(r)
	}
	d.fn.registers, d.fn.predicates = registers.count, predicates.count
	return color
}

// slots are the slots of one class; active holds the ranges that have one, by
// their ends.
type slots struct {
	count  int32
	free   []int32
	active []activeSlot
}

type activeSlot struct{ last, slot int32 }

func (s *slots) take(r liveRange) int32 {
	n := 0
	for n < len(s.active) && s.active[n].last < r.first {
		s.free = append(s.free, s.active[n].slot)
		n++
	}
	s.active = slices.Delete(s.active, 0, n)
	var slot int32
	if k := len(s.free); k > 0 {
		slot = s.free[k-1]
		s.free = s.free[:k-1]
	} else {
		slot = s.count
		s.count++
	}
	at, _ := slices.BinarySearchFunc(s.active, r.last, func(a activeSlot, last int32) int { return cmp.Compare(a.last, last) })
	s.active = slices.Insert(s.active, at, activeSlot{r.last, slot})
	return slot
}
