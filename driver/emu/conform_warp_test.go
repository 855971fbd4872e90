package emu_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ptxrun/ptxrun/driver"
)

// warpForm is an instruction that a form cannot hold: its lanes depend on each
// other, or it uses memory. It is executed by one warp; lane i has %a, %b (64
// bits), %a32, %b32, %lane, and its own 64 bytes of zeros at %mem in global and
// at %sm in shared memory (32-bit address); %all is the first lane's %mem. It
// leaves its result in %d (64 bits).
type warpForm struct {
	name string
	text string
	want func(a, b []uint64) []uint64
	sm   int
}

func (f *warpForm) kernel(name string) string {
	text := f.text
	return fmt.Sprintf(`
.visible .entry %s(.param .u64 in, .param .u64 out, .param .u64 mem)
{
	.reg .pred %%p<8>;
	.reg .b16 %%h<4>;
	.reg .b32 %%a32, %%b32, %%lane, %%sm, %%r<8>;
	.reg .b64 %%a, %%b, %%d, %%in, %%out, %%mem, %%all, %%off, %%x<8>;
	.shared .align 16 .b8 block[2048];
	ld.param.u64 %%in, [in];
	ld.param.u64 %%out, [out];
	ld.param.u64 %%all, [mem];
	mov.u32 %%lane, %%tid.x;
	mul.wide.u32 %%off, %%lane, 16;
	add.u64 %%in, %%in, %%off;
	ld.global.v2.u64 {%%a, %%b}, [%%in];
	cvt.u32.u64 %%a32, %%a;
	cvt.u32.u64 %%b32, %%b;
	mul.wide.u32 %%off, %%lane, 64;
	add.u64 %%mem, %%all, %%off;
	mov.u32 %%sm, block;
	mad.lo.u32 %%sm, %%lane, 64, %%sm;
	mov.u32 %%r0, 0;
	st.shared.v4.u32 [%%sm], {%%r0, %%r0, %%r0, %%r0};
	st.shared.v4.u32 [%%sm+16], {%%r0, %%r0, %%r0, %%r0};
	st.shared.v4.u32 [%%sm+32], {%%r0, %%r0, %%r0, %%r0};
	st.shared.v4.u32 [%%sm+48], {%%r0, %%r0, %%r0, %%r0};
	bar.warp.sync 0xffffffff;
	mov.u64 %%d, 0;
	%s
	mul.wide.u32 %%off, %%lane, 8;
	add.u64 %%out, %%out, %%off;
	st.global.u64 [%%out], %%d;
	ret;
}
`, name, strings.ReplaceAll(text, "\n", "\n\t"))
}

// each is the result of a form whose lanes do not depend on each other.
func each(f func(lane int, a, b uint64) uint64) func(a, b []uint64) []uint64 {
	return func(a, b []uint64) []uint64 {
		d := make([]uint64, len(a))
		for i := range d {
			d[i] = f(i, a[i], b[i])
		}
		return d
	}
}

func low32(v uint64) uint64 { return v & 0xffffffff }

