package emu

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
)

// faultKind is a way in which a kernel can go wrong.
type faultKind uint8

const (
	faultTrap faultKind = iota
	faultAssert
	faultIllegal
	faultMisaligned
	faultIndex
	faultCallee
	faultPrototype
	faultStack
	faultMask
	faultInactive
	faultBarrierID
	faultBarrierCount
	faultBarrierMixed
	faultPartial
	faultDivergent
	faultMbarrier
	faultCopy
	faultRace
	faultUninitialised
)

var faults = [...]struct {
	code   driver.Code
	format string
}{
	faultTrap:          {driver.ErrLaunchFailed, "a trap"},
	faultAssert:        {driver.ErrAssert, "%s"},
	faultIllegal:       {driver.ErrIllegalAddress, "%s"},
	faultMisaligned:    {driver.ErrMisaligned, "address %#x for an access of %d bytes"},
	faultIndex:         {driver.ErrIllegalInstr, "index %d into %d targets"},
	faultCallee:        {driver.ErrIllegalInstr, "a call of %#x, which is no function"},
	faultPrototype:     {driver.ErrIllegalInstr, "a call of %s with another prototype"},
	faultStack:         {driver.ErrLaunchFailed, "the call stack is full at a depth of %d"},
	faultMask:          {driver.ErrSync, "a thread that its own mask %#08x leaves out"},
	faultInactive:      {driver.ErrSync, "reads from lane %d, which does not take part"},
	faultBarrierID:     {driver.ErrSync, "barrier %d, or different barriers in a warp"},
	faultBarrierCount:  {driver.ErrSync, "a barrier for %d threads, which is no multiple of a warp"},
	faultBarrierMixed:  {driver.ErrSync, "a barrier that %[1]d threads take part in at line %[2]d and %[3]d here (0 is the block)"},
	faultPartial:       {driver.ErrSync, "only %d of the block's %d threads come to the barrier; thread %s ended at line %d"},
	faultDivergent:     {driver.ErrSync, "lanes of a warp wait at two instructions, lines %d and %d, for an aligned barrier"},
	faultMbarrier:      {driver.ErrSync, "mbarrier at %#x: %s"},
	faultCopy:          {driver.ErrInvalidValue, "a copy of %d bytes"},
	faultRace:          {driver.ErrRace, "%s"},
	faultUninitialised: {driver.ErrUninitialized, "%s comes from memory that nothing wrote, read by %s"},
}

// fault ends the launch because of what the lowest lane of mask does.
func (w *warp) fault(in *instr, mask uint32, kind faultKind, args ...any) {
	f := faults[kind]
	lane := bits.TrailingZeros32(mask) & 31
	at := w.block.index
	panic(&driver.Error{
		Op:   "Launch",
		Code: f.code,
		At:   &at,
		Detail: fmt.Sprintf("%s at line %d of %s, thread %s of block %s: ", in.name, in.line, w.block.launch.program.name,
			w.thread(lane), triple(w.block.index)) + fmt.Sprintf(f.format, args...),
	})
}

func triple(d driver.Dim3) string { return fmt.Sprintf("(%d,%d,%d)", d.X, d.Y, d.Z) }

// thread names a lane's thread by its index in the block.
func (w *warp) thread(lane int) string {
	return triple(split(uint64(w.index*32+lane), w.block.launch.config.Block))
}

// split is the place of index i in a box.
func split(i uint64, box driver.Dim3) driver.Dim3 {
	x, y := uint64(box.X), uint64(box.Y)
	return driver.Dim3{X: uint32(i % x), Y: uint32(i / x % y), Z: uint32(i / (x * y))}
}

// undefined faults because of undefined bits that the instruction at a line read.
func (w *warp) undefined(in *instr, mask uint32, what string, line int32) {
	reader := fmt.Sprintf("line %d", line)
	for i := range w.block.launch.program.code {
		if c := &w.block.launch.program.code[i]; c.line == line {
			reader = fmt.Sprintf("%s at line %d", c.name, line)
			break
		}
	}
	w.fault(in, mask, faultUninitialised, what, reader)
}

// misaligned faults with the first lane whose address is no multiple of size.
func (w *warp) misaligned(in *instr, size uint64) {
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros32(rest) & 31; w.addr[i]&(size-1) != 0 {
			w.fault(in, 1<<i, faultMisaligned, w.addr[i], size)
		}
	}
}

// illegal faults because the only lane of the mask may not access its address.
func (w *warp) illegal(in *instr, m *memory, size uint64) {
	addr := w.addr[bits.TrailingZeros32(w.mask)&31]
	s := m.space
	if s == spaceGeneric {
		switch addr >> windowBits {
		case windowShared:
			s = spaceShared
		case windowLocal:
			s = spaceLocal
		case windowParam:
			s = spaceParam
		case windowConst:
			s = spaceConst
		default:
			s = spaceGlobal
		}
		if s != spaceGlobal {
			addr &= 1<<windowBits - 1
		}
	}
	l := w.block.launch
	var has int64
	switch s {
	case spaceGlobal:
		w.fault(in, w.mask, faultIllegal, l.space.Illegal("Launch", driver.Ptr(addr), int64(size)).Detail)
	case spaceShared:
		has = int64(len(w.block.shared))
	case spaceLocal:
		has = int64(w.frame.local + in.fn.local)
	case spaceConst:
		has = int64(len(l.program.constant))
	case spaceParam:
		has = int64(len(l.params))
	}
	if in.kind != kindLoad && (s == spaceConst || s == spaceParam) {
		w.fault(in, w.mask, faultIllegal, fmt.Sprintf("writes to %v memory", s))
	}
	w.fault(in, w.mask, faultIllegal, fmt.Sprintf("%d bytes at %d of %d bytes of %v memory", size, int64(addr), has, s))
}

// stalled is the error for a block, or a launch, in which nothing can move:
// where its threads are, by instruction.
func (b *block) stalled(why string) *driver.Error {
	type place struct {
		count int
		where string
	}
	var places []*place
	seen := map[int32]*place{}
	code := b.launch.program.code
	for _, w := range b.warps {
		for i := range w.groups {
			g := &w.groups[i]
			p := seen[g.pc]
			if p == nil {
				in := &code[g.pc]
				p = &place{where: fmt.Sprintf("at %s, line %d, thread %s first", in.name, in.line, w.thread(bits.TrailingZeros32(g.mask)))}
				seen[g.pc] = p
				places = append(places, p)
			}
			p.count += bits.OnesCount32(g.mask)
		}
	}
	var list []string
	for i, p := range places {
		if i == 4 {
			list = append(list, fmt.Sprintf("and at %d other places", len(places)-i))
			break
		}
		list = append(list, fmt.Sprintf("%d threads %s", p.count, p.where))
	}
	return driver.Errorf("Launch", driver.ErrHang, "%s of %s: %s: %s", "block "+triple(b.index), b.launch.program.name, why, strings.Join(list, "; "))
}
