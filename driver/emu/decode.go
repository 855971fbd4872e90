package emu

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// scopes are the nested scopes of names that a statement sees.
type scopes struct {
	outer  *scopes
	names  map[string]*symbol
	groups []registerGroup
	shared *int64 // bytes of static shared memory, counted where they belong
}

// registerGroup is ".reg .b32 %r<n>".
type registerGroup struct {
	prefix string
	count  int
	first  int32
	typ    typ
}

func (sc *scopes) inner() *scopes {
	return &scopes{outer: sc, names: map[string]*symbol{}, shared: sc.shared}
}

func (sc *scopes) find(name string) *symbol {
	for ; sc != nil; sc = sc.outer {
		if s := sc.names[name]; s != nil {
			return s
		}
		for _, g := range sc.groups {
			if len(name) <= len(g.prefix) || name[:len(g.prefix)] != g.prefix {
				continue
			}
			digits := name[len(g.prefix):]
			n, err := strconv.Atoi(digits)
			if err == nil && n >= 0 && n < g.count && (digits[0] != '0' || len(digits) == 1) {
				s := &symbol{kind: symbolRegister, reg: g.first + int32(n), typ: g.typ}
				sc.names[name] = s
				return s
			}
		}
	}
	return nil
}

// decoder decodes one function.
type decoder struct {
	*loader
	fn      *function
	body    *ast.Func
	sc      *scopes
	labels  map[*ast.Label]int32
	virtual []typ // of each virtual register
	fixups  []fixup
	pc      int32
	in      *instr
	ast     *ast.Instr
}

// fixup is a place in the code that names a virtual register.
type fixup struct {
	field *int32
	reg   int32
	pc    int32
	def   bool
}

func (l *loader) function(f *ast.Func) {
	s := l.module[f.Name]
	d := &decoder{
		loader: l,
		fn:     l.prog.functions[s.fn],
		body:   f,
		labels: map[*ast.Label]int32{},
	}
	fn := d.fn
	fn.entry, fn.line = f.Entry, f.Line
	d.sc = &scopes{names: map[string]*symbol{}, shared: &l.shared}
	if f.Entry {
		if l.reserves(f) {
			fn.shared = l.shared
		}
		d.sc.shared = &fn.shared
		for _, v := range l.owned[f] {
			d.declareName(v, l.variable(v, d.sc))
		}
		l.prog.entries[f.Name] = fn
	}
	d.directives(f)
	d.parameters(f)

	fn.start = int32(len(l.prog.code))
	count := d.place(f.Body, fn.start) - fn.start
	code := make([]instr, count+1)
	d.pc = fn.start
	d.block(f.Body, code)
	last := &code[count]
	last.kind, last.class, last.name, last.guard.slot, last.line = kindReturn, ClassBranch, "ret", -1, int32(f.Line)
	if f.Entry {
		last.kind = kindExit
	}
	for i := range code {
		if in := &code[i]; f.Entry && in.kind == kindReturn {
			in.kind = kindExit
		}
		code[i].fn = fn
	}
	markWaits(code, fn.start)
	d.allocate(code)
	fn.end = fn.start + int32(len(code))
	l.prog.code = append(l.prog.code, code...)
}

func (d *decoder) directives(f *ast.Func) {
	number := func(dir *ast.Directive, i int) uint32 {
		if i >= len(dir.Args) {
			return 1
		}
		n, err := strconv.ParseUint(dir.Args[i], 0, 32)
		if err != nil || n == 0 {
			fail(dir.Pos, ".%s of %q", dir.Name, dir.Args[i])
		}
		return uint32(n)
	}
	for _, dir := range f.Directives {
		switch dir.Name {
		case "maxntid":
			d.fn.maxThreads = int(min(uint64(number(dir, 0))*uint64(number(dir, 1))*uint64(number(dir, 2)), 1<<20))
		case "reqntid":
			d.fn.reqThreads = [3]uint32{number(dir, 0), number(dir, 1), number(dir, 2)}
		case "reqnctapercluster":
			if number(dir, 0)*number(dir, 1)*number(dir, 2) != 1 {
				refuse(dir.Pos, "clusters of more than one block")
			}
		case "explicitcluster", "maxclusterrank", "blocksareclusters":
			refuse(dir.Pos, "clusters (.%s)", dir.Name)
		case "minnctapersm", "maxnreg", "maxnctapersm", "pragma", "noreturn", "attribute", "abi_preserve", "abi_preserve_control":
		default:
			fail(dir.Pos, ".%s is no directive of a function", dir.Name)
		}
	}
}

