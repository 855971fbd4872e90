package emu

import (
	"math"
	"math/big"
)

// Floating point as IEEE 754 and the PTX ISA define it. Values travel as bit
// patterns. Round to nearest even is done by the machine's own arithmetic, the
// other modes by exact arithmetic and a rounding of our own.

// rounding is a rounding mode.
type rounding uint8

const (
	nearestEven rounding = iota
	towardZero
	towardNegative
	towardPositive
	nearestAway // cvt.rna only
)

var roundingNames = map[string]rounding{
	"rn": nearestEven, "rz": towardZero, "rm": towardNegative, "rp": towardPositive, "rna": nearestAway,
}

// format is a binary floating-point format.
type format struct {
	bits     int
	mantissa int // explicit bits
	maxExp   int // of a normal number
	minExp   int
	nan      uint64 // what instructions return for NaN
}

var (
	formatHalf     = &format{16, 10, 15, -14, 0x7fff}
	formatBrain    = &format{16, 7, 127, -126, 0x7fff}
	formatSingle   = &format{32, 23, 127, -126, 0x7fffffff}
	formatDouble   = &format{64, 52, 1023, -1022, 0x7ff8000000000000}
	signSingle     = uint64(1) << 31
	infinitySingle = uint64(0x7f800000)
)

// format of an element of a float type.
func (t typ) format() *format {
	switch {
	case t.kind == 'h':
		return formatBrain
	case t.bits == 16:
		return formatHalf
	case t.bits == 32:
		return formatSingle
	}
	return formatDouble
}

// decode returns the exact value of a pattern.
func (f *format) decode(v uint64) float64 {
	switch f {
	case formatDouble:
		return math.Float64frombits(v)
	case formatSingle:
		return float64(math.Float32frombits(uint32(v)))
	case formatBrain:
		return float64(math.Float32frombits(uint32(v) << 16))
	}
	sign := v >> (f.bits - 1) & 1
	exp := int(v >> f.mantissa & (1<<(f.bits-1-f.mantissa) - 1))
	man := v & (1<<f.mantissa - 1)
	var x float64
	switch top := 1<<(f.bits-1-f.mantissa) - 1; {
	case exp == top && man != 0:
		x = math.NaN()
	case exp == top:
		x = math.Inf(1)
	case exp == 0:
		x = math.Ldexp(float64(man), f.minExp-f.mantissa)
	default:
		x = math.Ldexp(float64(man|1<<f.mantissa), f.minExp+exp-1-f.mantissa)
	}
	if sign != 0 {
		x = -x
	}
	return x
}

// encode rounds x to the format.
func (f *format) encode(x float64, mode rounding) uint64 {
	neg := math.Signbit(x)
	switch {
	case x != x:
		return f.nan
	case math.IsInf(x, 0):
		return f.sign(neg) | f.infinity()
	case x == 0:
		return f.sign(neg)
	}
	frac, exp := math.Frexp(math.Abs(x))
	return f.round(neg, uint64(math.Ldexp(frac, 63)), exp-1, false, mode)
}

// encodeBig rounds v, which is not zero, to the format.
func (f *format) encodeBig(v *big.Float, mode rounding) uint64 {
	m := new(big.Float)
	exp := v.MantExp(m)
	m.SetMantExp(m.Abs(m), 63)
	bits, _ := m.Uint64()
	return f.round(v.Signbit(), bits, exp-1, !m.IsInt(), mode)
}

func (f *format) sign(neg bool) uint64 {
	if neg {
		return 1 << (f.bits - 1)
	}
	return 0
}

// infinity is the pattern above the largest finite one.
func (f *format) infinity() uint64 {
	return 1<<(f.bits-1) - 1<<f.mantissa
}

// round encodes m * 2^(e-62), m having 63 bits, or a little more if more is set.
func (f *format) round(neg bool, m uint64, e int, more bool, mode rounding) uint64 {
	drop := 62 - f.mantissa
	biased := e - f.minExp + 1
	if biased < 1 { // subnormal
		drop += 1 - biased
		biased = 1
	}
	var kept, rest uint64
	half := uint64(1) << 62
	if drop < 63 {
		kept, rest, half = m>>drop, m&(1<<drop-1), 1<<(drop-1)
	} else if drop == 63 {
		rest = m
	} else {
		more = true
	}
	var up bool
	switch mode {
	case nearestEven:
		up = rest > half || rest == half && (more || kept&1 != 0)
	case nearestAway:
		up = rest >= half
	case towardPositive:
		up = !neg && (rest != 0 || more)
	case towardNegative:
		up = neg && (rest != 0 || more)
	}
	// A normal number's leading bit adds one to the biased exponent.
	v := uint64(biased-1)<<f.mantissa + kept
	if up {
		v++
	}
	if inf := f.infinity(); v >= inf {
		v = inf
		if mode == towardZero || mode == towardNegative && !neg || mode == towardPositive && neg {
			v--
		}
	}
	return f.sign(neg) | v
}

