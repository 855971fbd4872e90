package ast

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Print writes f as PTX. Parsing what it writes gives an equal tree but for the
// positions.
func Print(w io.Writer, f *File) error {
	p := &printer{}
	p.file(f)
	_, err := io.WriteString(w, p.String())
	return err
}

// String is f as PTX.
func (f *File) String() string {
	p := &printer{}
	p.file(f)
	return p.String()
}

// Format is an operand as PTX writes it.
func Format(o Operand) string {
	p := &printer{}
	p.operand(o)
	return p.String()
}

// String is the instruction on a line of its own, without the guard's line end.
func (i *Instr) String() string {
	p := &printer{}
	p.instr(i)
	return p.String()
}

type printer struct {
	strings.Builder
	indent int
}

func (p *printer) f(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

func (p *printer) tabs() { p.WriteString(strings.Repeat("\t", p.indent)) }

func (p *printer) file(f *File) {
	p.f(".version %d.%d\n.target %s\n.address_size %d\n", f.Major, f.Minor, strings.Join(f.Targets, ", "), f.AddressSize)
	for _, d := range f.Decls {
		p.WriteByte('\n')
		switch d := d.(type) {
		case *Var:
			p.variable(d)
			p.WriteString(";\n")
		case *Func:
			p.function(d)
		case *Directive:
			p.directive(d)
			p.WriteString(";\n")
		}
	}
}

func (p *printer) variable(v *Var) {
	if v.Linkage != "" {
		p.f(".%s ", v.Linkage)
	}
	p.f(".%s ", v.Space)
	if len(v.Attributes) > 0 {
		p.attributes(v.Attributes)
	}
	if v.Align != 0 {
		p.f(".align %d ", v.Align)
	}
	if v.Vector != 0 {
		p.f(".v%d ", v.Vector)
	}
	p.f(".%s ", v.Type)
	if v.Ptr != nil {
		p.WriteString(".ptr ")
		if v.Ptr.Space != "" {
			p.f(".%s ", v.Ptr.Space)
		}
		if v.Ptr.Align != 0 {
			p.f(".align %d ", v.Ptr.Align)
		}
	}
	p.WriteString(v.Name)
	if v.Count != 0 {
		p.f("<%d>", v.Count)
	}
	for _, d := range v.Dims {
		if d < 0 {
			p.WriteString("[]")
		} else {
			p.f("[%d]", d)
		}
	}
	if v.Init != nil {
		p.WriteString(" = ")
		p.initialiser(v.Init)
	}
}

func (p *printer) attributes(list []string) {
	p.f(".attribute(.%s) ", strings.Join(list, ", ."))
}

func (p *printer) initialiser(o Operand) {
	l, ok := o.(*List)
	if !ok {
		p.operand(o)
		return
	}
	p.WriteByte('{')
	for i, e := range l.Elems {
		if i > 0 {
			p.WriteString(", ")
		}
		p.initialiser(e)
	}
	p.WriteByte('}')
}

func (p *printer) function(f *Func) {
	if f.Linkage != "" {
		p.f(".%s ", f.Linkage)
	}
	rest := f.Directives
	if f.Entry {
		p.WriteString(".entry ")
	} else {
		p.WriteString(".func ")
	}
	for len(rest) > 0 && rest[0].Name == "attribute" {
		p.attributes(rest[0].Args)
		rest = rest[1:]
	}
	if len(f.Results) > 0 {
		p.params(f.Results)
		p.WriteByte(' ')
	}
	p.WriteString(f.Name)
	p.params(f.Params)
	p.functionDirectives(rest)
	if f.Body == nil {
		p.WriteString(";\n")
		return
	}
	p.WriteByte('\n')
	p.block(f.Body)
}

func (p *printer) functionDirectives(list []*Directive) {
	for _, d := range list {
		p.WriteByte(' ')
		if d.Name == "attribute" {
			p.attributes(d.Args)
			continue
		}
		p.directive(d)
		if d.Name == "pragma" {
			p.WriteByte(';')
		}
	}
}

func (p *printer) directive(d *Directive) {
	p.f(".%s", d.Name)
	for i, a := range d.Args {
		if i > 0 {
			p.WriteByte(',')
		}
		p.f(" %s", a)
	}
}

func (p *printer) params(list []*Var) {
	p.WriteByte('(')
	for i, v := range list {
		if i > 0 {
			p.WriteString(", ")
		}
		p.variable(v)
	}
	p.WriteByte(')')
}

func (p *printer) block(b *Block) {
	p.tabs()
	p.WriteString("{\n")
	p.indent++
	for _, s := range b.Stmts {
		p.stmt(s)
	}
	p.indent--
	p.tabs()
	p.WriteString("}\n")
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *Block:
		p.block(s)
		return
	case *Label:
		p.f("%s:\n", s.Name)
		return
	case *Targets:
		kind := "branchtargets"
		if s.Calls {
			kind = "calltargets"
		}
		p.f("%s: .%s %s;\n", s.Name, kind, strings.Join(s.List, ", "))
		return
	case *Prototype:
		p.f("%s: .callprototype ", s.Name)
		if len(s.Results) > 0 {
			p.params(s.Results)
			p.WriteByte(' ')
		}
		p.WriteByte('_')
		p.params(s.Params)
		p.functionDirectives(s.Directives)
		p.WriteString(";\n")
		return
	}
	p.tabs()
	switch s := s.(type) {
	case *Var:
		p.variable(s)
	case *Directive:
		p.directive(s)
	case *Instr:
		p.instr(s)
	}
	p.WriteString(";\n")
}

