package emu_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
)

// The conformance tables hold an instruction each, with what the PTX ISA defines
// as its result, computed from the definition and not from the emulator's code:
// integers exactly and then cut, floats exactly and then rounded. They run on
// every device, so that on a GPU the same tables test the tables.

// form is an instruction, or a few, that turn operands into one result.
type form struct {
	op   string   // "add.s32"
	in   []string // types of the operands $a, $b, $c, $e
	out  string   // type of $d; "pred" for a predicate
	text string   // the instructions, if not "op $d, $a, …;"
	want func(v []uint64) uint64
	// values are the rows of operands; nil takes all combinations of the types'
	// interesting values, or a sample of them.
	values [][]uint64
	// extra are rows beside them.
	extra [][]uint64
	// near is the relative error that an approximation may have; 0 is exact.
	near float64
	// skip leaves out rows whose result the ISA leaves open.
	skip func(v []uint64) bool
	sm   int // the first architecture that has it, 70 if zero
}

func width(t string) int {
	switch t {
	case "pred":
		return 1
	case "f16", "bf16":
		return 16
	case "f16x2", "bf16x2":
		return 32
	}
	var n int
	if _, err := fmt.Sscanf(t[1:], "%d", &n); err != nil {
		panic(err)
	}
	return n
}

// interesting are values that instructions tend to treat apart.
func interesting(t string) []uint64 {
	w := width(t)
	mask := ^uint64(0) >> (64 - w)
	var v []uint64
	add := func(list ...uint64) {
		for _, x := range list {
			v = append(v, x&mask)
		}
	}
	switch t {
	case "f32":
		add(0, 1<<31, 0x3f800000, 0xbf800000, 0x40490fdb, 0x3eaaaaab, 0x7f7fffff, 0xff7fffff, 0x00800000, 0x007fffff, 1, 0x80000001,
			0x7f800000, 0xff800000, 0x7fc00000, 0x3f7fffff, 0x4b800001, 0x5f000000, 0xcf000000, 0x33800000, 0x3fc00000, 0x42280000, 0x00c00000, 0x1f000000)
	case "f64":
		add(0, 1<<63, 0x3ff0000000000000, 0xbff0000000000000, 0x400921fb54442d18, 0x3fd5555555555555, 0x7fefffffffffffff, 0xffefffffffffffff,
			0x0010000000000000, 0x000fffffffffffff, 1, 0x8000000000000001, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
			0x3fefffffffffffff, 0x43e0000000000000, 0xc1e0000000200000, 0x3ca0000000000000, 0x3810000000000000, 0x47efffffe0000000, 0x36a0000000000000)
	case "f16":
		add(0, 0x8000, 0x3c00, 0xbc00, 0x3555, 0x7bff, 0xfbff, 0x0400, 0x03ff, 1, 0x8001, 0x7c00, 0xfc00, 0x7e00, 0x3bff, 0x6401, 0x4248)
	case "bf16":
		add(0, 0x8000, 0x3f80, 0xbf80, 0x3eab, 0x7f7f, 0x0080, 0x007f, 1, 0x7f80, 0xff80, 0x7fc0, 0x3f7f, 0x4049)
	default:
		add(0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100, 255, 256, mask, mask-1, mask>>1, mask>>1+1, mask>>1+2, 0x5555555555555555,
			0xaaaaaaaaaaaaaaaa, 0x0123456789abcdef, 0xfedcba9876543210, 0x8000000000000001)
	}
	return v
}

// rows are the combinations of the operands' values, sampled where they are many.
func (f *form) rows() [][]uint64 {
	if f.values != nil {
		return f.values
	}
	total := 1
	var lists [][]uint64
	for _, t := range f.in {
		l := interesting(t)
		lists = append(lists, l)
		total *= len(l)
	}
	var out [][]uint64
	r := rand.New(rand.NewPCG(1, 2))
	const most = 1500
	for n := range min(total, most) {
		i := n
		if total > most {
			i = r.IntN(total)
		}
		var row []uint64
		for _, l := range lists {
			row = append(row, l[i%len(l)])
			i /= len(l)
		}
		out = append(out, row)
	}
	for range 300 {
		var row []uint64
		for _, t := range f.in {
			row = append(row, r.Uint64()&(^uint64(0)>>(64-width(t))))
		}
		out = append(out, row)
	}
	out = append(out, f.extra...)
	if f.skip == nil {
		return out
	}
	kept := out[:0]
	for _, row := range out {
		if !f.skip(row) {
			kept = append(kept, row)
		}
	}
	return kept
}