// fromFloat64 rounds to nearest even.
func fromFloat64(t typ, x float64) uint64 { return t.format().encode(x, nearestEven) }

func single(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func double(v uint64) float64 { return math.Float64frombits(v) }

// canonical is the pattern of a single-precision result: NaN has but one.
func canonical(x float32) uint64 {
	if x != x {
		return formatSingle.nan
	}
	return uint64(math.Float32bits(x))
}

func canonical64(x float64) uint64 {
	if x != x {
		return formatDouble.nan
	}
	return math.Float64bits(x)
}

// flush replaces a subnormal single by zero of its sign.
func flush(v uint64) uint64 {
	if v&infinitySingle == 0 {
		return v & signSingle
	}
	return v
}

// flush replaces a subnormal by zero of its sign.
func (f *format) flush(v uint64) uint64 {
	if v&f.infinity() == 0 {
		return v & f.sign(true)
	}
	return v
}

// saturate clamps to [0, 1]; NaN becomes 0.
func saturate(t typ) func(v uint64) uint64 {
	f := t.format()
	one := f.encode(1, nearestEven)
	return func(v uint64) uint64 {
		x := f.decode(v)
		switch {
		case !(x > 0):
			return 0
		case x > 1:
			return one
		}
		return v
	}
}

func addF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical(single(a[i]) + single(b[i]))
	}
}

func subF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical(single(a[i]) - single(b[i]))
	}
}

func mulF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical(single(a[i]) * single(b[i]))
	}
}

func fmaF32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = canonical(fma32(single(a[i]), single(b[i]), single(c[i])))
	}
}

func addF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical64(double(a[i]) + double(b[i]))
	}
}

func subF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical64(double(a[i]) - double(b[i]))
	}
}

func mulF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canonical64(double(a[i]) * double(b[i]))
	}
}

func fmaF64(d, a, b, c *lanes) {
	for i := range d {
		d[i] = canonical64(math.FMA(double(a[i]), double(b[i]), double(c[i])))
	}
}

// fma32 rounds once: the product is exact in a double, and where the double sum
// lies on a tie of the single format the error of the sum decides.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	// A double in the middle between two normal singles has this pattern in its
	// low bits; exponents near the subnormals have their middles elsewhere.
	v := math.Float64bits(s)
	if v&0x1fffffff != 0x10000000 && v>>52&0x7ff > 1023-126 {
		return float32(s)
	}
	if s == 0 || s-s != 0 { // exact, or not finite
		return float32(s)
	}
	return float32(roundToOdd(s, sumError(p, float64(c), s)))
}

