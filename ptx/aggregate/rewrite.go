package aggregate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// Options changes what [Rewrite] does.
type Options struct {
	// Name is the module's name in errors.
	Name string
	// Keep leaves the module's own entries in the result. Otherwise the
	// aggregated ones are all that it has.
	Keep bool
	// Coarse makes blocks take several child blocks, one after the other. The
	// kernel must use no shared memory and no barrier of a block.
	Coarse bool
}

// Rewrite returns f with an aggregated entry for each of the kernels, and their
// descriptions in the same order; a kernel that is named again has the same entry.
// f is not changed, and parts of it are shared.
//
// Errors: ErrNotFound for a kernel that f does not have; ErrNotSupported, with
// the line and the reason, for what has no meaning in an aggregated launch:
// clusters, launches that depend on others (griddepcontrol), the synchronisation
// of a whole grid, tensor maps, a parameter's address where it cannot be kept.
func Rewrite(f *ast.File, o Options, kernels ...string) (*ast.File, []*Entry, error) {
	r := &rewriter{name: o.Name, file: f, coarse: o.Coarse}
	return r.rewrite(o.Keep, kernels)
}

// rewriter rewrites one module. Its methods panic with a *driver.Error, which
// rewrite recovers.
type rewriter struct {
	name   string
	file   *ast.File
	kernel string
	coarse bool
	prefix string // of all new names; no name of the module starts with it
	decls  map[string]ast.Decl
	// record is set once a function reads the child's position from shared memory.
	record   bool
	replaced map[*ast.Func]*ast.Func // nil for those that need no change
}

func (r *rewriter) refuse(at ast.Pos, format string, args ...any) {
	panic(&driver.Error{Op: "Aggregate", Code: driver.ErrNotSupported, Kernel: r.kernel,
		Detail: fmt.Sprintf("%s:%v: %s", r.module(), at, fmt.Sprintf(format, args...))})
}

func (r *rewriter) module() string {
	if r.name == "" {
		return "module"
	}
	return r.name
}

// recovered turns a refusal into an error.
func recovered(err *error) {
	switch e := recover().(type) {
	case nil:
	case *driver.Error:
		*err = e
	default:
		panic(e)
	}
}

func (r *rewriter) rewrite(keep bool, kernels []string) (out *ast.File, entries []*Entry, err error) {
	defer recovered(&err)
	if r.file.AddressSize != 64 {
		r.refuse(ast.Pos{Line: 1, Col: 1}, "addresses of %d bits", r.file.AddressSize)
	}
	r.index()
	r.replaced = map[*ast.Func]*ast.Func{}
	var added []ast.Decl
	for i, k := range kernels {
		if first := slices.Index(kernels, k); first < i {
			entries = append(entries, entries[first])
			continue
		}
		e, err := r.describe(k)
		if err != nil {
			return nil, nil, err
		}
		f := r.entry(e)
		if r.decls[f.Name] != nil {
			r.refuse(f.Pos, "the module has a %s of its own", f.Name)
		}
		entries, added = append(entries, e), append(added, f)
	}
	f := *r.file
	f.Decls = nil
	if r.record {
		v := &ast.Var{Space: "shared", Align: 16, Type: "b8", Name: r.prefix + "record", Dims: []int64{recordBytes}}
		f.Decls = append(f.Decls, v)
	}
	for _, d := range r.file.Decls {
		fn, ok := d.(*ast.Func)
		switch {
		case ok && fn.Entry && !keep:
			continue
		case ok && r.replaced[fn] != nil:
			d = r.replaced[fn]
		case ok && fn.Entry && fn.Body != nil && r.record:
			d = r.plain(fn)
		}
		f.Decls = append(f.Decls, d)
	}
	f.Decls = append(f.Decls, added...)
	if !keep {
		f.Decls = dropShared(f.Decls)
	}
	return &f, entries, nil
}

// architecture is the number of .target sm_N, 0 where there is none.
func architecture(f *ast.File) (n int) {
	for _, t := range f.Targets {
		if digits, ok := strings.CutPrefix(t, "sm_"); ok {
			n, _ = strconv.Atoi(strings.TrimRight(digits, "af"))
		}
	}
	return n
}

// dropShared leaves out the shared variables that no function mentions any more.
func dropShared(decls []ast.Decl) []ast.Decl {
	mentioned := map[string]bool{}
	for _, d := range decls {
		if f, ok := d.(*ast.Func); ok && f.Body != nil {
			names(f.Body, func(name string) { mentioned[name] = true })
		}
	}
	return slices.DeleteFunc(decls, func(d ast.Decl) bool {
		v, ok := d.(*ast.Var)
		return ok && v.Space == "shared" && !mentioned[v.Name]
	})
}