func (d *decoder) parameters(f *ast.Func) {
	if f.Entry {
		for _, v := range f.Params {
			t, count, open := d.extent(v)
			if open || v.Space != "param" {
				fail(v.Pos, "%s is no kernel parameter", v.Name)
			}
			size := count * int64(t.bytes())
			if size > maxParams {
				fail(v.Pos, "%d bytes of parameters; the most is %d", size, maxParams)
			}
			offset := alignUp(d.fn.paramBytes, alignment(v, t))
			d.fn.paramBytes = offset + size
			d.fn.layout = append(d.fn.layout, driver.Param{Offset: int(offset), Size: int(size)})
			d.declareName(v, &symbol{kind: symbolParam, space: "param", offset: offset, size: size, node: v})
		}
		if d.fn.paramBytes > maxParams {
			fail(f.Pos, "%d bytes of parameters; the most is %d", d.fn.paramBytes, maxParams)
		}
		return
	}
	for _, v := range f.Params {
		d.fn.params = append(d.fn.params, d.parameter(v))
	}
	for _, v := range f.Results {
		d.fn.results = append(d.fn.results, d.parameter(v))
	}
}

// parameter declares a device function's parameter or result.
func (d *decoder) parameter(v *ast.Var) param {
	if v.Space == "reg" {
		s := d.register(v)
		return param{isRegister: true, register: s.reg, size: int32(max(s.typ.bits/8, 1))}
	}
	s := d.frame(v)
	return param{offset: int32(s.offset), size: int32(s.size)}
}

func (d *decoder) declareName(v *ast.Var, s *symbol) *symbol {
	if d.sc.names[v.Name] != nil && v.Name != "_" {
		fail(v.Pos, "%s is declared twice", v.Name)
	}
	d.sc.names[v.Name] = s
	return s
}

// frame places a variable in the function's frame.
func (d *decoder) frame(v *ast.Var) *symbol {
	t, count, open := d.extent(v)
	if open && v.Space != "param" {
		fail(v.Pos, "%s has no size", v.Name)
	}
	size := count * int64(t.bytes())
	offset := alignUp(int64(d.fn.local), min(alignment(v, t), 16))
	if size > maxLocal || offset+size > maxLocal {
		fail(v.Pos, "more than %d bytes of local memory", maxLocal)
	}
	d.fn.local = int32(offset + size)
	return d.declareName(v, &symbol{kind: symbolFrame, space: v.Space, offset: offset, size: size, node: v})
}

func (d *decoder) register(v *ast.Var) *symbol {
	t, ok := typeNames[v.Type]
	if !ok {
		refuse(v.Pos, "registers of type .%s", v.Type)
	}
	if v.Vector != 0 || len(v.Dims) > 0 {
		refuse(v.Pos, "vectors of registers")
	}
	first := int32(len(d.virtual))
	count := max(v.Count, 1)
	if len(d.virtual)+count > maxRegisters {
		fail(v.Pos, "more than %d registers", maxRegisters)
	}
	d.virtual = append(d.virtual, slices.Repeat([]typ{t}, count)...)
	if v.Count > 0 {
		d.sc.groups = append(d.sc.groups, registerGroup{v.Name, v.Count, first, t})
		return nil
	}
	return d.declareName(v, &symbol{kind: symbolRegister, reg: first, typ: t})
}

// place numbers the instructions of b from pc on and returns the next number.
func (d *decoder) place(b *ast.Block, pc int32) int32 {
	for _, s := range b.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			pc = d.place(s, pc)
		case *ast.Instr:
			pc++
		case *ast.Label:
			d.labels[s] = pc
		}
	}
	return pc
}