// sumError is the exact difference between a+b and their rounded sum s.
func sumError(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

// roundToOdd is the double next to the exact s+e whose last bit is odd unless s
// is exact; rounding it again to a shorter format rounds s+e.
func roundToOdd(s, e float64) float64 {
	if e == 0 {
		return s
	}
	v := math.Float64bits(s)
	if v&1 == 0 {
		if (e > 0) == (s > 0) {
			v++
		} else {
			v--
		}
	}
	return math.Float64frombits(v)
}

// operation is an arithmetic function of up to three operands.
type operation uint8

const (
	opAdd operation = iota
	opSub
	opMul
	opFMA
	opDiv
	opSqrt
	opRcp
)

// arithmetic returns the function on patterns of format f, rounded once.
func arithmetic(op operation, f *format, mode rounding) func(a, b, c uint64) uint64 {
	given := op
	return func(a, b, c uint64) uint64 {
		op, x, y, z := given, f.decode(a), f.decode(b), f.decode(c)
		switch op {
		case opSub:
			op, y = opAdd, -y
		case opRcp:
			op, x, y = opDiv, 1, x
		}
		near := approximate(op, x, y, z)
		if !finite(op, x, y, z) {
			return f.encode(near, mode)
		}
		v := exactly(op, x, y, z)
		if v.Sign() != 0 {
			return f.encodeBig(v, mode)
		}
		return f.sign(zeroSign(op, x, y, z, mode))
	}
}

func approximate(op operation, x, y, z float64) float64 {
	switch op {
	case opAdd:
		return x + y
	case opMul:
		return x * y
	case opFMA:
		return math.FMA(x, y, z)
	case opSqrt:
		return math.Sqrt(x)
	}
	return x / y
}

// finite reports whether the exact result is a finite number.
func finite(op operation, x, y, z float64) bool {
	isFinite := func(v float64) bool { return v-v == 0 }
	switch op {
	case opSqrt:
		return isFinite(x) && x >= 0
	case opDiv:
		return isFinite(x) && isFinite(y) && y != 0
	case opFMA:
		return isFinite(x) && isFinite(y) && isFinite(z)
	}
	return isFinite(x) && isFinite(y)
}

// zeroSign reports whether a result that is exactly zero is negative.
func zeroSign(op operation, x, y, z float64, mode rounding) bool {
	a, b := math.Signbit(x), math.Signbit(y)
	switch op {
	case opSqrt:
		return a
	case opMul, opDiv:
		return a != b
	case opFMA:
		a, b = a != b, math.Signbit(z)
	}
	if a == b {
		return a
	}
	return mode == towardNegative
}

// exactly computes on finite operands; a quotient or a root has 256 bits and
// something behind them if it has more, which rounds like the exact value.
func exactly(op operation, x, y, z float64) *big.Float {
	const exact = 4500 // bits hold any fma of doubles
	fx, fy := big.NewFloat(x), big.NewFloat(y)
	r := new(big.Float).SetPrec(exact)
	switch op {
	case opAdd:
		return r.Add(fx, fy)
	case opMul:
		return r.Mul(fx, fy)
	case opFMA:
		return r.Add(r.Mul(fx, fy), big.NewFloat(z))
	}
	r.SetPrec(256).SetMode(big.ToZero)
	inexact := false
	if op == opSqrt {
		// Sqrt may be off in its last bits; truncating it to fewer gives the
		// truncated root, for a root that is not exact has no long run of
		// zeros or ones there.
		r.SetPrec(200).Set(new(big.Float).SetPrec(256).Sqrt(fx))
		if near := new(big.Float).SetPrec(120).Set(r); new(big.Float).SetPrec(240).Mul(near, near).Cmp(fx) == 0 {
			return near
		}
		inexact = true
	} else {
		r.Quo(fx, fy)
		inexact = r.Acc() != big.Exact
	}
	if inexact {
		tail := new(big.Float).SetMantExp(big.NewFloat(1), r.MantExp(nil)-300)
		if r.Signbit() {
			tail.Neg(tail)
		}
		r = new(big.Float).SetPrec(exact).Add(r, tail)
	}
	return r
}

// nearest returns the function on patterns of format f rounded to nearest even,
// computed in doubles: they have more than twice the digits of the shorter
// formats, so that rounding twice is rounding once, except for fma.
func nearest(op operation, f *format) func(a, b, c uint64) uint64 {
	if f == formatDouble {
		return func(a, b, c uint64) uint64 {
			switch x, y := double(a), double(b); op {
			case opSub:
				return canonical64(x - y)
			case opRcp:
				return canonical64(1 / x)
			default:
				return canonical64(approximate(op, x, y, double(c)))
			}
		}
	}
	return func(a, b, c uint64) uint64 {
		x, y := f.decode(a), f.decode(b)
		var r float64
		switch op {
		case opSub:
			r = x - y
		case opRcp:
			r = 1 / x
		case opFMA:
			p, z := x*y, f.decode(c)
			if r = p + z; r-r == 0 {
				r = roundToOdd(r, sumError(p, z, r))
			}
		default:
			r = approximate(op, x, y, 0)
		}
		return f.encode(r, nearestEven)
	}
}

// extreme is min or max: -0 is less than 0, and NaN counts only where
// there is no number, unless nan asks for it.
func extreme(f *format, most, nan, xorSign bool) func(a, b uint64) uint64 {
	sign := f.sign(true)
	return func(a, b uint64) uint64 {
		flip := uint64(0)
		if xorSign {
			flip = (a ^ b) & sign
			a, b = a&^sign, b&^sign
		}
		x, y := f.decode(a), f.decode(b)
		var v uint64
		switch {
		case x != x && y != y || nan && (x != x || y != y):
			return f.nan
		case x != x:
			v = b
		case y != y:
			v = a
		case x == y: // equal, or zeros of two signs
			v = a | b
			if most {
				v = a & b
			}
		case (x < y) != most:
			v = a
		default:
			v = b
		}
		return v | flip
	}
}

// unary functions that the hardware approximates. Each is computed in double
// precision and rounded, so it is at least as near as the ISA promises, and not
// the bits that a GPU gives.
var approximations = map[string]func(x float64) float64{
	"rcp":   func(x float64) float64 { return 1 / x },
	"sqrt":  math.Sqrt,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"sin":   math.Sin,
	"cos":   math.Cos,
	"lg2":   math.Log2,
	"ex2":   math.Exp2,
	"tanh":  math.Tanh,
}

// flushed wraps an operation on a format for .ftz.
func (f *format) flushed(op func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 { return f.flush(op(f.flush(a), f.flush(b), f.flush(c))) }
}

// flushedExact wraps arithmetic, which rounded gives, for .ftz: as on an H200,
// the exact result counts, so one that would be rounded up to the least normal
// number is flushed as well. It is below that number if it is when truncated.
func (f *format) flushedExact(op operation, rounded func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	truncated := arithmetic(op, f, towardZero)
	least, sign := uint64(1)<<f.mantissa, f.sign(true)
	return f.flushed(func(a, b, c uint64) uint64 {
		v := rounded(a, b, c)
		if v&^sign == least {
			v = truncated(a, b, c)
		}
		return v
	})
}

// paired applies f to both halves of 32-bit values.
func paired(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16, b>>16, c>>16)<<16
	}
}
