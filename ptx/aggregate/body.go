package aggregate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// position are the special registers that a child sees with its own values, by
// the name of the register that replaces them, less the prefix. The order is that
// of the record.
var position = []struct{ special, register string }{
	{"%nctaid.x", "nctaid_x"}, {"%nctaid.y", "nctaid_y"}, {"%nctaid.z", "nctaid_z"},
	{"%ntid.x", "ntid_x"}, {"%ntid.y", "ntid_y"}, {"%ntid.z", "ntid_z"},
	{"%ctaid.x", "ctaid_x"}, {"%ctaid.y", "ctaid_y"}, {"%ctaid.z", "ctaid_z"},
	{"%dynamic_smem_size", "shared"}, {"%nwarpid", "nwarpid"},
	{"%tid.x", "tid_x"}, {"%tid.y", "tid_y"}, {"%tid.z", "tid_z"},
}

// recorded is how many of position are in the record: all but the thread. They are
// 32 bits each, in recordBytes.
const (
	recorded    = 11
	recordBytes = (4*recorded + 15) &^ 15
)

var replacement = func() map[string]string {
	m := map[string]string{}
	for _, p := range position {
		m[p.special] = p.register
	}
	return m
}()

// body rewrites the statements of one function.
type body struct {
	*rewriter
	entry  bool
	params map[string]int // an entry's parameters, numbered from 1
	// hidden counts the inner declarations that a name has now; local those of
	// them that are parameters of calls.
	hidden, local map[string]int
	// used are registers of position, "p1", … for the addresses of parameters, and
	// "v1", … for their values.
	used map[string]bool

	sizes  map[int]int    // of parameters of one value, in bytes
	widths map[string]int // of registers in bytes, by the name that they are declared with; 0 if those differ
	early  int            // bytes of arguments that are loaded before the body
}

// mostEarly bounds the bytes of registers that arguments take from before the body
// on. In a kernel that is not aggregated they are in constant memory and take none.
const mostEarly = 16 * 4

func (r *rewriter) newBody(f *ast.Func) *body {
	b := &body{rewriter: r, entry: f.Entry, params: map[string]int{}, hidden: map[string]int{}, local: map[string]int{}, used: map[string]bool{},
		sizes: map[int]int{}, widths: map[string]int{}}
	if f.Entry && f.Body != nil {
		b.declared(f.Body)
	}
	return b
}

// declared notes the widths of all registers of a block.
func (b *body) declared(block *ast.Block) {
	for _, s := range block.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			b.declared(s)
		case *ast.Var:
			if s.Space != "reg" {
				continue
			}
			bytes := 0
			if s.Vector == 0 && s.Type != "pred" {
				bytes = int(s.Bytes())
			}
			if old, seen := b.widths[s.Name]; seen && old != bytes {
				bytes = 0
			}
			b.widths[s.Name] = bytes
		}
	}
}

// width is the bytes of a register, or 0 where that is not certain.
func (b *body) width(name string) int {
	if n, ok := b.widths[name]; ok {
		return n
	}
	return b.widths[strings.TrimRight(name, "0123456789")]
}

func (b *body) register(name string) string { return "%" + b.prefix + name }

// use notes that a register is needed and returns it.
func (b *body) use(at ast.Pos, name string) *ast.Ident {
	b.used[name] = true
	return &ast.Ident{Pos: at, Name: b.register(name)}
}

// param is the number of the kernel's parameter of that name, or 0.
func (b *body) param(name string) int {
	if b.hidden[name] > 0 {
		return 0
	}
	return b.params[name]
}

// address is the register that holds the address of parameter n.
func (b *body) address(at ast.Pos, n int) *ast.Ident { return b.use(at, paramRegister(n)) }

