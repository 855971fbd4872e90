package emu

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// Generic addresses below hostdev.SpaceBase are windows on the spaces that are
// no device memory. The first 4 GiB are no window, so that null is no address.
const (
	windowBits     = 32
	windowShared   = 1
	windowLocal    = 2
	windowParam    = 3
	windowConst    = 4
	windowFunction = 5 // function n is at n*16
)

func window(w uint64) uint64 { return w << windowBits }

// Limits of a module, so that no text of a few bytes asks for all memory.
const (
	maxRegisters = 1 << 16 // a function
	maxConstants = 64 << 10
	maxLocal     = 512 << 10
	maxShared    = 48 << 10 // static, a block
	maxParams    = 32764    // of a kernel, in bytes
)

// symbol is what a name means.
type symbol struct {
	kind   symbolKind
	space  string
	offset int64 // in its space; for globals the address
	size   int64 // bytes
	reg    int32 // the virtual register
	typ    typ   // of a register
	fn     int   // index of a function
	target int32 // of a label
	node   ast.Node
}

type symbolKind uint8

const (
	symbolRegister symbolKind = iota
	symbolGlobal              // .global
	symbolConst               // .const
	symbolShared              // .shared of known size
	symbolDynamic             // .extern .shared
	symbolFrame               // .local, .param of a function
	symbolParam               // a kernel's parameter
	symbolFunction
	symbolLabel
	symbolTargets
	symbolPrototype
)

// loader decodes a module. Its methods panic with a *loadError, which load
// recovers.
type loader struct {
	space   *hostdev.Space
	file    *ast.File
	prog    *program
	module  map[string]*symbol
	globals []*hostdev.Allocation
	extras  map[extra]slot
	shared  int64 // module-level and device functions' static shared memory
	fixes   []relocation
	// owners are the entries that module-level shared variables belong to: those
	// that no other function mentions.
	owners map[string]*ast.Func
	owned  map[*ast.Func][]*ast.Var
}

// relocation is an initialiser that is a symbol's address.
type relocation struct {
	at     ast.Pos
	into   []byte
	value  ast.Operand
	mask   uint64
	scopes *scopes
}

type loadError struct {
	pos  ast.Pos
	code driver.Code
	msg  string
}

func fail(at ast.Pos, format string, args ...any) {
	panic(&loadError{at, driver.ErrInvalidPTX, fmt.Sprintf(format, args...)})
}

func refuse(at ast.Pos, format string, args ...any) {
	panic(&loadError{at, driver.ErrNotSupported, fmt.Sprintf(format, args...)})
}

// load decodes the PTX of an image. Memory for its variables is taken from space
// and returned in globals, on success.
func load(img driver.Image, space *hostdev.Space, capability int) (prog *program, globals []*hostdev.Allocation, err error) {
	name := img.Name
	if name == "" {
		name = "module"
	}
	file, err := ast.Parse(name, img.PTX)
	if err != nil {
		return nil, nil, driver.Errorf("Load", driver.ErrInvalidPTX, "%v", err)
	}
	l := &loader{
		space:  space,
		file:   file,
		prog:   &program{name: name, entries: map[string]*function{}, dynamicAlign: 16},
		module: map[string]*symbol{},
		extras: map[extra]slot{},
	}
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		for _, a := range l.globals {
			_ = space.Free("Load", a.Base(), hostdev.ForModule)
		}
		e, ok := r.(*loadError)
		if !ok {
			panic(r)
		}
		prog, globals = nil, nil
		err = driver.Errorf("Load", e.code, "%s:%v: %s", name, e.pos, e.msg)
	}()
	l.target(capability)
	l.findOwners()
	l.declare()
	l.functions()
	l.relocate()
	l.prog.constant = alignedCopy(l.prog.constant)
	return l.prog, l.globals, nil
}