// index finds the module's names and a prefix that none of them has.
func (r *rewriter) index() {
	r.decls = map[string]ast.Decl{}
	for _, d := range r.file.Decls {
		switch d := d.(type) {
		case *ast.Var:
			r.decls[d.Name] = d
		case *ast.Func:
			if old, ok := r.decls[d.Name].(*ast.Func); !ok || old.Body == nil {
				r.decls[d.Name] = d
			}
		case *ast.Directive:
			if d.Name == "alias" && len(d.Args) == 2 {
				r.decls[d.Args[0]] = d
			}
		}
	}
	r.prefix = "agg_"
	for n := 1; r.taken(); n++ {
		r.prefix = fmt.Sprintf("agg%d_", n)
	}
}

// taken reports whether a name of the module starts with the prefix, or with it
// behind the first character of registers and labels.
func (r *rewriter) taken() bool {
	found := false
	name := func(s string) {
		found = found || strings.HasPrefix(strings.TrimLeft(s, "%$"), r.prefix)
	}
	vars := func(list []*ast.Var) {
		for _, v := range list {
			name(v.Name)
		}
	}
	var block func(b *ast.Block)
	block = func(b *ast.Block) {
		for _, s := range b.Stmts {
			switch s := s.(type) {
			case *ast.Var:
				name(s.Name)
			case *ast.Label:
				name(s.Name)
			case *ast.Targets:
				name(s.Name)
			case *ast.Prototype:
				name(s.Name)
			case *ast.Block:
				block(s)
			}
		}
	}
	for n, d := range r.decls {
		name(n)
		if f, ok := d.(*ast.Func); ok {
			vars(f.Params)
			vars(f.Results)
			if f.Body != nil {
				block(f.Body)
			}
		}
	}
	return found
}

// describe finds an entry and lays out its parameters.
func (r *rewriter) describe(kernel string) (e *Entry, err error) {
	defer recovered(&err)
	r.kernel = kernel
	f := r.file.Func(kernel)
	if f == nil || !f.Entry {
		return nil, &driver.Error{Op: "Aggregate", Code: driver.ErrNotFound, Kernel: kernel, Detail: "no entry of that name in " + r.module()}
	}
	e = &Entry{Kernel: kernel, Name: kernel + Suffix, Coarse: r.coarse, Ahead: architecture(r.file) >= 70}
	offset := 0
	for _, v := range f.Params {
		bytes := v.Bytes()
		open := slices.Contains(v.Dims, -1)
		if v.Space != "param" || open || bytes <= 0 && !slices.Contains(v.Dims, 0) {
			r.refuse(v.Pos, "the parameter %s of type .%s has no size", v.Name, v.Type)
		}
		if bytes > 1<<16 {
			r.refuse(v.Pos, "the parameter %s has %d bytes", v.Name, bytes)
		}
		element := ast.Var{Type: v.Type, Vector: v.Vector}
		align := int(element.Bytes())
		if v.Align != 0 {
			align = v.Align
		}
		if align > 256 {
			r.refuse(v.Pos, "the parameter %s is aligned to %d bytes; device memory is aligned to 256", v.Name, align)
		}
		offset = (offset + align - 1) &^ (align - 1)
		e.Params = append(e.Params, Param{v.Name, offset, int(bytes), align})
		offset += int(bytes)
	}
	for _, d := range f.Directives {
		switch d.Name {
		case "maxntid":
			e.MaxThreads = int(r.dims(d).Count())
		case "reqntid":
			e.Block = r.dims(d)
		}
	}
	if e.Block != (driver.Dim3{}) {
		e.MaxThreads = int(e.Block.Count())
	}
	return e, nil
}

// maxParams is how many columns fit into the 4096 bytes of parameters that every
// PTX version allows: 92 bytes of the launch, 12 for each.
const maxParams = (4096 - 92) / 12

// dims reads the sizes of .maxntid and .reqntid.
func (r *rewriter) dims(d *ast.Directive) driver.Dim3 {
	v := [3]uint64{1, 1, 1}
	for i, a := range d.Args {
		n, err := strconv.ParseUint(a, 0, 32)
		if err != nil || i > 2 || n == 0 {
			r.refuse(d.Pos, ".%s of %s", d.Name, strings.Join(d.Args, ", "))
		}
		v[i] = n
	}
	if max(v[0], v[1], v[2]) > 1024 || v[0]*v[1]*v[2] > 1024 {
		r.refuse(d.Pos, ".%s of %s is more than 1024 threads", d.Name, strings.Join(d.Args, ", "))
	}
	return driver.Dim3{X: uint32(v[0]), Y: uint32(v[1]), Z: uint32(v[2])}
}

