package emu_test

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Floats: operands as exact numbers, results rounded by the definition of the
// rounding mode from the neighbours that the format has.

// number is a value of a format, or infinity, or NaN.
type number struct {
	nan  bool
	inf  int // its sign, 0 for finite
	neg  bool
	real *big.Float // finite
}

const precision = 5000 // bits hold every sum and product of doubles exactly

func realNumber(x float64) number {
	switch {
	case x != x:
		return number{nan: true}
	case math.IsInf(x, 0):
		return number{inf: int(math.Copysign(1, x)), neg: x < 0}
	}
	return number{neg: math.Signbit(x), real: new(big.Float).SetPrec(precision).SetFloat64(x)}
}

// half is the value of an f16, straight from IEEE 754.
func half(v uint64) float64 {
	sign := 1.0
	if v>>15&1 != 0 {
		sign = -1
	}
	exp, man := int(v>>10&31), float64(v&1023)
	switch {
	case exp == 31 && man != 0:
		return math.NaN()
	case exp == 31:
		return math.Inf(int(sign))
	case exp == 0:
		return sign * man * math.Pow(2, -24)
	}
	return sign * (1 + man/1024) * math.Pow(2, float64(exp-15))
}

func toFloat(v uint64, t string) float64 {
	switch t {
	case "f16":
		return half(v)
	case "bf16":
		return float64(math.Float32frombits(uint32(v) << 16))
	case "f32":
		return float64(math.Float32frombits(uint32(v)))
	}
	return math.Float64frombits(v)
}

// grid are the nonnegative finite values of a 16-bit format, whose index is
// their pattern, followed by what would come next.
var grid = map[string][]float64{"f16": makeGrid("f16", 0x7c00), "bf16": makeGrid("bf16", 0x7f80)}

func makeGrid(t string, infinity int) (g []float64) {
	for i := range infinity {
		g = append(g, toFloat(uint64(i), t))
	}
	last := len(g) - 1
	return append(g, 2*g[last]-g[last-1])
}

// neighbours are the patterns of the nonnegative values next to x: below or
// equal, and above or equal. The one above the largest is that of infinity.
func neighbours(x *big.Float, t string) (lo, hi uint64, loValue, hiValue *big.Float) {
	f := func(v float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(v) }
	switch t {
	case "f16", "bf16":
		g := grid[t]
		i, _ := slices.BinarySearchFunc(g, x, func(a float64, x *big.Float) int { return f(a).Cmp(x) })
		if last := len(g) - 1; i >= last {
			return uint64(last - 1), uint64(last), f(g[last-1]), f(g[last])
		}
		if f(g[i]).Cmp(x) == 0 {
			return uint64(i), uint64(i), f(g[i]), f(g[i])
		}
		return uint64(i - 1), uint64(i), f(g[i-1]), f(g[i])
	case "f32":
		n, acc := x.Float32()
		if math.IsInf(float64(n), 0) {
			n, acc = math.MaxFloat32, big.Below
		}
		if acc == big.Above {
			n = math.Nextafter32(n, 0)
		}
		if acc == big.Exact {
			return uint64(math.Float32bits(n)), uint64(math.Float32bits(n)), x, x
		}
		lo = uint64(math.Float32bits(n))
		next := new(big.Float).SetPrec(precision).SetMantExp(f(1), 128)
		if n != math.MaxFloat32 {
			next = f(float64(math.Nextafter32(n, math.MaxFloat32)))
		}
		return lo, lo + 1, f(float64(n)), next
	}
	n, acc := x.Float64()
	if math.IsInf(n, 0) {
		n, acc = math.MaxFloat64, big.Below
	}
	if acc == big.Above {
		n = math.Nextafter(n, 0)
	}
	lo = math.Float64bits(n)
	if acc == big.Exact {
		return lo, lo, x, x
	}
	next := new(big.Float).SetPrec(precision).SetMantExp(f(1), 1024)
	if n != math.MaxFloat64 {
		next = f(math.Nextafter(n, math.MaxFloat64))
	}
	return lo, lo + 1, f(n), next
}

