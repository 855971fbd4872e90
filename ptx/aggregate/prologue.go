package aggregate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/ptx/ast"
)

// text is PTX under construction. In its lines ~ stands for the prefix of the
// names that the package introduces.
type text struct {
	strings.Builder
	prefix string
}

// line adds lines of PTX as they are, linef formatted ones.
func (t *text) line(s string) {
	t.WriteString(strings.ReplaceAll(s, "~", t.prefix))
	t.WriteByte('\n')
}

func (t *text) linef(format string, args ...any) { t.line(fmt.Sprintf(format, args...)) }

func paramRegister(n int) string { return "p" + strconv.Itoa(n) }

func valueRegister(n int) string { return "v" + strconv.Itoa(n) }

// any reports whether one of the registers is used.
func (b *body) any(names ...string) bool {
	for _, n := range names {
		if b.used[n] {
			return true
		}
	}
	return false
}

// prologue is the entry's head, parameters, and what comes before its body: each
// warp finds its block's child by itself, in the table of owners, or with as many
// probes at a time as it has lanes. Blocks are of whole warps, so that all lanes are
// there to probe. Then all that the child's number leads to, its first block, its
// configuration and its arguments, is loaded at a time, because a short child's time
// is that of the loads that wait for each other.
//
// A thread beyond the child's block leaves by exit before it has come to any
// barrier of the body. The ISA promises that a barrier of the block is not held
// up by threads that have exited.
func (b *body) prologue(e *Entry, record bool) string {
	t := &text{prefix: b.prefix}
	t.line(".entry k(.param .u32 ~children, .param .u32 ~config_stride, .param .u64 ~first, .param .u64 ~end,")
	t.line("\t.param .u64 ~starts, .param .u64 ~blocks, .param .u64 ~owners, .param .u64 ~configs,")
	t.line("\t.param .u64 ~queue, .param .u64 ~empty, .param .u64 ~gates, .param .u64 ~seen")
	for i := range e.Params {
		t.linef("\t, .param .u64 ~base_%d", i+1)
	}
	for i := range e.Params {
		t.linef("\t, .param .u32 ~stride_%d", i+1)
	}
	t.line("\t, .param .u32 ~mark) {")
	b.registers(t)
	t.line(`	.reg .pred %~p, %~in;
	.reg .b32 %~lane, %~child, %~hi, %~n, %~step, %~t, %~q, %~plane, %~threads, %~unused;
	.reg .b64 %~block, %~end_r, %~starts_r, %~blocks_r, %~local, %~s, %~a;`)
	t.line("\tld.param.u64 %~end_r, [~end];")
	if e.Ahead {
		take(t)
	}
	leave := "exit"
	if e.Coarse {
		leave = "bra.uni $~done"
	}
	t.linef(`	mov.u32 %%~t, %%ctaid.x;
	cvt.u64.u32 %%~block, %%~t;
	ld.param.u64 %%~s, [~first];
	add.s64 %%~block, %%~block, %%~s;
$~again:
	setp.ge.u64 %%~p, %%~block, %%~end_r;
	@%%~p %s;
	ld.param.u64 %%~starts_r, [~starts];
	ld.param.u64 %%~a, [~owners];
	setp.eq.s64 %%~p, %%~a, 0;
	@%%~p bra.uni $~unowned;
	shl.b64 %%~s, %%~block, 2;
	add.s64 %%~a, %%~a, %%~s;
	ld.global.nc.u32 %%~child, [%%~a];
	bra.uni $~found;
$~unowned:`, leave)
	t.line(`	setp.eq.s64 %~p, %~starts_r, 0;
	@%~p bra.uni $~equal;
	// The child is in [child, hi), and its first block is at or before ours.
	mov.u32 %~lane, %laneid;
	ld.param.u32 %~hi, [~children];
	mov.u32 %~child, 0;
$~search:
	sub.s32 %~n, %~hi, %~child;
	setp.le.u32 %~p, %~n, 1;
	@%~p bra.uni $~found;
	add.s32 %~step, %~n, 31;
	shr.u32 %~step, %~step, 5;
	mad.lo.s32 %~t, %~lane, %~step, %~child;
	setp.lt.u32 %~in, %~t, %~hi;
	mad.wide.u32 %~a, %~t, 8, %~starts_r;
	mov.u64 %~s, -1;
	@%~in ld.global.nc.u64 %~s, [%~a];
	setp.le.u64 %~p, %~s, %~block;
	vote.sync.ballot.b32 %~t, %~p, -1;
	popc.b32 %~t, %~t;
	sub.s32 %~t, %~t, 1;
	mad.lo.s32 %~child, %~t, %~step, %~child;
	add.s32 %~t, %~child, %~step;
	min.u32 %~hi, %~hi, %~t;
	bra.uni $~search;
$~found:
	mad.wide.u32 %~a, %~child, 8, %~starts_r;
	ld.global.nc.u64 %~s, [%~a];
	bra.uni $~have;
$~equal:
	ld.param.u64 %~blocks_r, [~blocks];
	mov.u32 %~child, 0;
	mov.u64 %~s, 0;
	setp.lt.u64 %~p, %~block, %~blocks_r;
	@%~p bra.uni $~have;
	cvt.u32.u64 %~child, %~block;
	mov.u64 %~s, %~block;
	setp.eq.s64 %~p, %~blocks_r, 1;
	@%~p bra.uni $~have;
	div.u64 %~s, %~block, %~blocks_r;
	cvt.u32.u64 %~child, %~s;
	mul.lo.s64 %~s, %~s, %~blocks_r;
$~have:
	// s is the child's first block. What follows waits for nothing but the child.
	ld.param.u64 %~a, [~configs];
	ld.param.u32 %~t, [~config_stride];
	mad.wide.u32 %~a, %~child, %~t, %~a;
	ld.global.nc.v4.u32 {%~nctaid_x, %~nctaid_y, %~nctaid_z, %~ntid_x}, [%~a];
	ld.global.nc.v4.u32 {%~ntid_y, %~ntid_z, %~shared, %~unused}, [%~a+16];`)
	for i := range e.Params {
		if r := paramRegister(i + 1); b.used[r] {
			t.linef("\tld.param.u64 %%~%s, [~base_%d];\n\tld.param.u32 %%~t, [~stride_%d];", r, i+1, i+1)
			t.linef("\tmad.wide.u32 %%~%s, %%~child, %%~t, %%~%s;", r, r)
			if v := valueRegister(i + 1); b.used[v] {
				t.linef("\tld.global.nc.b%d %%~%s, [%%~%s];", 8*e.Params[i].Size, v, r)
			}
		}
	}
	if record || b.any("ctaid_x", "ctaid_y", "ctaid_z") {
		t.line(`	sub.s64 %~local, %~block, %~s;
	cvt.u32.u64 %~ctaid_x, %~local;
	mov.u32 %~ctaid_y, 0;
	mov.u32 %~ctaid_z, 0;
	mul.lo.s32 %~t, %~nctaid_y, %~nctaid_z;
	setp.eq.s32 %~p, %~t, 1;
	@%~p bra.uni $~row;
	cvt.u64.u32 %~a, %~nctaid_x;
	div.u64 %~s, %~local, %~a;
	mul.lo.s64 %~a, %~s, %~a;
	sub.s64 %~a, %~local, %~a;
	cvt.u32.u64 %~ctaid_x, %~a;
	cvt.u32.u64 %~t, %~s;
	div.u32 %~ctaid_z, %~t, %~nctaid_y;
	mul.lo.s32 %~q, %~ctaid_z, %~nctaid_y;
	sub.s32 %~ctaid_y, %~t, %~q;
$~row:`)
	}
	t.line(`	mov.u32 %~tid_x, %tid.x;
	mul.lo.s32 %~plane, %~ntid_y, %~ntid_z;
	mul.lo.s32 %~threads, %~plane, %~ntid_x;`)
	if record || b.used["nwarpid"] {
		t.line("\tadd.s32 %~t, %~threads, 31;\n\tshr.u32 %~nwarpid, %~t, 5;")
	}
	if record {
		b.store(t, "%~tid_x")
	}
	t.line("\tsetp.ge.u32 %~p, %~tid_x, %~threads;")
	if e.Coarse {
		t.line("\t@%~p bra $~next;")
	} else {
		t.line("\t@%~p exit;")
	}
	if b.any("tid_x", "tid_y", "tid_z") {
		b.thread(t)
	}
	t.line("}")
	return t.String()
}