// target checks that the device runs the module's architecture.
func (l *loader) target(capability int) {
	if l.file.AddressSize != 64 {
		refuse(ast.Pos{Line: 1, Col: 1}, "32-bit addresses")
	}
	arch := l.file.Targets[0]
	digits, ok := strings.CutPrefix(arch, "sm_")
	specific := strings.TrimRight(digits, "af")
	n, err := strconv.Atoi(specific)
	if !ok || err != nil {
		fail(ast.Pos{Line: 1, Col: 1}, "target %s is no architecture", arch)
	}
	l.prog.version = n
	if n > capability || specific != digits && n != capability {
		panic(&loadError{ast.Pos{Line: 1, Col: 1}, driver.ErrNoBinaryForGPU,
			fmt.Sprintf("target %s on a device of compute capability %d.%d", arch, capability/10, capability%10)})
	}
}

// declare gives every name of the module its place.
func (l *loader) declare() {
	for _, d := range l.file.Decls {
		switch d := d.(type) {
		case *ast.Var:
			l.variable(d, nil)
		case *ast.Func:
			if old := l.module[d.Name]; old != nil && old.kind != symbolFunction {
				fail(d.Pos, "%s is declared twice", d.Name)
			}
			if old := l.module[d.Name]; old != nil {
				if decl := old.node.(*ast.Func); decl.Body == nil && d.Body != nil {
					old.node = d
				} else if d.Body != nil {
					fail(d.Pos, "%s is defined twice", d.Name)
				}
				continue
			}
			l.module[d.Name] = &symbol{kind: symbolFunction, node: d, fn: len(l.prog.functions)}
			l.prog.functions = append(l.prog.functions, &function{name: d.Name})
		case *ast.Directive:
			l.directive(d)
		}
	}
}

func (l *loader) directive(d *ast.Directive) {
	switch d.Name {
	case "alias":
		if len(d.Args) != 2 || l.module[d.Args[1]] == nil {
			fail(d.Pos, ".alias of a name that is not declared before")
		}
		l.module[d.Args[0]] = l.module[d.Args[1]]
	case "pragma":
	default:
		fail(d.Pos, ".%s is no directive of a module", d.Name)
	}
}

// elements and size of a variable.
func (l *loader) extent(v *ast.Var) (t typ, count int64, open bool) {
	t, ok := typeNames[v.Type]
	if !ok || t == pred {
		refuse(v.Pos, "a variable of type .%s", v.Type)
	}
	count = int64(max(v.Vector, 1))
	for i, d := range v.Dims {
		if d < 0 {
			if i > 0 {
				fail(v.Pos, "only the first dimension of %s can be open", v.Name)
			}
			open = true
			continue
		}
		if d > 0 && count > math.MaxInt64/64/d {
			fail(v.Pos, "%s is too large", v.Name)
		}
		count *= d
	}
	return t, count, open
}

func alignment(v *ast.Var, t typ) int64 {
	natural := int64(t.bytes() * max(v.Vector, 1))
	if v.Align == 0 {
		return natural
	}
	return int64(v.Align)
}

func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