var (
	signBit     = map[string]uint64{"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}
	infPattern  = map[string]uint64{"f16": 0x7c00, "bf16": 0x7f80, "f32": 0x7f800000, "f64": 0x7ff0000000000000}
	nanPattern  = map[string]uint64{"f16": 0x7fff, "bf16": 0x7fff, "f32": 0x7fffffff, "f64": 0x7ff8000000000000}
	leastNormal = map[string]uint64{"f16": 0x400, "bf16": 0x80, "f32": 0x800000, "f64": 0x10000000000000}
)

// round gives the pattern of x in format t under a rounding mode.
func round(x number, t, mode string) uint64 {
	sign := uint64(0)
	if x.neg {
		sign = signBit[t]
	}
	switch {
	case x.nan:
		return nanPattern[t]
	case x.inf != 0:
		return sign | infPattern[t]
	case x.real.Sign() == 0:
		return sign
	}
	abs := new(big.Float).SetPrec(precision).Abs(x.real)
	lo, hi, below, above := neighbours(abs, t)
	if lo == hi {
		return sign | min(lo, infPattern[t])
	}
	up := false
	switch mode {
	case "rn":
		twice := new(big.Float).SetPrec(precision).Add(below, above)
		switch new(big.Float).SetPrec(precision).Add(abs, abs).Cmp(twice) {
		case 1:
			up = true
		case 0:
			up = lo&1 == 1
		}
	case "rp":
		up = !x.neg
	case "rm":
		up = x.neg
	}
	v := lo
	if up {
		v = hi
	}
	if v >= infPattern[t] && !up {
		v = infPattern[t] - 1
	}
	return sign | v
}

// flushBits replaces a subnormal by zero.
func flushBits(v uint64, t string) uint64 {
	if v&^signBit[t] < leastNormal[t] {
		return v & signBit[t]
	}
	return v
}

// flushResult is the rounded result of x under .ftz: zero where x itself is less
// than any normal number, even if it is rounded to one, as an H200 does.
func flushResult(x number, t, mode string) uint64 {
	if x.real != nil && round(x, t, "rz")&^signBit[t] < leastNormal[t] {
		return round(x, t, "rz") & signBit[t]
	}
	return round(x, t, mode)
}

// combine computes an operation exactly, with the ISA's rules for what is not
// finite and for zeros.
func combine(op string, x []number, mode string) number {
	neg := func(a number) number {
		a.neg, a.inf = !a.neg, -a.inf
		if a.real != nil {
			a.real = new(big.Float).SetPrec(precision).Neg(a.real)
		}
		return a
	}
	zero := func(a number) bool { return a.real != nil && a.real.Sign() == 0 }
	for _, a := range x {
		if a.nan {
			return a
		}
	}
	switch op {
	case "sub":
		return combine("add", []number{x[0], neg(x[1])}, mode)
	case "add":
		a, b := x[0], x[1]
		switch {
		case a.inf != 0 && b.inf == -a.inf:
			return number{nan: true}
		case a.inf != 0:
			return a
		case b.inf != 0:
			return b
		}
		s := new(big.Float).SetPrec(precision).Add(a.real, b.real)
		n := number{neg: s.Sign() < 0, real: s}
		if s.Sign() == 0 {
			n.neg = a.neg && b.neg || a.neg != b.neg && mode == "rm"
			if zero(a) && zero(b) && a.neg == b.neg {
				n.neg = a.neg
			}
		}
		return n
	case "mul":
		a, b := x[0], x[1]
		sign := a.neg != b.neg
		switch {
		case a.inf != 0 && zero(b), b.inf != 0 && zero(a):
			return number{nan: true}
		case a.inf != 0 || b.inf != 0:
			return number{inf: 1, neg: sign}
		}
		return number{neg: sign, real: new(big.Float).SetPrec(precision).Mul(a.real, b.real)}
	case "fma":
		p := combine("mul", x[:2], mode)
		if p.nan {
			return p
		}
		if p.inf != 0 && p.neg {
			p.inf = -1
		}
		return combine("add", []number{p, x[2]}, mode)
	case "div":
		a, b := x[0], x[1]
		sign := a.neg != b.neg
		switch {
		case a.inf != 0 && b.inf != 0, zero(a) && zero(b):
			return number{nan: true}
		case a.inf != 0 || zero(b):
			return number{inf: 1, neg: sign}
		case b.inf != 0 || zero(a):
			return number{neg: sign, real: new(big.Float)}
		}
		// So many bits that no neighbour or middle is nearer than the error.
		return number{neg: sign, real: new(big.Float).SetPrec(precision).Quo(a.real, b.real)}
	case "rcp":
		return combine("div", []number{realNumber(1), x[0]}, mode)
	case "sqrt":
		a := x[0]
		switch {
		case zero(a) || a.inf == 1:
			return a
		case a.neg:
			return number{nan: true}
		}
		return number{real: new(big.Float).SetPrec(precision).Sqrt(a.real)}
	}
	panic(op)
}

// arithmetic is a form of float arithmetic with its modifiers.
func arithmetic(op, t, mode string, n int, mods string) form {
	in := slices.Repeat([]string{t}, n)
	name := op
	if mode != "" {
		name += "." + mode
	}
	f := form{op: name + mods + "." + t, in: in, out: t}
	if mode == "" {
		mode = "rn"
	}
	ftz, sat := strings.Contains(mods, "ftz"), strings.Contains(mods, "sat")
	if ftz && t == "f32" { // results a little below the least normal number
		switch op {
		case "div":
			f.extra = [][]uint64{{0x800000, 0x3f800001}, {0x80800000, 0x3f800001}}
		case "rcp":
			f.extra = [][]uint64{{0x7e800001}, {0xfe800001}}
		}
	}
	f.want = func(v []uint64) uint64 {
		var x []number
		for _, a := range v {
			if ftz {
				a = flushBits(a, t)
			}
			x = append(x, realNumber(toFloat(a, t)))
		}
		exact := combine(op, x, mode)
		r := round(exact, t, mode)
		if ftz {
			r = flushResult(exact, t, mode)
		}
		if sat {
			switch value := toFloat(r, t); {
			case !(value > 0):
				r = 0
			case value > 1:
				r = round(realNumber(1), t, "rn")
			}
		}
		return r
	}
	return f
}

func floatForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	modes := []string{"rn", "rz", "rm", "rp"}
	for _, t := range []string{"f32", "f64"} {
		for _, mode := range modes {
			for op, n := range map[string]int{"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1} {
				add(arithmetic(op, t, mode, n, ""))
				if t == "f32" {
					add(arithmetic(op, t, mode, n, ".ftz"))
					if op == "add" || op == "sub" || op == "mul" || op == "fma" {
						add(arithmetic(op, t, mode, n, ".sat"))
					}
				}
			}
		}
		for _, op := range []string{"add", "sub", "mul"} {
			add(arithmetic(op, t, "", 2, ""))
		}
		mad := arithmetic("fma", t, "rn", 3, "")
		mad.op = "mad.rn." + t
		add(mad)
		for _, ftz := range []string{"", ".ftz"} {
			if t == "f64" && ftz != "" {
				continue
			}
			add(extremum("min", t, ftz, 2))
			add(extremum("max", t, ftz, 2))
			for _, op := range []string{"abs", "neg"} {
				add(form{op: op + ftz + "." + t, in: []string{t}, out: t, want: func(v []uint64) uint64 {
					a := v[0]
					if ftz != "" {
						a = flushBits(a, t)
					}
					switch {
					case math.IsNaN(toFloat(a, t)):
						return nanPattern[t]
					case op == "neg":
						return a ^ signBit[t]
					}
					return a &^ signBit[t]
				}})
			}
		}
		add(form{op: "copysign." + t, in: []string{t, t}, out: t, want: func(v []uint64) uint64 { return v[1]&^signBit[t] | v[0]&signBit[t] }})
		for what, f := range map[string]func(x float64, v uint64) bool{
			"finite":     func(x float64, _ uint64) bool { return x-x == 0 },
			"infinite":   func(x float64, _ uint64) bool { return math.IsInf(x, 0) },
			"number":     func(x float64, _ uint64) bool { return x == x },
			"notanumber": func(x float64, _ uint64) bool { return x != x },
			// Zero is normal to an H200; the ISA does not say.
			"normal":    func(x float64, v uint64) bool { return x == 0 || x-x == 0 && v >= leastNormal[t] },
			"subnormal": func(x float64, v uint64) bool { return x != 0 && v < leastNormal[t] },
		} {
			add(form{op: "testp." + what + "." + t, in: []string{t}, out: "pred", want: func(v []uint64) uint64 {
				return truth(f(toFloat(v[0], t), v[0]&^signBit[t]))
			}})
		}
	}
	for _, m := range []string{".NaN", ".ftz.NaN", ".NaN.xorsign.abs", ".xorsign.abs"} {
		sm := 80
		if strings.Contains(m, "xorsign") {
			sm = 86
		}
		for _, op := range []string{"min", "max"} {
			f := extremum(op, "f32", m, 2)
			f.sm = sm
			add(f)
		}
	}

	// Approximations: within the error that the ISA allows, beside special
	// values, which are exact.
	approx := func(op string, near float64, g func(x float64) float64, skip func(x float64) bool) {
		for _, ftz := range []string{"", ".ftz"} {
			add(form{op: op + ftz + ".f32", in: []string{"f32"}, out: "f32", near: near,
				skip: func(v []uint64) bool { return skip != nil && skip(toFloat(v[0], "f32")) },
				want: func(v []uint64) uint64 {
					a := v[0]
					if ftz != "" {
						a = flushBits(a, "f32")
					}
					r := round(realNumber(g(toFloat(a, "f32"))), "f32", "rn")
					if ftz != "" {
						r = flushBits(r, "f32")
					}
					return r
				}})
		}
	}
	const ulp = 1.0 / (1 << 23)
	approx("rcp.approx", 2*ulp, func(x float64) float64 { return 1 / x }, nil)
	approx("sqrt.approx", 3*ulp, math.Sqrt, nil)
	approx("rsqrt.approx", 3*ulp, func(x float64) float64 { return 1 / math.Sqrt(x) }, nil)
	approx("ex2.approx", 4*ulp, math.Exp2, nil)
	approx("lg2.approx", 1.0/(1<<20), math.Log2, func(x float64) bool { return x > 0.5 && x < 2 })
	large := func(x float64) bool { return math.Abs(x) > 3 && !math.IsInf(x, 0) || math.Abs(x) < 1e-3 && x != 0 }
	approx("sin.approx", 1.0/(1<<9), math.Sin, func(x float64) bool { return large(x) || math.Abs(math.Sin(x)) < 0.01 && x != 0 })
	approx("cos.approx", 1.0/(1<<9), math.Cos, func(x float64) bool { return large(x) || math.Abs(math.Cos(x)) < 0.01 })
	tanh := form{op: "tanh.approx.f32", in: []string{"f32"}, out: "f32", near: 1.0 / (1 << 10), sm: 75,
		skip: func(v []uint64) bool { return flushBits(v[0], "f32") != v[0] },
		want: func(v []uint64) uint64 { return round(realNumber(math.Tanh(toFloat(v[0], "f32"))), "f32", "rn") }}
	add(tanh)
	for _, op := range []string{"div.approx.f32", "div.full.f32"} {
		add(form{op: op, in: []string{"f32", "f32"}, out: "f32", near: 4 * ulp,
			// Outside this range the quotient's accuracy, and whether it is zero,
			// is left open.
			skip: func(v []uint64) bool {
				y, q := math.Abs(toFloat(v[1], "f32")), math.Abs(toFloat(v[0], "f32")/toFloat(v[1], "f32"))
				return y < 1e-37 || y > 1e37 || q != 0 && q < 1e-37
			},
			want: func(v []uint64) uint64 {
				return round(realNumber(toFloat(v[0], "f32")/toFloat(v[1], "f32")), "f32", "rn")
			}})
	}
	return list
}