// take is where a launch ahead finds out how many blocks it has. The first warp
// empties the queue, or one that has waited for long, so that no order of the blocks
// is relied on. The others look at their gate. What is loaded and stored here is
// ordered by that: the queue before a gate, a gate before the child's own records.
func take(t *text) {
	t.linef(`	.reg .b32 %%~mark_r, %%~patience, %%~word, %%~fresh, %%~threads_q, %%~shared_q, %%~wrong;
	.reg .b64 %%~queue_r, %%~gates_r, %%~at, %%~count, %%~held, %%~groups, %%~capacity, %%~room, %%~marked;
	ld.param.u64 %%~queue_r, [~queue];
	setp.eq.s64 %%~p, %%~queue_r, 0;
	@%%~p bra.uni $~open;
	ld.param.u32 %%~mark_r, [~mark];
	cvt.u64.u32 %%~marked, %%~mark_r;
	shl.b64 %%~marked, %%~marked, 32;
	ld.param.u64 %%~gates_r, [~gates];
	mov.u32 %%~lane, %%laneid;
	mov.u32 %%~t, %%ctaid.x;
	and.b32 %%~q, %%~t, %[1]d;
	mad.wide.u32 %%~a, %%~q, %[2]d, %%~gates_r;
	mov.u32 %%~q, %%tid.x;
	shr.u32 %%~q, %%~q, 5;
	or.b32 %%~t, %%~t, %%~q;
	setp.eq.s32 %%~p, %%~t, 0;
	@%%~p bra.uni $~claim;
$~wait:
	mov.u32 %%~patience, %[3]d;
$~look:
	ld.acquire.gpu.global.u64 %%~s, [%%~a];
	shr.u64 %%~at, %%~s, 32;
	cvt.u32.u64 %%~t, %%~at;
	setp.eq.s32 %%~in, %%~t, %%~mark_r;
	vote.sync.all.pred %%~p, %%~in, -1;
	@%%~p bra.uni $~opened;
	sub.s32 %%~patience, %%~patience, 1;
	setp.ne.s32 %%~p, %%~patience, 0;
	@%%~p bra.uni $~look;
$~claim:
	setp.lt.u32 %%~in, %%~lane, %[4]d;
	mov.u32 %%~word, 0;
	mad.wide.u32 %%~at, %%~lane, 4, %%~queue_r;
	@%%~in ld.relaxed.gpu.global.u32 %%~word, [%%~at];
	ld.relaxed.gpu.global.u64 %%~count, [%%~queue_r];
	ld.relaxed.gpu.global.u64 %%~held, [%%~queue_r+8];
	ld.relaxed.gpu.global.u64 %%~groups, [%%~queue_r+16];
	ld.relaxed.gpu.global.u64 %%~capacity, [%%~queue_r+24];
	ld.relaxed.gpu.global.u32 %%~threads_q, [%%~queue_r+32];
	ld.relaxed.gpu.global.u32 %%~shared_q, [%%~queue_r+36];
	ld.relaxed.gpu.global.u32 %%~wrong, [%%~queue_r+44];
	ld.relaxed.gpu.global.u64 %%~room, [%%~queue_r+88];
	ld.param.u64 %%~s, [~empty];
	mad.wide.u32 %%~s, %%~lane, 4, %%~s;
	@%%~in ld.global.u32 %%~fresh, [%%~s];
	mov.u32 %%~t, %%~mark_r;
	setp.eq.s32 %%~p, %%~lane, 0;
	@%%~p atom.relaxed.gpu.global.exch.b32 %%~t, [%%~gates_r+%[5]d], %%~mark_r;
	shfl.sync.idx.b32 %%~t, %%~t, 0, 31, -1;
	setp.eq.s32 %%~p, %%~t, %%~mark_r;
	@%%~p bra.uni $~wait;
	@%%~in st.relaxed.gpu.global.u32 [%%~at], %%~fresh;
	setp.eq.s32 %%~p, %%~wrong, 0;
	setp.eq.and.s64 %%~p, %%~groups, 0, %%~p;
	setp.le.and.u64 %%~p, %%~count, %%~capacity, %%~p;
	setp.le.and.u64 %%~p, %%~held, %%~room, %%~p;
	mov.u32 %%~t, %%ntid.x;
	setp.le.and.u32 %%~p, %%~threads_q, %%~t, %%~p;
	mov.u32 %%~t, %%dynamic_smem_size;
	setp.le.and.u32 %%~p, %%~shared_q, %%~t, %%~p;
	selp.b64 %%~s, %%~held, 0, %%~p;
	min.u64 %%~s, %%~s, %%~end_r;
	cvt.u32.u64 %%~t, %%~s;
	setp.eq.s32 %%~p, %%~lane, %[4]d;
	selp.b32 %%~word, %%~t, %%~word, %%~p;
	or.b64 %%~s, %%~s, %%~marked;
	mad.wide.u32 %%~at, %%~lane, %[2]d, %%~gates_r;
	bar.warp.sync -1;
	fence.acq_rel.gpu;
	st.relaxed.gpu.global.u64 [%%~at], %%~s;
	st.relaxed.gpu.global.u64 [%%~at+%[6]d], %%~s;
	ld.param.u64 %%~at, [~seen];
	mad.wide.u32 %%~at, %%~lane, 8, %%~at;
	cvt.u64.u32 %%~held, %%~word;
	or.b64 %%~held, %%~held, %%~marked;
	setp.le.u32 %%~p, %%~lane, %[4]d;
	@%%~p st.relaxed.sys.global.u64 [%%~at], %%~held;
$~opened:
	and.b64 %%~s, %%~s, 0xffffffff;
	min.u64 %%~end_r, %%~end_r, %%~s;
$~open:`, gates-1, gateBytes, patience, QueueWords, gates*gateBytes, gates/2*gateBytes)
}

