package emu

import (
	"math"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

func decodeBranch(d *decoder, m *mods) {
	m.take("uni")
	in := d.in
	in.kind, in.class = kindBranch, ClassBranch
	in.target = d.label(d.args(1, 1)[0])
}

func decodeIndexed(d *decoder, m *mods) {
	m.must("idx")
	m.take("uni")
	args := d.args(2, 2)
	in := d.in
	in.kind, in.class = kindIndexed, ClassBranch
	d.sources(args[:1], exact, u32)
	if id, ok := args[1].(*ast.Ident); ok {
		if s := d.find(id.Name, d.sc); s != nil && s.kind == symbolTargets {
			list := s.node.(*ast.Targets)
			for _, name := range list.List {
				in.targets = append(in.targets, d.label(&ast.Ident{Pos: list.Pos, Name: name}))
			}
			return
		}
	}
	fail(args[1].Position(), "%s is no list of targets", ast.Format(args[1]))
}

// callOp is the part of an instruction that concerns a call.
type callOp struct {
	target   int32 // index of the function, -1 if the address is in a register
	address  slot
	builtin  string // a function that the emulator provides
	args     []argument
	results  []argument
	frame    int32 // bytes of the caller's frame, known when it is complete
	function *function
}

// argument is where a call takes an argument from, or puts a result.
type argument struct {
	frame        bool // bytes of the caller's frame, else a register
	offset, size int32
	register     slot
}

// builtins are the functions that CUDA gives every kernel.
var builtins = map[string]bool{"vprintf": true, "__assertfail": true}

func decodeCall(d *decoder, m *mods) {
	m.take("uni")
	args := d.args(1, 4)
	in := d.in
	op := &callOp{target: -1, function: d.fn}
	in.kind, in.class, in.call = kindCall, ClassBranch, op
	var results, params []ast.Operand
	if l, ok := args[0].(*ast.List); ok {
		results = l.Elems
		args = args[1:]
	}
	if len(args) == 0 {
		fail(m.at, "a call of nothing")
	}
	callee := args[0]
	args = args[1:]
	if len(args) > 0 {
		if l, ok := args[0].(*ast.List); ok {
			params = l.Elems
			args = args[1:]
		}
	}
	if len(args) > 1 {
		fail(m.at, "a call with %d operands too many", len(args)-1)
	}
	id, ok := callee.(*ast.Ident)
	if !ok {
		fail(callee.Position(), "%s is no function", ast.Format(callee))
	}
	var wantResults, wantParams []*ast.Var
	switch s := d.find(id.Name, d.sc); {
	case s != nil && s.kind == symbolFunction:
		f := s.node.(*ast.Func)
		wantResults, wantParams = f.Results, f.Params
		switch {
		case f.Entry:
			fail(id.Pos, "%s is a kernel and cannot be called", id.Name)
		case f.Body == nil && builtins[id.Name]:
			op.builtin = id.Name
		case f.Body == nil:
			fail(id.Pos, "%s is declared and not defined", id.Name)
		}
		op.target = int32(s.fn)
	case s != nil && s.kind == symbolRegister:
		d.use(&op.address, id, u64, exact)
		if len(args) == 0 {
			fail(id.Pos, "an indirect call without a prototype")
		}
		p, ok := args[0].(*ast.Ident)
		if !ok {
			fail(id.Pos, "%s is no prototype", ast.Format(args[0]))
		}
		switch s := d.find(p.Name, d.sc); {
		case s != nil && s.kind == symbolPrototype:
			proto := s.node.(*ast.Prototype)
			wantResults, wantParams = proto.Results, proto.Params
		case s != nil && s.kind == symbolTargets:
			list := s.node.(*ast.Targets)
			f := d.module[list.List[0]]
			if f == nil || f.kind != symbolFunction {
				fail(list.Pos, "%s is no function", list.List[0])
			}
			wantResults, wantParams = f.node.(*ast.Func).Results, f.node.(*ast.Func).Params
		default:
			fail(p.Pos, "%s is no prototype", p.Name)
		}
	default:
		fail(id.Pos, "%s is no function", id.Name)
	}
	op.args = d.arguments(params, wantParams, false)
	op.results = d.arguments(results, wantResults, true)
}

func (d *decoder) arguments(list []ast.Operand, want []*ast.Var, def bool) []argument {
	if len(list) != len(want) {
		fail(d.ast.Pos, "a call with %d arguments or results for %d", len(list), len(want))
	}
	out := make([]argument, len(list))
	for i, o := range list {
		t, count, open := d.extent(want[i])
		size := int32(count * int64(t.bytes()))
		if s, _ := d.symbol(o); s != nil && s.kind == symbolFrame {
			if int64(size) > s.size && !open {
				fail(o.Position(), "%s has %d bytes, the function takes %d", ast.Format(o), s.size, size)
			}
			out[i] = argument{frame: true, offset: int32(s.offset), size: min(int32(s.size), max(size, 0))}
			if open {
				out[i].size = int32(s.size)
			}
			continue
		}
		if count != 1 {
			fail(o.Position(), "%s: a register for %d bytes", ast.Format(o), size)
		}
		out[i] = argument{size: size}
		if def {
			d.def(&out[i].register, o, typ{kind: 'b', bits: t.width()}, exact)
		} else {
			d.use(&out[i].register, o, t, exact)
		}
	}
	return out
}

func decodeReturn(d *decoder, m *mods) {
	m.take("uni")
	d.args(0, 0)
	d.in.kind, d.in.class = kindReturn, ClassBranch
	if d.ast.Name == "exit" {
		d.in.kind = kindExit
	}
}

func decodeTrap(d *decoder, m *mods) {
	d.args(0, 0)
	d.in.kind, d.in.class = kindTrap, ClassOther
	if d.ast.Name == "brkpt" {
		d.in.kind = kindNothing
	}
}

func decodeFence(d *decoder, m *mods) {
	// Memory is sequentially consistent here; a fence matters to the checks for
	// races only.
	m.one("sc", "acq_rel", "acquire", "release")
	m.one("cta", "cluster", "gpu", "sys", "gl")
	m.one("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
	if m.take("proxy") {
		m.one("alias", "async", "async.global", "async.shared::cta")
		m.one("global", "shared::cta", "shared::cluster")
		m.one("async::generic")
	}
	m.take("mbarrier_init")
	d.args(0, 0)
	d.in.kind, d.in.class = kindFence, ClassFence
}

func decodeSleep(d *decoder, m *mods) {
	m.require(m.typ(), "u", 32)
	d.in.kind, d.in.class = kindYield, ClassOther
	d.sources(d.args(1, 1), exact, u32)
}

// markWaits finds the backward branches that look like waiting for memory: their
// loop reads with a strong load, an atomic or a barrier's test, or sleeps.
func markWaits(code []instr, start int32) {
	for i := range code {
		in := &code[i]
		if in.kind != kindBranch || in.target > start+int32(i) {
			continue
		}
		for j := in.target - start; j <= int32(i); j++ {
			switch b := &code[j]; {
			case b.kind == kindLoad && b.mem.strong, b.kind == kindAtomic, b.kind == kindYield,
				b.kind == kindAsync && b.async.op == asyncTest:
				in.spins = true
			case b.kind == kindBarrier:
				in.spins = false
				j = math.MaxInt32 - 1
			}
		}
	}
}
