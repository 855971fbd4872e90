package emu

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// region is a piece of device memory that a warp has used lately.
type region struct {
	first, size uint64
	data        unsafe.Pointer
	alloc       *hostdev.Allocation
}

// regionCache spares most accesses the search for their allocation.
type regionCache struct {
	regions [4]region
	next    int
}

// region returns the allocation that [first, first+bytes) lies in, or nil.
func (w *warp) region(first, bytes uint64) *region {
	for i := range w.seen.regions {
		r := &w.seen.regions[i]
		if off := first - r.first; off < r.size && bytes <= r.size-off {
			if r.alloc.Freed() {
				return nil
			}
			return r
		}
	}
	a := w.block.launch.space.Find(driver.Ptr(first))
	if a == nil || !a.Contains(driver.Ptr(first), int64(bytes)) {
		return nil
	}
	r := &w.seen.regions[w.seen.next]
	w.seen.next = (w.seen.next + 1) % len(w.seen.regions)
	*r = region{uint64(a.Base()), uint64(a.Size()), unsafe.Pointer(unsafe.SliceData(a.Bytes())), a}
	return r
}

// addresses computes the masked lanes' addresses of m, and their least,
// greatest and union of bits.
func (w *warp) addresses(m *memory) (lo, hi, or uint64) {
	if m.frame {
		fill(&w.addr, uint64(int64(w.frame.local)+m.offset))
		a := w.addr[0]
		return a, a, a
	}
	base := w.src(m.base)
	offset := uint64(m.offset)
	lo = ^uint64(0)
	if w.mask == full {
		for i := range base {
			a := base[i] + offset
			if m.narrow {
				a = uint64(uint32(a))
			}
			w.addr[i] = a
			lo, hi, or = min(lo, a), max(hi, a), or|a
		}
		return lo, hi, or
	}
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		a := base[i] + offset
		if m.narrow {
			a = uint64(uint32(a))
		}
		w.addr[i] = a
		lo, hi, or = min(lo, a), max(hi, a), or|a
	}
	return lo, hi, or
}

// view is memory that all masked lanes of an access lie in: lane i's address is
// at data + (addr[i] - first).
type view struct {
	space space
	data  unsafe.Pointer
	first uint64
	alloc *hostdev.Allocation
}

// at is the memory of an address in the view.
func (v *view) at(addr uint64) unsafe.Pointer { return unsafe.Add(v.data, addr-v.first) }

// look finds the memory of an access whose addresses are in w.addr. ok is false
// if the lanes lie in different places and have to be looked at one by one. A
// lane that may not access its address is a fault.
func (w *warp) look(in *instr, m *memory, size uint64, lo, hi, or uint64) (v view, ok bool) {
	if or&(size-1) != 0 {
		w.misaligned(in, size)
	}
	v.space = m.space
	if v.space == spaceGeneric {
		switch win := lo >> windowBits; {
		case lo >= uint64(hostdev.SpaceBase):
			v.space = spaceGlobal
		case win != hi>>windowBits:
			return v, w.outside(in, m, size)
		case win == windowShared:
			v.space = spaceShared
		case win == windowLocal:
			v.space = spaceLocal
		case win == windowParam && in.kind == kindLoad:
			v.space = spaceParam
		case win == windowConst && in.kind == kindLoad:
			v.space = spaceConst
		default:
			v.space = spaceGlobal // and nothing is there
		}
		if v.space != spaceGlobal {
			v.first = lo &^ (1<<windowBits - 1)
			lo, hi = lo-v.first, hi-v.first
		}
	}
	b := w.block
	var limit uint64
	switch v.space {
	case spaceGlobal:
		r := w.region(lo, hi-lo+size)
		if r == nil {
			return v, w.outside(in, m, size)
		}
		v.data, v.first, v.alloc = r.data, r.first, r.alloc
		return v, true
	case spaceShared:
		limit = uint64(len(b.shared))
		v.data = unsafe.Pointer(unsafe.SliceData(b.shared))
	case spaceLocal:
		limit = uint64(w.frame.local + in.fn.local)
		v.data = unsafe.Pointer(unsafe.SliceData(w.local))
	case spaceConst:
		limit = uint64(len(b.launch.program.constant))
		v.data = unsafe.Pointer(unsafe.SliceData(b.launch.program.constant))
	case spaceParam:
		limit = uint64(len(b.launch.params))
		v.data = unsafe.Pointer(unsafe.SliceData(b.launch.params))
	}
	if hi > limit || size > limit-hi {
		return v, w.outside(in, m, size)
	}
	if v.space == spaceLocal {
		for i := range w.addr {
			w.addr[i] += uint64(i * w.limit)
		}
	}
	return v, true
}

// outside is what look does when the lanes do not lie in one place: with several
// lanes it asks for a look at each, with one it is that lane's fault.
func (w *warp) outside(in *instr, m *memory, size uint64) bool {
	if w.mask&(w.mask-1) != 0 {
		return false
	}
	w.illegal(in, m, size)
	return false
}