func (p *printer) instr(i *Instr) {
	if i.Guard != nil {
		p.WriteByte('@')
		if i.Guard.Not {
			p.WriteByte('!')
		}
		p.WriteString(i.Guard.Reg)
		p.WriteByte(' ')
	}
	p.WriteString(i.Opcode())
	for n, a := range i.Args {
		if n > 0 {
			p.WriteByte(',')
		}
		p.WriteByte(' ')
		p.operand(a)
	}
}

func (p *printer) operands(open, shut string, list []Operand) {
	p.WriteString(open)
	for i, o := range list {
		if i > 0 {
			p.WriteString(", ")
		}
		p.operand(o)
	}
	p.WriteString(shut)
}

// offset prints a sum also where it is negative, because ptxas takes no difference.
func (p *printer) offset(n int64) { p.f("+%d", n) }

func (p *printer) operand(o Operand) {
	switch o := o.(type) {
	case *Number:
		p.number(o)
	case *Ident:
		p.WriteString(o.Name)
		if o.Part != "" {
			p.f(".%s", o.Part)
		}
	case *Sum:
		p.operand(o.Base)
		p.offset(o.Offset)
	case *Generic:
		p.WriteString("generic(")
		p.operand(o.X)
		p.WriteByte(')')
	case *Mask:
		p.f("%#x(", o.Mask)
		p.operand(o.X)
		p.WriteByte(')')
	case *Address:
		p.WriteByte('[')
		p.operand(o.Base)
		if o.Offset != 0 {
			p.offset(o.Offset)
		}
		if len(o.Coords) > 0 {
			p.operands(", ", "", o.Coords)
		}
		p.WriteByte(']')
	case *Index:
		p.f("%s[", o.Name)
		p.operand(o.X)
		p.WriteByte(']')
	case *Vector:
		p.operands("{", "}", o.Elems)
	case *List:
		p.operands("(", ")", o.Elems)
	case *Pair:
		p.operand(o.A)
		p.WriteByte('|')
		p.operand(o.B)
	case *Not:
		p.WriteByte('!')
		p.operand(o.X)
	}
}

func (p *printer) number(n *Number) {
	switch {
	case n.Kind == F32:
		p.f("0f%08X", uint32(n.Bits))
	case n.Kind == F64:
		p.f("0d%016X", n.Bits)
	case n.Unsigned:
		p.WriteString(strconv.FormatUint(n.Bits, 10))
		p.WriteByte('U')
	default:
		p.WriteString(strconv.FormatInt(int64(n.Bits), 10))
	}
}