func truth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// extremum is min or max.
func extremum(op, t, mods string, n int) form {
	return form{op: op + mods + "." + t, in: slices.Repeat([]string{t}, n), out: t, want: func(v []uint64) uint64 {
		a, b := v[0], v[1]
		if strings.Contains(mods, "ftz") {
			a, b = flushBits(a, t), flushBits(b, t)
		}
		sign := uint64(0)
		if strings.Contains(mods, "xorsign") {
			sign = (a ^ b) & signBit[t]
			a, b = a&^signBit[t], b&^signBit[t]
		}
		x, y := toFloat(a, t), toFloat(b, t)
		switch {
		case x != x && y != y, strings.Contains(mods, "NaN") && (x != x || y != y):
			return nanPattern[t]
		case x != x:
			return b | sign
		case y != y:
			return a | sign
		}
		less := cmp.Compare(x, y) < 0 || x == y && math.Signbit(x) && !math.Signbit(y) // -0 before 0
		if less == (op == "min") {
			return a | sign
		}
		return b | sign
	}}
}

// close reports whether two results agree as far as the form demands: a NaN of
// double precision may have any payload, an approximation its error.
func (f *form) close(got, want uint64) bool {
	if f.out != "f64" && f.out != "f32" {
		return false
	}
	x, y := toFloat(got, f.out), toFloat(want, f.out)
	if x != x && y != y {
		return f.out == "f64" || f.near > 0
	}
	if f.near == 0 {
		return false
	}
	return x == y && got == want || math.Abs(x-y) <= f.near*math.Abs(y) ||
		math.Abs(x-y) <= 0x1p-126 && math.Abs(y) < 0x1p-120 // subnormals may be flushed
}

func halfForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	for _, op := range []string{"add", "sub", "mul"} {
		for _, m := range []string{"", ".ftz", ".sat", ".ftz.sat"} {
			add(arithmetic(op, "f16", "", 2, m))
			add(pairs(arithmetic(op, "f16", "", 2, m)))
		}
	}
	for _, m := range []string{"", ".ftz", ".sat", ".ftz.sat"} {
		add(arithmetic("fma", "f16", "rn", 3, m))
		add(pairs(arithmetic("fma", "f16", "rn", 3, m)))
	}
	relu := arithmetic("fma", "f16", "rn", 3, "")
	plain := relu.want
	relu.op, relu.sm = "fma.rn.relu.f16", 80
	relu.want = func(v []uint64) uint64 {
		r := plain(v)
		if toFloat(r, "f16") <= 0 {
			return 0
		}
		return r
	}
	add(relu)
	for _, op := range []string{"abs", "neg"} {
		f := form{op: op + ".f16", in: []string{"f16"}, out: "f16",
			skip: func(v []uint64) bool { return math.IsNaN(toFloat(v[0], "f16")) },
			want: func(v []uint64) uint64 {
				if op == "neg" {
					return v[0] ^ 0x8000
				}
				return v[0] &^ 0x8000
			}}
		add(f)
	}
	for _, op := range []string{"min", "max"} {
		for _, m := range []string{"", ".NaN"} {
			f := extremum(op, "f16", m, 2)
			f.sm = 80
			add(f)
			add(pairs(f))
			g := extremum(op, "bf16", m, 2)
			g.sm = 80
			add(g)
		}
	}
	b := arithmetic("fma", "bf16", "rn", 3, "")
	b.sm = 80
	add(b)
	for _, op := range []string{"add", "sub", "mul"} {
		f := arithmetic(op, "bf16", "", 2, "")
		f.sm = 90
		add(f)
	}
	return list
}

