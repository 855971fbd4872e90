// Package twin holds the Go twin of every embedded kernel: what the kernel
// computes, written over host memory and spread over the cores.
//
// A twin checks all of its memory before it writes any. Twins of integer, min,
// max and user operators leave the same bytes as the kernels; sums and products
// of floats associate in another order and differ by rounding.
package twin

import "math"

// Unsigned, Signed and Float are the types that device memory holds, and
// Number any of them.
type (
	Unsigned interface {
		uint8 | uint16 | uint32 | uint64
	}
	Signed interface {
		int8 | int16 | int32 | int64
	}
	Float interface {
		float32 | float64
	}
	Number interface {
		Unsigned | Signed | Float
	}
)

// Op is an associative operator, with the loops that apply it to a slice.
// Built-in operators have loops of their own, because a call an element costs
// more than the operator.
type Op[T any] struct {
	Identity T
	Combine  func(a, b T) T
	// Reduce returns acc ⊕ in[0] ⊕ … ⊕ in[len(in)-1].
	Reduce func(acc T, in []T) T
	// Scan stores acc ⊕ in[0] ⊕ … ⊕ in[i] in dst[i] and returns the last one,
	// or acc if there is none. dst is as long as in and may be the same memory.
	Scan func(acc T, dst, in []T) T
}

// Custom is a user's operator. combine need not commute.
func Custom[T any](identity T, combine func(a, b T) T) Op[T] {
	return Op[T]{
		Identity: identity,
		Combine:  combine,
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc = combine(acc, x)
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc = combine(acc, x)
				dst[i] = acc
			}
			return acc
		},
	}
}

// Sum wraps around for integers. For floats only -0 leaves every value alone:
// +0 would turn -0 into +0.
func Sum[T Number]() Op[T] {
	var zero T
	return Op[T]{
		Identity: -zero,
		Combine:  func(a, b T) T { return a + b },
		Reduce:   sumReduce[T],
		Scan:     sumScan[T],
	}
}

// sumReduce and sumScan add four elements at a time, because a float addition
// waits for the one before: of float32 in the first-level cache, one core of an
// AMD EPYC reduces 4.1 and scans 2.2 billion a second, and with one accumulator
// 1.0 and 0.7.
func sumReduce[T Number](acc T, in []T) T {
	var zero T
	b, c, d := -zero, -zero, -zero
	for len(in) >= 4 {
		acc += in[0]
		b += in[1]
		c += in[2]
		d += in[3]
		in = in[4:]
	}
	for _, x := range in {
		acc += x
	}
	return acc + b + (c + d)
}

func sumScan[T Number](acc T, dst, in []T) T {
	dst = dst[:len(in)]
	i := 0
	for ; i+4 <= len(in); i += 4 {
		x, y := in[i:i+4:i+4], dst[i:i+4:i+4]
		// Each x is read before its y is written: they may be the same memory.
		p, q := x[0]+x[1], x[2]+x[3]
		y[0] = acc + x[0]
		y[1] = acc + p
		y[2] = acc + (p + x[2])
		acc += p + q
		y[3] = acc
	}
	for ; i < len(in); i++ {
		acc += in[i]
		dst[i] = acc
	}
	return acc
}

// Product wraps around for integers.
func Product[T Number]() Op[T] {
	return Op[T]{
		Identity: 1,
		Combine:  func(a, b T) T { return a * b },
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc *= x
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc *= x
				dst[i] = acc
			}
			return acc
		},
	}
}

// And is the bitwise conjunction.
func And[T Unsigned]() Op[T] {
	return Op[T]{
		Identity: ^T(0),
		Combine:  func(a, b T) T { return a & b },
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc &= x
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc &= x
				dst[i] = acc
			}
			return acc
		},
	}
}

// Or is the bitwise disjunction.
func Or[T Unsigned]() Op[T] {
	return Op[T]{
		Combine: func(a, b T) T { return a | b },
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc |= x
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc |= x
				dst[i] = acc
			}
			return acc
		},
	}
}