func warpForms() (list []warpForm) {
	add := func(name, text string, want func(a, b []uint64) []uint64) {
		list = append(list, warpForm{name: name, text: text, want: want})
	}
	newer := func(sm int, name, text string, want func(a, b []uint64) []uint64) {
		list = append(list, warpForm{name, text, want, sm})
	}
	widen := "\ncvt.u64.u32 %d, %r0;"

	// Shuffles, by the ISA's pseudocode; the predicate goes to bit 32.
	for _, mode := range []string{"up", "down", "bfly", "idx"} {
		for _, segment := range []int{32, 16, 4} {
			c := (32-segment)<<8 | 31
			if mode == "up" {
				c = (32 - segment) << 8
			}
			add(fmt.Sprintf("shfl.sync.%s.b32 of %d", mode, segment),
				fmt.Sprintf("shfl.sync.%s.b32 %%r0|%%p0, %%a32, %%b32, %d, 0xffffffff;\nselp.u32 %%r1, 1, 0, %%p0;\nmov.b64 %%d, {%%r0, %%r1};", mode, c),
				func(a, b []uint64) []uint64 {
					d := make([]uint64, 32)
					for lane := range 32 {
						by := int(b[lane] & 31)
						first, last := lane&^(segment-1), lane|(segment-1)
						from, ok := 0, false
						switch mode {
						case "up":
							from = lane - by
							ok = from >= first
						case "down":
							from = lane + by
							ok = from <= last
						case "bfly":
							from = lane ^ by
							ok = from <= last
						default:
							from = first | by&(segment-1)
							ok = from <= last
						}
						if !ok {
							from = lane
						}
						d[lane] = low32(a[from]) | truth(ok)<<32
					}
					return d
				})
		}
	}
	add("shfl.sync.idx.b32 of half a warp", `
setp.lt.u32 %p0, %lane, 16;
@!%p0 bra upper;
shfl.sync.idx.b32 %r0, %a32, 3, 31, 0xffff;
bra done;
upper:
shfl.sync.idx.b32 %r0, %a32, 20, 31, 0xffff0000;
done:`+widen, func(a, b []uint64) []uint64 {
		d := make([]uint64, 32)
		for i := range d {
			d[i] = low32(a[3])
			if i >= 16 {
				d[i] = low32(a[20])
			}
		}
		return d
	})
	add("shfl.sync.bfly.b32 with masks that differ by lane", `
and.b32 %r1, %lane, 24;
shl.b32 %r1, 0xff, %r1;
shfl.sync.bfly.b32 %r0, %a32, 5, 31, %r1;`+widen, func(a, b []uint64) []uint64 {
		d := make([]uint64, 32)
		for i := range d {
			d[i] = low32(a[i^5])
		}
		return d
	})

	// Votes and matches on the parity of a, with the odd lanes apart in some.
	odd := func(a []uint64) (m uint64) {
		for i, v := range a {
			m |= v & 1 << i
		}
		return m
	}
	same := func(v uint64) func(a, b []uint64) []uint64 {
		return each(func(int, uint64, uint64) uint64 { return v })
	}
	test := "and.b32 %r1, %a32, 1;\nsetp.ne.u32 %p0, %r1, 0;\n"
	result := "\nselp.u64 %d, 1, 0, %p1;"
	add("vote.sync.ballot.b32", test+"vote.sync.ballot.b32 %r0, %p0, 0xffffffff;"+widen, func(a, b []uint64) []uint64 {
		return same(odd(a))(a, b)
	})
	for mode, f := range map[string]func(m uint64) bool{
		"all": func(m uint64) bool { return m == 0xffffffff }, "any": func(m uint64) bool { return m != 0 },
		"uni": func(m uint64) bool { return m == 0 || m == 0xffffffff },
	} {
		add("vote.sync."+mode+".pred", test+"vote.sync."+mode+".pred %p1, %p0, 0xffffffff;"+result, func(a, b []uint64) []uint64 {
			return same(truth(f(odd(a))))(a, b)
		})
		add("vote.sync."+mode+".pred, negated constant", "setp.eq.u32 %p0, %lane, 40;\nvote.sync."+mode+".pred %p1, !%p0, 0xffffffff;"+result,
			same(truth(f(0xffffffff))))
	}
	add("vote.sync.ballot.b32 of some lanes", test+`
mov.u32 %r0, 0;
setp.ge.u32 %p2, %lane, 20;
@%p2 vote.sync.ballot.b32 %r0, %p0, 0xfff00000;`+widen, func(a, b []uint64) []uint64 {
		return each(func(i int, _, _ uint64) uint64 {
			if i < 20 {
				return 0
			}
			return odd(a) & 0xfff00000
		})(a, b)
	})
	for _, w := range []string{"32", "64"} {
		key := "and.b64 %x0, %b, 3;\ncvt.u32.u64 %r2, %x0;\n"
		operand := map[string]string{"32": "%r2", "64": "%x0"}[w]
		add("match.any.sync.b"+w, key+"match.any.sync.b"+w+" %r0, "+operand+", 0xffffffff;"+widen, func(a, b []uint64) []uint64 {
			return each(func(i int, _, _ uint64) (m uint64) {
				for j := range b {
					m |= truth(b[j]&3 == b[i]&3) << j
				}
				return m
			})(a, b)
		})
		add("match.all.sync.b"+w, key+"match.all.sync.b"+w+" %r0|%p1, "+operand+", 0xffffffff;\nselp.u32 %r1, 1, 0, %p1;\nmov.b64 %d, {%r0, %r1};",
			func(a, b []uint64) []uint64 {
				all := true
				for _, v := range b {
					all = all && v&3 == b[0]&3
				}
				if all {
					return same(1<<32|0xffffffff)(a, b)
				}
				return same(0)(a, b)
			})
	}
	for _, r := range []struct {
		op string
		f  func(x, y uint64) uint64
	}{
		{"add.u32", func(x, y uint64) uint64 { return low32(x + y) }}, {"add.s32", func(x, y uint64) uint64 { return low32(x + y) }},
		{"min.u32", func(x, y uint64) uint64 { return min(x, y) }}, {"max.u32", func(x, y uint64) uint64 { return max(x, y) }},
		{"min.s32", func(x, y uint64) uint64 { return uint64(uint32(min(int32(x), int32(y)))) }},
		{"max.s32", func(x, y uint64) uint64 { return uint64(uint32(max(int32(x), int32(y)))) }},
		{"and.b32", func(x, y uint64) uint64 { return x & y }}, {"or.b32", func(x, y uint64) uint64 { return x | y }}, {"xor.b32", func(x, y uint64) uint64 { return x ^ y }},
	} {
		newer(80, "redux.sync."+r.op, "redux.sync."+r.op+" %r0, %a32, 0xffffffff;"+widen, func(a, b []uint64) []uint64 {
			v := low32(a[0])
			for _, x := range a[1:] {
				v = r.f(v, low32(x))
			}
			return same(v)(a, b)
		})
	}
	newer(90, "elect.sync", "elect.sync %r0|%p1, 0xffffffff;\nselp.u32 %r1, 1, 0, %p1;\nmov.b64 %d, {%r0, %r1};",
		each(func(i int, _, _ uint64) uint64 { return truth(i == 0) << 32 }))
	add("activemask.b32", "activemask.b32 %r0;"+widen, same(0xffffffff))
	add("bar.red.popc.u32", test+"bar.red.popc.u32 %r0, 0, %p0;"+widen, func(a, b []uint64) []uint64 {
		return same(uint64(bits.OnesCount64(odd(a))))(a, b)
	})
	add("bar.red.and.pred", test+"bar.red.and.pred %p1, 1, !%p0;"+result, func(a, b []uint64) []uint64 { return same(truth(odd(a) == 0))(a, b) })
	add("bar.red.or.pred", test+"bar.red.or.pred %p1, 2, 32, %p0;"+result, func(a, b []uint64) []uint64 { return same(truth(odd(a) != 0))(a, b) })
	add("barrier.sync and arrive", "barrier.cta.arrive 3, 64;\nbarrier.cta.sync 3, 64;\nbarrier.sync 4;\nmov.u64 %d, 7;", same(7))

	for reg, f := range map[string]func(i int) uint64{
		"%laneid": func(i int) uint64 { return uint64(i) }, "%tid.x": func(i int) uint64 { return uint64(i) }, "%tid.y": func(int) uint64 { return 0 },
		"%ntid.x": func(int) uint64 { return 32 }, "%ctaid.x": func(int) uint64 { return 0 }, "%nctaid.x": func(int) uint64 { return 1 },
		"%lanemask_eq": func(i int) uint64 { return 1 << i }, "%lanemask_lt": func(i int) uint64 { return 1<<i - 1 },
		"%lanemask_le": func(i int) uint64 { return 2<<i - 1 }, "%lanemask_gt": func(i int) uint64 { return low32(^uint64(1<<(i+1) - 1)) },
		"%lanemask_ge": func(i int) uint64 { return low32(^uint64(1<<i - 1)) }, "%dynamic_smem_size": func(int) uint64 { return 0 },
	} {
		add("mov.u32 from "+reg, "mov.u32 %r0, "+reg+";"+widen, each(func(i int, _, _ uint64) uint64 { return f(i) }))
	}
	// Any of the places that a multiprocessor has for warps.
	add("%warpid and %nwarpid", "mov.u32 %r0, %warpid;\nmov.u32 %r1, %nwarpid;\nsetp.lt.u32 %p1, %r0, %r1;"+result, same(1))
	add("clocks go on", `mov.u64 %x0, %clock64;
mov.u32 %r0, %clock;
mov.u64 %x1, %globaltimer;
nanosleep.u32 1000;
mov.u64 %x2, %clock64;
mov.u64 %x3, %globaltimer;
setp.lt.u64 %p0, %x0, %x2;
setp.le.and.u64 %p1, %x1, %x3, %p0;`+result, same(1))

	// Loads and stores of every width, into registers that are wider.
	for _, space := range []string{"global", "shared"} {
		m := map[string]string{"global": "%mem", "shared": "%sm"}[space]
		for _, t := range []string{"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"} {
			w := width(t)
			add("st."+space+" and ld."+t+" into 64 bits", fmt.Sprintf("st.%s.b64 [%s+8], %%a;\nld.%s.%s %%d, [%s+8];", space, m, space, t, m),
				each(func(_ int, a, _ uint64) uint64 { return toBig(a&(^uint64(0)>>(64-w)), t).Uint64() * sign(a, t) }))
			add("st."+space+"."+t+" from 64 bits", fmt.Sprintf("st.%s.b64 [%s], %%b;\nst.%s.%s [%s], %%a;\nld.%s.b64 %%d, [%s];", space, m, space, t, m, space, m),
				each(func(_ int, a, b uint64) uint64 {
					keep := ^uint64(0) >> (64 - w)
					return b&^keep | a&keep
				}))
		}
		for _, q := range []string{"volatile", "relaxed.gpu", "relaxed.cta", "relaxed.sys", "weak"} {
			for _, t := range []string{"u8", "u16", "u32", "u64"} {
				w := width(t)
				add("st."+q+" and ld."+q+"."+space+"."+t, fmt.Sprintf("st.%s.%s.%s [%s], %%a;\nld.%s.%s.%s %%d, [%s];", q, space, t, m, q, space, t, m),
					each(func(_ int, a, _ uint64) uint64 { return a & (^uint64(0) >> (64 - w)) }))
			}
		}
		add("st.release and ld.acquire."+space, fmt.Sprintf("st.release.gpu.%s.u32 [%s], %%a32;\nfence.acq_rel.gpu;\nld.acquire.gpu.%s.u32 %%d, [%s];", space, m, space, m),
			each(func(_ int, a, _ uint64) uint64 { return low32(a) }))
		add("vectors in "+space, fmt.Sprintf(`st.%[1]s.v2.b64 [%[2]s+16], {%%a, %%b};
ld.%[1]s.v4.u32 {%%r0, %%r1, %%r2, %%r3}, [%[2]s+16];
add.u32 %%r0, %%r0, %%r3;
st.%[1]s.v4.b8 [%[2]s], {%%r0, %%r1, %%r2, %%r3};
ld.%[1]s.v2.s16 {%%h0, %%h1}, [%[2]s];
mov.b32 %%r0, {%%h0, %%h1};`, space, m)+widen, each(func(_ int, a, b uint64) uint64 {
			return (a+b>>32)&0xff | a>>32&0xff<<8 | b&0xff<<16 | b>>32&0xff<<24
		}))
	}
	add("generic addresses", `cvt.u64.u32 %x0, %sm;
cvta.shared.u64 %x0, %x0;
st.u64 [%x0+8], %a;
ld.shared.u64 %x1, [%sm+8];
cvta.to.shared.u64 %x2, %x0;
cvt.u32.u64 %r0, %x2;
sub.u32 %r0, %r0, %sm;
cvt.u64.u32 %x2, %r0;
isspacep.shared %p0, %x0;
isspacep.global %p1, %x0;
isspacep.global %p2, %mem;
xor.b64 %d, %x1, %x2;
@!%p0 mov.u64 %d, 1;
@%p1 mov.u64 %d, 2;
@!%p2 mov.u64 %d, 3;`, each(func(_ int, a, _ uint64) uint64 { return a }))
	add("local memory", `.local .align 8 .b8 frame[64];
mov.u64 %x0, frame;
and.b32 %r0, %lane, 7;
mul.wide.u32 %x1, %r0, 8;
add.u64 %x1, %x0, %x1;
st.local.u64 [%x1], %a;
cvta.local.u64 %x2, %x1;
st.u8 [%x2+1], %b32;
ld.local.u64 %d, [%x1];`, each(func(_ int, a, b uint64) uint64 { return a&^0xff00 | b&0xff<<8 }))
	add("constants and initialised variables", `ld.const.u32 %r0, [constants+4];
ld.global.u64 %x0, [pointer];
ld.u32 %r1, [%x0];
and.b32 %r2, %lane, 3;
mul.wide.u32 %x1, %r2, 4;
mov.u64 %x2, constants;
add.u64 %x2, %x2, %x1;
ld.const.u32 %r3, [%x2];
ld.global.u8 %r4, [matrix+5];
mad.lo.u32 %r0, %r0, 1000, %r1;
mad.lo.u32 %r0, %r0, 1000, %r3;
mad.lo.u32 %r0, %r0, 100, %r4;`+widen, each(func(i int, _, _ uint64) uint64 {
		c := []uint64{3, 5, 7, 11}
		return ((c[1]*1000+c[2])*1000+c[i&3])*100 + 60
	}))

	// Atomics: each lane on its own word, old values and new ones.
	type atom struct {
		op, t string
		f     func(old, b uint64) uint64
	}
	signed := func(v uint64, w int) int64 { return int64(v<<(64-w)) >> (64 - w) }
	var atoms []atom
	for _, w := range []int{32, 64} {
		keep := ^uint64(0) >> (64 - w)
		u, s, b := fmt.Sprintf("u%d", w), fmt.Sprintf("s%d", w), fmt.Sprintf("b%d", w)
		atoms = append(atoms,
			atom{"add", u, func(o, b uint64) uint64 { return (o + b) & keep }},
			atom{"min", u, func(o, b uint64) uint64 { return min(o, b) }}, atom{"max", u, func(o, b uint64) uint64 { return max(o, b) }},
			atom{"min", s, func(o, b uint64) uint64 { return uint64(min(signed(o, w), signed(b, w))) & keep }},
			atom{"max", s, func(o, b uint64) uint64 { return uint64(max(signed(o, w), signed(b, w))) & keep }},
			atom{"and", b, func(o, b uint64) uint64 { return o & b }}, atom{"or", b, func(o, b uint64) uint64 { return o | b }},
			atom{"xor", b, func(o, b uint64) uint64 { return o ^ b }}, atom{"exch", b, func(_, b uint64) uint64 { return b }})
	}
	atoms = append(atoms, atom{"add", "s32", func(o, b uint64) uint64 { return low32(o + b) }},
		atom{"inc", "u32", func(o, b uint64) uint64 {
			if o >= b {
				return 0
			}
			return o + 1
		}},
		atom{"dec", "u32", func(o, b uint64) uint64 {
			if o == 0 || o > b {
				return b
			}
			return o - 1
		}})
	for _, x := range atoms {
		w := width(x.t)
		keep := ^uint64(0) >> (64 - w)
		a, b, d := "%a32", "%b32", "%r0"
		extend := widen
		if w == 64 {
			a, b, d, extend = "%a", "%b", "%d", ""
		}
		for _, space := range []string{"global", "shared", "generic"} {
			m, dot := "%mem", "."+space
			if space == "shared" {
				m = "%sm"
			}
			if space == "generic" {
				dot = ""
			}
			st := strings.Replace("st"+dot+".b%d [%m], %a;\n", "%d", fmt.Sprint(w), 1)
			st = strings.NewReplacer("%m", m, "%a", a).Replace(st)
			add("atom"+dot+"."+x.op+"."+x.t, st+fmt.Sprintf("atom%s.%s.%s %s, [%s], %s;", dot, x.op, x.t, d, m, b)+extend,
				each(func(_ int, a, _ uint64) uint64 { return a & keep }))
			name := "atom"
			if x.op != "exch" {
				name = "red"
			}
			text := fmt.Sprintf("red.gpu%s.%s.%s [%s], %s;\n", dot, x.op, x.t, m, b)
			if name == "atom" {
				text = fmt.Sprintf("atom.gpu%s.%s.%s %s, [%s], %s;\n", dot, x.op, x.t, d, m, b)
			}
			add("what "+name+dot+"."+x.op+"."+x.t+" leaves", st+text+fmt.Sprintf("ld%s.b%d %s, [%s];", dot, w, d, m)+extend,
				each(func(_ int, a, b uint64) uint64 { return x.f(a&keep, b&keep) }))
		}
	}
	for _, w := range []int{16, 32, 64} {
		reg := map[int]string{16: "%h", 32: "%r", 64: "%x"}[w]
		keep := ^uint64(0) >> (64 - w)
		add(fmt.Sprintf("atom.cas.b%d", w), fmt.Sprintf(`cvt.u%[1]d.u64 %[2]s0, %%a;
cvt.u%[1]d.u64 %[2]s1, %%b;
st.global.u64 [%%mem], -1;
st.global.b%[1]d [%%mem+8], %[2]s0;
mov.b%[1]d %[2]s2, %[2]s0;
and.b32 %%r7, %%lane, 1;
setp.ne.u32 %%p0, %%r7, 0;
@%%p0 add.u%[1]d %[2]s2, %[2]s2, 1;
atom.global.cas.b%[1]d %[2]s3, [%%mem+8], %[2]s2, %[2]s1;
ld.global.u64 %%d, [%%mem+8];
cvt.u64.u%[1]d %%x7, %[2]s3;
xor.b64 %%x7, %%x7, %%a;
and.b64 %%x7, %%x7, %[3]d;
@!%%p0 xor.b64 %%d, %%d, %%x7;`, w, reg, int64(keep)), each(func(i int, a, b uint64) uint64 {
			if i%2 == 0 {
				return b & keep
			}
			return a & keep
		}))
	}
	add("atom.add by all lanes", `atom.global.add.u32 %r0, [%all], 1;
bar.warp.sync 0xffffffff;
ld.global.u32 %r1, [%all];
shl.b32 %r2, 1, %r0;
match.all.sync.b32 %r3|%p0, %r1, 0xffffffff;
red.shared.or.b32 [block], %r2;
bar.warp.sync 0xffffffff;
ld.shared.u32 %r2, [block];
mov.b64 %d, {%r2, %r1};`, same(32<<32|0xffffffff))
	for _, t := range []string{"f32", "f64"} {
		w := width(t)
		add("atom.add."+t, fmt.Sprintf("cvt.rn.%[1]s.s64 %[2]s0, %%a;\ncvt.rn.%[1]s.s64 %[2]s1, %%b;\nst.shared.%[1]s [%%sm], %[2]s0;\natom.shared.add.%[1]s %[2]s2, [%%sm], %[2]s1;\nld.shared.b%[3]d %%d, [%%sm];",
			t, map[int]string{32: "%r", 64: "%x"}[w], w), each(func(_ int, a, b uint64) uint64 {
			x := round(realNumber(float64(int64(a))), t, "rn")
			y := round(realNumber(float64(int64(b))), t, "rn")
			if t == "f32" { // from the integers at once, not by way of a double
				x, y = round32(int64(a)), round32(int64(b))
			}
			return round(combine("add", []number{realNumber(toFloat(x, t)), realNumber(toFloat(y, t))}, "rn"), t, "rn")
		}))
	}

	// Control flow.
	add("brx.idx", `and.b32 %r0, %lane, 3;
targets: .branchtargets zero, one, two, zero;
brx.idx %r0, targets;
zero:
mov.u64 %d, 10;
bra join;
one:
mov.u64 %d, 11;
bra join;
two:
mov.u64 %d, 12;
join:
bar.warp.sync 0xffffffff;`, each(func(i int, _, _ uint64) uint64 { return []uint64{10, 11, 12, 10}[i&3] }))
	add("a loop of different lengths", `and.b32 %r0, %a32, 15;
mov.u32 %r1, 0;
loop:
setp.eq.u32 %p0, %r0, 0;
@%p0 bra end;
add.u32 %r1, %r1, %r0;
sub.u32 %r0, %r0, 1;
bra loop;
end:
cvt.u64.u32 %d, %r1;`, each(func(_ int, a, _ uint64) uint64 { n := a & 15; return n * (n + 1) / 2 }))
	add("calls", `{
.param .align 8 .b8 s[16];
.param .b32 n;
.param .b64 r;
st.param.v2.b64 [s], {%a, %b};
st.param.b32 [n], %lane;
call.uni (r), pick, (s, n);
ld.param.b64 %x0, [r];
}
{
.param .b64 k; .param .b64 r;
and.b64 %x1, %a, 7;
st.param.b64 [k], %x1;
call (r), factorial, (k);
ld.param.b64 %x1, [r+0];
}
mov.u64 %x2, pick;
mov.u64 %x3, other;
and.b32 %r0, %lane, 1;
setp.eq.u32 %p0, %r0, 0;
selp.b64 %x2, %x2, %x3, %p0;
{
.param .align 8 .b8 s[16]; .param .b32 n; .param .b64 r;
st.param.b64 [s], 100; st.param.b64 [s+8], 200;
st.param.b32 [n], %lane;
kind: .callprototype (.param .b64 _) _ (.param .align 8 .b8 _[16], .param .b32 _);
call (r), %x2, (s, n), kind;
ld.param.b64 %x2, [r];
}
add.u64 %d, %x0, %x1;
add.u64 %d, %d, %x2;`, each(func(i int, a, b uint64) uint64 {
		x := a
		if i%3 == 0 {
			x = b
		}
		f := uint64(1)
		for k := range a & 7 {
			f *= k + 1
		}
		y := uint64(300 + i)
		if i%2 == 0 {
			y = 100
			if i%3 == 0 {
				y = 200
			}
		}
		return x + f + y
	}))
	add("predicated instructions", `mov.u64 %d, 1;
and.b32 %r0, %lane, 3;
setp.gt.u32 %p0, %r0, 1;
@%p0 add.u64 %d, %d, %a;
@!%p0 add.u64 %d, %d, %b;
@%p0 bra skip;
add.u64 %d, %d, 5;
skip:`, each(func(i int, a, b uint64) uint64 {
		if i&3 > 1 {
			return 1 + a
		}
		return 6 + b
	}))
	add("fences and hints", `membar.cta; membar.gl; membar.sys; fence.sc.gpu; fence.acq_rel.sys;
prefetch.global.L2 [%mem];
ld.global.L1::evict_last.u64 %x0, [%mem];
ld.global.ca.u64 %x2, [%mem];
ld.global.nc.u64 %x1, [%in];
st.global.wb.u64 [%mem], %a;
mov.u64 %d, %x1;`, each(func(_ int, a, _ uint64) uint64 { return a }))
	return list
}

