package emu

import (
	"strings"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// space is where an address lies.
type space uint8

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceLocal
	spaceConst
	spaceParam // a kernel's parameters
)

func (s space) String() string {
	return [...]string{"generic", "global", "shared", "local", "const", "param"}[s]
}

// memory is the part of an instruction that concerns memory.
type memory struct {
	space  space
	size   int  // bytes of an element
	count  int  // elements of a vector
	signed bool // a load extends the sign
	regs   [8]slot
	bits   [8]int // of the registers in regs

	base   slot
	narrow bool // base is a register of 32 bits
	frame  bool // the address is offset in the function's frame
	offset int64

	strong           bool // volatile, relaxed or stronger
	acquire, release bool
	op               atomicOp
	typ              typ // of an atomic
	// applied is what an atomic does to the old value, in shared memory and in
	// global memory.
	applied [2]func(old, b, c uint64) uint64
	red     bool
}

// bytes is the size of the whole access, and its alignment.
func (m *memory) bytes() int { return m.size * m.count }

// qualifiers decode what loads, stores and atomics have in common, up to the
// vector and the type.
func (d *decoder) qualifiers(m *mods, sems ...string) (mem *memory, hint bool) {
	mem = &memory{count: 1}
	switch m.one(sems...) {
	case "volatile", "relaxed", "mmio":
		mem.strong = true
	case "acquire":
		mem.strong, mem.acquire = true, true
	case "release":
		mem.strong, mem.release = true, true
	case "acq_rel":
		mem.strong, mem.acquire, mem.release = true, true, true
	}
	m.one("cta", "cluster", "gpu", "sys")
	switch m.one("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func") {
	case "global":
		mem.space = spaceGlobal
	case "shared", "shared::cta", "shared::cluster":
		mem.space = spaceShared
	case "local":
		mem.space = spaceLocal
	case "const":
		mem.space = spaceConst
	case "param", "param::entry", "param::func":
		mem.space = spaceParam
	}
	m.take("nc")
	m.one("ca", "cg", "cs", "lu", "cv", "wb", "wt")
	for i := 0; i < len(m.left); {
		if strings.HasPrefix(m.left[i], "L1::") || strings.HasPrefix(m.left[i], "L2::") {
			hint = hint || m.left[i] == "L2::cache_hint"
			m.take(m.left[i])
			continue
		}
		i++
	}
	return mem, hint
}

// location decodes a memory operand.
func (d *decoder) location(mem *memory, o ast.Operand) {
	a, ok := o.(*ast.Address)
	if !ok || len(a.Coords) > 0 {
		fail(o.Position(), "%s: %s is no address", d.in.name, ast.Format(o))
	}
	mem.offset = a.Offset
	mem.base = d.extra(extra{})
	switch base := a.Base.(type) {
	case *ast.Number:
		mem.offset += int64(base.Bits)
		return
	case *ast.Ident:
		s := d.find(base.Name, d.sc)
		if s == nil || base.Part != "" {
			fail(base.Pos, "%s is not declared", ast.Format(base))
		}
		want := mem.space
		switch s.kind {
		case symbolRegister:
			if s.typ.float() || s.typ == pred || s.typ.bits < 32 {
				fail(base.Pos, "%s: a register of type %v as an address", d.in.name, s.typ)
			}
			mem.narrow = s.typ.bits == 32
			d.mark(&mem.base, s.reg, false)
			if want == spaceParam && !d.fn.entry { // a function's own lie in its frame
				mem.space = spaceLocal
			}
			return
		case symbolFrame:
			if want != spaceGeneric && want.String() != s.space {
				break
			}
			mem.frame, mem.space = true, spaceLocal
			mem.offset += s.offset
			return
		case symbolDynamic:
			if want != spaceShared && want != spaceGeneric {
				break
			}
			mem.space = spaceShared
			mem.base = d.extra(extra{special: specialDynamicBase})
			return
		case symbolParam:
			if want != spaceParam && want != spaceGeneric {
				break
			}
			mem.space = spaceParam
			mem.offset += s.offset
			return
		case symbolGlobal, symbolConst, symbolShared:
			if want != spaceGeneric && want.String() != s.space {
				break
			}
			mem.space = map[symbolKind]space{symbolGlobal: spaceGlobal, symbolConst: spaceConst, symbolShared: spaceShared}[s.kind]
			mem.offset += s.offset
			return
		}
		fail(base.Pos, "%s: %s is not in its space", d.in.name, base.Name)
	}
	fail(o.Position(), "%s: %s is no address", d.in.name, ast.Format(o))
}

// vector takes .v2, .v4 or .v8 and the type, and returns the operands that hold
// the elements.
func (d *decoder) vector(m *mods, mem *memory, o ast.Operand) (t typ, elems []ast.Operand) {
	elems = []ast.Operand{o}
	if v := m.one("v2", "v4", "v8"); v != "" {
		mem.count = int(v[1] - '0')
		vec, ok := o.(*ast.Vector)
		if !ok || len(vec.Elems) != mem.count {
			fail(o.Position(), "%s: %s is no vector of %d", d.in.name, ast.Format(o), mem.count)
		}
		elems = vec.Elems
	}
	t = m.typ()
	m.require(t, "busfh", 8, 16, 32, 64)
	mem.size, mem.signed = t.bytes(), t.signed()
	if mem.bytes() > 32 {
		fail(m.at, "%s: a vector of %d bytes", m.opcode, mem.bytes())
	}
	return t, elems
}

