package ast

import (
	"math"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokIdent            // name, %name, $name, _
	tokDot              // .name, with what follows :: in it
	tokNumber           // token.num
	tokString           // quoted, token.text without the quotes
	tokPunct            // one character, or << >> && || == != <= >=
)

type token struct {
	kind tokenKind
	pos  Pos
	text string
	num  Number
	// spaced is true after white space or a comment: "ld .x" is no opcode.
	spaced bool
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokDot:
		return "'." + t.text + "'"
	case tokString:
		return strconv.Quote(t.text)
	}
	return "'" + t.text + "'"
}

// lexer cuts a source into tokens, one ahead of the parser.
type lexer struct {
	src       string
	off       int
	line      int
	lineStart int
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c == '%'
}
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isWord(c byte) bool  { return isLetter(c) && c != '%' || isDigit(c) }

func (l *lexer) pos() Pos { return Pos{l.line, l.off - l.lineStart + 1} }

// peek is the character n after the next, 0 past the end.
func (l *lexer) peek(n int) byte {
	if l.off+n < len(l.src) {
		return l.src[l.off+n]
	}
	return 0
}

// space skips white space, comments and preprocessor lines.
func (l *lexer) space() (skipped bool, err error) {
	start := l.off
	for l.off < len(l.src) {
		c := l.src[l.off]
		switch {
		case c == '\n':
			l.off++
			l.line++
			l.lineStart = l.off
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			l.off++
		case c == '/' && l.peek(1) == '/', c == '#' && l.atLineStart():
			l.toLineEnd()
		case c == '@' && l.peek(1) == '@': // @@DWARF of old compilers
			l.toLineEnd()
		case c == '/' && l.peek(1) == '*':
			at := l.pos()
			n := strings.Index(l.src[l.off+2:], "*/")
			if n < 0 {
				return false, &Error{Pos: at, Msg: "a comment that does not end"}
			}
			end := l.off + n + 4
			for ; l.off < end; l.off++ {
				if l.src[l.off] == '\n' {
					l.line++
					l.lineStart = l.off + 1
				}
			}
		case c == 0 && strings.Trim(l.src[l.off:], "\x00") == "":
			l.off = len(l.src) // a C string's end
		default:
			return l.off > start, nil
		}
	}
	return l.off > start, nil
}

func (l *lexer) atLineStart() bool {
	return strings.TrimLeft(l.src[l.lineStart:l.off], " \t") == ""
}

func (l *lexer) toLineEnd() {
	if n := strings.IndexByte(l.src[l.off:], '\n'); n >= 0 {
		l.off += n
	} else {
		l.off = len(l.src)
	}
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	spaced, err := l.space()
	if err != nil {
		return token{}, err
	}
	t := token{pos: l.pos(), spaced: spaced}
	if l.off >= len(l.src) {
		t.kind = tokEOF
		return t, nil
	}
	c := l.src[l.off]
	switch {
	case isLetter(c) && (c != '%' || isWord(l.peek(1))):
		t.kind = tokIdent
		t.text = l.word(1)
	case c == '.' && isWord(l.peek(1)):
		t.kind = tokDot
		l.off++
		t.text = l.word(0)
		for l.peek(0) == ':' && l.peek(1) == ':' && isWord(l.peek(2)) {
			l.off += 2
			t.text += "::" + l.word(0)
		}
	case isDigit(c):
		return l.number(t)
	case c == '"':
		end := strings.IndexAny(l.src[l.off+1:], "\"\n")
		if end < 0 || l.src[l.off+1+end] == '\n' {
			return t, &Error{Pos: t.pos, Msg: "a string that does not end on its line"}
		}
		t.kind = tokString
		t.text = l.src[l.off+1 : l.off+1+end]
		l.off += end + 2
	default:
		t.kind = tokPunct
		n := 1
		switch l.src[l.off:min(l.off+2, len(l.src))] {
		case "<<", ">>", "&&", "||", "==", "!=", "<=", ">=":
			n = 2
		}
		t.text = l.src[l.off : l.off+n]
		l.off += n
	}
	return t, nil
}

// word reads an identifier's characters; the first n are taken as they are.
func (l *lexer) word(n int) string {
	start := l.off
	l.off += n
	for l.off < len(l.src) && isWord(l.src[l.off]) {
		l.off++
	}
	return l.src[start:l.off]
}

// number reads 12, 0x1F, 0b11, 017, 12U, 0f3F800000, 0d3FF0000000000000, 1.5e3.
func (l *lexer) number(t token) (token, error) {
	t.kind = tokNumber
	t.num.Pos = t.pos
	text := l.word(0)
	t.text = text
	bad := func(what string) (token, error) {
		return t, &Error{Pos: t.pos, Msg: what + " '" + text + "'"}
	}
	if len(text) > 2 && text[0] == '0' {
		switch kind, digits := text[1], text[2:]; kind {
		case 'f', 'F', 'd', 'D':
			want := 8
			t.num.Kind = F32
			if kind|0x20 == 'd' {
				want, t.num.Kind = 16, F64
			}
			v, err := strconv.ParseUint(digits, 16, 64)
			if err != nil || len(digits) != want {
				return bad("not a float in hexadecimal:")
			}
			t.num.Bits = v
			return t, nil
		}
	}
	decimal := strings.Trim(text, "0123456789") == ""
	exponent := strings.TrimLeft(text, "0123456789")
	if decimal && l.peek(0) == '.' && !isLetter(l.peek(1)) || len(exponent) > 0 && exponent[0]|0x20 == 'e' {
		return l.decimalFloat(t, text)
	}
	digits := text
	if last := len(digits) - 1; digits[last]|0x20 == 'u' {
		digits, t.num.Unsigned = digits[:last], true
	}
	if strings.Contains(digits, "_") {
		return bad("not a number:")
	}
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return bad("not a 64-bit integer:")
	}
	t.num.Bits = v
	t.num.Unsigned = t.num.Unsigned || v > math.MaxInt64
	return t, nil
}

// decimalFloat reads the rest of a float of which text is read already.
func (l *lexer) decimalFloat(t token, text string) (token, error) {
	if l.peek(0) == '.' {
		l.off++
		text += "." + l.word(0)
	}
	if c := text[len(text)-1]; c|0x20 == 'e' && (l.peek(0) == '+' || l.peek(0) == '-') {
		text += string(l.peek(0))
		l.off++
		text += l.word(0)
	}
	t.text = text
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return t, &Error{Pos: t.pos, Msg: "not a number: '" + text + "'"}
	}
	t.num.Kind, t.num.Bits = F64, math.Float64bits(v)
	return t, nil
}
