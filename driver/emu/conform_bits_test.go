package emu_test

import (
	"fmt"
	"math/rand/v2"
)

// Bits: operands and results as lists of bits, lowest first.

func bitsOf(v uint64, n int) []int {
	b := make([]int, n)
	for i := range b {
		b[i] = int(v >> i & 1)
	}
	return b
}

func fromBits(b []int) (v uint64) {
	for i, x := range b {
		v |= uint64(x) << i
	}
	return v
}

// perBit is an instruction that works on each bit alone.
func perBit(op string, w, n int, f func(x []int) int) form {
	t := fmt.Sprintf("b%d", w)
	in := make([]string, n)
	for i := range in {
		in[i] = t
	}
	return form{op: op, in: in, out: t, want: func(v []uint64) uint64 {
		d := make([]int, w)
		for i := range d {
			var x []int
			for _, a := range v {
				x = append(x, int(a>>i&1))
			}
			d[i] = f(x)
		}
		return fromBits(d)
	}}
}

func bitForms() (list []form) {
	add := func(f form) { list = append(list, f) }
	for _, w := range []int{16, 32, 64} {
		t := fmt.Sprintf("b%d", w)
		add(perBit("and."+t, w, 2, func(x []int) int { return x[0] & x[1] }))
		add(perBit("or."+t, w, 2, func(x []int) int { return x[0] | x[1] }))
		add(perBit("xor."+t, w, 2, func(x []int) int { return x[0] ^ x[1] }))
		add(perBit("not."+t, w, 1, func(x []int) int { return 1 - x[0] }))
		add(form{op: "cnot." + t, in: []string{t}, out: t, want: func(v []uint64) uint64 {
			if v[0] == 0 {
				return 1
			}
			return 0
		}})
		shift := func(op string, f func(a []int, by int) []int) {
			add(form{op: op, in: []string{t, "b32"}, out: t, want: func(v []uint64) uint64 {
				return fromBits(f(bitsOf(v[0], w), int(min(v[1], uint64(w)))))
			}})
		}
		shift("shl."+t, func(a []int, by int) []int { return append(make([]int, by), a...)[:w] })
		shift("shr."+t, func(a []int, by int) []int { return append(a[by:], make([]int, by)...) })
		shift(fmt.Sprintf("shr.u%d", w), func(a []int, by int) []int { return append(a[by:], make([]int, by)...) })
		shift(fmt.Sprintf("shr.s%d", w), func(a []int, by int) []int {
			d := append([]int{}, a[by:]...)
			for len(d) < w {
				d = append(d, a[w-1])
			}
			return d
		})
		if w == 16 {
			continue
		}
		add(form{op: "popc." + t, in: []string{t}, out: "b32", want: func(v []uint64) (n uint64) {
			for _, b := range bitsOf(v[0], w) {
				n += uint64(b)
			}
			return n
		}})
		add(form{op: "clz." + t, in: []string{t}, out: "b32", want: func(v []uint64) uint64 {
			b := bitsOf(v[0], w)
			for i := range w {
				if b[w-1-i] != 0 {
					return uint64(i)
				}
			}
			return uint64(w)
		}})
		add(form{op: "brev." + t, in: []string{t}, out: t, want: func(v []uint64) uint64 {
			b := bitsOf(v[0], w)
			d := make([]int, w)
			for i := range b {
				d[w-1-i] = b[i]
			}
			return fromBits(d)
		}})
		// bfe and bfi, as the ISA's pseudocode has them. It limits position and
		// length to eight bits; the forms of 64 bits use all, as an H200 does.
		fieldBits := uint64(0xff)
		if w == 64 {
			fieldBits = 0xffffffff
		}
		for _, sign := range []bool{false, true} {
			kind := fmt.Sprintf("u%d", w)
			if sign {
				kind = fmt.Sprintf("s%d", w)
			}
			add(form{op: "bfe." + kind, in: []string{t, "b32", "b32"}, out: t, values: fields(w), want: func(v []uint64) uint64 {
				a, pos, n, msb := bitsOf(v[0], w), int(v[1]&fieldBits), int(v[2]&fieldBits), w-1
				fill := 0
				if sign && n > 0 {
					fill = a[min(pos+n-1, msb)]
				}
				d := make([]int, w)
				for i := range d {
					d[i] = fill
					if i < n && pos+i <= msb {
						d[i] = a[pos+i]
					}
				}
				return fromBits(d)
			}})
			for _, shifted := range []bool{false, true} {
				op := "bfind." + kind
				if shifted {
					op = "bfind.shiftamt." + kind
				}
				add(form{op: op, in: []string{t}, out: "b32", want: func(v []uint64) uint64 {
					a := bitsOf(v[0], w)
					skip := 0
					if sign {
						skip = a[w-1]
					}
					for i := w - 1; i >= 0; i-- {
						if a[i] != skip {
							if shifted {
								return uint64(w - 1 - i)
							}
							return uint64(i)
						}
					}
					return 0xffffffff
				}})
			}
		}
		var rows [][]uint64
		for i, row := range fields(w) {
			rows = append(rows, []uint64{row[0], interesting(t)[i%20], row[1], row[2]})
		}
		add(form{op: "bfi." + t, in: []string{t, t, "b32", "b32"}, out: t, values: rows, want: func(v []uint64) uint64 {
			a, d, pos, n := bitsOf(v[0], w), bitsOf(v[1], w), int(v[2]&fieldBits), int(v[3]&fieldBits)
			for i := 0; i < n && pos+i < w; i++ {
				d[pos+i] = a[i]
			}
			return fromBits(d)
		}})
	}

	for _, mode := range []string{"clamp", "wrap"} {
		amount := func(n uint64) int {
			if mode == "wrap" {
				return int(n & 31)
			}
			return int(min(n, 32))
		}
		add(form{op: "shf.l." + mode + ".b32", in: []string{"b32", "b32", "b32"}, out: "b32", want: func(v []uint64) uint64 {
			b := append(bitsOf(v[0], 32), bitsOf(v[1], 32)...)
			n := amount(v[2])
			return fromBits(b[32-n : 64-n])
		}})
		add(form{op: "shf.r." + mode + ".b32", in: []string{"b32", "b32", "b32"}, out: "b32", want: func(v []uint64) uint64 {
			b := append(bitsOf(v[0], 32), bitsOf(v[1], 32)...)
			n := amount(v[2])
			return fromBits(b[n : n+32])
		}})
		add(form{op: "bmsk." + mode + ".b32", in: []string{"b32", "b32"}, out: "b32", want: func(v []uint64) uint64 {
			d := make([]int, 32)
			for i := range amount(v[1]) {
				if at := amount(v[0]) + i; at < 32 {
					d[at] = 1
				}
			}
			return fromBits(d)
		}})
		for _, t := range []string{"u32", "s32"} {
			add(form{op: "szext." + mode + "." + t, in: []string{"b32", "b32"}, out: "b32", want: func(v []uint64) uint64 {
				n := amount(v[1])
				d := make([]int, 32)
				for i := range d {
					switch {
					case i < n:
						d[i] = int(v[0] >> i & 1)
					case t == "s32" && n > 0:
						d[i] = int(v[0] >> (n - 1) & 1)
					}
				}
				return fromBits(d)
			}})
		}
	}
	add(form{op: "fns.b32", in: []string{"b32", "b32", "b32"}, out: "b32", values: nths(), want: func(v []uint64) uint64 {
		mask, base, offset := bitsOf(v[0], 32), int(v[1]), int(int32(v[2]))
		if offset == 0 {
			if mask[base] == 1 {
				return uint64(base)
			}
			return 0xffffffff
		}
		count, step := offset, 1
		if offset < 0 {
			count, step = -offset, -1
		}
		for i := base; i >= 0 && i < 32; i += step {
			if mask[i] == 1 {
				if count--; count == 0 {
					return uint64(i)
				}
			}
		}
		return 0xffffffff
	}})
	for _, table := range []int{0, 1, 0x96, 0xe8, 0xca, 0x80, 0xfe, 0x6a, 0xff, 0x1b} {
		f := perBit(fmt.Sprintf("lop3.b32 with table %#x", table), 32, 3, func(x []int) int { return table >> (x[0]<<2 | x[1]<<1 | x[2]) & 1 })
		f.text = fmt.Sprintf("lop3.b32 $d, $a, $b, $c, %d;", table)
		add(f)
	}
	// prmt by the tables of the ISA: the bytes selected, most significant first.
	permutations := map[string][4]string{
		"f4e": {"3210", "4321", "5432", "6543"}, "b4e": {"5670", "6701", "7012", "0123"}, "rc8": {"0000", "1111", "2222", "3333"},
		"ecl": {"3210", "3211", "3222", "3333"}, "ecr": {"0000", "1110", "2210", "3210"}, "rc16": {"1010", "3232", "1010", "3232"},
	}
	byteOf := func(v []uint64, sel uint64) uint64 { return (v[1]<<32 | v[0]) >> (8 * (sel & 7)) & 0xff }
	for mode, table := range permutations {
		add(form{op: "prmt.b32." + mode, in: []string{"b32", "b32", "b32"}, out: "b32", want: func(v []uint64) (d uint64) {
			for _, digit := range table[v[2]&3] {
				d = d<<8 | byteOf(v, uint64(digit-'0'))
			}
			return d
		}})
	}
	add(form{op: "prmt.b32", in: []string{"b32", "b32", "b32"}, out: "b32", want: func(v []uint64) (d uint64) {
		for i := 3; i >= 0; i-- {
			sel := v[2] >> (4 * i) & 15
			b := byteOf(v, sel)
			if sel&8 != 0 {
				b = b >> 7 * 0xff
			}
			d = d<<8 | b
		}
		return d
	}})
	return list
}

// fields are rows of a value, a position and a length.
func fields(w int) (rows [][]uint64) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, pos := range []uint64{0, 1, 5, 30, 31, 32, 33, 63, 64, 255, 256} {
		for _, n := range []uint64{0, 1, 2, 8, 31, 32, 33, 63, 64, 65, 255, 256} {
			for range 4 {
				rows = append(rows, []uint64{r.Uint64() & (^uint64(0) >> (64 - w)), pos, n})
			}
		}
	}
	return rows
}

func nths() (rows [][]uint64) {
	r := rand.New(rand.NewPCG(5, 6))
	for base := range uint64(32) {
		for _, n := range []int32{0, 1, 2, 5, 31, 32, -1, -2, -7, -31} {
			rows = append(rows, []uint64{uint64(r.Uint32() & r.Uint32()), base, uint64(uint32(n))})
		}
	}
	return rows
}
