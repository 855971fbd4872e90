// Package ast parses PTX into a syntax tree and prints a tree back.
//
// It reads ISA versions 6.0 to 9.0 as clang and nvcc write them. The tree holds
// everything that has a meaning when a kernel runs: directives, declarations
// with their initialisers, and every statement in order. Comments and debug
// information (sections, .file and .loc lines, and that the target is debug) are
// skipped, so that a printed tree is equivalent to its source, not equal to it.
//
// The package knows the language's grammar and no instruction's meaning:
// an instruction is its dotted name and its operands.
package ast

import (
	"fmt"
	"slices"
)

// Pos is a place in a source: line and column in bytes, both from 1.
type Pos struct{ Line, Col int }

// Position makes a type that embeds Pos a node.
func (p Pos) Position() Pos { return p }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Col) }

// Node is any part of a tree that knows where it came from.
type Node interface{ Position() Pos }

// File is one PTX module.
type File struct {
	Major, Minor int      // .version
	Targets      []string // .target: the architecture and its options
	AddressSize  int      // .address_size, 32 where there is none
	Decls        []Decl
}

// Func finds a function or entry with a body, nil if there is none. A name that
// is only declared is not found.
func (f *File) Func(name string) *Func {
	for _, d := range f.Decls {
		if fn, ok := d.(*Func); ok && fn.Name == name && fn.Body != nil {
			return fn
		}
	}
	return nil
}

// Decl is what stands at module level: *Var, *Func or *Directive.
type Decl interface {
	Node
	decl()
}

// Var declares a variable, a parameter, or registers.
type Var struct {
	Pos
	Linkage    string   // "", "extern", "visible", "weak" or "common"
	Space      string   // "reg", "sreg", "param", "local", "shared", "global", "const" or "tex"
	Align      int      // .align in bytes, 0 where there is none
	Attributes []string // .attribute, each as written: "managed"
	Ptr        *PtrAttr // .ptr of a kernel parameter
	Vector     int      // 2, 4 or 8 after .v2, .v4, .v8; else 0
	Type       string   // "b32", "pred", …
	Name       string
	Count      int     // %r<Count> declares %r0 … %r(Count-1); else 0
	Dims       []int64 // array dimensions; -1 is []
	Init       Operand // nil, a constant, or a *List of them
}

// PtrAttr says what a kernel's pointer parameter points to.
type PtrAttr struct {
	Space string // "", "global", "shared", "local" or "const"
	Align int    // 0 where there is none
}

// Func is an entry (a kernel) or a device function, or the declaration of one.
type Func struct {
	Pos
	Linkage    string // as Var.Linkage
	Entry      bool
	Name       string
	Results    []*Var
	Params     []*Var
	Directives []*Directive // .maxntid and its like, .noreturn
	Body       *Block       // nil for a declaration
}

// Directive is a directive that declares nothing, with its arguments as written:
// .maxntid, .pragma, .alias, … Name has no dot.
type Directive struct {
	Pos
	Name string
	Args []string
}

func (*Var) decl()       {}
func (*Func) decl()      {}
func (*Directive) decl() {}

// Stmt is what stands in a body: *Var, *Label, *Instr, *Block, *Directive,
// *Targets or *Prototype.
type Stmt interface {
	Node
	stmt()
}

// Block is a list of statements between braces, and a scope of names.
type Block struct {
	Pos
	Stmts []Stmt
}

// Label is a place that a branch can go to.
type Label struct {
	Pos
	Name string
}

// Instr is an instruction: "ld.global.v2.u32" has the Name "ld" and the Mods
// "global", "v2", "u32".
type Instr struct {
	Pos
	Guard *Guard
	Name  string
	Mods  []string
	Args  []Operand
}

// Opcode is the instruction's dotted name.
func (i *Instr) Opcode() string {
	n := len(i.Name)
	for _, m := range i.Mods {
		n += 1 + len(m)
	}
	b := append(make([]byte, 0, n), i.Name...)
	for _, m := range i.Mods {
		b = append(append(b, '.'), m...)
	}
	return string(b)
}

// Has reports whether the instruction has a modifier.
func (i *Instr) Has(mod string) bool { return slices.Contains(i.Mods, mod) }

// Guard is the predicate an instruction is executed under.
type Guard struct {
	Reg string
	Not bool
}

// Targets is a labelled list of the places a brx or an indirect call can go to.
type Targets struct {
	Pos
	Name  string
	Calls bool // .calltargets, else .branchtargets
	List  []string
}

// Prototype is a labelled .callprototype.
type Prototype struct {
	Pos
	Name       string
	Results    []*Var
	Params     []*Var
	Directives []*Directive
}

func (*Var) stmt()       {}
func (*Block) stmt()     {}
func (*Label) stmt()     {}
func (*Instr) stmt()     {}
func (*Directive) stmt() {}
func (*Targets) stmt()   {}
func (*Prototype) stmt() {}

// Operand is an argument of an instruction or part of an initialiser.
type Operand interface {
	Node
	operand()
}

// NumberKind is how a constant was written.
type NumberKind uint8

const (
	Int NumberKind = iota // Bits is the two's complement of a 64-bit integer
	F32                   // 0f…, Bits is the pattern of a float
	F64                   // 0d… or with a decimal point, Bits is the pattern of a double
)

// Number is a constant; expressions of constants are folded when they are read.
type Number struct {
	Pos
	Kind     NumberKind
	Unsigned bool // an Int with the suffix U, or one that int64 cannot hold
	Bits     uint64
}

// Ident names a register, variable, parameter, function or label. Part is what
// follows a dot: x, y, z, w, r, g, b or a in "%tid.x"; "_" is the operand that
// takes no value.
type Ident struct {
	Pos
	Name string
	Part string
}

// Sum is a symbol and an offset in bytes, as in "mov.u64 %rd1, table+8".
type Sum struct {
	Pos
	Base   Operand // *Ident or *Generic
	Offset int64
}

// Generic is the generic address of a symbol: "generic(table)".
type Generic struct {
	Pos
	X Operand
}

// Mask is one byte of a symbol's address: "0xff00(table)".
type Mask struct {
	Pos
	Mask uint64
	X    Operand
}

// Address is a place in memory: "[%rd1+8]". Base is an *Ident, or a *Number for
// an absolute address. Coords follow a comma in tensor and texture operands.
type Address struct {
	Pos
	Base   Operand
	Offset int64
	Coords []Operand
}

// Index is an element of an array by a constant or register: "table[%r1]".
type Index struct {
	Pos
	Name string
	X    Operand
}

// Vector is "{a, b}".
type Vector struct {
	Pos
	Elems []Operand
}

// List is "(a, b)" in a call, "{a, b}" in an initialiser.
type List struct {
	Pos
	Elems []Operand
}

// Pair is "p|q": two results.
type Pair struct {
	Pos
	A, B Operand
}

// Not is "!p".
type Not struct {
	Pos
	X Operand
}

func (*Number) operand()  {}
func (*Ident) operand()   {}
func (*Sum) operand()     {}
func (*Generic) operand() {}
func (*Mask) operand()    {}
func (*Address) operand() {}
func (*Index) operand()   {}
func (*Vector) operand()  {}
func (*List) operand()    {}
func (*Pair) operand()    {}
func (*Not) operand()     {}