func (b *body) block(old *ast.Block) *ast.Block {
	count := func(by int) {
		for _, s := range old.Stmts {
			if v, ok := s.(*ast.Var); ok {
				b.hidden[v.Name] += by
				if v.Space == "param" {
					b.local[v.Name] += by
				}
			}
		}
	}
	count(1)
	defer count(-1)
	out := &ast.Block{Pos: old.Pos, Stmts: make([]ast.Stmt, 0, len(old.Stmts))}
	for _, s := range old.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			out.Stmts = append(out.Stmts, b.block(s))
		case *ast.Instr:
			out.Stmts = append(out.Stmts, b.instr(s))
		default:
			out.Stmts = append(out.Stmts, s)
		}
	}
	return out
}

func (b *body) instr(in *ast.Instr) *ast.Instr {
	b.checkInstr(in)
	out := *in
	switch {
	case in.Name == "ld" && in.Has("param::entry") && !b.entry:
		b.refuse(in.Pos, "a function that reads a parameter of the kernel")
	case b.entry && in.Name == "ld" && (in.Has("param") || in.Has("param::entry")):
		if b.load(&out) {
			return &out
		}
	case b.entry && in.Name == "mov" && len(in.Args) == 2:
		if b.move(&out) {
			return &out
		}
	case b.entry && in.Name == "cvta" && (in.Has("param") || in.Has("param::entry")):
		// The parameters are in global memory now.
		out.Mods = slices.Clone(in.Mods)
		for i, m := range out.Mods {
			if m == "param" || m == "param::entry" {
				out.Mods[i] = "global"
			}
		}
		if len(in.Args) == 2 {
			if id, ok := in.Args[1].(*ast.Ident); ok && b.param(id.Name) > 0 {
				out.Args = []ast.Operand{in.Args[0], b.address(id.Pos, b.param(id.Name))}
				return &out
			}
		}
	case b.entry && b.coarse && (in.Name == "ret" || in.Name == "exit"):
		out.Name, out.Mods = "bra", nil
		out.Args = []ast.Operand{&ast.Ident{Pos: in.Pos, Name: "$" + b.prefix + "next"}}
		return &out
	}
	if in.Name == "mov" && len(in.Args) == 2 && len(in.Mods) == 1 && strings.HasSuffix(in.Mods[0], "16") && b.special(in.Args[1]) != "" {
		out.Name, out.Mods = "cvt", []string{"u16", "u32"} // special registers had 16 bits in PTX 1
	}
	out.Args = b.operands(in.Args)
	return &out
}

// load makes a load of a kernel parameter one of global memory. It returns false
// if the load is of a call's result.
func (b *body) load(in *ast.Instr) bool {
	if len(in.Args) != 2 {
		return false
	}
	a, ok := in.Args[1].(*ast.Address)
	if !ok {
		b.refuse(in.Pos, "%s of no address", in.Opcode())
	}
	id, ok := a.Base.(*ast.Ident)
	switch {
	case !ok || id.Part != "":
		b.refuse(in.Pos, "a parameter at the address %s", ast.Format(a))
	case b.local[id.Name] > 0 && b.param(id.Name) == 0:
		return false
	}
	weak := true
	mods := make([]string, 0, len(in.Mods)+1)
	for _, m := range in.Mods {
		if m == "param" || m == "param::entry" {
			m = "global"
		} else if !isTyped(m) {
			weak = false
		}
		mods = append(mods, m)
		if m == "global" {
			mods = append(mods, "nc")
		}
	}
	if !weak {
		mods = slices.DeleteFunc(mods, func(m string) bool { return m == "nc" })
	}
	in.Mods = mods
	if n := b.param(id.Name); n > 0 {
		if v := valueRegister(n); weak && a.Offset == 0 && b.loadsAll(in, n) && (b.used[v] || b.early+b.sizes[n] <= mostEarly) {
			if !b.used[v] {
				b.early += b.sizes[n]
			}
			b.address(id.Pos, n)
			in.Name, in.Mods = "mov", []string{"b" + strconv.Itoa(8*b.sizes[n])}
			in.Args = []ast.Operand{in.Args[0], b.use(id.Pos, v)}
			return true
		}
		in.Args = []ast.Operand{in.Args[0], &ast.Address{Pos: a.Pos, Base: b.address(id.Pos, n), Offset: a.Offset}}
	}
	return true
}