// lanewise runs f for each masked lane on its own.
func (w *warp) lanewise(f func()) {
	saved := w.mask
	for rest := saved; rest != 0; rest &= rest - 1 {
		w.mask = rest & -rest
		f()
	}
	w.mask = saved
}

// element is a type that memory is read and written in.
type element interface {
	uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64
}

func gather[T element](w *warp, v *view, d *lanes, offset, keep uint64) {
	data, origin := v.data, v.first-offset
	if w.mask == full {
		for i := range d {
			d[i] = uint64(*(*T)(unsafe.Add(data, w.addr[i]-origin))) & keep
		}
		return
	}
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		d[i] = uint64(*(*T)(unsafe.Add(data, w.addr[i]-origin))) & keep
	}
}

// scatter stores and returns the bits that have changed.
func scatter[T element](w *warp, v *view, s *lanes, offset uint64) (diff uint64) {
	data, origin := v.data, v.first-offset
	if w.mask == full {
		for i := range s {
			p := (*T)(unsafe.Add(data, w.addr[i]-origin))
			x := T(s[i])
			diff |= uint64(*p ^ x)
			*p = x
		}
		return diff
	}
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		p := (*T)(unsafe.Add(data, w.addr[i]-origin))
		x := T(s[i])
		diff |= uint64(*p ^ x)
		*p = x
	}
	return diff
}

// loadStrong and storeStrong are single accesses that other blocks may race
// with: whole, and in order with the others of their thread. Bytes and halves go
// through the word they lie in, which allocations always have.
func loadStrong(p unsafe.Pointer, size int) uint64 {
	switch size {
	case 4:
		return uint64(atomic.LoadUint32((*uint32)(p)))
	case 8:
		return atomic.LoadUint64((*uint64)(p))
	}
	word, shift := wordOf(p)
	return trim(uint64(atomic.LoadUint32(word)>>shift), 8*size)
}

func storeStrong(p unsafe.Pointer, size int, v uint64) (diff uint64) {
	switch size {
	case 4:
		return uint64(atomic.SwapUint32((*uint32)(p), uint32(v))) ^ v
	case 8:
		return atomic.SwapUint64((*uint64)(p), v) ^ v
	}
	return update(p, size, func(uint64) uint64 { return v }) ^ v
}

// wordOf is the aligned word that p lies in, and where; memory is little-endian.
func wordOf(p unsafe.Pointer) (word *uint32, shift uint) {
	low := uintptr(p) & 3
	return (*uint32)(unsafe.Add(p, -int(low))), uint(8 * low)
}

// update atomically replaces the value at p by f of it and returns the old one.
func update(p unsafe.Pointer, size int, f func(old uint64) uint64) uint64 {
	switch size {
	case 4:
		q := (*uint32)(p)
		for {
			old := atomic.LoadUint32(q)
			if atomic.CompareAndSwapUint32(q, old, uint32(f(uint64(old)))) {
				return uint64(old)
			}
		}
	case 8:
		q := (*uint64)(p)
		for {
			old := atomic.LoadUint64(q)
			if atomic.CompareAndSwapUint64(q, old, f(old)) {
				return old
			}
		}
	}
	q, shift := wordOf(p)
	for {
		word := atomic.LoadUint32(q)
		old := trim(uint64(word>>shift), 8*size)
		fresh := trim(f(old), 8*size)
		if atomic.CompareAndSwapUint32(q, word, word^uint32(old^fresh)<<shift) {
			return old
		}
	}
}

func (w *warp) load(in *instr, pc int32) {
	m := in.mem
	lo, hi, or := w.addresses(m)
	v, ok := w.look(in, m, uint64(m.bytes()), lo, hi, or)
	if !ok {
		w.lanewise(func() { w.load(in, pc) })
		return
	}
	if w.block.watched {
		w.watch(in, pc, &v, accessRead)
	}
	for k := range m.count {
		d := &w.regs[w.frame.registers+m.regs[k]]
		offset := uint64(k * m.size)
		keep := ^uint64(0) >> (64 - m.bits[k])
		if m.strong {
			for rest := w.mask; rest != 0; rest &= rest - 1 {
				i := bits.TrailingZeros32(rest) & 31
				x := loadStrong(v.at(w.addr[i]+offset), m.size)
				if m.signed {
					x = uint64(int64(x<<(64-8*m.size))>>(64-8*m.size)) & keep
				}
				d[i] = x
			}
			continue
		}
		switch {
		case m.size == 4 && !m.signed:
			gather[uint32](w, &v, d, offset, keep)
		case m.size == 8:
			gather[uint64](w, &v, d, offset, keep)
		case m.size == 4:
			gather[int32](w, &v, d, offset, keep)
		case m.size == 1 && !m.signed:
			gather[uint8](w, &v, d, offset, keep)
		case m.size == 1:
			gather[int8](w, &v, d, offset, keep)
		case !m.signed:
			gather[uint16](w, &v, d, offset, keep)
		default:
			gather[int16](w, &v, d, offset, keep)
		}
	}
	if m.strong {
		w.learn(m, &v)
	}
}