// entry makes the aggregated entry.
func (r *rewriter) entry(e *Entry) *ast.Func {
	f := r.file.Func(e.Kernel)
	for _, d := range f.Directives {
		r.checkDirective(d)
	}
	if len(e.Params) > maxParams {
		r.refuse(f.Pos, "%d parameters; the most is %d", len(e.Params), maxParams)
	}
	functions := r.reach(f)
	record := false
	for _, fn := range functions {
		record = r.replace(fn) || record
	}
	r.record = r.record || record
	b := r.newBody(f)
	for i, p := range e.Params {
		if b.params[p.Name] != 0 {
			r.refuse(f.Params[i].Pos, "two parameters with the name %s", p.Name)
		}
		b.params[p.Name] = i + 1
		if v := f.Params[i]; v.Vector == 0 && len(v.Dims) == 0 && p.Align >= p.Size {
			b.sizes[i+1] = p.Size
		}
	}
	if r.coarse {
		r.checkCoarse(f, functions)
	}
	stmts := b.block(f.Body).Stmts
	head := r.parse(b.prologue(e, record))
	out := *f
	out.Linkage, out.Name = "visible", e.Name
	out.Params = head.Params
	out.Directives = nil
	for _, d := range f.Directives {
		if d.Name == "maxntid" || d.Name == "reqntid" {
			threads := (r.dims(d).Count() + 31) &^ 31
			d = &ast.Directive{Pos: d.Pos, Name: d.Name, Args: []string{strconv.FormatUint(threads, 10), "1", "1"}}
		}
		out.Directives = append(out.Directives, d)
	}
	out.Body = &ast.Block{Pos: f.Body.Pos, Stmts: before(head.Body.Stmts, stmts)}
	if r.coarse {
		out.Body.Stmts = append(out.Body.Stmts, r.parse(b.epilogue()).Body.Stmts...)
	}
	return &out
}

// before puts a head before a body's statements, and all declarations that these
// begin with before the head's instructions.
func before(head, stmts []ast.Stmt) []ast.Stmt {
	h, s := declared(head), declared(stmts)
	return slices.Concat(head[:h], stmts[:s], head[h:], stmts[s:])
}

// declared is how many declarations the statements begin with.
func declared(list []ast.Stmt) int {
	n := slices.IndexFunc(list, func(s ast.Stmt) bool { _, ok := s.(*ast.Var); return !ok })
	if n < 0 {
		return len(list)
	}
	return n
}

// parse reads an entry that the package has written.
func (r *rewriter) parse(text string) *ast.Func {
	f, err := ast.Parse("aggregate", []byte(".version 6.0\n.target sm_70\n.address_size 64\n"+text))
	if err != nil {
		panic("aggregate: its own text does not parse: " + err.Error())
	}
	return f.Decls[0].(*ast.Func)
}

// reach lists the functions that an entry may call, directly, through others, or
// by address.
func (r *rewriter) reach(f *ast.Func) []*ast.Func {
	seen := map[string]bool{f.Name: true}
	var list []*ast.Func
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		switch d := r.decls[name].(type) {
		case *ast.Func:
			seen[name] = true
			if d.Body != nil && !d.Entry {
				list = append(list, d)
				names(d.Body, visit)
			}
		case *ast.Var:
			seen[name] = true
			if d.Init != nil {
				operandNames(d.Init, visit)
			}
		case *ast.Directive:
			seen[name] = true
			visit(d.Args[1])
		}
	}
	names(f.Body, visit)
	return list
}

// names calls f for every name in a body's operands and lists.
func names(b *ast.Block, f func(name string)) {
	for _, s := range b.Stmts {
		switch s := s.(type) {
		case *ast.Block:
			names(s, f)
		case *ast.Targets:
			for _, n := range s.List {
				f(n)
			}
		case *ast.Var:
			if s.Init != nil {
				operandNames(s.Init, f)
			}
		case *ast.Instr:
			for _, a := range s.Args {
				operandNames(a, f)
			}
		}
	}
}

func operandNames(o ast.Operand, f func(name string)) {
	switch o := o.(type) {
	case *ast.Ident:
		f(o.Name)
	case *ast.Index:
		f(o.Name)
	}
	for _, p := range parts(o) {
		operandNames(p, f)
	}
}

// parts are the operands that an operand is made of.
func parts(o ast.Operand) []ast.Operand {
	switch o := o.(type) {
	case *ast.Sum:
		return []ast.Operand{o.Base}
	case *ast.Generic:
		return []ast.Operand{o.X}
	case *ast.Mask:
		return []ast.Operand{o.X}
	case *ast.Address:
		return append([]ast.Operand{o.Base}, o.Coords...)
	case *ast.Index:
		return []ast.Operand{o.X}
	case *ast.Vector:
		return o.Elems
	case *ast.List:
		return o.Elems
	case *ast.Pair:
		return []ast.Operand{o.A, o.B}
	case *ast.Not:
		return []ast.Operand{o.X}
	}
	return nil
}