func decodeLoad(d *decoder, m *mods) {
	mem, hint := d.qualifiers(m, "weak", "volatile", "relaxed", "acquire", "mmio")
	args := d.args(2, 3)
	if (len(args) == 3) != hint {
		fail(m.at, "%s with %d operands", m.opcode, len(args))
	}
	in := d.in
	in.kind, in.class, in.mem = kindLoad, ClassLoad, mem
	d.location(mem, args[1])
	t, elems := d.vector(m, mem, args[0])
	for i, e := range elems {
		d.def(&mem.regs[i], e, t, wider)
		mem.bits[i] = 64
		if s := d.registerOf(e); s != nil {
			mem.bits[i] = s.typ.width()
		}
	}
	if mem.space == spaceParam && !mem.frame && mem.base == d.extra(extra{}) {
		if mem.offset < 0 || mem.offset+int64(mem.bytes()) > d.fn.paramBytes {
			fail(m.at, "%s: %d bytes at %d of %d bytes of parameters", m.opcode, mem.bytes(), mem.offset, d.fn.paramBytes)
		}
		if mem.offset%int64(mem.bytes()) != 0 {
			fail(m.at, "%s: a parameter at %d is not aligned to %d bytes", m.opcode, mem.offset, mem.bytes())
		}
		in.kind = kindParam
	}
	d.policy(hint, args)
}

// policy reads the operand of .L2::cache_hint, which changes nothing here.
func (d *decoder) policy(hint bool, args []ast.Operand) {
	if hint {
		var unused slot
		d.use(&unused, args[len(args)-1], b64, exact)
	}
}

func decodeStore(d *decoder, m *mods) {
	mem, hint := d.qualifiers(m, "weak", "volatile", "relaxed", "release", "mmio")
	args := d.args(2, 3)
	if (len(args) == 3) != hint {
		fail(m.at, "%s with %d operands", m.opcode, len(args))
	}
	in := d.in
	in.kind, in.class, in.mem = kindStore, ClassStore, mem
	d.location(mem, args[0])
	if mem.space == spaceConst || mem.space == spaceParam {
		fail(m.at, "%s: .%v is read-only", m.opcode, mem.space)
	}
	t, elems := d.vector(m, mem, args[1])
	for i, e := range elems {
		d.use(&mem.regs[i], e, t, wider)
	}
	d.policy(hint, args)
}

// atomicOp is the operation of atom and red.
type atomicOp uint8

const (
	atomicNone atomicOp = iota
	atomicAdd
	atomicMin
	atomicMax
	atomicInc
	atomicDec
	atomicAnd
	atomicOr
	atomicXor
	atomicExch
	atomicCAS
)

var atomicNames = map[string]atomicOp{
	"add": atomicAdd, "min": atomicMin, "max": atomicMax, "inc": atomicInc, "dec": atomicDec,
	"and": atomicAnd, "or": atomicOr, "xor": atomicXor, "exch": atomicExch, "cas": atomicCAS,
}

func decodeAtomic(d *decoder, m *mods) {
	red := d.ast.Name == "red"
	if m.take("async") {
		refuse(m.at, "%s", m.opcode)
	}
	mem, hint := d.qualifiers(m, "relaxed", "acquire", "release", "acq_rel")
	mem.strong = true
	mem.red = red
	m.take("noftz")
	mem.op = atomicNames[m.must("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")]
	t := m.typ()
	switch mem.op {
	case atomicAdd:
		if t.kind == 's' {
			m.require(t, "s", 32)
		} else {
			m.require(t, "ufh", 16, 32, 64)
		}
		if t == u16 {
			m.bad(t)
		}
	case atomicMin, atomicMax:
		m.require(t, "us", 32, 64)
	case atomicInc, atomicDec:
		m.require(t, "u", 32)
	case atomicCAS:
		m.require(t, "b", 16, 32, 64)
	default:
		m.require(t, "b", 32, 64)
	}
	if red && (mem.op == atomicExch || mem.op == atomicCAS) {
		m.bad(t)
	}
	mem.typ, mem.size = t, t.bytes()
	mem.applied = [2]func(old, b, c uint64) uint64{mem.apply(false), mem.apply(true)}
	operands := 1
	if mem.op == atomicCAS {
		operands = 2
	}
	n := 1 + operands
	if !red {
		n++
	}
	if hint {
		n++
	}
	args := d.args(n, n)
	in := d.in
	in.kind, in.class, in.mem = kindAtomic, ClassAtomic, mem
	d.policy(hint, args)
	if !red {
		d.def(&in.d, args[0], t, exact)
		args = args[1:]
	}
	d.location(mem, args[0])
	if mem.space != spaceGeneric && mem.space != spaceGlobal && mem.space != spaceShared {
		fail(m.at, "%s: an atomic on .%v", m.opcode, mem.space)
	}
	d.use(&in.a, args[1], t, exact)
	in.c = d.extra(extra{})
	if operands == 2 {
		d.use(&in.b, args[2], t, exact)
	} else {
		in.b = d.extra(extra{})
	}
}

// decodePrefetch decodes hints about the cache.
func decodePrefetch(d *decoder, m *mods) {
	d.in.kind, d.in.class = kindNothing, ClassOther
	m.left = nil
}

func decodePolicy(d *decoder, m *mods) {
	in := d.in
	in.kind, in.class, in.alu = kindALU, ClassMove, move
	m.left = nil
	d.def(&in.d, d.args(1, 6)[0], b64, exact)
	in.a, in.b, in.c = d.extra(extra{}), d.extra(extra{}), d.extra(extra{})
}