// pairs is a form on both halves of 32-bit operands.
func pairs(f form) form {
	g := f
	g.op = f.op + "x2"
	g.in = slices.Repeat([]string{"f16x2"}, len(f.in))
	g.out = "f16x2"
	g.skip = nil
	g.values = nil
	single := f.want
	var rows [][]uint64
	lo := f.rows()
	for i, row := range lo {
		hi := lo[(i*7+3)%len(lo)]
		var both []uint64
		for k := range row {
			both = append(both, row[k]|hi[k]<<16)
		}
		rows = append(rows, both)
	}
	g.values = rows
	g.want = func(v []uint64) uint64 {
		var a, b []uint64
		for _, x := range v {
			a, b = append(a, x&0xffff), append(b, x>>16)
		}
		return single(a) | single(b)<<16
	}
	return g
}

func convertForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	ints := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	floats := []string{"f16", "f32", "f64"}
	register := func(t string) string { // 8-bit values live in 16-bit registers
		if width(t) == 8 {
			return "b16"
		}
		return t
	}
	value := func(v uint64, t string) *big.Int { return toBig(v&(^uint64(0)>>(64-width(t))), t) }
	limits := func(t string) (lo, hi *big.Int) {
		one := big.NewInt(1)
		if t[0] == 's' {
			half := new(big.Int).Lsh(one, uint(width(t)-1))
			return new(big.Int).Neg(half), new(big.Int).Sub(half, one)
		}
		return big.NewInt(0), new(big.Int).Sub(new(big.Int).Lsh(one, uint(width(t))), one)
	}
	clampTo := func(x *big.Int, t string) *big.Int {
		lo, hi := limits(t)
		if x.Cmp(lo) < 0 {
			return lo
		}
		if x.Cmp(hi) > 0 {
			return hi
		}
		return x
	}
	// result is what a register of the type holds: a narrow result is extended
	// by its sign to the register.
	result := func(x *big.Int, t string) uint64 {
		v := cut(x, width(t))
		if width(t) == 8 && t[0] == 's' && v>>7 != 0 {
			v |= 0xff00
		}
		return v
	}
	for _, to := range ints {
		for _, from := range ints {
			if to != from {
				add(form{op: "cvt." + to + "." + from, in: []string{register(from)}, out: register(to), want: func(v []uint64) uint64 {
					return result(toBig(cut(value(v[0], from), width(to)), to), to)
				}})
			}
			lo, hi := limits(to)
			fromLo, fromHi := limits(from)
			if lo.Cmp(fromLo) > 0 || hi.Cmp(fromHi) < 0 { // .sat is not allowed where every value fits
				add(form{op: "cvt.sat." + to + "." + from, in: []string{register(from)}, out: register(to), want: func(v []uint64) uint64 {
					return result(clampTo(value(v[0], from), to), to)
				}})
			}
		}
	}
	for _, f := range floats {
		for _, i := range ints {
			for _, mode := range []string{"rn", "rz", "rm", "rp"} {
				add(form{op: "cvt." + mode + "." + f + "." + i, in: []string{register(i)}, out: f, want: func(v []uint64) uint64 {
					x := value(v[0], i)
					return round(number{neg: x.Sign() < 0, real: new(big.Float).SetPrec(precision).SetInt(x)}, f, mode)
				}})
				add(form{op: "cvt." + mode + "i." + i + "." + f, in: []string{f}, out: register(i), want: func(v []uint64) uint64 {
					x := toFloat(v[0], f)
					if x != x {
						if width(i) == 64 || f == "f64" {
							return 1 << (width(i) - 1)
						}
						return 0
					}
					if math.IsInf(x, 0) {
						lo, hi := limits(i)
						if x < 0 {
							return result(lo, i)
						}
						return result(hi, i)
					}
					whole, _ := new(big.Float).SetFloat64(integral(x, mode)).Int(nil)
					return result(clampTo(whole, i), i)
				}, skip: func(v []uint64) bool {
					// How NaN becomes a narrow integer of a double is told apart
					// by its bits in the register; the ISA gives its width only.
					return math.IsNaN(toFloat(v[0], f)) && width(i) < 32 && f == "f64"
				}})
			}
		}
		for _, mode := range []string{"rni", "rzi", "rmi", "rpi"} {
			add(form{op: "cvt." + mode + "." + f + "." + f, in: []string{f}, out: f, want: func(v []uint64) uint64 {
				x := toFloat(v[0], f)
				if x-x != 0 {
					return round(realNumber(x), f, "rn")
				}
				return round(realNumber(integral(x, mode[:2])), f, "rn")
			}})
		}
	}
	for _, c := range []struct{ to, from, mode, mods string }{
		{"f32", "f16", "", ""}, {"f64", "f16", "", ""}, {"f64", "f32", "", ""}, {"f64", "f32", "", ".ftz"}, {"f32", "f16", "", ".ftz"},
		{"f16", "f32", "rn", ""}, {"f16", "f32", "rz", ""}, {"f16", "f32", "rm", ""}, {"f16", "f32", "rp", ""}, {"f16", "f64", "rn", ""},
		{"f16", "f64", "rz", ""}, {"f32", "f64", "rn", ""}, {"f32", "f64", "rz", ""}, {"f32", "f64", "rm", ""}, {"f32", "f64", "rp", ""},
		{"f32", "f64", "rn", ".ftz"}, {"f32", "f64", "rn", ".sat"}, {"f16", "f32", "rn", ".sat"}, {"f32", "f32", "", ".sat"}, {"bf16", "f32", "rn", ""},
		{"bf16", "f32", "rz", ""},
	} {
		op := "cvt"
		if c.mode != "" {
			op += "." + c.mode
		}
		f := form{op: op + c.mods + "." + c.to + "." + c.from, in: []string{c.from}, out: c.to, want: func(v []uint64) uint64 {
			a := v[0]
			if c.mods == ".ftz" && c.from == "f32" {
				a = flushBits(a, c.from)
			}
			x, mode := realNumber(toFloat(a, c.from)), cmp.Or(c.mode, "rn")
			r := round(x, c.to, mode)
			if c.mods == ".ftz" && c.to == "f32" {
				r = flushBits(r, c.to) // after rounding, as an H200 does
			}
			if x.nan && c.from == "f64" {
				r = narrowNaN(a, c.to)
			}
			if c.mods == ".sat" {
				switch x := toFloat(r, c.to); {
				case !(x > 0):
					return 0
				case x > 1:
					return round(realNumber(1), c.to, "rn")
				}
			}
			return r
		}}
		if c.to == "bf16" {
			f.sm = 80
		}
		if c.from == "f64" {
			// NaN of either sign, quiet or not; a little less than the least
			// normal number.
			f.extra = [][]uint64{{0xfff8000000000000}, {0xfffc123456789abc}, {0x7ff4123456789abc}, {0xfff0000000000001}, {0x380fffffffffffff}, {0xb80fffffffffffff}}
		}
		add(f)
	}
	packed := form{op: "cvt.rn.f16x2.f32", in: []string{"f32", "f32"}, out: "b32", sm: 80, want: func(v []uint64) uint64 {
		return round(realNumber(toFloat(v[0], "f32")), "f16", "rn")<<16 | round(realNumber(toFloat(v[1], "f32")), "f16", "rn")
	}}
	add(packed)
	return list
}