// variable places a variable that is no register, parameter or frame memory.
// sc is the scope it belongs to, nil for the module.
func (l *loader) variable(v *ast.Var, sc *scopes) *symbol {
	t, count, open := l.extent(v)
	size := count * int64(t.bytes())
	if open {
		if list, ok := v.Init.(*ast.List); ok {
			size *= int64(len(list.Elems))
		} else if v.Space != "shared" {
			fail(v.Pos, "%s has no size", v.Name)
		}
	}
	s := &symbol{space: v.Space, size: size, node: v}
	switch v.Space {
	case "global":
		s.kind = symbolGlobal
		if n := alignment(v, t); n > hostdev.Align {
			refuse(v.Pos, "%s: an alignment of %d", v.Name, n)
		}
		a, err := l.space.Alloc("Load", max(size, 1), hostdev.ForModule)
		if err != nil {
			e, _ := errors.AsType[*driver.Error](err)
			panic(&loadError{v.Pos, e.Code, fmt.Sprintf("%s: %s", v.Name, e.Detail)})
		}
		l.globals = append(l.globals, a)
		s.offset = int64(a.Base())
		clear(a.Bytes())
		l.initialise(v, t, a.Bytes(), sc)
	case "const":
		s.kind = symbolConst
		s.offset = alignUp(int64(len(l.prog.constant)), alignment(v, t))
		if size > maxConstants || s.offset+size > maxConstants {
			fail(v.Pos, "more than %d bytes of constants", maxConstants)
		}
		// The bank never moves: relocations keep slices of it.
		if l.prog.constant == nil {
			l.prog.constant = make([]byte, 0, maxConstants)
		}
		l.prog.constant = l.prog.constant[:s.offset+size]
		l.initialise(v, t, l.prog.constant[s.offset:], sc)
	case "shared":
		if open || v.Linkage == "extern" && size == 0 {
			s.kind = symbolDynamic
			l.prog.dynamicAlign = max(l.prog.dynamicAlign, alignment(v, t))
			break
		}
		s.kind = symbolShared
		bytes := &l.shared
		if sc != nil {
			bytes = sc.shared
		} else if f := l.owners[v.Name]; f != nil {
			l.owned[f] = append(l.owned[f], v)
			break
		}
		s.offset = alignUp(*bytes, alignment(v, t))
		if size > maxShared || s.offset+size > maxShared {
			fail(v.Pos, "more than %d bytes of static shared memory", maxShared)
		}
		*bytes = s.offset + size
	default:
		refuse(v.Pos, "a variable in the space .%s", v.Space)
	}
	if sc == nil {
		if old := l.module[v.Name]; old != nil {
			if decl, ok := old.node.(*ast.Var); !ok || decl.Linkage != "extern" && v.Linkage != "extern" && v.Linkage != "common" && v.Linkage != "weak" {
				fail(v.Pos, "%s is declared twice", v.Name)
			}
			if v.Linkage == "extern" {
				return old
			}
		}
		l.module[v.Name] = s
	}
	return s
}

// initialise writes a variable's initial value into its memory.
func (l *loader) initialise(v *ast.Var, t typ, into []byte, sc *scopes) {
	if v.Init == nil {
		return
	}
	l.fill(v.Pos, v.Init, t, v.Dims, max(v.Vector, 1), into, sc)
}

// fill writes an initialiser of the given dimensions and returns what is left
// of the memory.
func (l *loader) fill(at ast.Pos, init ast.Operand, t typ, dims []int64, vector int, into []byte, sc *scopes) {
	size := t.bytes()
	list, ok := init.(*ast.List)
	if !ok {
		if len(into) < size {
			fail(at, "more initial values than elements")
		}
		l.value(init, t, into[:size], sc)
		return
	}
	step := size
	var inner []int64
	switch {
	case len(dims) > 0:
		inner = dims[1:]
		step *= vector
		for _, d := range inner {
			step *= int(max(d, 1))
		}
	case vector > 1:
		vector = 1
	default:
		fail(at, "a list of values for %s", t)
	}
	for i, e := range list.Elems {
		if (i+1)*step > len(into) {
			fail(at, "more initial values than elements")
		}
		l.fill(at, e, t, inner, vector, into[i*step:(i+1)*step], sc)
	}
}

func (t typ) String() string {
	for name, other := range typeNames {
		if other == t {
			return "." + name
		}
	}
	return "?"
}

func (l *loader) value(o ast.Operand, t typ, into []byte, sc *scopes) {
	mask := ^uint64(0)
	if m, ok := o.(*ast.Mask); ok {
		mask, o = m.Mask, m.X
	}
	if n, ok := o.(*ast.Number); ok {
		v, ok := t.immediate(n)
		if !ok {
			fail(n.Pos, "a constant that is no %v", t)
		}
		putBytes(into, v)
		return
	}
	l.fixes = append(l.fixes, relocation{o.Position(), into, o, mask, sc})
}

// relocate writes the addresses that initialisers name, once all are known.
func (l *loader) relocate() {
	for _, r := range l.fixes {
		v := l.address(r.value, r.scopes, false)
		if r.mask != ^uint64(0) {
			for m := r.mask; m&1 == 0; m >>= 1 {
				v >>= 1
			}
		}
		putBytes(r.into, v)
	}
}

