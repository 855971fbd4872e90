package emu

import (
	"cmp"
	"math/bits"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

func popcount(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }

func reverse(width int) func(a uint64) uint64 {
	return func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - width) }
}

// Comparisons return a mask with a bit a lane.

func equal(a, b *lanes) (p uint32) {
	for i := range a {
		if a[i] == b[i] {
			p |= 1 << i
		}
	}
	return p
}

func lessU(a, b *lanes) (p uint32) {
	for i := range a {
		if a[i] < b[i] {
			p |= 1 << i
		}
	}
	return p
}

func lessS16(a, b *lanes) (p uint32) {
	for i := range a {
		if int16(a[i]) < int16(b[i]) {
			p |= 1 << i
		}
	}
	return p
}

func lessS32(a, b *lanes) (p uint32) {
	for i := range a {
		if int32(a[i]) < int32(b[i]) {
			p |= 1 << i
		}
	}
	return p
}

func lessS64(a, b *lanes) (p uint32) {
	for i := range a {
		if int64(a[i]) < int64(b[i]) {
			p |= 1 << i
		}
	}
	return p
}

func inverse(f compare) compare { return func(a, b *lanes) uint32 { return ^f(a, b) } }
func swapped(f compare) compare { return func(a, b *lanes) uint32 { return f(b, a) } }

// integerCompare picks a comparison of integers, nil for a name it has not.
func integerCompare(op string, t typ) compare {
	less := lessU
	if t.signed() {
		less = byWidth(t.bits, lessS16, lessS32, lessS64)
	}
	switch op {
	case "eq":
		return equal
	case "ne":
		return inverse(equal)
	}
	if t.kind == 'b' {
		return nil
	}
	switch op {
	case "lt":
		return less
	case "gt":
		return swapped(less)
	case "le":
		return inverse(swapped(less))
	case "ge":
		return inverse(less)
	}
	if t.signed() {
		return nil
	}
	switch op {
	case "lo":
		return lessU
	case "hi":
		return swapped(lessU)
	case "ls":
		return inverse(swapped(lessU))
	case "hs":
		return inverse(lessU)
	}
	return nil
}

// floatCompare picks a comparison of floats: ordered ones are false where an
// operand is NaN, those with a u are true then.
func floatCompare(op string, t typ, ftz bool) compare {
	const lt, eq, gt, un = 1, 2, 4, 8
	accept, ok := map[string]int{
		"eq": eq, "ne": lt | gt, "lt": lt, "le": lt | eq, "gt": gt, "ge": gt | eq,
		"equ": eq | un, "neu": lt | gt | un, "ltu": lt | un, "leu": lt | eq | un, "gtu": gt | un, "geu": gt | eq | un,
		"num": lt | eq | gt, "nan": un,
	}[op]
	if !ok {
		return nil
	}
	f := t.format()
	flushing := func(v uint64) uint64 { return v }
	if ftz && t == f32 {
		flushing = flush
	}
	return func(a, b *lanes) (p uint32) {
		for i := range a {
			x, y := f.decode(flushing(a[i])), f.decode(flushing(b[i]))
			rel := un
			if x == x && y == y {
				rel = 1 << (cmp.Compare(x, y) + 1)
			}
			if accept&rel != 0 {
				p |= 1 << i
			}
		}
		return p
	}
}

// comparison decodes ".op.logic.ftz" and returns the operation; the type of the
// operands is the last type left.
func (d *decoder) comparison(m *mods) string {
	op := m.must("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
		"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
	d.in.logic = map[string]logic{"and": logicAnd, "or": logicOr, "xor": logicXor}[m.one("and", "or", "xor")]
	return op
}

func (m *mods) comparison(op string, t typ, ftz bool) compare {
	m.require(t, "busfh", 16, 32, 64)
	var f compare
	if t.float() {
		if t.pair || ftz && t.bits == 64 {
			m.bad(t)
		}
		f = floatCompare(op, t, ftz)
	} else if !ftz {
		f = integerCompare(op, t)
	}
	if f == nil {
		fail(m.at, "%s: no comparison .%s for type %v", m.opcode, op, t)
	}
	return f
}

// combined decodes the predicate that a comparison is combined with.
func (d *decoder) combined(args []ast.Operand, at int) {
	if d.in.logic == logicNone {
		if len(args) > at {
			fail(d.ast.Pos, "%s with %d operands", d.in.name, len(args))
		}
		return
	}
	if len(args) <= at {
		fail(d.ast.Pos, "%s lacks its last predicate", d.in.name)
	}
	d.usePredicate(&d.in.r, args[at])
}

func decodeSetp(d *decoder, m *mods) {
	op := d.comparison(m)
	ftz := m.take("ftz")
	t := m.typ()
	in := d.in
	in.kind, in.class = kindCompare, ClassPredicate
	in.cmp = m.comparison(op, t, ftz)
	args := d.args(3, 4)
	p, q := d.pair(args[0])
	d.defPredicate(&in.p, p)
	if q != nil {
		d.defPredicate(&in.q, q)
	}
	d.sources(args[1:3], exact, t, t)
	d.combined(args, 3)
}

func decodeSet(d *decoder, m *mods) {
	op := d.comparison(m)
	ftz := m.take("ftz")
	to, t := m.typ(), m.typ()
	m.require(to, "usf", 32)
	in := d.in
	in.kind, in.class = kindSet, ClassPredicate
	in.cmp = m.comparison(op, t, ftz)
	in.imm = 0xffffffff
	if to == f32 {
		in.imm = 0x3f800000
	}
	args := d.args(3, 4)
	d.def(&in.d, args[0], to, exact)
	d.sources(args[1:3], exact, t, t)
	d.combined(args, 3)
}