// loadsAll reports whether a load is of all of parameter n, of 32 or 64 bits, to a
// register as wide, so that a move can stand for it.
func (b *body) loadsAll(in *ast.Instr, n int) bool {
	to, ok := in.Args[0].(*ast.Ident)
	size := b.sizes[n]
	if !ok || to.Part != "" || b.width(to.Name) != size || size != 4 && size != 8 {
		return false
	}
	typ := in.Mods[len(in.Mods)-1]
	return isTyped(typ) && typ[0] != 'v' && typ[1:] == strconv.Itoa(8*size)
}

// isTyped reports whether a modifier says what is loaded, not how.
func isTyped(m string) bool {
	switch m[0] {
	case 'b', 'u', 's', 'f', 'v':
		return len(m) > 1 && '0' < m[1] && m[1] <= '9'
	}
	return false
}

// move makes taking a parameter's address an addition. It returns false for
// other moves.
func (b *body) move(in *ast.Instr) bool {
	var offset int64
	src := in.Args[1]
	if s, ok := src.(*ast.Sum); ok {
		src, offset = s.Base, s.Offset
	}
	id, ok := src.(*ast.Ident)
	if !ok || id.Part != "" || b.param(id.Name) == 0 {
		return false
	}
	if len(in.Mods) != 1 || !strings.HasSuffix(in.Mods[0], "64") {
		b.refuse(in.Pos, "the address of the parameter %s in a register of less than 64 bits", id.Name)
	}
	in.Name, in.Mods = "add", []string{"s64"}
	in.Args = []ast.Operand{in.Args[0], b.address(id.Pos, b.param(id.Name)), &ast.Number{Pos: id.Pos, Bits: uint64(offset)}}
	return true
}

func (b *body) operands(list []ast.Operand) []ast.Operand {
	var out []ast.Operand
	for i, o := range list {
		n := b.operand(o)
		if n != o && out == nil {
			out = slices.Clone(list)
		}
		if out != nil {
			out[i] = n
		}
	}
	if out == nil {
		return list
	}
	return out
}

// special is the register that replaces the special register that o is, or "".
func (b *body) special(o ast.Operand) string {
	id, ok := o.(*ast.Ident)
	if !ok || b.hidden[id.Name] > 0 {
		return ""
	}
	name := id.Name
	if id.Part != "" {
		name += "." + id.Part
	}
	return replacement[name]
}

func (b *body) operand(o ast.Operand) ast.Operand {
	switch o := o.(type) {
	case *ast.Ident:
		if n := b.special(o); n != "" {
			return b.use(o.Pos, n)
		}
		b.checkName(o)
		return o
	case *ast.Index:
		if b.param(o.Name) > 0 {
			b.refuse(o.Pos, "the address of the parameter %s", o.Name)
		}
	case *ast.Address:
		if len(o.Coords) > 0 {
			c := *o
			c.Base, c.Coords = b.operand(o.Base), b.operands(o.Coords)
			return &c
		}
	case *ast.Vector:
		c := *o
		c.Elems = b.operands(o.Elems)
		return &c
	case *ast.List:
		c := *o
		c.Elems = b.operands(o.Elems)
		return &c
	case *ast.Pair:
		return &ast.Pair{Pos: o.Pos, A: b.operand(o.A), B: b.operand(o.B)}
	case *ast.Not:
		return &ast.Not{Pos: o.Pos, X: b.operand(o.X)}
	}
	for _, p := range parts(o) {
		if b.special(p) != "" {
			b.refuse(o.Position(), "%s as an address", ast.Format(p))
		}
		b.operand(p)
	}
	return o
}