func (d *decoder) block(b *ast.Block, code []instr) {
	outer := d.sc
	d.sc = outer.inner()
	for _, s := range b.Stmts {
		var name string
		var sym *symbol
		switch s := s.(type) {
		case *ast.Label:
			name, sym = s.Name, &symbol{kind: symbolLabel, target: d.labels[s]}
		case *ast.Targets:
			name, sym = s.Name, &symbol{kind: symbolTargets, node: s}
		case *ast.Prototype:
			name, sym = s.Name, &symbol{kind: symbolPrototype, node: s}
		default:
			continue
		}
		if d.sc.names[name] != nil {
			fail(s.Position(), "the label %s is there twice", name)
		}
		d.sc.names[name] = sym
	}
	for _, s := range b.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			d.block(s, code)
		case *ast.Var:
			switch s.Space {
			case "reg":
				d.register(s)
			case "local", "param":
				d.frame(s)
			default:
				d.declareName(s, d.variable(s, d.sc))
			}
		case *ast.Instr:
			d.in, d.ast = &code[d.pc-d.fn.start], s
			d.instruction()
			d.pc++
		}
	}
	d.sc = outer
}

// instruction decodes d.ast into d.in.
func (d *decoder) instruction() {
	in, s := d.in, d.ast
	in.line, in.name = int32(s.Line), s.Opcode()
	in.guard.slot, in.p, in.q, in.r.slot, in.s.slot = -1, -1, -1, -1, -1
	if s.Guard != nil {
		d.usePredicate(&in.guard, &ast.Ident{Pos: s.Pos, Name: s.Guard.Reg})
		in.guard.not = s.Guard.Not
	}
	dec := decoders[s.Name]
	if dec == nil {
		fail(s.Pos, "the instruction %s is not known", in.name)
	}
	m := &mods{at: s.Pos, opcode: in.name, left: slices.Clone(s.Mods)}
	dec(d, m)
	if len(m.left) > 0 {
		fail(s.Pos, "%s: .%s is not known here", in.name, m.left[0])
	}
}

// args requires between lo and hi operands.
func (d *decoder) args(lo, hi int) []ast.Operand {
	a := d.ast.Args
	if len(a) < lo || len(a) > hi {
		fail(d.ast.Pos, "%s with %d operands", d.in.name, len(a))
	}
	return a
}

func (d *decoder) mark(field *int32, reg int32, def bool) {
	*field = reg
	d.fixups = append(d.fixups, fixup{field, reg, d.pc, def})
}

// registerOf finds the register that o names, or nil.
func (d *decoder) registerOf(o ast.Operand) *symbol {
	if id, ok := o.(*ast.Ident); ok && id.Part == "" {
		if s := d.find(id.Name, d.sc); s != nil && s.kind == symbolRegister {
			return s
		}
	}
	return nil
}

// fits says how a register may differ from the instruction's type.
type fits uint8

const (
	exact fits = iota
	wider      // ld, st, cvt: the register may be larger
)

func (d *decoder) check(o ast.Operand, reg, want typ, f fits) {
	if reg == pred || reg.width() != want.width() && (f == exact || reg.width() < want.width()) {
		fail(o.Position(), "%s: %s is a register of type %v, the operand of type %v", d.in.name, ast.Format(o), reg, want)
	}
}

// use decodes a source operand of type t.
func (d *decoder) use(field *slot, o ast.Operand, t typ, f fits) {
	switch o := o.(type) {
	case *ast.Number:
		v, ok := t.immediate(o)
		if !ok {
			fail(o.Pos, "%s: the constant %s for an operand of type %v", d.in.name, ast.Format(o), t)
		}
		*field = d.extra(extra{value: v})
		return
	case *ast.Ident:
		name := o.Name
		if o.Part != "" {
			name += "." + o.Part
		}
		if s := d.find(name, d.sc); s != nil {
			switch s.kind {
			case symbolRegister:
				d.check(o, s.typ, t, f)
				d.mark(field, s.reg, false)
				return
			case symbolDynamic:
				*field = d.extra(extra{special: specialDynamicBase})
				return
			}
			break
		}
		if sp, ok := specialNames[name]; ok {
			width := b32
			if special64[sp] {
				width = b64
			}
			d.check(o, width, t, wider)
			*field = d.extra(extra{special: sp})
			return
		}
		if environment(name) {
			*field = d.extra(extra{special: specialZero})
			return
		}
	case *ast.Sum, *ast.Generic:
	default:
		fail(o.Position(), "%s: %s is no operand for it", d.in.name, ast.Format(o))
	}
	if t.width() < 32 {
		fail(o.Position(), "%s: the address %s in an operand of type %v", d.in.name, ast.Format(o), t)
	}
	*field = d.extra(extra{value: trim(d.address(o, d.sc, false), t.width())})
}