// patience is how often a warp looks at its gate before it would empty the queue
// itself.
const patience = 1 << 12

// registers declares the registers of position and of the parameters.
func (b *body) registers(t *text) {
	for _, p := range position {
		t.linef("\t.reg .b32 %%~%s;", p.register)
	}
	for n := 1; n <= len(b.params); n++ {
		if r := paramRegister(n); b.used[r] {
			t.linef("\t.reg .b64 %%~%s;", r)
		}
		if v := valueRegister(n); b.used[v] {
			t.linef("\t.reg .b%d %%~%s;", 8*b.sizes[n], v)
		}
	}
}

// thread decomposes tid_x, the thread's number in the child's block, by its sizes.
// plane is the product of the block's sizes in y and z.
func (b *body) thread(t *text) {
	t.line(`	mov.u32 %~tid_y, 0;
	mov.u32 %~tid_z, 0;
	setp.eq.s32 %~p, %~plane, 1;
	@%~p bra.uni $~line;
	div.u32 %~t, %~tid_x, %~ntid_x;
	mul.lo.s32 %~q, %~t, %~ntid_x;
	sub.s32 %~tid_x, %~tid_x, %~q;
	div.u32 %~tid_z, %~t, %~ntid_y;
	mul.lo.s32 %~q, %~tid_z, %~ntid_y;
	sub.s32 %~tid_y, %~t, %~q;
$~line:`)
}

