package emu

import (
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// decoders hold, for each instruction's first name, what turns it into an instr.
// They take the modifiers they know; one that is left over is an error.
var decoders map[string]func(d *decoder, m *mods)

func init() {
	decoders = map[string]func(d *decoder, m *mods){
		"mov": decodeMov, "cvt": decodeCvt, "cvta": decodeCvta, "isspacep": decodeIsSpace,
		"add": decodeAdd, "sub": decodeAdd, "addc": decodeAdd, "subc": decodeAdd,
		"mul": decodeMul, "mad": decodeMul, "madc": decodeMul, "mul24": decodeMul24, "mad24": decodeMul24,
		"fma": decodeFma, "div": decodeDiv, "rem": decodeRem, "sad": decodeSad,
		"abs": decodeSign, "neg": decodeSign, "min": decodeExtreme, "max": decodeExtreme,
		"rcp": decodeApprox, "sqrt": decodeApprox, "rsqrt": decodeApprox, "sin": decodeApprox, "cos": decodeApprox,
		"lg2": decodeApprox, "ex2": decodeApprox, "tanh": decodeApprox,
		"copysign": decodeCopysign, "testp": decodeTestp,
		"and": decodeBits, "or": decodeBits, "xor": decodeBits, "not": decodeNot, "cnot": decodeNot,
		"shl": decodeShift, "shr": decodeShift, "shf": decodeFunnel,
		"popc": decodeCount, "clz": decodeCount, "brev": decodeCount, "bfind": decodeFind, "fns": decodeFns,
		"bfe": decodeExtract, "bfi": decodeInsert, "szext": decodeSzext, "bmsk": decodeBmsk,
		"prmt": decodePrmt, "lop3": decodeLop3, "dp4a": decodeDot, "dp2a": decodeDot,
		"setp": decodeSetp, "set": decodeSet, "selp": decodeSelp, "slct": decodeSlct,
		"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore, "atom": decodeAtomic, "red": decodeAtomic,
		"prefetch": decodePrefetch, "prefetchu": decodePrefetch, "applypriority": decodePrefetch, "discard": decodePrefetch,
		"createpolicy": decodePolicy,
		"bra":          decodeBranch, "brx": decodeIndexed, "call": decodeCall, "ret": decodeReturn, "exit": decodeReturn,
		"trap": decodeTrap, "brkpt": decodeTrap,
		"bar": decodeBarrier, "barrier": decodeBarrier, "shfl": decodeShuffle, "vote": decodeVote, "match": decodeMatch,
		"redux": decodeRedux, "elect": decodeElect, "activemask": decodeActive,
		"fence": decodeFence, "membar": decodeFence, "nanosleep": decodeSleep,
		"cp": decodeAsync, "mbarrier": decodeMbarrier,
		"griddepcontrol": decodeNothing, "pmevent": decodeNothing, "setmaxnreg": decodeNothing,
	}
}

// alu decodes "op d, a, b, c" of the given types.
func (d *decoder) alu(class Class, f alu, to typ, from ...typ) {
	args := d.args(1+len(from), 1+len(from))
	in := d.in
	in.kind, in.class, in.alu = kindALU, class, f
	in.flow = flows[d.ast.Name]
	if to.float() || d.ast.Has("hi") {
		in.flow = flowAll
	}
	d.def(&in.d, args[0], to, exact)
	d.sources(args[1:], exact, from...)
}

// flows are how undefined bits pass through integer instructions.
var flows = map[string]flow{
	"mov": flowMove, "and": flowBits, "or": flowBits, "xor": flowBits, "not": flowBits,
	"add": flowUp, "sub": flowUp, "mul": flowUp, "mad": flowUp,
	"shl": flowMove, "shr": flowMove, "shf": flowMove2, "brev": flowMove, "bfe": flowMove, "szext": flowMove, "prmt": flowMove2,
}

// sources decodes up to three source operands.
func (d *decoder) sources(args []ast.Operand, fit fits, from ...typ) {
	fields := [...]*slot{&d.in.a, &d.in.b, &d.in.c}
	for i, f := range fields {
		if i < len(from) {
			d.use(f, args[i], from[i], fit)
		} else {
			*f = d.extra(extra{})
		}
	}
}

// require refuses types outside the given widths and kinds.
func (m *mods) require(t typ, kinds string, widths ...int) {
	for _, w := range widths {
		if w == t.width() {
			for _, k := range []byte(kinds) {
				if k == t.kind {
					return
				}
			}
		}
	}
	m.bad(t)
}

func decodeMov(d *decoder, m *mods) {
	t := m.typ()
	args := d.args(2, 2)
	in := d.in
	if t == pred {
		in.kind, in.class = kindLogic, ClassPredicate
		d.defPredicate(&in.p, args[0])
		d.usePredicate(&in.r, args[1])
		return
	}
	m.require(t, "busfh", 16, 32, 64)
	if v, ok := args[0].(*ast.Vector); ok {
		d.unpack(v, args[1], t)
		return
	}
	if v, ok := args[1].(*ast.Vector); ok {
		d.pack(args[0], v, t)
		return
	}
	if id, ok := args[1].(*ast.Ident); ok {
		name := id.Name
		if bits, ok := clocks[name]; ok {
			d.check(id, typ{kind: 'b', bits: bits}, t, exact)
			in.kind, in.class, in.imm = kindClock, ClassMove, int64(clockIndex(name))
			d.def(&in.d, args[0], t, exact)
			return
		}
	}
	if s, offset := d.symbol(args[1]); s != nil {
		switch {
		case s.kind == symbolFrame:
			in.kind, in.class, in.imm = kindFrame, ClassMove, s.offset+offset
			d.def(&in.d, args[0], t, exact)
			return
		case s.kind == symbolDynamic && offset != 0:
			in.kind, in.class, in.alu = kindALU, ClassMove, byWidth(t.bits, add16, add32, add64)
			d.def(&in.d, args[0], t, exact)
			in.a = d.extra(extra{special: specialDynamicBase})
			in.b = d.extra(extra{value: trim(uint64(offset), t.bits)})
			in.c = d.extra(extra{})
			return
		case s.kind == symbolParam:
			in.kind, in.class, in.alu = kindALU, ClassMove, move
			d.def(&in.d, args[0], t, exact)
			in.a = d.extra(extra{value: uint64(s.offset + offset)})
			in.b, in.c = d.extra(extra{}), d.extra(extra{})
			return
		}
	}
	d.alu(ClassMove, move, t, t)
}

func clockIndex(name string) int {
	for i, n := range []string{"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"} {
		if n == name {
			return i
		}
	}
	return 0
}

// symbol finds the variable that o names, with an offset.
func (d *decoder) symbol(o ast.Operand) (s *symbol, offset int64) {
	if sum, ok := o.(*ast.Sum); ok {
		o, offset = sum.Base, sum.Offset
	}
	if id, ok := o.(*ast.Ident); ok && id.Part == "" {
		return d.find(id.Name, d.sc), offset
	}
	return nil, 0
}

// pack is "mov.b64 d, {a, b}": parts from the lowest up.
func (d *decoder) pack(to ast.Operand, v *ast.Vector, t typ) {
	n := len(v.Elems)
	if n != 2 && n != 4 || t.bits/n < 8 {
		fail(v.Pos, "%s of %d parts", d.in.name, n)
	}
	part := typ{kind: 'b', bits: t.bits / n}
	in := d.in
	in.kind, in.class = kindPack, ClassMove
	in.mem = &memory{count: n, size: part.bits}
	d.def(&in.d, to, t, exact)
	for i, e := range v.Elems {
		d.use(&in.mem.regs[i], e, part, exact)
	}
}

func (d *decoder) unpack(v *ast.Vector, from ast.Operand, t typ) {
	n := len(v.Elems)
	if n != 2 && n != 4 || t.bits/n < 8 {
		fail(v.Pos, "%s of %d parts", d.in.name, n)
	}
	part := typ{kind: 'b', bits: t.bits / n}
	in := d.in
	in.kind, in.class = kindUnpack, ClassMove
	in.mem = &memory{count: n, size: part.bits}
	d.use(&in.a, from, t, exact)
	for i, e := range v.Elems {
		d.def(&in.mem.regs[i], e, part, exact)
	}
}

func decodeCvt(d *decoder, m *mods) {
	c := conversion{ftz: m.take("ftz"), sat: m.take("sat"), relu: m.take("relu")}
	round := m.one("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
	c.to, c.from = m.typ(), m.typ()
	if len(round) == 3 && round[2] == 'i' {
		c.integral = true
		c.mode = roundingNames[round[:2]]
	} else {
		c.mode = roundingNames[round]
	}
	in := d.in
	if c.to.pair {
		m.require(c.to, "fh", 32)
		m.require(c.from, "f", 32)
		to := c
		to.to.pair = false
		half := to.convert()
		d.alu(ClassConvert, map2(func(a, b uint64) uint64 { return half(a)<<16 | half(b) }), c.to, f32, f32)
		return
	}
	if c.from.pair || c.to == pred || c.from == pred || c.to.kind == 'b' || c.from.kind == 'b' {
		m.bad(c.to)
	}
	if c.to.float() && c.from.float() && c.to.bits < c.from.bits && round == "" || !c.to.float() && c.from.float() && !c.integral || c.to.float() && !c.from.float() && round == "" {
		fail(m.at, "%s has no rounding", m.opcode)
	}
	if c.integral && !c.from.float() || c.mode == nearestAway {
		fail(m.at, "%s: rounding %s is not known here", m.opcode, round)
	}
	if c.sat && c.to.holds(c.from) {
		fail(m.at, "%s: .sat where every value fits", m.opcode)
	}
	args := d.args(2, 2)
	register := c.to.bits
	if s := d.registerOf(args[0]); s != nil {
		register = s.typ.bits
	}
	in.kind, in.class, in.alu = kindALU, ClassConvert, c.loop(register)
	if !c.to.float() && !c.from.float() && !c.sat {
		in.flow = flowMove
	}
	d.def(&in.d, args[0], c.to, wider)
	d.sources(args[1:], wider, c.from)
}

var spaceWindows = map[string]uint64{
	"global": 0, "shared": windowShared, "shared::cta": windowShared, "shared::cluster": windowShared,
	"local": windowLocal, "param": windowParam, "param::entry": windowParam, "const": windowConst,
}

func decodeCvta(d *decoder, m *mods) {
	to := m.take("to")
	space := m.must("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
	t := m.typ()
	m.require(t, "u", 64)
	base := window(spaceWindows[space])
	args := d.args(2, 2)
	in := d.in
	in.kind, in.class = kindALU, ClassMove
	if s, offset := d.symbol(args[1]); s != nil && s.kind == symbolFrame && !to {
		in.kind, in.imm = kindFrame, s.offset+offset+int64(base)
		d.def(&in.d, args[0], t, exact)
		return
	} else if s != nil && s.kind == symbolParam && !to {
		in.alu = move
		d.def(&in.d, args[0], t, exact)
		in.a = d.extra(extra{value: uint64(s.offset+offset) + base})
		in.b, in.c = d.extra(extra{}), d.extra(extra{})
		return
	}
	switch {
	case base == 0:
		in.alu = move
	case to:
		in.alu = sub64
	default:
		in.alu = add64
	}
	d.def(&in.d, args[0], t, exact)
	d.sources(args[1:], exact, t)
	in.b = d.extra(extra{value: base})
}

func decodeIsSpace(d *decoder, m *mods) {
	space := m.must("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
	want := spaceWindows[space]
	args := d.args(2, 2)
	in := d.in
	in.kind, in.class = kindCompare, ClassPredicate
	in.cmp = func(a, _ *lanes) (p uint32) {
		for i, v := range a {
			w := v >> windowBits
			if w == want && w != 0 || want == 0 && (w == 0 || w > windowFunction) {
				p |= 1 << i
			}
		}
		return p
	}
	d.defPredicate(&in.p, args[0])
	d.sources(args[1:], exact, u64)
}

func decodeAdd(d *decoder, m *mods) {
	name := d.ast.Name
	sub := name == "sub" || name == "subc"
	carryIn := name == "addc" || name == "subc"
	carryOut := m.take("cc")
	if carryIn || carryOut {
		t := m.typ()
		m.require(t, "us", 32, 64)
		d.carried(addCarry(t.bits, sub), carryIn, carryOut, t, t, t)
		return
	}
	op := opAdd
	if sub {
		op = opSub
	}
	if f, t, ok := d.floating(m, op); ok {
		switch {
		case f != nil:
			d.alu(floatClass(t), map3(f), t, t, t)
		case t == f32 && sub:
			d.alu(ClassFloat32, subF32, t, t, t)
		case t == f32:
			d.alu(ClassFloat32, addF32, t, t, t)
		case sub:
			d.alu(ClassFloat64, subF64, t, t, t)
		default:
			d.alu(ClassFloat64, addF64, t, t, t)
		}
		return
	}
	sat := m.take("sat")
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	switch {
	case sat && t != s32:
		m.bad(t)
	case sat && sub:
		d.alu(ClassInteger, map2(func(a, b uint64) uint64 { return saturate32(int64(int32(a)) - int64(int32(b))) }), t, t, t)
	case sat:
		d.alu(ClassInteger, map2(func(a, b uint64) uint64 { return saturate32(int64(int32(a)) + int64(int32(b))) }), t, t, t)
	case sub:
		d.alu(ClassInteger, byWidth(t.bits, sub16, sub32, sub64), t, t, t)
	default:
		d.alu(ClassInteger, byWidth(t.bits, add16, add32, add64), t, t, t)
	}
}

// carried decodes an instruction of extended precision.
func (d *decoder) carried(f carry, in, out bool, to typ, from ...typ) {
	args := d.args(1+len(from), 1+len(from))
	i := d.in
	i.kind, i.class, i.carry, i.setsCC = kindCarry, ClassInteger, f, out
	i.r = predicate{slot: -1, not: !in}
	d.def(&i.d, args[0], to, exact)
	d.sources(args[1:], exact, from...)
}

// floatType is the last type among the modifiers if it is a float's.
func (m *mods) floatType() (typ, bool) {
	for i := len(m.left) - 1; i >= 0; i-- {
		if t, ok := typeNames[m.left[i]]; ok {
			return t, t.float()
		}
	}
	return typ{}, false
}

func floatClass(t typ) Class {
	switch t.bits {
	case 16:
		return ClassHalf
	case 64:
		return ClassFloat64
	}
	return ClassFloat32
}

// floating decodes the modifiers of float arithmetic. f is nil for the plain
// forms of single and double precision, which have loops of their own.
func (d *decoder) floating(m *mods, op operation) (f func(a, b, c uint64) uint64, t typ, ok bool) {
	if t, ok = m.floatType(); !ok {
		return nil, t, false
	}
	mode := roundingNames[m.one("rn", "rz", "rm", "rp")]
	ftz, sat, relu := m.take("ftz"), m.take("sat"), m.take("relu")
	m.typ()
	if t.bits == 16 && mode != nearestEven || t == f64 && (ftz || sat) || relu && (t.bits != 16 || op != opFMA) {
		m.bad(t)
	}
	if (t == f32 || t == f64) && mode == nearestEven && !ftz && !sat {
		return nil, t, true
	}
	if mode == nearestEven {
		f = nearest(op, t.format())
	} else {
		f = arithmetic(op, t.format(), mode)
	}
	if ftz {
		f = t.format().flushedExact(op, f)
	}
	if sat {
		inner, clamp := f, saturate(t)
		f = func(a, b, c uint64) uint64 { return clamp(inner(a, b, c)) }
	}
	if relu {
		inner, format := f, t.format()
		f = func(a, b, c uint64) uint64 {
			v := inner(a, b, c)
			if format.decode(v) < 0 || v == format.sign(true) {
				return 0
			}
			return v
		}
	}
	if t.pair {
		f = paired(f)
	}
	return f, t, true
}

func decodeMul(d *decoder, m *mods) {
	name := d.ast.Name
	mad := name != "mul"
	op := opMul
	if mad {
		op = opFMA
	}
	if _, float := m.floatType(); float {
		if mad {
			decodeFma(d, m)
			return
		}
		f, t, _ := d.floating(m, op)
		switch {
		case f != nil:
			d.alu(floatClass(t), map3(f), t, t, t)
		case t == f32:
			d.alu(ClassFloat32, mulF32, t, t, t)
		default:
			d.alu(ClassFloat64, mulF64, t, t, t)
		}
		return
	}
	half := m.must("lo", "hi", "wide")
	sat, carryOut := m.take("sat"), m.take("cc")
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	high := mulHigh(t)
	if carryOut || name == "madc" {
		product := high
		switch half {
		case "lo":
			product = func(a, b uint64) uint64 { return trim(a*b, t.bits) }
		case "wide":
			m.bad(t)
		}
		if t.bits == 16 || !mad || sat {
			m.bad(t)
		}
		d.carried(madCarry(t, product), name == "madc", carryOut, t, t, t, t)
		return
	}
	switch {
	case sat && (half != "hi" || t != s32 || !mad):
		m.bad(t)
	case sat:
		d.alu(ClassInteger, map3(func(a, b, c uint64) uint64 {
			return saturate32(int64(int32(high(a, b))) + int64(int32(c)))
		}), t, t, t, t)
	case half == "wide":
		if t.bits == 64 {
			m.bad(t)
		}
		product := byWidth(t.bits, mulWideU16, mulWideU32, nil)
		if t.signed() {
			product = byWidth(t.bits, mulWideS16, mulWideS32, nil)
		}
		to := typ{kind: t.kind, bits: 2 * t.bits}
		if !mad {
			d.alu(ClassInteger, product, to, t, t)
			return
		}
		sum := byWidth(to.bits, nil, add32, add64)
		d.alu(ClassInteger, func(d, a, b, c *lanes) {
			var p lanes
			product(&p, a, b, nil)
			sum(d, &p, c, nil)
		}, to, t, t, to)
	case half == "hi" && mad:
		d.alu(ClassInteger, map3(func(a, b, c uint64) uint64 { return trim(high(a, b)+c, t.bits) }), t, t, t, t)
	case half == "hi":
		d.alu(ClassInteger, map2(high), t, t, t)
	case mad:
		d.alu(ClassInteger, byWidth(t.bits, madLo16, madLo32, madLo64), t, t, t, t)
	default:
		d.alu(ClassInteger, byWidth(t.bits, mulLo16, mulLo32, mulLo64), t, t, t)
	}
}

func decodeMul24(d *decoder, m *mods) {
	high := m.must("lo", "hi") == "hi"
	sat := m.take("sat")
	t := m.typ()
	m.require(t, "us", 32)
	product := func(a, b uint64) uint64 {
		x, y := t.extend(a<<8&0xffffffff), t.extend(b<<8&0xffffffff) // the 24 bits on top
		if t.signed() {
			x, y = uint64(int64(x)>>8), uint64(int64(y)>>8)
		} else {
			x, y = x>>8, y>>8
		}
		p := x * y
		if high {
			p >>= 16
		}
		return uint64(uint32(p))
	}
	if d.ast.Name == "mul24" {
		if sat {
			m.bad(t)
		}
		d.alu(ClassInteger, map2(product), t, t, t)
		return
	}
	if sat && (t != s32 || !high) {
		m.bad(t)
	}
	d.alu(ClassInteger, map3(func(a, b, c uint64) uint64 {
		if sat {
			return saturate32(int64(int32(product(a, b))) + int64(int32(c)))
		}
		return uint64(uint32(product(a, b) + c))
	}), t, t, t, t)
}

func decodeFma(d *decoder, m *mods) {
	f, t, ok := d.floating(m, opFMA)
	switch {
	case !ok:
		m.bad(m.typ())
	case f != nil:
		d.alu(floatClass(t), map3(f), t, t, t, t)
	case t == f32:
		d.alu(ClassFloat32, fmaF32, t, t, t, t)
	default:
		d.alu(ClassFloat64, fmaF64, t, t, t, t)
	}
}

func decodeDiv(d *decoder, m *mods) {
	if t, ok := m.floatType(); ok {
		if m.one("approx", "full") != "" {
			if t != f32 {
				m.bad(t)
			}
			m.left = append(m.left, "rn")
		}
		m.require(t, "f", 32, 64)
		f, _, _ := d.floating(m, opDiv)
		if f == nil {
			f = nearest(opDiv, t.format())
		}
		d.alu(floatClass(t), map3(f), t, t, t)
		return
	}
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	d.alu(ClassInteger, map2(divide(t)), t, t, t)
}

func decodeRem(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	d.alu(ClassInteger, map2(remainder(t)), t, t, t)
}

func decodeSad(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	d.alu(ClassInteger, map3(func(a, b, c uint64) uint64 {
		x, y := t.extend(a), t.extend(b)
		if t.signed() && int64(x) < int64(y) || !t.signed() && x < y {
			x, y = y, x
		}
		return trim(x-y+c, t.bits)
	}), t, t, t, t)
}

// decodeSign decodes abs and neg.
func decodeSign(d *decoder, m *mods) {
	neg := d.ast.Name == "neg"
	t, float := m.floatType()
	ftz := float && m.take("ftz")
	m.typ()
	if !float {
		m.require(t, "s", 16, 32, 64)
		d.alu(ClassInteger, map1(func(a uint64) uint64 {
			if neg || int64(t.extend(a)) < 0 {
				a = -a
			}
			return trim(a, t.bits)
		}), t, t)
		return
	}
	f := t.format()
	sign := f.sign(true)
	one := func(a, _, _ uint64) uint64 {
		switch {
		case f.bits == 32 && f.decode(a) != f.decode(a):
			return f.nan
		case neg:
			return a ^ sign
		}
		return a &^ sign
	}
	if ftz {
		if t == f64 {
			m.bad(t)
		}
		one = f.flushed(one)
	}
	if t.pair {
		one = paired(one)
	}
	d.alu(floatClass(t), map3(one), t, t)
}

// decodeExtreme decodes min and max.
func decodeExtreme(d *decoder, m *mods) {
	most := d.ast.Name == "max"
	if t, float := m.floatType(); float {
		ftz, nan := m.take("ftz"), m.take("NaN")
		xorSign := m.take("xorsign")
		if xorSign && !m.take("abs") || t == f64 && (ftz || nan || xorSign) {
			m.bad(t)
		}
		m.typ()
		two := extreme(t.format(), most, nan, xorSign)
		f := func(a, b, _ uint64) uint64 { return two(a, b) }
		if ftz {
			f = t.format().flushed(f)
		}
		if t.pair {
			f = paired(f)
		}
		d.alu(floatClass(t), map3(f), t, t, t)
		return
	}
	relu := m.take("relu")
	t := m.typ()
	m.require(t, "us", 16, 32, 64)
	if relu && t != s32 {
		m.bad(t)
	}
	var f alu
	switch {
	case !t.signed() && most:
		f = maxU
	case !t.signed():
		f = minU
	case t.bits == 16:
		f = map2(func(a, b uint64) uint64 {
			if (int16(a) < int16(b)) != most {
				return a
			}
			return b
		})
	case most:
		f = byWidth(t.bits, nil, maxS32, maxS64)
	default:
		f = byWidth(t.bits, nil, minS32, minS64)
	}
	if relu {
		inner, zero := f, new(lanes)
		f = func(d, a, b, c *lanes) {
			inner(d, a, b, c)
			maxS32(d, d, zero, nil)
		}
	}
	d.alu(ClassInteger, f, t, t, t)
}

// decodeApprox decodes the functions of one float.
func decodeApprox(d *decoder, m *mods) {
	name := d.ast.Name
	t, _ := m.floatType()
	approx := m.take("approx")
	if !approx && (name == "rcp" || name == "sqrt") {
		op := opRcp
		if name == "sqrt" {
			op = opSqrt
		}
		m.require(t, "f", 32, 64)
		f, _, _ := d.floating(m, op)
		if f == nil {
			f = nearest(op, t.format())
		}
		d.alu(floatClass(t), map3(f), t, t)
		return
	}
	ftz := m.take("ftz")
	m.typ()
	if name == "tanh" || name == "ex2" {
		m.require(t, "fh", 16, 32)
	} else if name == "rcp" || name == "rsqrt" {
		m.require(t, "f", 32, 64)
	} else {
		m.require(t, "f", 32)
	}
	if !approx {
		fail(m.at, "%s without .approx", m.opcode)
	}
	g, format := approximations[name], t.format()
	f := func(a, _, _ uint64) uint64 {
		v := format.encode(g(format.decode(a)), nearestEven)
		if format == formatDouble {
			v &^= 1<<32 - 1 // the hardware computes the upper half only
		}
		return v
	}
	if ftz && t == f32 {
		f = format.flushed(f)
	}
	if t.pair {
		f = paired(f)
	}
	d.alu(floatClass(t), map3(f), t, t)
}

func decodeCopysign(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "f", 32, 64)
	sign := t.format().sign(true)
	d.alu(floatClass(t), map2(func(a, b uint64) uint64 { return b&^sign | a&sign }), t, t, t)
}

func decodeTestp(d *decoder, m *mods) {
	what := m.must("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := m.typ()
	m.require(t, "f", 32, 64)
	f := t.format()
	inf := f.infinity()
	least := uint64(1) << f.mantissa
	test := func(v uint64) bool {
		v &^= f.sign(true)
		switch what {
		case "finite":
			return v < inf
		case "infinite":
			return v == inf
		case "number":
			return v <= inf
		case "notanumber":
			return v > inf
		case "normal":
			return v == 0 || v >= least && v < inf // zero is normal to an H200
		}
		return v > 0 && v < least
	}
	args := d.args(2, 2)
	in := d.in
	in.kind, in.class = kindCompare, ClassPredicate
	in.cmp = func(a, _ *lanes) (p uint32) {
		for i, v := range a {
			if test(v) {
				p |= 1 << i
			}
		}
		return p
	}
	d.defPredicate(&in.p, args[0])
	d.sources(args[1:], exact, t)
}

func decodeBits(d *decoder, m *mods) {
	t := m.typ()
	name := d.ast.Name
	if t == pred {
		args := d.args(3, 3)
		in := d.in
		in.kind, in.class = kindLogic, ClassPredicate
		in.logic = map[string]logic{"and": logicAnd, "or": logicOr, "xor": logicXor}[name]
		d.defPredicate(&in.p, args[0])
		d.usePredicate(&in.r, args[1])
		d.usePredicate(&in.s, args[2])
		return
	}
	m.require(t, "b", 16, 32, 64)
	d.alu(ClassInteger, map[string]alu{"and": and64, "or": or64, "xor": xor64}[name], t, t, t)
	d.in.known = map[string]func(v, a, b, ta, tb *lanes){"and": knownAnd, "or": knownOr}[name]
}

func decodeNot(d *decoder, m *mods) {
	t := m.typ()
	if t == pred && d.ast.Name == "not" {
		args := d.args(2, 2)
		in := d.in
		in.kind, in.class = kindLogic, ClassPredicate
		d.defPredicate(&in.p, args[0])
		d.usePredicate(&in.r, args[1])
		in.r.not = !in.r.not
		return
	}
	m.require(t, "b", 16, 32, 64)
	f := func(a uint64) uint64 { return trim(^a, t.bits) }
	if d.ast.Name == "cnot" {
		f = func(a uint64) uint64 {
			if a == 0 {
				return 1
			}
			return 0
		}
	}
	d.alu(ClassInteger, map1(f), t, t)
}

func decodeShift(d *decoder, m *mods) {
	t := m.typ()
	if d.ast.Name == "shl" {
		m.require(t, "b", 16, 32, 64)
		d.alu(ClassInteger, byWidth(t.bits, shl16, shl32, shl64), t, t, u32)
		return
	}
	m.require(t, "bus", 16, 32, 64)
	f := shrU
	if t.signed() {
		f = byWidth(t.bits, shrS16, shrS32, shrS64)
	}
	d.alu(ClassInteger, f, t, t, u32)
}

func decodeFunnel(d *decoder, m *mods) {
	left := m.must("l", "r") == "l"
	wrap := m.must("wrap", "clamp") == "wrap"
	t := m.typ()
	m.require(t, "b", 32)
	d.alu(ClassInteger, map3(funnel(left, wrap)), t, t, t, u32)
}

// decodeCount decodes popc, clz and brev.
func decodeCount(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "b", 32, 64)
	switch d.ast.Name {
	case "popc":
		d.alu(ClassInteger, map1(popcount), u32, t)
	case "clz":
		d.alu(ClassInteger, map1(leadingZeros(t.bits)), u32, t)
	default:
		d.alu(ClassInteger, map1(reverse(t.bits)), t, t)
	}
}

func decodeFind(d *decoder, m *mods) {
	shifted := m.take("shiftamt")
	t := m.typ()
	m.require(t, "us", 32, 64)
	d.alu(ClassInteger, map1(findBit(t, shifted)), u32, t)
}

func decodeFns(d *decoder, m *mods) {
	m.require(m.typ(), "b", 32)
	d.alu(ClassInteger, map3(findNth), b32, b32, b32, s32)
}

func decodeExtract(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "us", 32, 64)
	d.alu(ClassInteger, map3(extractField(t)), t, t, u32, u32)
}

func decodeInsert(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "b", 32, 64)
	args := d.args(5, 5)
	in := d.in
	in.kind, in.class = kindInsert, ClassInteger
	in.imm = int64(t.bits)
	in.mem = &memory{count: 1}
	d.def(&in.d, args[0], t, exact)
	d.sources(args[1:4], exact, t, t, u32)
	d.use(&in.mem.regs[0], args[4], u32, exact)
}

func decodeSzext(d *decoder, m *mods) {
	wrap := m.must("clamp", "wrap") == "wrap"
	t := m.typ()
	m.require(t, "us", 32)
	d.alu(ClassInteger, map2(signExtend(t, wrap)), t, t, u32)
}

func decodeBmsk(d *decoder, m *mods) {
	wrap := m.must("clamp", "wrap") == "wrap"
	m.require(m.typ(), "b", 32)
	d.alu(ClassInteger, map2(bitMask(wrap)), b32, u32, u32)
}

func decodePrmt(d *decoder, m *mods) {
	m.require(m.typ(), "b", 32)
	mode := m.one("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	d.alu(ClassInteger, map3(permute(mode)), b32, b32, b32, b32)
}

func decodeLop3(d *decoder, m *mods) {
	m.require(m.typ(), "b", 32)
	args := d.args(5, 5)
	n, ok := args[4].(*ast.Number)
	if !ok || n.Kind != ast.Int || n.Bits > 255 {
		fail(d.ast.Pos, "%s: the table must be a constant of 8 bits", m.opcode)
	}
	in := d.in
	in.kind, in.class, in.alu = kindALU, ClassInteger, map3(lookup3(n.Bits))
	d.def(&in.d, args[0], b32, exact)
	d.sources(args[1:4], exact, b32, b32, b32)
}

func decodeDot(d *decoder, m *mods) {
	halves := d.ast.Name == "dp2a"
	high := false
	if halves {
		high = m.must("lo", "hi") == "hi"
	}
	a, b := m.typ(), m.typ()
	m.require(a, "us", 32)
	m.require(b, "us", 32)
	to := typ{kind: 'u', bits: 32}
	if a.signed() || b.signed() {
		to.kind = 's'
	}
	part := func(t typ, bits int) typ { return typ{kind: t.kind, bits: bits} }
	f := dotBytes(part(a, 8), part(b, 8))
	if halves {
		f = dotHalves(part(a, 16), part(b, 8), high)
	}
	d.alu(ClassInteger, map3(f), to, a, b, to)
}

func decodeSelp(d *decoder, m *mods) {
	t := m.typ()
	m.require(t, "busf", 16, 32, 64)
	args := d.args(4, 4)
	in := d.in
	in.kind, in.class = kindSelect, ClassMove
	d.def(&in.d, args[0], t, exact)
	d.sources(args[1:3], exact, t, t)
	d.usePredicate(&in.r, args[3])
}

func decodeSlct(d *decoder, m *mods) {
	ftz := m.take("ftz")
	t, by := m.typ(), m.typ()
	m.require(t, "busf", 16, 32, 64)
	if by != s32 && by != f32 || ftz && by != f32 {
		m.bad(by)
	}
	d.alu(ClassMove, map3(func(a, b, c uint64) uint64 {
		ge := int32(c) >= 0
		if by == f32 {
			ge = single(c) >= 0 || ftz && flush(c)&^signSingle == 0
		}
		if ge {
			return a
		}
		return b
	}), t, t, t, by)
}

func decodeNothing(d *decoder, m *mods) {
	d.in.kind, d.in.class = kindNothing, ClassOther
	m.left = nil
}