// environment reports whether name is one of the registers %envreg0 to 31, which
// no driver sets for CUDA.
func environment(name string) bool {
	digits, ok := strings.CutPrefix(name, "%envreg")
	n, err := strconv.Atoi(digits)
	return ok && err == nil && n >= 0 && n < 32
}

// def decodes a destination of type t.
func (d *decoder) def(field *slot, o ast.Operand, t typ, f fits) {
	if id, ok := o.(*ast.Ident); ok && id.Name == "_" {
		d.mark(field, d.scratch(t), true)
		return
	}
	s := d.registerOf(o)
	if s == nil {
		fail(o.Position(), "%s: %s is no register", d.in.name, ast.Format(o))
	}
	d.check(o, s.typ, t, f)
	d.mark(field, s.reg, true)
	d.in.keep = ^uint64(0) >> (64 - s.typ.width())
}

// scratch is a register for a result that nobody wants.
func (d *decoder) scratch(t typ) int32 {
	d.virtual = append(d.virtual, t)
	return int32(len(d.virtual) - 1)
}

func (d *decoder) usePredicate(p *predicate, o ast.Operand) {
	if n, ok := o.(*ast.Not); ok {
		d.usePredicate(p, n.X)
		p.not = !p.not
		return
	}
	if n, ok := o.(*ast.Number); ok && n.Kind == ast.Int {
		p.slot, p.not = -1, n.Bits == 0
		return
	}
	s := d.registerOf(o)
	if s == nil || s.typ != pred {
		fail(o.Position(), "%s: %s is no predicate", d.in.name, ast.Format(o))
	}
	p.not = false
	d.mark(&p.slot, s.reg, false)
}

func (d *decoder) defPredicate(p *int32, o ast.Operand) {
	if id, ok := o.(*ast.Ident); ok && id.Name == "_" {
		*p = -1
		return
	}
	s := d.registerOf(o)
	if s == nil || s.typ != pred {
		fail(o.Position(), "%s: %s is no predicate", d.in.name, ast.Format(o))
	}
	d.mark(p, s.reg, true)
}

// pair decodes "p|q" or "p".
func (d *decoder) pair(o ast.Operand) (a, b ast.Operand) {
	if p, ok := o.(*ast.Pair); ok {
		return p.A, p.B
	}
	return o, nil
}

// label finds a branch's target.
func (d *decoder) label(o ast.Operand) int32 {
	if id, ok := o.(*ast.Ident); ok {
		if s := d.find(id.Name, d.sc); s != nil && s.kind == symbolLabel {
			return s.target
		}
	}
	fail(o.Position(), "%s is no label of this function", ast.Format(o))
	return 0
}

// mods are an instruction's modifiers, taken one after the other; what is left
// over at the end is an error.
type mods struct {
	at     ast.Pos
	opcode string
	left   []string
}

// take removes a modifier and reports whether it was there.
func (m *mods) take(name string) bool {
	if i := slices.Index(m.left, name); i >= 0 {
		m.left = slices.Delete(m.left, i, i+1)
		return true
	}
	return false
}

// one takes the first of several modifiers that is there, else "".
func (m *mods) one(names ...string) string {
	for i, have := range m.left {
		if slices.Contains(names, have) {
			m.left = slices.Delete(m.left, i, i+1)
			return have
		}
	}
	return ""
}

// must is one, but an error where none is there.
func (m *mods) must(names ...string) string {
	s := m.one(names...)
	if s == "" {
		fail(m.at, "%s lacks one of %v", m.opcode, names)
	}
	return s
}

// typ takes the next type.
func (m *mods) typ() typ {
	for i, have := range m.left {
		if t, ok := typeNames[have]; ok {
			m.left = slices.Delete(m.left, i, i+1)
			return t
		}
	}
	fail(m.at, "%s has no type", m.opcode)
	return typ{}
}

// bad is an error about the type.
func (m *mods) bad(t typ) { fail(m.at, "%s: no such instruction for type %v", m.opcode, t) }
