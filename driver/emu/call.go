package emu

import (
	"bytes"
	"fmt"
	"math/bits"
)

// maxSlots bounds the registers of a warp's call stack.
const maxSlots = 1 << 17

// reserve makes room for a frame of fn.
func (w *warp) reserve(f frame, fn *function) bool {
	regs, preds := int(f.registers+fn.registers)+1, int(f.predicates+fn.predicates)+1
	local := int(alignUp(int64(f.local+fn.local), 16))
	if regs > maxSlots || local > maxLocal {
		return false
	}
	for len(w.regs) < regs {
		w.regs = append(w.regs, make([]lanes, max(regs-len(w.regs), len(w.regs)))...)
	}
	for len(w.preds) < preds {
		w.preds = append(w.preds, make([]uint32, max(preds-len(w.preds), len(w.preds)))...)
	}
	if w.taint != nil {
		w.growTaint()
	}
	if local > w.limit {
		limit := max(local, 2*w.limit)
		grown := newMemory(32 * limit)
		for i := range 32 {
			copy(grown[i*limit:(i+1)*limit], w.local[i*w.limit:(i+1)*w.limit])
		}
		w.local, w.limit = grown, limit
	}
	for len(w.stack) <= int(f.depth) {
		w.stack = append(w.stack, callFrame{})
	}
	return true
}

// call enters a function for the masked lanes. done is true if the group has
// changed, false if the call was a builtin and the next instruction follows.
func (w *warp) call(gi int, in *instr, pc int32) (done bool) {
	op := in.call
	if op.builtin != "" {
		w.builtin(in)
		return false
	}
	g := w.groups[gi]
	lanes := w.mask
	program := w.block.launch.program
	var fn *function
	if op.target >= 0 {
		fn = program.functions[op.target]
	} else {
		// Lanes that call another function stay behind and come here again.
		a := w.src(op.address)
		first := bits.TrailingZeros32(lanes) & 31
		i := a[first] - window(windowFunction)
		if a[first]>>windowBits != windowFunction || i%16 != 0 || i/16 >= uint64(len(program.functions)) {
			w.fault(in, 1<<first, faultCallee, a[first])
		}
		fn = program.functions[i/16]
		if fn.entry || fn.end == 0 || len(fn.params) != len(op.args) || len(fn.results) != len(op.results) {
			w.fault(in, 1<<first, faultPrototype, fn.name)
		}
		for rest := lanes; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros32(rest) & 31; a[i] != a[first] {
				lanes &^= 1 << i
			}
		}
	}
	caller := g.frame
	callee := frame{
		depth:      caller.depth + 1,
		registers:  caller.registers + op.function.registers,
		predicates: caller.predicates + op.function.predicates,
		local:      int32(alignUp(int64(caller.local+op.function.local), 16)),
	}
	if !w.reserve(callee, fn) {
		w.fault(in, lanes, faultStack, caller.depth)
	}
	for k, a := range op.args {
		w.transfer(lanes, caller, a, callee, fn.params[k].argument())
	}
	back := &w.stack[caller.depth]
	for rest := lanes; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		back.pc[i], back.frame[i] = pc+1, caller
	}
	w.groups[gi] = group{mask: lanes, pc: fn.start, frame: callee, loops: g.loops}
	if rest := w.mask &^ lanes; rest != 0 {
		w.groups = append(w.groups, group{mask: rest, pc: pc, frame: caller, loops: g.loops})
	}
	if rest := g.mask &^ w.mask; rest != 0 {
		w.groups = append(w.groups, group{mask: rest, pc: pc + 1, frame: caller, loops: g.loops})
	}
	return true
}

// ret returns from a function; lanes that were called from different places
// part.
func (w *warp) ret(gi int, pc int32) {
	g := w.groups[gi]
	code := w.block.launch.program.code
	w.remove(gi)
	if rest := g.mask &^ w.mask; rest != 0 {
		w.groups = append(w.groups, group{mask: rest, pc: pc + 1, frame: g.frame, loops: g.loops})
	}
	fn := code[pc].fn
	back := &w.stack[g.frame.depth-1]
	for rest := w.mask; rest != 0; {
		first := bits.TrailingZeros32(rest) & 31
		to, caller := back.pc[first], back.frame[first]
		var lanes uint32
		for m := rest; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; back.pc[i] == to && back.frame[i] == caller {
				lanes |= 1 << i
			}
		}
		rest &^= lanes
		for k, r := range code[to-1].call.results {
			w.transfer(lanes, g.frame, fn.results[k].argument(), caller, r)
		}
		w.groups = append(w.groups, group{mask: lanes, pc: to, frame: caller, loops: g.loops})
	}
}

func (p param) argument() argument {
	return argument{frame: !p.isRegister, offset: p.offset, size: p.size, register: p.register}
}

// transfer copies a value between two frames.
func (w *warp) transfer(mask uint32, fromFrame frame, from argument, toFrame frame, to argument) {
	size := int(min(from.size, to.size))
	saved := w.frame
	w.frame = fromFrame
	var v *lanes
	if !from.frame {
		v = w.src(from.register)
	}
	w.frame = saved
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & 31
		local := w.local[i*w.limit : (i+1)*w.limit]
		src := local[min(len(local), int(fromFrame.local+from.offset)):]
		dst := local[min(len(local), int(toFrame.local+to.offset)):]
		switch {
		case from.frame && to.frame:
			copy(dst[:size], src[:size])
		case from.frame:
			w.regs[toFrame.registers+to.register][i] = getBytes(src[:size])
		case to.frame:
			putBytes(dst[:size], v[i])
		default:
			w.regs[toFrame.registers+to.register][i] = trim(v[i], 8*size)
		}
	}
}

// builtin executes a function that CUDA provides: vprintf prints nothing and
// returns no error, and a failed assertion ends the launch.
func (w *warp) builtin(in *instr) {
	if in.call.builtin == "__assertfail" {
		w.fault(in, w.mask, faultAssert, w.assertion(in))
	}
	for _, r := range in.call.results {
		if r.frame {
			for rest := w.mask; rest != 0; rest &= rest - 1 {
				i := bits.TrailingZeros32(rest) & 31
				clear(w.local[i*w.limit+int(w.frame.local+r.offset):][:r.size])
			}
			continue
		}
		fill(&w.tmp, 0)
		w.blend(r.register, &w.tmp)
	}
}

// assertion is the message of __assertfail(message, file, line, function, size).
func (w *warp) assertion(in *instr) string {
	lane := bits.TrailingZeros32(w.mask) & 31
	value := func(k int) uint64 {
		a := in.call.args[k]
		if !a.frame {
			return w.src(a.register)[lane]
		}
		return getBytes(w.local[lane*w.limit+int(w.frame.local+a.offset):][:a.size])
	}
	text := func(addr uint64) string {
		r := w.region(addr, 1)
		if r == nil {
			return "?"
		}
		b := r.alloc.Bytes()[addr-r.first:]
		if n := bytes.IndexByte(b, 0); n >= 0 {
			b = b[:n]
		}
		return string(b)
	}
	return fmt.Sprintf("%s, in %s, %s:%d", text(value(0)), text(value(3)), text(value(1)), value(2))
}

func getBytes(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}