// narrowNaN is what a NaN of double precision becomes in a shorter format on an
// H200: quiet, with its sign and the upper bits of its payload.
func narrowNaN(v uint64, t string) uint64 {
	bits := map[string]int{"f16": 10, "f32": 23}[t]
	d := infPattern[t] | 1<<(bits-1) | v&(1<<52-1)>>(52-bits)
	if v>>63 != 0 {
		d |= signBit[t]
	}
	return d
}

// integral rounds to an integer by the mode's definition.
func integral(x float64, mode string) float64 {
	lo := math.Floor(x)
	switch {
	case lo == x:
		return x
	case mode == "rm" || mode == "rz" && x > 0:
		return lo
	case mode == "rp" || mode == "rz":
		return math.Copysign(lo+1, x)
	}
	switch d := x - lo; {
	case d > 0.5 || d == 0.5 && math.Mod(lo, 2) != 0:
		return math.Copysign(lo+1, x)
	}
	return math.Copysign(lo, x)
}

func compareForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	relation := map[string]func(c int) bool{
		"eq": func(c int) bool { return c == 0 }, "ne": func(c int) bool { return c != 0 },
		"lt": func(c int) bool { return c < 0 }, "le": func(c int) bool { return c <= 0 },
		"gt": func(c int) bool { return c > 0 }, "ge": func(c int) bool { return c >= 0 },
	}
	unsigned := map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
	for _, t := range []string{"b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"} {
		compare := func(op, same string) {
			add(form{op: "setp." + op + "." + t, in: []string{t, t}, out: "pred", want: func(v []uint64) uint64 {
				return truth(relation[same](toBig(v[0], t).Cmp(toBig(v[1], t))))
			}})
		}
		for op := range relation {
			if t[0] != 'b' || op == "eq" || op == "ne" {
				compare(op, op)
			}
		}
		if t[0] == 'u' {
			for op, same := range unsigned {
				compare(op, same)
			}
		}
	}
	for _, t := range []string{"f16", "f32", "f64"} {
		ordered := func(op string, f func(x, y float64) bool) {
			add(form{op: "setp." + op + "." + t, in: []string{t, t}, out: "pred", want: func(v []uint64) uint64 {
				return truth(f(toFloat(v[0], t), toFloat(v[1], t)))
			}})
		}
		for op, r := range relation {
			ordered(op, func(x, y float64) bool { return x == x && y == y && r(cmp.Compare(x, y)) })
			ordered(op+"u", func(x, y float64) bool { return x != x || y != y || r(cmp.Compare(x, y)) })
		}
		ordered("num", func(x, y float64) bool { return x == x && y == y })
		ordered("nan", func(x, y float64) bool { return x != x || y != y })
	}
	add(form{op: "setp.lt.ftz.f32", in: []string{"f32", "f32"}, out: "pred", want: func(v []uint64) uint64 {
		return truth(toFloat(flushBits(v[0], "f32"), "f32") < toFloat(flushBits(v[1], "f32"), "f32"))
	}})
	logic := map[string]func(a, b bool) bool{
		"and": func(a, b bool) bool { return a && b }, "or": func(a, b bool) bool { return a || b }, "xor": func(a, b bool) bool { return a != b },
	}
	for name, f := range logic {
		add(form{op: "setp.lt." + name + ".s32", in: []string{"s32", "s32", "pred"}, out: "pred", values: triples(), want: func(v []uint64) uint64 {
			return truth(f(int32(v[0]) < int32(v[1]), v[2] != 0))
		}})
		add(form{op: "setp.lt." + name + ".s32 with !", in: []string{"s32", "s32", "pred"}, out: "pred", values: triples(),
			text: "setp.lt." + name + ".s32 $d, $a, $b, !$c;",
			want: func(v []uint64) uint64 { return truth(f(int32(v[0]) < int32(v[1]), v[2] == 0)) }})
		// The second result combines the opposite of the comparison.
		add(form{op: "setp.lt." + name + ".s32 p|q", in: []string{"s32", "s32", "pred"}, out: "pred", values: triples(),
			text: "setp.lt." + name + ".s32 %p2|$d, $a, $b, $c;",
			want: func(v []uint64) uint64 { return truth(f(int32(v[0]) >= int32(v[1]), v[2] != 0)) }})
		add(form{op: "setp.lt." + name + ".s32 p, q unused", in: []string{"s32", "s32", "pred"}, out: "pred", values: triples(),
			text: "setp.lt." + name + ".s32 $d|%p2, $a, $b, $c;",
			want: func(v []uint64) uint64 { return truth(f(int32(v[0]) < int32(v[1]), v[2] != 0)) }})
		add(form{op: name + ".pred", in: []string{"pred", "pred"}, out: "pred", values: [][]uint64{{0, 0}, {0, 1}, {1, 0}, {1, 1}},
			want: func(v []uint64) uint64 { return truth(f(v[0] != 0, v[1] != 0)) }})
		add(form{op: "set.gt." + name + ".u32.s32", in: []string{"s32", "s32", "pred"}, out: "u32", values: triples(), want: func(v []uint64) uint64 {
			return truth(f(int32(v[0]) > int32(v[1]), v[2] != 0)) * 0xffffffff
		}})
	}
	add(form{op: "not.pred", in: []string{"pred"}, out: "pred", values: [][]uint64{{0}, {1}}, want: func(v []uint64) uint64 { return 1 - v[0] }})
	add(form{op: "set.le.f32.u32", in: []string{"u32", "u32"}, out: "f32", want: func(v []uint64) uint64 { return truth(v[0] <= v[1]) * 0x3f800000 }})
	add(form{op: "set.ltu.u32.f32", in: []string{"f32", "f32"}, out: "u32", want: func(v []uint64) uint64 {
		x, y := toFloat(v[0], "f32"), toFloat(v[1], "f32")
		return truth(!(x >= y)) * 0xffffffff
	}})
	return list
}