// Xor is the bitwise exclusive or.
func Xor[T Unsigned]() Op[T] {
	return Op[T]{
		Combine: func(a, b T) T { return a ^ b },
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc ^= x
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc ^= x
				dst[i] = acc
			}
			return acc
		},
	}
}

// SaturatingSum stays at the largest value instead of wrapping around.
func SaturatingSum() Op[uint64] {
	add := func(a, b uint64) uint64 {
		s := a + b
		if s < a {
			s = math.MaxUint64
		}
		return s
	}
	return Op[uint64]{
		Combine: add,
		Reduce: func(acc uint64, in []uint64) uint64 {
			for _, x := range in {
				acc = add(acc, x)
			}
			return acc
		},
		Scan: func(acc uint64, dst, in []uint64) uint64 {
			dst = dst[:len(in)]
			for i, x := range in {
				acc = add(acc, x)
				dst[i] = acc
			}
			return acc
		},
	}
}

// Min and Max make one NaN of all: a NaN operand gives the canonical NaN of
// PTX, whatever its sign and payload, and -0 is less than +0. This keeps them
// associative, so that the order of combination cannot show.
func Min[T Number]() Op[T] {
	nan := canonicalNaN[T]()
	lesser := func(a, b T) T {
		m := min(a, b)
		if m != m {
			m = nan
		}
		return m
	}
	return Op[T]{
		Identity: highest[T](),
		Combine:  lesser,
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc = min(acc, x)
			}
			if acc != acc {
				acc = nan
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc = min(acc, x)
				if acc != acc {
					acc = nan
				}
				dst[i] = acc
			}
			return acc
		},
	}
}

// Max is the greatest value; see [Min] for floats.
func Max[T Number]() Op[T] {
	nan := canonicalNaN[T]()
	greater := func(a, b T) T {
		m := max(a, b)
		if m != m {
			m = nan
		}
		return m
	}
	return Op[T]{
		Identity: lowest[T](),
		Combine:  greater,
		Reduce: func(acc T, in []T) T {
			for _, x := range in {
				acc = max(acc, x)
			}
			if acc != acc {
				acc = nan
			}
			return acc
		},
		Scan: func(acc T, dst, in []T) T {
			dst = dst[:len(in)]
			for i, x := range in {
				acc = max(acc, x)
				if acc != acc {
					acc = nan
				}
				dst[i] = acc
			}
			return acc
		},
	}
}

// canonicalNaN is the NaN that PTX's min.NaN and max.NaN return, zero for
// integers.
func canonicalNaN[T Number]() (v T) {
	switch p := any(&v).(type) {
	case *float32:
		*p = math.Float32frombits(0x7fffffff)
	case *float64:
		*p = math.Float64frombits(0x7fffffffffffffff)
	}
	return v
}

// highest and lowest bound T, infinities included.
func highest[T Number]() (v T) {
	switch p := any(&v).(type) {
	case *uint8:
		*p = math.MaxUint8
	case *uint16:
		*p = math.MaxUint16
	case *uint32:
		*p = math.MaxUint32
	case *uint64:
		*p = math.MaxUint64
	case *int8:
		*p = math.MaxInt8
	case *int16:
		*p = math.MaxInt16
	case *int32:
		*p = math.MaxInt32
	case *int64:
		*p = math.MaxInt64
	case *float32:
		*p = float32(math.Inf(1))
	case *float64:
		*p = math.Inf(1)
	}
	return v
}

func lowest[T Number]() (v T) {
	switch p := any(&v).(type) {
	case *int8:
		*p = math.MinInt8
	case *int16:
		*p = math.MinInt16
	case *int32:
		*p = math.MinInt32
	case *int64:
		*p = math.MinInt64
	case *float32:
		*p = float32(math.Inf(-1))
	case *float64:
		*p = math.Inf(-1)
	}
	return v
}