// sign is 1, or -1 as an unsigned factor, by the sign that a's low bits have in
// type t: toBig gives the magnitude only.
func sign(a uint64, t string) uint64 {
	if toBig(a&(^uint64(0)>>(64-width(t))), t).Sign() < 0 {
		return ^uint64(0)
	}
	return 1
}

func round32(v int64) uint64 { return uint64(math.Float32bits(float32(v))) }

// support are the variables and functions that the forms use.
const support = `
.const .align 4 .u32 constants[4] = {3, 5, 7, 11};
.global .align 4 .u32 table[4] = {1, 4, 7, 9};
.global .align 8 .u64 pointer = generic(table)+8;
.global .align 1 .u8 matrix[2][4] = {{10, 20, 30, 40}, {50, 60, 70, 80}};
.func (.param .b64 r) pick(.param .align 8 .b8 s[16], .param .b32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<3>;
	.reg .b64 %x<3>;
	ld.param.b32 %r0, [n];
	rem.u32 %r0, %r0, 3;
	setp.eq.u32 %p0, %r0, 0;
	ld.param.v2.b64 {%x0, %x1}, [s];
	@%p0 bra second;
	st.param.b64 [r], %x0;
	ret;
second:
	st.param.b64 [r], %x1;
	ret;
}
.func (.param .b64 r) other(.param .align 8 .b8 s[16], .param .b32 n)
{
	.reg .b32 %r<2>;
	.reg .b64 %x<4>;
	ld.param.b32 %r0, [n];
	cvt.u64.u32 %x0, %r0;
	ld.param.b64 %x1, [s];
	ld.param.b64 %x2, [s+8];
	add.u64 %x0, %x0, %x1;
	add.u64 %x0, %x0, %x2;
	st.param.b64 [r+0], %x0;
	ret;
}
.func (.param .b64 r) factorial(.param .b64 n)
{
	.reg .pred %p<2>;
	.reg .b64 %x<4>;
	ld.param.b64 %x0, [n];
	mov.u64 %x1, 1;
	setp.eq.u64 %p0, %x0, 0;
	@%p0 bra done;
	{
	.param .b64 less;
	.param .b64 f;
	sub.u64 %x2, %x0, 1;
	st.param.b64 [less], %x2;
	call (f), factorial, (less);
	ld.param.b64 %x1, [f];
	}
	mul.lo.u64 %x1, %x1, %x0;
done:
	st.param.b64 [r], %x1;
	ret;
}
`