func triples() (rows [][]uint64) {
	for i, a := range interesting("s32") {
		for j, b := range interesting("s32") {
			rows = append(rows, []uint64{a, b, uint64(i+j) & 1}, []uint64{a, b, uint64(i+j+1) & 1})
		}
	}
	return rows
}

func moveForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	add(form{op: "selp.f64 of a constant NaN", in: []string{"f64", "pred"}, out: "b64", text: "selp.f64 $d, 0d7FFFFFFFFFFFFFFF, $a, $b;",
		want: func(v []uint64) uint64 {
			if v[1] != 0 {
				return 1<<63 - 1
			}
			return v[0]
		}})
	for _, t := range []string{"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"} {
		add(form{op: "mov." + t, in: []string{t}, out: t, want: func(v []uint64) uint64 { return v[0] }})
		add(form{op: "selp." + t, in: []string{t, t, "pred"}, out: t, want: func(v []uint64) uint64 {
			if v[2] != 0 {
				return v[0]
			}
			return v[1]
		}})
		add(form{op: "slct." + t + ".s32", in: []string{t, t, "s32"}, out: t, want: func(v []uint64) uint64 {
			if int32(v[2]) >= 0 {
				return v[0]
			}
			return v[1]
		}})
	}
	add(form{op: "slct.b32.f32", in: []string{"b32", "b32", "f32"}, out: "b32", want: func(v []uint64) uint64 {
		if toFloat(v[2], "f32") >= 0 {
			return v[0]
		}
		return v[1]
	}})
	pack := func(n, bits int) {
		t, whole := fmt.Sprintf("b%d", bits), fmt.Sprintf("b%d", n*bits)
		names := strings.Join(operandNames[:n], ", ")
		add(form{op: fmt.Sprintf("mov.%s from %d parts", whole, n), in: slices.Repeat([]string{t}, n), out: whole,
			text: fmt.Sprintf("mov.%s $d, {%s};", whole, names), want: func(v []uint64) (d uint64) {
				for i, x := range v {
					d |= x << (i * bits)
				}
				return d
			}})
		for part := range n {
			var parts []string
			for i := range n {
				if i == part {
					parts = append(parts, "$d")
				} else {
					parts = append(parts, fmt.Sprintf("u%d", i))
				}
			}
			var decl strings.Builder
			for i := range n {
				fmt.Fprintf(&decl, ".reg .%s u%d; ", t, i)
			}
			add(form{op: fmt.Sprintf("part %d of mov.%s", part, whole), in: []string{whole}, out: t,
				text: fmt.Sprintf("{ %smov.%s {%s}, $a; }", decl.String(), whole, strings.Join(parts, ", ")),
				want: func(v []uint64) uint64 { return v[0] >> (part * bits) & (^uint64(0) >> (64 - bits)) }})
		}
	}
	pack(2, 16)
	pack(2, 32)
	pack(4, 16)
	return list
}
