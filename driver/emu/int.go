package emu

import (
	"math"
	"math/bits"
)

// Integer instructions. The common ones are loops of their own, since a call a
// lane would take longer than the work; the rest go through map1, map2, map3.

func map1(f func(a uint64) uint64) alu {
	return func(d, a, _, _ *lanes) {
		for i := range d {
			d[i] = f(a[i])
		}
	}
}

func map2(f func(a, b uint64) uint64) alu {
	return func(d, a, b, _ *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i])
		}
	}
}

func map3(f func(a, b, c uint64) uint64) alu {
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

func move(d, a, _, _ *lanes) { *d = *a }

func add16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i] + b[i]))
	}
}

func add32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i] + b[i]))
	}
}

func add64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i] - b[i]))
	}
}

func sub32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i] - b[i]))
	}
}

func sub64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mulLo16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i] * b[i]))
	}
}

func mulLo32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i] * b[i]))
	}
}

func mulLo64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func madLo16(d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i]*b[i] + c[i]))
	}
}

func madLo32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i]*b[i] + c[i]))
	}
}

func madLo64(d, a, b, c *lanes) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func mulWideU16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func mulWideS16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(int32(int16(a[i])) * int32(int16(b[i]))))
	}
}

func mulWideU32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func mulWideS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func and64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xor64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

// Shift amounts are 32-bit and clamped to the width.

func shl16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(a[i] << b[i]))
	}
}

func shl32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i] << b[i]))
	}
}

func shl64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

// shrU serves all widths: values are zero-extended.
func shrU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func shrS16(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint16(int16(a[i]) >> b[i]))
	}
}

func shrS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(int32(a[i]) >> b[i]))
	}
}

func shrS64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(a[i]) >> b[i])
	}
}

func minU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func minS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(min(int32(a[i]), int32(b[i]))))
	}
}

func maxS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(max(int32(a[i]), int32(b[i]))))
	}
}

func minS64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(min(int64(a[i]), int64(b[i])))
	}
}

func maxS64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(max(int64(a[i]), int64(b[i])))
	}
}

// byWidth picks by a type's width of 16, 32 or 64 bits.
func byWidth[T any](bits int, w16, w32, w64 T) T {
	switch bits {
	case 16:
		return w16
	case 32:
		return w32
	}
	return w64
}

// mulHigh is the upper half of the product of two values of t.
func mulHigh(t typ) func(a, b uint64) uint64 {
	if t.bits < 64 {
		return func(a, b uint64) uint64 { return trim(t.extend(a)*t.extend(b)>>t.bits, t.bits) }
	}
	return func(a, b uint64) uint64 {
		hi, _ := bits.Mul64(a, b)
		if t.signed() {
			hi -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
		}
		return hi
	}
}

// divide follows the hardware where PTX leaves the result open: a quotient by
// zero is all ones, and a remainder by zero is the dividend.
func divide(t typ) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		x, y := t.extend(a), t.extend(b)
		switch {
		case y == 0:
			return trim(math.MaxUint64, t.bits)
		case t.signed():
			return trim(uint64(int64(x)/int64(y)), t.bits)
		}
		return x / y
	}
}

func remainder(t typ) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		x, y := t.extend(a), t.extend(b)
		switch {
		case y == 0:
			return a
		case t.signed():
			return trim(uint64(int64(x)%int64(y)), t.bits)
		}
		return x % y
	}
}

// saturate32 clamps to the range of a 32-bit signed integer.
func saturate32(v int64) uint64 {
	return uint64(uint32(max(math.MinInt32, min(v, math.MaxInt32))))
}

// addCarry is the sum or difference behind extended-precision arithmetic; the
// carry of a difference is its borrow.
func addCarry(width int, sub bool) carry {
	return func(d, a, b, _ *lanes, in uint32) (out uint32) {
		for i := range d {
			c := uint64(in >> i & 1)
			var v, o uint64
			if sub {
				v, o = bits.Sub64(a[i], b[i], c)
			} else {
				v, o = bits.Add64(a[i], b[i], c)
			}
			if width < 64 {
				o = v >> width & 1
				v = trim(v, width)
			}
			d[i] = v
			out |= uint32(o) << i
		}
		return out
	}
}

// madCarry adds the low or high half of a product to c.
func madCarry(t typ, product func(a, b uint64) uint64) carry {
	sum := addCarry(t.bits, false)
	return func(d, a, b, c *lanes, in uint32) uint32 {
		var p lanes
		for i := range p {
			p[i] = product(a[i], b[i])
		}
		return sum(d, &p, c, nil, in)
	}
}

func leadingZeros(width int) func(a uint64) uint64 {
	return func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a) - (64 - width)) }
}

// findBit is bfind: the position of the highest bit that is not a copy of the
// sign, all ones where there is none; shifted counts from the top.
func findBit(t typ, shifted bool) func(a uint64) uint64 {
	return func(a uint64) uint64 {
		v := t.extend(a)
		if t.signed() && int64(v) < 0 {
			v = ^v
		}
		v = trim(v, t.bits)
		if v == 0 {
			return math.MaxUint32
		}
		at := uint64(bits.Len64(v) - 1)
		if shifted {
			return uint64(t.bits) - 1 - at
		}
		return at
	}
}