func (w *warp) store(in *instr, pc int32) {
	m := in.mem
	lo, hi, or := w.addresses(m)
	v, ok := w.look(in, m, uint64(m.bytes()), lo, hi, or)
	if !ok {
		w.lanewise(func() { w.store(in, pc) })
		return
	}
	if w.block.watched {
		w.watch(in, pc, &v, accessWrite)
	}
	var diff uint64
	for k := range m.count {
		s := w.src(m.regs[k])
		offset := uint64(k * m.size)
		if m.strong {
			for rest := w.mask; rest != 0; rest &= rest - 1 {
				i := bits.TrailingZeros32(rest) & 31
				diff |= storeStrong(v.at(w.addr[i]+offset), m.size, trim(s[i], 8*m.size))
			}
			continue
		}
		switch m.size {
		case 4:
			diff |= scatter[uint32](w, &v, s, offset)
		case 8:
			diff |= scatter[uint64](w, &v, s, offset)
		case 1:
			diff |= scatter[uint8](w, &v, s, offset)
		default:
			diff |= scatter[uint16](w, &v, s, offset)
		}
	}
	if diff != 0 {
		w.block.change(m.strong && v.space == spaceGlobal)
	}
}

// loadParam reads kernel parameters, which are the same for all threads.
func (w *warp) loadParam(in *instr) {
	m := in.mem
	for k := range m.count {
		at := w.block.launch.params[m.offset+int64(k*m.size):]
		var x uint64
		switch m.size {
		case 1:
			x = uint64(at[0])
		case 2:
			x = uint64(binary.LittleEndian.Uint16(at))
		case 4:
			x = uint64(binary.LittleEndian.Uint32(at))
		default:
			x = binary.LittleEndian.Uint64(at)
		}
		if m.signed {
			x = trim(uint64(int64(x<<(64-8*m.size))>>(64-8*m.size)), m.bits[k])
		}
		fill(&w.tmp, x)
		w.blend(m.regs[k], &w.tmp)
	}
}

// apply returns what an atomic stores for the old value and its operands.
func (m *memory) apply(global bool) func(old, b, c uint64) uint64 {
	t := m.typ
	less := func(a, b uint64) bool {
		if t.signed() {
			return int64(t.extend(a)) < int64(t.extend(b))
		}
		return a < b
	}
	switch m.op {
	case atomicAdd:
		if t.float() {
			f := nearest(opAdd, t.format())
			if t == f32 && global { // subnormals are flushed in global memory only
				f = formatSingle.flushed(f)
			}
			if t.pair {
				f = paired(f)
			}
			return func(old, b, _ uint64) uint64 { return f(old, b, 0) }
		}
		return func(old, b, _ uint64) uint64 { return trim(old+b, t.bits) }
	case atomicMin:
		return func(old, b, _ uint64) uint64 {
			if less(b, old) {
				return b
			}
			return old
		}
	case atomicMax:
		return func(old, b, _ uint64) uint64 {
			if less(old, b) {
				return b
			}
			return old
		}
	case atomicInc:
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case atomicDec:
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	case atomicAnd:
		return func(old, b, _ uint64) uint64 { return old & b }
	case atomicOr:
		return func(old, b, _ uint64) uint64 { return old | b }
	case atomicXor:
		return func(old, b, _ uint64) uint64 { return old ^ b }
	case atomicExch:
		return func(_, b, _ uint64) uint64 { return b }
	default:
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	}
}

// atomic executes atom and red, lane after lane.
func (w *warp) atomic(in *instr, pc int32) {
	m := in.mem
	lo, hi, or := w.addresses(m)
	v, ok := w.look(in, m, uint64(m.size), lo, hi, or)
	if !ok {
		w.lanewise(func() { w.atomic(in, pc) })
		return
	}
	if w.block.watched {
		w.watch(in, pc, &v, accessAtomic)
	}
	f := m.applied[0]
	if v.space == spaceGlobal {
		f = m.applied[1]
	}
	b, c := w.src(in.a), w.src(in.b)
	changed := false
	for rest := w.mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		var fresh uint64
		old := update(v.at(w.addr[i]), m.size, func(old uint64) uint64 {
			fresh = f(old, b[i], c[i])
			return fresh
		})
		changed = changed || old != fresh
		if !m.red {
			w.tmp[i] = old
		}
	}
	if !m.red {
		w.blend(in.d, &w.tmp)
	}
	if changed {
		w.block.change(v.space == spaceGlobal)
	}
	w.learn(m, &v)
}