var operandNames = []string{"$a", "$b", "$c", "$e"}

// kernel is a PTX entry that applies the form to rows of 64-bit operands.
func (f *form) kernel(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
.visible .entry %s(.param .u64 in, .param .u64 out, .param .u32 n)
{
	.reg .pred %%p<4>;
	.reg .b32 %%i, %%n;
	.reg .b64 %%in, %%out, %%off, %%w, %%result;
	ld.param.u64 %%in, [in];
	ld.param.u64 %%out, [out];
	ld.param.u32 %%n, [n];
	mov.u32 %%i, %%ctaid.x;
	mad.lo.u32 %%i, %%i, 128, 0;
	mov.u32 %%n, %%tid.x;
	add.u32 %%i, %%i, %%n;
	ld.param.u32 %%n, [n];
	setp.ge.u32 %%p0, %%i, %%n;
	@%%p0 ret;
	mul.wide.u32 %%off, %%i, %d;
	add.u64 %%in, %%in, %%off;
	mul.wide.u32 %%off, %%i, 8;
	add.u64 %%out, %%out, %%off;
`, name, 8*len(f.in))
	text := f.text
	if text == "" {
		text = f.op + " $d"
		for i := range f.in {
			text += ", " + operandNames[i]
		}
		text += ";"
	}
	for i, t := range f.in {
		reg := fmt.Sprintf("%%v%d", i)
		if t == "pred" {
			fmt.Fprintf(&b, "\t.reg .pred %s;\n\tld.global.u64 %%w, [%%in+%d];\n\tsetp.ne.u64 %s, %%w, 0;\n", reg, 8*i, reg)
		} else {
			fmt.Fprintf(&b, "\t.reg .b%d %s;\n\tld.global.b%d %s, [%%in+%d];\n", width(t), reg, width(t), reg, 8*i)
		}
		text = strings.ReplaceAll(text, operandNames[i], reg)
	}
	if f.out == "pred" {
		text = strings.ReplaceAll(text, "$d", "%p1")
		fmt.Fprintf(&b, "\t%s\n\tselp.u64 %%result, 1, 0, %%p1;\n", text)
	} else {
		text = strings.ReplaceAll(text, "$d", "%d")
		fmt.Fprintf(&b, "\t.reg .b%d %%d;\n\t%s\n", width(f.out), text)
		if width(f.out) == 64 {
			b.WriteString("\tmov.b64 %result, %d;\n")
		} else {
			fmt.Fprintf(&b, "\tcvt.u64.u%d %%result, %%d;\n", width(f.out))
		}
	}
	b.WriteString("\tst.global.u64 [%out], %result;\n\tret;\n}\n")
	return b.String()
}

// TestConformance runs all tables on all devices.
func TestConformance(t *testing.T) {
	forms := slices.Concat(integerForms(), bitForms(), floatForms(), halfForms(), convertForms(), compareForms(), moveForms())
	eachDevice(t, func(t *testing.T, r *rig) {
		sm := r.dev.Info().Capability
		const perModule = 100
		for at := 0; at < len(forms); at += perModule {
			part := forms[at:min(at+perModule, len(forms))]
			var list []entry
			for i, f := range part {
				if f.sm > sm {
					t.Logf("%s is of sm_%d", f.op, f.sm)
					continue
				}
				name := fmt.Sprintf("form%d", i)
				list = append(list, entry{name, f.op, f.kernel(name)})
			}
			kernels := r.entries(t, head(sm), list)
			for i, f := range part {
				if k := kernels[fmt.Sprintf("form%d", i)]; k != nil {
					f.check(t, r, k)
					r.release()
				}
			}
		}
	})
}

// head begins a module for a device.
func head(sm int) string {
	return fmt.Sprintf(".version 8.0\n.target sm_%d\n.address_size 64\n", min(sm, 90))
}

func (f *form) check(t *testing.T, r *rig, k driver.Kernel) {
	rows := f.rows()
	require.NotEmpty(t, rows, f.op)
	var flat []uint64
	for _, row := range rows {
		flat = append(flat, row...)
	}
	out := r.alloc(8 * len(rows))
	r.run(k, driver.D1(uint32(len(rows)+127)/128), driver.D1(128), 0, upload(r, flat), out, len(rows))
	wrong := 0
	for i, got := range download[uint64](r, out, len(rows)) {
		want := f.want(rows[i])
		if got == want || f.close(got, want) {
			continue
		}
		if wrong++; wrong <= 5 {
			t.Errorf("%s of %#x: %#x, the definition gives %#x", f.op, rows[i], got, want)
		}
	}
	if wrong > 5 {
		t.Errorf("%s: %d of %d rows are wrong", f.op, wrong, len(rows))
	}
}

// Integers: operands as exact numbers, results cut to the width.

func toBig(v uint64, t string) *big.Int {
	x := new(big.Int).SetUint64(v)
	if t[0] == 's' && v>>(width(t)-1)&1 != 0 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(width(t))))
	}
	return x
}

// cut is the two's complement of the low bits of x.
func cut(x *big.Int, bits int) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	return new(big.Int).Mod(x, m).Uint64()
}

// exactly is the form of an integer instruction by its mathematical result.
func exactly(op, t, out string, n int, f func(x []*big.Int) *big.Int) form {
	in := make([]string, n)
	for i := range in {
		in[i] = t
	}
	return form{op: op, in: in, out: out, want: func(v []uint64) uint64 {
		x := make([]*big.Int, n)
		for i := range x {
			x[i] = toBig(v[i], in[i])
		}
		return cut(f(x), width(out))
	}}
}

func integerForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	B := func() *big.Int { return new(big.Int) }
	zeroDivisor := func(v []uint64) bool { return v[1] == 0 }
	clamp := func(x *big.Int) *big.Int {
		if hi := big.NewInt(1<<31 - 1); x.Cmp(hi) > 0 {
			return hi
		}
		if lo := big.NewInt(-1 << 31); x.Cmp(lo) < 0 {
			return lo
		}
		return x
	}
	for _, t := range []string{"u16", "s16", "u32", "s32", "u64", "s64"} {
		w := width(t)
		add(exactly("add."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Add(x[0], x[1]) }))
		add(exactly("sub."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Sub(x[0], x[1]) }))
		add(exactly("mul.lo."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Mul(x[0], x[1]) }))
		add(exactly("mul.hi."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Rsh(B().Mul(x[0], x[1]), uint(w)) }))
		add(exactly("mad.lo."+t, t, t, 3, func(x []*big.Int) *big.Int { return B().Add(B().Mul(x[0], x[1]), x[2]) }))
		add(exactly("mad.hi."+t, t, t, 3, func(x []*big.Int) *big.Int { return B().Add(B().Rsh(B().Mul(x[0], x[1]), uint(w)), x[2]) }))
		add(exactly("sad."+t, t, t, 3, func(x []*big.Int) *big.Int { return B().Add(x[2], B().Abs(B().Sub(x[0], x[1]))) }))
		add(exactly("min."+t, t, t, 2, func(x []*big.Int) *big.Int {
			if x[0].Cmp(x[1]) < 0 {
				return x[0]
			}
			return x[1]
		}))
		add(exactly("max."+t, t, t, 2, func(x []*big.Int) *big.Int {
			if x[0].Cmp(x[1]) > 0 {
				return x[0]
			}
			return x[1]
		}))
		quotient := exactly("div."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Quo(x[0], x[1]) })
		quotient.skip = zeroDivisor
		add(quotient)
		rem := exactly("rem."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Rem(x[0], x[1]) })
		rem.skip = func(v []uint64) bool {
			// The quotient of the least value by -1 does not exist.
			return v[1] == 0 || t[0] == 's' && toBig(v[1], t).Int64() == -1 && v[0] == 1<<(w-1)
		}
		add(rem)
		if w < 64 {
			wide := fmt.Sprintf("%c%d", t[0], 2*w)
			add(exactly("mul.wide."+t, t, wide, 2, func(x []*big.Int) *big.Int { return B().Mul(x[0], x[1]) }))
			f := exactly("mad.wide."+t, t, wide, 3, func(x []*big.Int) *big.Int { return B().Add(B().Mul(x[0], x[1]), x[2]) })
			f.in[2] = wide
			add(f)
		}
		if t[0] == 's' {
			add(exactly("abs."+t, t, t, 1, func(x []*big.Int) *big.Int { return B().Abs(x[0]) }))
			add(exactly("neg."+t, t, t, 1, func(x []*big.Int) *big.Int { return B().Neg(x[0]) }))
		}
		if w == 32 {
			low24 := func(x *big.Int) *big.Int {
				v := cut(x, 24)
				if t[0] == 's' && v>>23 != 0 {
					return big.NewInt(int64(v) - 1<<24)
				}
				return B().SetUint64(v)
			}
			product24 := func(x []*big.Int) *big.Int { return B().Mul(low24(x[0]), low24(x[1])) }
			add(exactly("mul24.lo."+t, t, t, 2, product24))
			add(exactly("mul24.hi."+t, t, t, 2, func(x []*big.Int) *big.Int { return B().Rsh(product24(x), 16) }))
			add(exactly("mad24.lo."+t, t, t, 3, func(x []*big.Int) *big.Int { return B().Add(product24(x), x[2]) }))
			add(exactly("mad24.hi."+t, t, t, 3, func(x []*big.Int) *big.Int { return B().Add(B().Rsh(product24(x), 16), x[2]) }))
		}
	}
	add(exactly("add.sat.s32", "s32", "s32", 2, func(x []*big.Int) *big.Int { return clamp(B().Add(x[0], x[1])) }))
	add(exactly("sub.sat.s32", "s32", "s32", 2, func(x []*big.Int) *big.Int { return clamp(B().Sub(x[0], x[1])) }))
	add(exactly("mad.hi.sat.s32", "s32", "s32", 3, func(x []*big.Int) *big.Int {
		return clamp(B().Add(B().Rsh(B().Mul(x[0], x[1]), 32), x[2]))
	}))

	// Extended precision: two instructions that share the carry.
	for _, t := range []string{"u32", "u64"} {
		w := uint(width(t))
		chain := func(first, second string, f func(x []*big.Int) *big.Int) form {
			g := exactly(first+", "+second, t, t, 2, nil)
			g.text = fmt.Sprintf("{ .reg .b%d lo; %s.%s lo, $a, $b; %s.%s $d, $b, $a; }", w, first, t, second, t)
			g.want = func(v []uint64) uint64 { return cut(f([]*big.Int{toBig(v[0], t), toBig(v[1], t)}), int(w)) }
			return g
		}
		carryOf := func(x []*big.Int) *big.Int { return B().Rsh(B().Add(x[0], x[1]), w) }
		add(chain("add.cc", "addc", func(x []*big.Int) *big.Int { return B().Add(B().Add(x[0], x[1]), carryOf(x)) }))
		add(chain("sub.cc", "subc", func(x []*big.Int) *big.Int {
			borrow := big.NewInt(0)
			if x[0].Cmp(x[1]) < 0 {
				borrow = big.NewInt(1)
			}
			return B().Sub(B().Sub(x[1], x[0]), borrow)
		}))
		g := exactly("mad.lo.cc, madc.hi", t, t, 3, nil)
		g.text = fmt.Sprintf("{ .reg .b%d lo; mad.lo.cc.%s lo, $a, $b, $c; madc.hi.%s $d, $a, $b, $c; }", w, t, t)
		g.want = func(v []uint64) uint64 {
			a, b, c := toBig(v[0], t), toBig(v[1], t), toBig(v[2], t)
			p := B().Mul(a, b)
			low := B().SetUint64(cut(p, int(w)))
			return cut(B().Add(B().Add(B().Rsh(p, w), c), B().Rsh(B().Add(low, c), w)), int(w))
		}
		add(g)
	}
	dot := func(op string, at, bt string, f func(a, b, c uint64) uint64) {
		out := "s32"
		if at == "u32" && bt == "u32" {
			out = "u32"
		}
		add(form{op: op + "." + at + "." + bt, in: []string{at, bt, out}, out: out, want: func(v []uint64) uint64 { return f(v[0], v[1], v[2]) & 0xffffffff }})
	}
	part := func(v uint64, t string, bits, i int) uint64 {
		x := v >> (bits * i) & (1<<bits - 1)
		if t[0] == 's' && x>>(bits-1) != 0 {
			x |= ^uint64(0) << bits
		}
		return x
	}
	for _, at := range []string{"u32", "s32"} {
		for _, bt := range []string{"u32", "s32"} {
			dot("dp4a", at, bt, func(a, b, c uint64) uint64 {
				for i := range 4 {
					c += part(a, at, 8, i) * part(b, bt, 8, i)
				}
				return c
			})
			for half, shift := range map[string]int{"lo": 0, "hi": 2} {
				dot("dp2a."+half, at, bt, func(a, b, c uint64) uint64 {
					for i := range 2 {
						c += part(a, at, 16, i) * part(b, bt, 8, i+shift)
					}
					return c
				})
			}
		}
	}
	return list
}
