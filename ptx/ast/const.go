package ast

import "math"

// Constant expressions are C's over 64-bit integers and doubles, folded while
// they are read. A float pattern (0f…) stands alone, and '>' is no operator: it
// ends a register count.

// precedence of the binary operators, from the loosest.
const (
	logicalOr = iota + 1
	logicalAnd
	bitOr
	bitXor
	bitAnd
	equality
	relation
	shift
	sum
	multiplication
)

var precedence = map[string]int{
	"||": logicalOr, "&&": logicalAnd, "|": bitOr, "^": bitXor, "&": bitAnd,
	"==": equality, "!=": equality, "<": relation, "<=": relation, ">=": relation,
	"<<": shift, ">>": shift, "+": sum, "-": sum, "*": multiplication, "/": multiplication, "%": multiplication,
}

// warpSize is the only constant with a name.
const warpSize = "WARP_SZ"

// constant reads an expression of any operators, the conditional one included.
func (p *parser) constant() Number { return p.expr(0) }

func (p *parser) expr(level int) Number {
	defer p.enter()()
	x := p.binary(p.unary(), level)
	if level == 0 && p.punct("?") {
		a := p.expr(0)
		p.expect(":")
		b := p.expr(0)
		if p.truth(x) {
			return a
		}
		return b
	}
	return x
}

// binary continues an expression whose first operand is x with operators that
// bind at least as tightly as level.
func (p *parser) binary(x Number, level int) Number {
	for p.tok.kind == tokPunct {
		op := p.tok
		prec := precedence[op.text]
		if prec == 0 || prec < level {
			break
		}
		p.next()
		x = p.fold(op, x, p.expr(prec+1))
	}
	return x
}

func (p *parser) unary() Number {
	defer p.enter()()
	t := p.tok
	switch {
	case t.kind == tokNumber:
		p.next()
		return t.num
	case p.punct("-"):
		n := p.unary()
		switch n.Kind {
		case Int:
			n.Bits = -n.Bits
			n.Unsigned = false
		case F32:
			n.Bits ^= 1 << 31
		case F64:
			n.Bits ^= 1 << 63
		}
		n.Pos = t.pos
		return n
	case p.punct("+"):
		return p.unary()
	case p.punct("~"):
		n := p.integral(p.unary(), t)
		n.Bits = ^n.Bits
		return n
	case p.punct("!"):
		return truthNumber(t.pos, !p.truth(p.unary()))
	case p.punct("("):
		if p.tok.kind == tokDot && (p.tok.text == "s64" || p.tok.text == "u64") {
			unsigned := p.tok.text == "u64"
			p.next()
			p.expect(")")
			n := p.integral(p.unary(), t)
			n.Unsigned = unsigned
			return n
		}
		n := p.expr(0)
		p.expect(")")
		return n
	case t.kind == tokIdent && t.text == warpSize:
		p.next()
		return Number{Pos: t.pos, Bits: 32}
	}
	p.unexpected("a constant")
	return Number{}
}

func (p *parser) integral(n Number, op token) Number {
	if n.Kind != Int {
		p.fail(op.pos, "%s takes integers", op)
	}
	return n
}

func (p *parser) truth(n Number) bool {
	if n.Kind == F64 {
		return math.Float64frombits(n.Bits) != 0
	}
	return n.Bits != 0
}

func truthNumber(at Pos, v bool) Number {
	n := Number{Pos: at}
	if v {
		n.Bits = 1
	}
	return n
}

// fold applies a binary operator.
func (p *parser) fold(op token, a, b Number) Number {
	if a.Kind == F64 && b.Kind == F64 {
		return p.foldFloat(op, a, b)
	}
	p.integral(a, op)
	p.integral(b, op)
	unsigned := a.Unsigned || b.Unsigned
	n := Number{Pos: a.Pos, Unsigned: unsigned}
	x, y := a.Bits, b.Bits
	less := int64(x) < int64(y)
	if unsigned {
		less = x < y
	}
	switch op.text {
	case "+":
		n.Bits = x + y
	case "-":
		n.Bits = x - y
	case "*":
		n.Bits = x * y
	case "/", "%":
		if y == 0 {
			p.fail(op.pos, "a division by zero")
		}
		switch {
		case unsigned && op.text == "/":
			n.Bits = x / y
		case unsigned:
			n.Bits = x % y
		case op.text == "/":
			n.Bits = uint64(int64(x) / int64(y))
		default:
			n.Bits = uint64(int64(x) % int64(y))
		}
	case "<<":
		n.Unsigned = a.Unsigned
		n.Bits = x << min(y, 64)
	case ">>":
		n.Unsigned = a.Unsigned
		if a.Unsigned {
			n.Bits = x >> min(y, 64)
		} else {
			n.Bits = uint64(int64(x) >> min(y, 63))
		}
	case "&":
		n.Bits = x & y
	case "|":
		n.Bits = x | y
	case "^":
		n.Bits = x ^ y
	case "&&":
		return truthNumber(a.Pos, x != 0 && y != 0)
	case "||":
		return truthNumber(a.Pos, x != 0 || y != 0)
	case "==":
		return truthNumber(a.Pos, x == y)
	case "!=":
		return truthNumber(a.Pos, x != y)
	case "<":
		return truthNumber(a.Pos, less)
	case "<=":
		return truthNumber(a.Pos, less || x == y)
	case ">=":
		return truthNumber(a.Pos, !less)
	}
	return n
}

func (p *parser) foldFloat(op token, a, b Number) Number {
	x, y := math.Float64frombits(a.Bits), math.Float64frombits(b.Bits)
	var v float64
	switch op.text {
	case "+":
		v = x + y
	case "-":
		v = x - y
	case "*":
		v = x * y
	case "/":
		v = x / y
	case "<":
		return truthNumber(a.Pos, x < y)
	case "<=":
		return truthNumber(a.Pos, x <= y)
	case ">=":
		return truthNumber(a.Pos, x >= y)
	case "==":
		return truthNumber(a.Pos, x == y)
	case "!=":
		return truthNumber(a.Pos, x != y)
	default:
		p.fail(op.pos, "%s takes integers", op)
	}
	return Number{Pos: a.Pos, Kind: F64, Bits: math.Float64bits(v)}
}
