package emu

import "math"

// conversion is what a cvt does beside its types.
type conversion struct {
	to, from typ
	mode     rounding
	integral bool // round to an integer value: .rni, .rzi, .rmi, .rpi
	ftz, sat bool
	relu     bool
}

// convert returns the function on patterns, or nil for types without one.
func (c conversion) convert() func(a uint64) uint64 {
	switch to, from := c.to, c.from; {
	case to.float() && from.float():
		return c.floatToFloat()
	case to.float():
		return c.intToFloat()
	case from.float():
		return c.floatToInt()
	case c.sat:
		return c.saturated()
	default:
		return func(a uint64) uint64 { return trim(from.extend(trim(a, from.bits)), to.bits) }
	}
}

// limits are the least and greatest value of an integer type.
func (t typ) limits() (lo int64, hi uint64) {
	if t.signed() {
		return math.MinInt64 >> (64 - t.bits), math.MaxInt64 >> (64 - t.bits)
	}
	return 0, math.MaxUint64 >> (64 - t.bits)
}

// saturated converts between integers with .sat.
func (c conversion) saturated() func(a uint64) uint64 {
	lo, hi := c.to.limits()
	return func(a uint64) uint64 {
		v := c.from.extend(trim(a, c.from.bits))
		if c.from.signed() && int64(v) < 0 {
			return trim(uint64(max(int64(v), lo)), c.to.bits)
		}
		return trim(min(v, hi), c.to.bits)
	}
}

// holds reports whether integer type t has every value of the integer type from.
func (t typ) holds(from typ) bool {
	if t.float() || from.float() {
		return false
	}
	lo, hi := t.limits()
	fromLo, fromHi := from.limits()
	return lo <= fromLo && hi >= fromHi
}

func (c conversion) intToFloat() func(a uint64) uint64 {
	f := c.to.format()
	return func(a uint64) uint64 {
		v := c.from.extend(trim(a, c.from.bits))
		neg := c.from.signed() && int64(v) < 0
		if neg {
			v = -v
		}
		if v == 0 {
			return 0
		}
		e := 63
		for v>>63 == 0 {
			v <<= 1
			e--
		}
		r := f.round(neg, v>>1, e, v&1 != 0, c.mode)
		if c.sat {
			r = saturate(c.to)(r)
		}
		return r
	}
}

// integer rounds x to an integral value.
func (m rounding) integer(x float64) float64 {
	switch m {
	case towardZero:
		return math.Trunc(x)
	case towardNegative:
		return math.Floor(x)
	case towardPositive:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// floatToInt clamps to the integer's range; NaN becomes 0, or the highest bit
// alone where either side has 64 bits.
func (c conversion) floatToInt() func(a uint64) uint64 {
	f := c.from.format()
	lo, hi := c.to.limits()
	from64 := f == formatDouble
	return func(a uint64) uint64 {
		if c.ftz {
			a = flush(a)
		}
		x := c.mode.integer(f.decode(a))
		switch {
		case x != x:
			if c.to.bits == 64 || from64 {
				return 1 << (c.to.bits - 1)
			}
			return 0
		case x <= float64(lo):
			return trim(uint64(lo), c.to.bits)
		case x >= float64(hi):
			return hi
		case x < 0:
			return trim(uint64(int64(x)), c.to.bits)
		case x >= 1<<63:
			return uint64(x-1<<63) + 1<<63
		}
		return uint64(int64(x))
	}
}

// narrowNaN makes a double's NaN one of a shorter format, quiet and with the
// upper bits of its payload, as an H200 does.
func narrowNaN(v uint64, to *format) uint64 {
	payload := v & (1<<formatDouble.mantissa - 1) >> (formatDouble.mantissa - to.mantissa)
	return to.sign(v>>63 != 0) | to.infinity() | 1<<(to.mantissa-1) | payload
}

func (c conversion) floatToFloat() func(a uint64) uint64 {
	from, to := c.from.format(), c.to.format()
	sat := func(v uint64) uint64 { return v }
	if c.sat {
		sat = saturate(c.to)
	}
	return func(a uint64) uint64 {
		if c.ftz && from == formatSingle {
			a = flush(a)
		}
		x := from.decode(a)
		if x != x && to.bits < from.bits && from == formatDouble {
			return sat(narrowNaN(a, to))
		}
		if c.integral {
			x = c.mode.integer(x)
		}
		if c.relu && !(x > 0) && x == x {
			x = 0
		}
		r := to.encode(x, c.mode)
		if c.ftz && to == formatSingle && r&^signSingle < 0x00800000 { // after rounding, as an H200 does
			r &= signSingle
		}
		return sat(r)
	}
}

// The conversions that compilers write most, as loops.

func extendS32(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])))
	}
}

func trim32(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i]))
	}
}

func trim16(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i]))
	}
}

func trim8(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint8(a[i]))
	}
}

// loop returns the conversion as an instruction. What is wider than the source
// type in its register is cut off; a signed result fills the register of the
// given width.
func (c conversion) loop(register int) alu {
	to, from := c.to, c.from
	if !to.float() && !from.float() && !c.sat {
		switch {
		case from == s32 && register == 64 && to.bits == 64:
			return extendS32
		case !from.signed() || to.bits <= from.bits:
			if !to.signed() || register == to.bits {
				switch min(to.bits, from.bits) {
				case 64:
					return move
				case 32:
					return trim32
				case 16:
					return trim16
				case 8:
					return trim8
				}
			}
		}
	}
	f := c.convert()
	if to.signed() && register > to.bits {
		return map1(func(a uint64) uint64 { return trim(to.extend(f(a)), register) })
	}
	return map1(f)
}