// address is the address of a symbol, in its space or generic.
func (l *loader) address(o ast.Operand, sc *scopes, generic bool) uint64 {
	switch o := o.(type) {
	case *ast.Sum:
		return l.address(o.Base, sc, generic) + uint64(o.Offset)
	case *ast.Generic:
		return l.address(o.X, sc, true)
	case *ast.Ident:
		s := l.find(o.Name, sc)
		if s == nil {
			fail(o.Pos, "%s is not declared", o.Name)
		}
		base := uint64(s.offset)
		switch s.kind {
		case symbolGlobal:
			return base
		case symbolConst:
			if generic {
				base += window(windowConst)
			}
			return base
		case symbolShared:
			if generic {
				base += window(windowShared)
			}
			return base
		case symbolFunction:
			return functionAddress(s.fn)
		}
		fail(o.Pos, "%s has no fixed address", o.Name)
	}
	fail(o.Position(), "%s is no address", ast.Format(o))
	return 0
}

func functionAddress(i int) uint64 { return window(windowFunction) + uint64(i)*16 }

func (l *loader) find(name string, sc *scopes) *symbol {
	if sc != nil {
		if s := sc.find(name); s != nil {
			return s
		}
	}
	return l.module[name]
}

// putBytes stores the low bytes of v.
func putBytes(into []byte, v uint64) {
	for i := range into {
		into[i] = byte(v)
		v >>= 8
	}
}

// extra returns the slot of an operand that is no register.
func (l *loader) extra(e extra) slot {
	s, ok := l.extras[e]
	if !ok {
		s = ^slot(len(l.prog.extra))
		l.prog.extra = append(l.prog.extra, e)
		l.extras[e] = s
	}
	return s
}

// functions decodes all bodies: device functions first, for the shared memory of
// entries lies behind theirs.
func (l *loader) functions() {
	for _, entry := range []bool{false, true} {
		for _, d := range l.file.Decls {
			if f, ok := d.(*ast.Func); ok && f.Body != nil && f.Entry == entry {
				l.function(f)
			}
		}
	}
}

// alignedCopy moves bytes to memory that vectors can be read from.
func alignedCopy(b []byte) []byte {
	c := newMemory(len(b))
	copy(c, b)
	return c
}

// findOwners finds the entries whose own the module-level shared variables are.
// The memory of one entry's variables can be that of another's, so that a module
// of many kernels needs no more than its largest.
func (l *loader) findOwners() {
	l.owners, l.owned = map[string]*ast.Func{}, map[*ast.Func][]*ast.Var{}
	users := map[string]map[*ast.Func]bool{}
	for _, d := range l.file.Decls {
		if v, ok := d.(*ast.Var); ok && v.Space == "shared" {
			users[v.Name] = map[*ast.Func]bool{}
		}
	}
	for _, d := range l.file.Decls {
		if f, ok := d.(*ast.Func); ok && f.Body != nil {
			mentions(f.Body, func(name string) {
				if u := users[name]; u != nil {
					u[f] = true
				}
			})
		}
	}
	for name, u := range users {
		for f := range u {
			if len(u) == 1 && f.Entry {
				l.owners[name] = f
			}
		}
	}
}

// mentions calls f for every name in the operands of a body's instructions.
func mentions(b *ast.Block, f func(name string)) {
	var operand func(o ast.Operand)
	operands := func(list []ast.Operand) {
		for _, o := range list {
			operand(o)
		}
	}
	operand = func(o ast.Operand) {
		switch o := o.(type) {
		case *ast.Ident:
			f(o.Name)
		case *ast.Sum:
			operand(o.Base)
		case *ast.Generic:
			operand(o.X)
		case *ast.Index:
			f(o.Name)
		case *ast.Address:
			operand(o.Base)
		case *ast.Vector:
			operands(o.Elems)
		case *ast.List:
			operands(o.Elems)
		}
	}
	for _, s := range b.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			mentions(s, f)
		case *ast.Instr:
			operands(s.Args)
		}
	}
}

// reserves reports whether an entry uses shared memory that is not its own: it
// calls functions, or mentions variables that others mention, too.
func (l *loader) reserves(f *ast.Func) bool {
	found := false
	mentions(f.Body, func(name string) {
		s := l.module[name]
		found = found || s != nil && (s.kind == symbolFunction || s.kind == symbolShared && l.owners[name] == nil)
	})
	return found
}
