package emu

import (
	"math"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// typ is an instruction's type: what its bits mean and how many there are.
type typ struct {
	kind byte // 'b', 'u', 's', 'f', 'h' (bf16) or 'p' (predicate)
	bits int  // of an element
	pair bool // two elements: f16x2, bf16x2
}

// width is the bits of the whole value.
func (t typ) width() int {
	if t.pair {
		return 2 * t.bits
	}
	return t.bits
}

func (t typ) bytes() int   { return t.width() / 8 }
func (t typ) signed() bool { return t.kind == 's' }
func (t typ) float() bool  { return t.kind == 'f' || t.kind == 'h' }
func (t typ) integer() bool {
	return t.kind == 'u' || t.kind == 's'
}

var (
	b8, b16, b32, b64 = typ{kind: 'b', bits: 8}, typ{kind: 'b', bits: 16}, typ{kind: 'b', bits: 32}, typ{kind: 'b', bits: 64}
	u8, u16, u32, u64 = typ{kind: 'u', bits: 8}, typ{kind: 'u', bits: 16}, typ{kind: 'u', bits: 32}, typ{kind: 'u', bits: 64}
	s8, s16, s32, s64 = typ{kind: 's', bits: 8}, typ{kind: 's', bits: 16}, typ{kind: 's', bits: 32}, typ{kind: 's', bits: 64}
	f16, f32, f64     = typ{kind: 'f', bits: 16}, typ{kind: 'f', bits: 32}, typ{kind: 'f', bits: 64}
	f16x2             = typ{kind: 'f', bits: 16, pair: true}
	bf16              = typ{kind: 'h', bits: 16}
	bf16x2            = typ{kind: 'h', bits: 16, pair: true}
	pred              = typ{kind: 'p', bits: 1}
)

var typeNames = map[string]typ{
	"b8": b8, "b16": b16, "b32": b32, "b64": b64,
	"u8": u8, "u16": u16, "u32": u32, "u64": u64,
	"s8": s8, "s16": s16, "s32": s32, "s64": s64,
	"f16": f16, "f32": f32, "f64": f64, "f16x2": f16x2, "bf16": bf16, "bf16x2": bf16x2, "pred": pred,
}

// trim keeps the low bits of v: the form in which registers hold values.
func trim(v uint64, bits int) uint64 {
	if bits >= 64 {
		return v
	}
	return v & (1<<bits - 1)
}

// extend is the value of a register as its type reads it, in 64 bits.
func (t typ) extend(v uint64) uint64 {
	if t.signed() && t.bits < 64 {
		return uint64(int64(v<<(64-t.bits)) >> (64 - t.bits))
	}
	return trim(v, t.width())
}

// immediate is a constant's bits as an operand of type t; ok is false where PTX
// does not allow the constant there.
func (t typ) immediate(n *ast.Number) (v uint64, ok bool) {
	switch {
	case n.Kind == ast.Int:
		return trim(n.Bits, t.width()), !t.float()
	case t.pair || t.integer() || t.kind == 'p':
		return 0, false
	case t.kind == 'b':
		return n.Bits, t.bits == 32 && n.Kind == ast.F32 || t.bits == 64 && n.Kind == ast.F64
	}
	if t == f32 && n.Kind == ast.F32 || t == f64 && n.Kind == ast.F64 {
		return n.Bits, true // NaN with its payload
	}
	f := math.Float64frombits(n.Bits)
	if n.Kind == ast.F32 {
		f = float64(math.Float32frombits(uint32(n.Bits)))
	}
	return fromFloat64(t, f), true
}