func TestWarpConformance(t *testing.T) {
	forms := warpForms()
	r := rand.New(rand.NewPCG(8, 9))
	eachDevice(t, func(t *testing.T, rg *rig) {
		sm := rg.dev.Info().Capability
		var list []entry
		for i, f := range forms {
			if f.sm > sm {
				t.Logf("%s is of sm_%d", f.name, f.sm)
				continue
			}
			name := fmt.Sprintf("form%d", i)
			list = append(list, entry{name, f.name, f.kernel(name)})
		}
		kernels := rg.entries(t, head(sm)+support, list)
		for i, f := range forms {
			k := kernels[fmt.Sprintf("form%d", i)]
			if k == nil {
				continue
			}
			for round := range 4 {
				a, b := make([]uint64, 32), make([]uint64, 32)
				for i := range a {
					a[i], b[i] = r.Uint64(), r.Uint64()
					switch round {
					case 1: // all alike
						a[i], b[i] = a[0], b[0]
					case 2:
						a[i], b[i] = uint64(i), uint64(i/3)
					}
				}
				in := make([]uint64, 64)
				for i := range a {
					in[2*i], in[2*i+1] = a[i], b[i]
				}
				out := rg.alloc(256)
				rg.run(k, driver.D1(1), driver.D1(32), 0, upload(rg, in), out, zeros[uint64](rg, 256))
				assert.Equal(t, f.want(a, b), download[uint64](rg, out, 32), f.name)
				rg.release()
			}
		}
	})
}