// findNth is fns: the n-th set bit from a base upwards, or downwards for
// negative n.
func findNth(mask, base, offset uint64) uint64 {
	m, at, n := uint32(mask), int(base&31), int32(offset)
	if n == 0 {
		if m>>at&1 != 0 {
			return uint64(at)
		}
		return math.MaxUint32
	}
	step := 1
	if n < 0 {
		step, n = -1, -n
	}
	for ; at >= 0 && at < 32; at += step {
		if m>>at&1 != 0 {
			if n--; n == 0 {
				return uint64(at)
			}
		}
	}
	return math.MaxUint32
}

// field is the position and the length that bfe and bfi take from their
// operands. PTX limits both to 0..255; beyond that the 32-bit forms use the low
// eight bits and the 64-bit forms all of them, as an H200 does.
func field(width int, start, length uint64) (pos, n int) {
	if width == 32 {
		start, length = start&0xff, length&0xff
	}
	return int(start), int(length)
}

// extractField is bfe: length bits from start, sign-extended from the field's
// top bit, or from the value's where the field goes beyond it.
func extractField(t typ) func(a, start, length uint64) uint64 {
	return func(a, start, length uint64) uint64 {
		pos, n := field(t.bits, start, length)
		msb := t.bits - 1
		var sign uint64
		if t.signed() && n > 0 {
			sign = a >> min(pos+n-1, msb) & 1
		}
		var d uint64
		for i := 0; i <= msb; i++ {
			bit := sign
			if i < n && pos+i <= msb {
				bit = a >> (pos + i) & 1
			}
			d |= bit << i
		}
		return d
	}
}

// insertField is bfi with the position and length already taken.
func insertField(width int, a, b, start, length uint64) uint64 {
	pos, n := field(width, start, length)
	if pos >= width {
		return b
	}
	mask := trim((1<<min(n, 64)-1)<<pos, width)
	return b&^mask | a<<pos&mask
}

// signExtend is szext: the low n bits of a, extended.
func signExtend(t typ, wrap bool) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		n := b & 0xffffffff
		if wrap {
			n &= 31
		}
		if n >= 32 {
			return a
		}
		if n == 0 {
			return 0
		}
		v := trim(a, int(n))
		if t.signed() && v>>(n-1)&1 != 0 {
			v |= math.MaxUint64 << n
		}
		return uint64(uint32(v))
	}
}

// bitMask is bmsk: b ones from position a.
func bitMask(wrap bool) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 {
		pos, n := a&0xffffffff, b&0xffffffff
		if wrap {
			pos, n = pos&31, n&31
		}
		pos, n = min(pos, 32), min(n, 32)
		return uint64(uint32((1<<n - 1) << pos))
	}
}

// funnel is shf on 32-bit halves: a the lower, b the upper.
func funnel(left, wrap bool) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		n := c & 31
		if !wrap {
			n = min(c&0xffffffff, 32)
		}
		v := b<<32 | a
		if left {
			return v << n >> 32
		}
		return uint64(uint32(v >> n))
	}
}

// permute is prmt: four bytes chosen from the eight of a and b.
func permute(mode string) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		v := b<<32 | a
		var d uint64
		for i := range uint64(4) {
			var sel uint64
			switch low := c & 3; mode {
			case "":
				sel = c >> (4 * i) & 15
			case "f4e":
				sel = low + i
			case "b4e":
				sel = (low - i) & 7
			case "rc8":
				sel = low
			case "ecl":
				sel = max(low, i)
			case "ecr":
				sel = min(low, i)
			case "rc16":
				sel = low&1<<1 + i&1
			}
			b := v >> (8 * (sel & 7)) & 0xff
			if sel&8 != 0 {
				b = uint64(uint8(int8(b) >> 7))
			}
			d |= b << (8 * i)
		}
		return d
	}
}

// lookup3 is lop3: bit k of the table is the result for a<<2 | b<<1 | c == k.
func lookup3(table uint64) func(a, b, c uint64) uint64 {
	var m [8]uint64
	for k := range m {
		m[k] = -(table >> k & 1)
	}
	return func(a, b, c uint64) uint64 {
		low := b&(c&m[3]|^c&m[2]) | ^b&(c&m[1]|^c&m[0])
		high := b&(c&m[7]|^c&m[6]) | ^b&(c&m[5]|^c&m[4])
		return uint64(uint32(a&high | ^a&low))
	}
}

// dotBytes is dp4a, dotHalves dp2a: sums of products of parts of a and b.
func dotBytes(a8, b8 typ) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		for i := 0; i < 32; i += 8 {
			c += a8.extend(trim(a>>i, 8)) * b8.extend(trim(b>>i, 8))
		}
		return uint64(uint32(c))
	}
}

func dotHalves(a16, b8 typ, high bool) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		if high {
			b >>= 16
		}
		for i := range 2 {
			c += a16.extend(trim(a>>(16*i), 16)) * b8.extend(trim(b>>(8*i), 8))
		}
		return uint64(uint32(c))
	}
}