// epilogue ends the loop of a block that takes several child blocks. The lanes
// meet again, because they search together.
func (b *body) epilogue() string {
	t := &text{prefix: b.prefix}
	t.line(`.entry k() {
$~next:
	bar.warp.sync -1;
	mov.u32 %~t, %nctaid.x;
	cvt.u64.u32 %~s, %~t;
	add.s64 %~block, %~block, %~s;
	bra.uni $~again;
$~done:
	ret;
}`)
	return t.String()
}

// store has the first thread of the block write the record, for functions that
// read it. number is the register of the thread's number in the block.
func (b *body) store(t *text, number string) {
	t.linef("\tsetp.eq.s32 %%~p, %s, 0;", number)
	for i, p := range position[:recorded] {
		t.linef("\t@%%~p st.shared.u32 [~record+%d], %%~%s;", 4*i, p.register)
	}
	t.line("\tbar.sync 0;")
}

// replace makes a device function read the child's position from the record, and
// reports whether it needs to. Its own threads' numbers are those of the launch.
func (r *rewriter) replace(f *ast.Func) bool {
	if n, seen := r.replaced[f]; seen {
		return n != nil
	}
	for _, d := range f.Directives {
		r.checkDirective(d)
	}
	b := r.newBody(f)
	stmts := b.block(f.Body).Stmts
	r.replaced[f] = nil
	if len(b.used) == 0 {
		return false
	}
	t := &text{prefix: b.prefix}
	t.line(".entry k() {")
	b.registers(t)
	t.line("\t.reg .pred %~p;\n\t.reg .b32 %~t, %~q, %~plane;")
	thread := b.any("tid_x", "tid_y", "tid_z")
	for i, p := range position[:recorded] {
		if b.used[p.register] || thread && strings.HasPrefix(p.register, "ntid") {
			t.linef("\tld.shared.u32 %%~%s, [~record+%d];", p.register, 4*i)
		}
	}
	if thread {
		number(t, "%~tid_x")
		t.line("\tmul.lo.s32 %~plane, %~ntid_y, %~ntid_z;")
		b.thread(t)
	}
	t.line("}")
	out := *f
	out.Body = &ast.Block{Pos: f.Body.Pos, Stmts: before(r.parse(t.String()).Body.Stmts, stmts)}
	r.replaced[f] = &out
	return true
}

