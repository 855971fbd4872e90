package ast

import "strconv"

// Bytes is the size of the variable or parameter: of its type, its vector and
// all its array's elements. It is 0 for a type without a size and for an array
// of unknown length.
func (v *Var) Bytes() int64 {
	digits := v.Type
	for digits != "" && (digits[0] < '0' || digits[0] > '9') {
		digits = digits[1:]
	}
	bits, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	size := int64(bits / 8 * max(v.Vector, 1))
	for _, d := range v.Dims {
		size *= max(d, 0)
	}
	return size
}
