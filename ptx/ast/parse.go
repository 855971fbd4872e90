package ast

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is a place in a source and what is wrong there.
type Error struct {
	Pos
	File string
	Msg  string
}

func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// maxDepth bounds nested blocks and expressions, so that no input exhausts the
// stack.
const maxDepth = 200

// Parse reads a PTX module. name is the file's name in errors; every error is
// an *Error.
func Parse(name string, src []byte) (*File, error) {
	p := &parser{lex: lexer{src: string(src), line: 1}}
	f, err := p.file()
	if err != nil {
		if e, ok := err.(*Error); ok {
			e.File = name
		}
		return nil, err
	}
	return f, nil
}

// parser is a recursive descent over tokens with one token of look-ahead. A
// method that meets what it does not expect panics with an *Error, which file
// recovers: the grammar then reads as it is written in the ISA.
type parser struct {
	lex   lexer
	tok   token
	depth int
}

func (p *parser) file() (f *File, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			f, err = nil, e
		}
	}()
	p.next()
	f = &File{AddressSize: 32}
	p.header(f)
	for p.tok.kind != tokEOF {
		if p.punct(";") {
			continue
		}
		f.Decls = append(f.Decls, p.decl()...)
	}
	return f, nil
}

func (p *parser) fail(pos Pos, format string, args ...any) {
	panic(&Error{Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

func (p *parser) unexpected(want string) {
	p.fail(p.tok.pos, "%s where %s should be", p.tok, want)
}

// next reads a token; those of debug information have no meaning here and are
// passed over.
func (p *parser) next() {
	for {
		t, err := p.lex.next()
		if err != nil {
			panic(err)
		}
		p.tok = t
		if t.kind != tokDot {
			return
		}
		switch t.text {
		case "loc", "file":
			p.lex.toLineEnd()
		case "section":
			p.section()
		default:
			return
		}
	}
}

// section passes over ".section name { … }".
func (p *parser) section() {
	at, depth := p.tok.pos, 0
	for {
		t, err := p.lex.next()
		if err != nil {
			panic(err)
		}
		switch {
		case t.kind == tokEOF:
			p.fail(at, "a section that does not end")
		case t.kind == tokPunct && t.text == "{":
			depth++
		case t.kind == tokPunct && t.text == "}":
			if depth--; depth <= 0 {
				return
			}
		}
	}
}

// enter counts a level of nesting until the returned function is called.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.pos, "nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) isPunct(s string) bool { return p.tok.kind == tokPunct && p.tok.text == s }
func (p *parser) isDot(s string) bool   { return p.tok.kind == tokDot && p.tok.text == s }

// punct takes the punctuation if it is next.
func (p *parser) punct(s string) bool {
	if p.isPunct(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(s string) {
	if !p.punct(s) {
		p.unexpected("'" + s + "'")
	}
}

func (p *parser) dot(s string) bool {
	if p.isDot(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) ident(what string) string {
	if p.tok.kind != tokIdent {
		p.unexpected(what)
	}
	s := p.tok.text
	p.next()
	return s
}

// integer reads a constant expression that must be an integer in [lo, hi].
func (p *parser) integer(what string, lo, hi int64) int64 {
	at := p.tok.pos
	n := p.constant()
	if n.Kind != Int {
		p.fail(at, "%s must be an integer", what)
	}
	v := int64(n.Bits)
	if v < lo || v > hi || v < 0 && n.Unsigned {
		p.fail(at, "%s of %d is not between %d and %d", what, v, lo, hi)
	}
	return v
}

// header reads .version, .target and .address_size.
func (p *parser) header(f *File) {
	if !p.dot("version") {
		p.unexpected("'.version'")
	}
	major, minor, ok := strings.Cut(p.tok.text, ".")
	var err1, err2 error
	f.Major, err1 = strconv.Atoi(major)
	f.Minor, err2 = strconv.Atoi(minor)
	if p.tok.kind != tokNumber || !ok || err1 != nil || err2 != nil {
		p.unexpected("a version such as 8.0")
	}
	p.next()
	if !p.dot("target") {
		p.unexpected("'.target'")
	}
	for {
		// With debug an assembler demands the sections that the tree leaves out.
		if t := p.ident("a target"); t != "debug" {
			f.Targets = append(f.Targets, t)
		}
		if !p.punct(",") {
			break
		}
	}
	if len(f.Targets) == 0 {
		p.unexpected("an architecture")
	}
	if p.dot("address_size") {
		f.AddressSize = int(p.integer("the address size", 32, 64))
	}
}

var (
	linkages = []string{"extern", "visible", "weak", "common"}
	spaces   = []string{"reg", "sreg", "param", "local", "shared", "global", "const", "tex"}
	types    = []string{
		"b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
		"f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "pred", "texref", "samplerref", "surfref",
	}
)

// decl reads a declaration at module level.
func (p *parser) decl() []Decl {
	at := p.tok.pos
	if p.tok.kind != tokDot {
		p.unexpected("a directive")
	}
	linkage := p.linkage()
	switch {
	case p.isDot("func") || p.isDot("entry"):
		return []Decl{p.function(at, linkage)}
	case p.tok.kind == tokDot && slices.Contains(spaces, p.tok.text):
		var decls []Decl
		for _, v := range p.variables(at, linkage) {
			decls = append(decls, v)
		}
		return decls
	case p.tok.kind == tokDot && linkage == "":
		return []Decl{p.directive()}
	}
	p.unexpected("a variable or a function")
	return nil
}

func (p *parser) linkage() string {
	if p.tok.kind == tokDot && slices.Contains(linkages, p.tok.text) {
		s := p.tok.text
		p.next()
		return s
	}
	return ""
}

// directive reads ".name arguments;".
func (p *parser) directive() *Directive {
	d := &Directive{Pos: p.tok.pos, Name: p.tok.text}
	p.next()
	for !p.isPunct(";") {
		if p.tok.kind == tokEOF || p.isPunct("{") || p.isPunct("}") {
			p.unexpected("';'")
		}
		d.Args = append(d.Args, p.argument()...)
	}
	p.next()
	return d
}

// argument takes one token of a directive's arguments, commas left out.
func (p *parser) argument() []string {
	t := p.tok
	p.next()
	switch {
	case t.kind == tokPunct && t.text == ",":
		return nil
	case t.kind == tokString:
		return []string{strconv.Quote(t.text)}
	case t.kind == tokDot:
		return []string{"." + t.text}
	}
	return []string{t.text}
}

// variables reads ".space … name, name = init;".
func (p *parser) variables(at Pos, linkage string) []*Var {
	model := p.varType(at, linkage)
	var list []*Var
	for {
		v := *model
		p.varName(&v)
		if p.punct("=") {
			v.Init = p.initialiser()
		}
		list = append(list, &v)
		if !p.punct(",") {
			break
		}
	}
	p.expect(";")
	return list
}

// varType reads what a declaration has before its names.
func (p *parser) varType(at Pos, linkage string) *Var {
	v := &Var{Pos: at, Linkage: linkage}
	if p.tok.kind != tokDot || !slices.Contains(spaces, p.tok.text) {
		p.unexpected("a state space")
	}
	v.Space = p.tok.text
	p.next()
	for p.tok.kind == tokDot {
		word := p.tok.text
		pos := p.tok.pos
		p.next()
		switch {
		case word == "align":
			n := int(p.integer("an alignment", 1, 1<<20))
			if n&(n-1) != 0 {
				p.fail(pos, "an alignment of %d is not a power of two", n)
			}
			if v.Ptr != nil {
				v.Ptr.Align = n
			} else {
				v.Align = n
			}
		case word == "attribute":
			v.Attributes = append(v.Attributes, p.attribute()...)
		case word == "ptr":
			v.Ptr = &PtrAttr{}
		case v.Ptr != nil && v.Ptr.Space == "" && slices.Contains(spaces, word):
			v.Ptr.Space = word
		case word == "v2" || word == "v4" || word == "v8":
			v.Vector = int(word[1] - '0')
		case v.Type == "" && slices.Contains(types, word):
			v.Type = word
		default:
			p.fail(pos, "'.%s' in a declaration", word)
		}
	}
	if v.Type == "" {
		p.unexpected("a type")
	}
	return v
}

// attribute reads "(.managed, .unified(19,95))".
func (p *parser) attribute() []string {
	p.expect("(")
	var list []string
	var b strings.Builder
	for depth := 0; ; p.next() {
		switch {
		case p.tok.kind == tokEOF:
			p.unexpected("')'")
		case p.isPunct("("):
			depth++
		case p.isPunct(")"):
			if depth--; depth < 0 {
				p.next()
				return append(list, b.String())
			}
		case p.isPunct(",") && depth == 0:
			list = append(list, b.String())
			b.Reset()
			continue
		}
		if p.tok.kind == tokDot && depth == 0 {
			b.WriteString(p.tok.text)
		} else {
			b.WriteString(strings.Join(p.tokenText(), ""))
		}
	}
}

func (p *parser) tokenText() []string {
	if p.tok.kind == tokDot {
		return []string{"." + p.tok.text}
	}
	return []string{p.tok.text}
}

// varName reads "name<count>[dim][dim]".
func (p *parser) varName(v *Var) {
	v.Pos = p.tok.pos
	v.Name = p.ident("a name")
	if p.punct("<") {
		v.Count = int(p.integer("a register count", 1, 1<<24))
		p.expect(">")
	}
	for p.punct("[") {
		dim := int64(-1)
		if !p.isPunct("]") {
			dim = p.integer("an array size", 0, 1<<50)
		}
		v.Dims = append(v.Dims, dim)
		p.expect("]")
	}
}

// initialiser reads a constant, a symbol's address, or a list of them in braces.
func (p *parser) initialiser() Operand {
	defer p.enter()()
	at := p.tok.pos
	if p.punct("{") {
		l := &List{Pos: at}
		for !p.punct("}") {
			l.Elems = append(l.Elems, p.initialiser())
			if !p.punct(",") {
				p.expect("}")
				break
			}
		}
		return l
	}
	if p.tok.kind == tokIdent && p.tok.text != warpSize {
		return p.symbol()
	}
	n := p.constant()
	if n.Kind == Int && p.punct("(") {
		m := &Mask{Pos: at, Mask: n.Bits, X: p.symbol()}
		p.expect(")")
		return m
	}
	return &n
}

// function reads an entry or a function from .entry or .func on.
func (p *parser) function(at Pos, linkage string) *Func {
	f := &Func{Pos: at, Linkage: linkage, Entry: p.isDot("entry")}
	p.next()
	for p.dot("attribute") {
		f.Directives = append(f.Directives, &Directive{Pos: at, Name: "attribute", Args: p.attribute()})
	}
	if !f.Entry && p.isPunct("(") {
		f.Results = p.params()
	}
	f.Name = p.ident("a function's name")
	if p.isPunct("(") {
		f.Params = p.params()
	}
	f.Directives = append(f.Directives, p.functionDirectives()...)
	if p.isPunct("{") {
		f.Body = p.block()
		return f
	}
	p.expect(";")
	return f
}

// functionDirectives reads what stands between the parameters and the body.
func (p *parser) functionDirectives() []*Directive {
	var list []*Directive
	for p.tok.kind == tokDot {
		d := &Directive{Pos: p.tok.pos, Name: p.tok.text}
		p.next()
		for p.tok.kind == tokNumber || p.tok.kind == tokString || p.tok.kind == tokIdent || p.isPunct(",") {
			d.Args = append(d.Args, p.argument()...)
		}
		if d.Name == "attribute" && p.isPunct("(") {
			d.Args = p.attribute()
		}
		list = append(list, d)
		if d.Name == "pragma" && p.isPunct(";") {
			p.next()
			if p.tok.kind != tokDot && !p.isPunct("{") {
				p.unexpected("a body")
			}
		}
	}
	return list
}

func (p *parser) params() []*Var {
	p.expect("(")
	var list []*Var
	for !p.punct(")") {
		v := p.varType(p.tok.pos, "")
		p.varName(v)
		list = append(list, v)
		if !p.punct(",") {
			p.expect(")")
			break
		}
	}
	return list
}

func (p *parser) block() *Block {
	defer p.enter()()
	b := &Block{Pos: p.tok.pos}
	p.expect("{")
	for !p.punct("}") {
		switch {
		case p.tok.kind == tokEOF:
			p.fail(b.Pos, "a block that does not end")
		case p.punct(";"):
		default:
			b.Stmts = append(b.Stmts, p.stmt()...)
		}
	}
	return b
}

func (p *parser) stmt() []Stmt {
	at := p.tok.pos
	switch {
	case p.isPunct("{"):
		return []Stmt{p.block()}
	case p.isPunct("@"):
		p.next()
		g := &Guard{Not: p.punct("!")}
		g.Reg = p.ident("a predicate")
		in := p.instr(p.tok.pos, p.ident("an instruction"))
		in.Guard = g
		return []Stmt{in}
	case p.tok.kind == tokDot:
		linkage := p.linkage()
		if slices.Contains(spaces, p.tok.text) {
			var list []Stmt
			for _, v := range p.variables(at, linkage) {
				list = append(list, v)
			}
			return list
		}
		if linkage != "" {
			p.unexpected("a variable")
		}
		return []Stmt{p.directive()}
	case p.tok.kind == tokIdent:
		name := p.ident("")
		if p.punct(":") {
			return []Stmt{p.labelled(at, name)}
		}
		return []Stmt{p.instr(at, name)}
	}
	p.unexpected("a statement")
	return nil
}

// labelled reads what may follow "name:" and belongs to it.
func (p *parser) labelled(at Pos, name string) Stmt {
	switch {
	case p.isDot("branchtargets") || p.isDot("calltargets"):
		t := &Targets{Pos: at, Name: name, Calls: p.isDot("calltargets")}
		p.next()
		for {
			t.List = append(t.List, p.ident("a target"))
			if !p.punct(",") {
				break
			}
		}
		p.expect(";")
		return t
	case p.dot("callprototype"):
		t := &Prototype{Pos: at, Name: name}
		if p.isPunct("(") {
			t.Results = p.params()
		}
		if p.ident("'_'") != "_" {
			p.fail(at, "a prototype's name must be '_'")
		}
		if p.isPunct("(") {
			t.Params = p.params()
		}
		t.Directives = p.functionDirectives()
		p.expect(";")
		return t
	}
	return &Label{at, name}
}

// instr reads an instruction of which the name is read already.
func (p *parser) instr(at Pos, name string) *Instr {
	if name[0] == '%' || name[0] == '$' {
		p.fail(at, "'%s' where an instruction should be", name)
	}
	in := &Instr{Pos: at, Name: name}
	for p.tok.kind == tokDot {
		in.Mods = append(in.Mods, p.tok.text)
		p.next()
	}
	if p.punct(";") {
		return in
	}
	for {
		in.Args = append(in.Args, p.operand())
		if !p.punct(",") {
			break
		}
	}
	p.expect(";")
	return in
}

// operand reads an argument of an instruction.
func (p *parser) operand() Operand {
	x := p.single()
	if at := p.tok.pos; p.punct("|") {
		return &Pair{at, x, p.single()}
	}
	return x
}

func (p *parser) single() Operand {
	defer p.enter()()
	at := p.tok.pos
	switch {
	case p.punct("!"):
		return &Not{at, p.single()}
	case p.punct("["):
		return p.address(at)
	case p.punct("{"):
		return &Vector{at, p.operands("}")}
	case p.isPunct("("):
		// A call's list or a constant in parentheses: only the first can be
		// empty or start with a name.
		p.next()
		if !p.isPunct(")") && p.tok.kind != tokIdent && !p.isPunct("_") {
			x := p.expr(0)
			if p.punct(")") {
				x = p.binary(x, bitAnd)
				return &x
			}
			l := &List{at, []Operand{&x}}
			p.expect(",")
			l.Elems = append(l.Elems, p.operands(")")...)
			return l
		}
		return &List{at, p.operands(")")}
	case p.tok.kind == tokIdent && p.tok.text != warpSize:
		return p.symbol()
	}
	x := p.binary(p.unary(), bitAnd)
	return &x
}

// operands reads a list up to its closing bracket.
func (p *parser) operands(end string) []Operand {
	var list []Operand
	for !p.punct(end) {
		list = append(list, p.operand())
		if !p.punct(",") {
			p.expect(end)
			break
		}
	}
	return list
}

// symbol reads a name, "name.x", "name+8", "name[i]" or "generic(name)+8".
func (p *parser) symbol() Operand {
	at := p.tok.pos
	name := p.ident("a name")
	var base Operand
	switch {
	case name == "generic" && p.punct("("):
		base = &Generic{at, p.symbol()}
		p.expect(")")
	case p.tok.kind == tokDot && !p.tok.spaced:
		id := &Ident{at, name, p.tok.text}
		if len(id.Part) != 1 || !strings.Contains("xyzwrgba", id.Part) {
			p.fail(p.tok.pos, "'.%s' after a name", id.Part)
		}
		p.next()
		return id
	case p.punct("["):
		defer p.enter()()
		x := &Index{at, name, p.single()}
		p.expect("]")
		return x
	default:
		base = &Ident{Pos: at, Name: name}
	}
	switch {
	case p.isPunct("-"):
		p.fail(p.tok.pos, "a difference; a negative offset is written +-8")
	case p.punct("+"):
		return &Sum{at, base, p.offset()}
	}
	return base
}

// offset reads what follows "+": "8", "-8" or a sum.
func (p *parser) offset() int64 {
	at := p.tok.pos
	n := p.expr(sum)
	if n.Kind != Int {
		p.fail(at, "an offset must be an integer")
	}
	return int64(n.Bits)
}

// address reads what follows "[".
func (p *parser) address(at Pos) Operand {
	a := &Address{Pos: at}
	if p.tok.kind == tokIdent {
		switch base := p.symbol().(type) {
		case *Sum:
			a.Base, a.Offset = base.Base, base.Offset
		default:
			a.Base = base
		}
	} else {
		n := p.constant()
		if n.Kind != Int {
			p.fail(at, "an address must be an integer")
		}
		a.Base = &n
	}
	if p.punct(",") {
		a.Coords = p.operands("]")
		return a
	}
	p.expect("]")
	return a
}