// number computes the thread's number in the block that was launched.
func number(t *text, register string) {
	t.linef(`	mov.u32 %%~t, %%tid.z;
	mov.u32 %%~q, %%ntid.y;
	mul.lo.s32 %%~t, %%~t, %%~q;
	mov.u32 %%~q, %%tid.y;
	add.s32 %%~t, %%~t, %%~q;
	mov.u32 %%~q, %%ntid.x;
	mul.lo.s32 %%~t, %%~t, %%~q;
	mov.u32 %%~q, %%tid.x;
	add.s32 %s, %%~t, %%~q;`, register)
}

// plain makes an entry that is kept write its own position to the record, if
// functions that it may call read it there.
func (r *rewriter) plain(f *ast.Func) *ast.Func {
	reads := false
	for _, fn := range r.reach(f) {
		reads = reads || r.replaced[fn] != nil
	}
	if !reads {
		return f
	}
	b := r.newBody(f)
	t := &text{prefix: b.prefix}
	t.line(".entry k() {")
	b.registers(t)
	t.line("\t.reg .pred %~p;\n\t.reg .b32 %~t, %~q;")
	for _, p := range position[:recorded] {
		t.linef("\tmov.u32 %%~%s, %s;", p.register, p.special)
	}
	number(t, "%~t")
	b.store(t, "%~t")
	t.line("}")
	out := *f
	out.Body = &ast.Block{Pos: f.Body.Pos, Stmts: before(r.parse(t.String()).Body.Stmts, f.Body.Stmts)}
	return &out
}
