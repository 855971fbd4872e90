package ast

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const head = ".version 8.0\n.target sm_90\n.address_size 64\n"

// body parses statements inside an entry.
func body(t *testing.T, src string) []Stmt {
	t.Helper()
	f, err := Parse("test.ptx", []byte(head+".entry k(){\n"+src+"\n}"))
	require.NoError(t, err)
	return f.Decls[0].(*Func).Body.Stmts
}

// clearPositions makes trees of differently laid out sources comparable.
func clearPositions(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			clearPositions(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			clearPositions(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Pos]() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			clearPositions(v.Field(i))
		}
	}
}

// roundTrip requires that printing f and parsing it again gives f.
func roundTrip(t *testing.T, f *File) {
	t.Helper()
	text := f.String()
	g, err := Parse("printed", []byte(text))
	require.NoError(t, err, "%s", text)
	clearPositions(reflect.ValueOf(f))
	clearPositions(reflect.ValueOf(g))
	if !reflect.DeepEqual(f, g) { // which is far faster than Equal
		require.Equal(t, f, g)
	}
}

func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		src  string
		want Instr
	}{
		{"ret;", Instr{Name: "ret"}},
		{"@!%p1 bra.uni L;", Instr{Guard: &Guard{"%p1", true}, Name: "bra", Mods: []string{"uni"}, Args: []Operand{&Ident{Name: "L"}}}},
		{"ld.global.L1::no_allocate.v2.u32 {%r1, _}, [%rd1+-8];", Instr{Name: "ld", Mods: []string{"global", "L1::no_allocate", "v2", "u32"},
			Args: []Operand{&Vector{Elems: []Operand{&Ident{Name: "%r1"}, &Ident{Name: "_"}}}, &Address{Base: &Ident{Name: "%rd1"}, Offset: -8}}}},
		{"mov.u32 %r1, %tid.x;", Instr{Name: "mov", Mods: []string{"u32"}, Args: []Operand{&Ident{Name: "%r1"}, &Ident{Name: "%tid", Part: "x"}}}},
		{"st.u32 [%rd1+8-4*3], %r1;", Instr{Name: "st", Mods: []string{"u32"}, Args: []Operand{&Address{Base: &Ident{Name: "%rd1"}, Offset: -4}, &Ident{Name: "%r1"}}}},
		{"mov.u64 %rd1, table+8;", Instr{Name: "mov", Mods: []string{"u64"}, Args: []Operand{&Ident{Name: "%rd1"}, &Sum{Base: &Ident{Name: "table"}, Offset: 8}}}},
		{"st.shared.u8 [16+4*2], -1;", Instr{Name: "st", Mods: []string{"shared", "u8"}, Args: []Operand{&Address{Base: &Number{Bits: 24}}, &Number{Bits: ^uint64(0)}}}},
		{"setp.lt.and.f32 %p1|%p2, %f1, 0f3F800000, !%p3;", Instr{Name: "setp", Mods: []string{"lt", "and", "f32"}, Args: []Operand{
			&Pair{A: &Ident{Name: "%p1"}, B: &Ident{Name: "%p2"}}, &Ident{Name: "%f1"}, &Number{Kind: F32, Bits: 0x3F800000}, &Not{X: &Ident{Name: "%p3"}}}}},
		{"mov.f64 %fd1, 1.5e1;", Instr{Name: "mov", Mods: []string{"f64"}, Args: []Operand{&Ident{Name: "%fd1"}, &Number{Kind: F64, Bits: 0x402E000000000000}}}},
		{"call.uni (r), f, (a, 1), proto;", Instr{Name: "call", Mods: []string{"uni"}, Args: []Operand{
			&List{Elems: []Operand{&Ident{Name: "r"}}}, &Ident{Name: "f"}, &List{Elems: []Operand{&Ident{Name: "a"}, &Number{Bits: 1}}}, &Ident{Name: "proto"}}}},
		{"call f, (1, 2);", Instr{Name: "call", Args: []Operand{&Ident{Name: "f"}, &List{Elems: []Operand{&Number{Bits: 1}, &Number{Bits: 2}}}}}},
		{"cp.async.bulk.tensor.2d [%r1], [%rd1, {%r2, %r3}];", Instr{Name: "cp", Mods: []string{"async", "bulk", "tensor", "2d"}, Args: []Operand{
			&Address{Base: &Ident{Name: "%r1"}}, &Address{Base: &Ident{Name: "%rd1"}, Coords: []Operand{&Vector{Elems: []Operand{&Ident{Name: "%r2"}, &Ident{Name: "%r3"}}}}}}}},
	} {
		got := body(t, c.src)[0]
		clearPositions(reflect.ValueOf(got))
		assert.Equal(t, &c.want, got, c.src)
	}
}

// TestNegativeOffsets are printed as sums: "[%rd1-8]" is a syntax error to ptxas.
func TestNegativeOffsets(t *testing.T) {
	f, err := Parse("", []byte(head+".func f() { ld.u32 %r1, [%rd1+-8]; mov.u64 %rd1, table+-8; st.u32 [table+-4], %r1; }"))
	require.NoError(t, err)
	for _, want := range []string{"[%rd1+-8]", "table+-8", "[table+-4]"} {
		assert.Contains(t, f.String(), want)
	}
}

func TestConstantsAreFolded(t *testing.T) {
	for src, want := range map[string]int64{
		"1+2*3": 7, "(1+2)*3": 9, "-7/2": -3, "7 % 4": 3, "1<<4|1": 17, "~0": -1, "!5": 0, "0x10": 16, "0b11": 3, "017": 15,
		"3 < 5 ? 1 : 2": 1, "1 == 1 && 2 != 3": 1, "(.s64) 5": 5, "-8 >> 1": -4, "WARP_SZ": 32, "0xffffffffffffffff": -1,
	} {
		f, err := Parse("", []byte(head+".global .u64 x = "+src+";"))
		require.NoError(t, err, src)
		n, ok := f.Decls[0].(*Var).Init.(*Number)
		require.True(t, ok, src)
		assert.Equal(t, want, int64(n.Bits), src)
	}
}

func TestDeclarations(t *testing.T) {
	f, err := Parse("", []byte(`
//
.version 7.5
.target sm_70, debug
.address_size 64
	.file	1 "a file.cu", 12, 34
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.visible .global .align 4 .b8 tab[16] = {1, 0, {2}, 0xff(sym), generic(tab)+8};
.weak .const .v4 .f32 c = {0f3F800000, 1.0, 2.5, -0f00000000};
.extern .shared .align 16 .b8 dyn[];
.global .attribute(.managed, .unified(19,95)) .u32 a, b[2][3];
.alias f, g;
.pragma "nounroll";
.weak .func .attribute(.unified(1,2)) (.reg .u32 %out) f(.reg .u32 %in, .param .align 8 .b8 s[24]) .noreturn .pragma "x"; { ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 k0, .param .f32 k1)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.reg .pred %p<11>; .reg .b32 %a, %b<3>;
	.loc	1 7 3, function_name $L__info_string0, inlined_at 1 3 4
	{ // a scope
	.param .align 8 .b8 param0[24];
	}
$L: .branchtargets L1, L2;
P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b8 _[8]) .noreturn;
	.pragma "used_bytes_mask 0xff";
L1: L2: exit;
}
.section .debug_abbrev { .b8 1
	$Lx: .b8 2 { } }
`))
	require.NoError(t, err)
	require.Equal(t, []string{"sm_70"}, f.Targets, "debug information is not read")
	require.Len(t, f.Decls, 10)
	k := f.Func("k")
	require.NotNil(t, k)
	assert.Equal(t, &PtrAttr{"global", 16}, k.Params[0].Ptr)
	assert.Equal(t, []string{"256", "1", "1"}, k.Directives[0].Args)
	assert.Nil(t, f.Func("vprintf"))
	a := f.Decls[4].(*Var)
	assert.Equal(t, []string{"managed", "unified(19,95)"}, a.Attributes)
	roundTrip(t, f)
}

func TestErrorsSayWhere(t *testing.T) {
	for src, want := range map[string]string{
		"":                                       "x.ptx:1:1: the end of the file where '.version' should be",
		".version 8":                             "x.ptx:1:10: '8' where a version such as 8.0 should be",
		head + ".entry k(){\n  add.s32 %r1 %r2;": "x.ptx:5:15: '%r2' where ';' should be",
		head + ".entry k(){ ret;":                "x.ptx:4:11: a block that does not end",
		head + ".entry k(){ ld.u32 %r1, [%rd-8];": "x.ptx:4:29: a difference; a negative offset is written +-8",
		head + ".entry k(){ mov.u64 %rd, t-8;":    "x.ptx:4:27: a difference; a negative offset is written +-8",
		head + ".global .u33 x;":                  "x.ptx:4:9: '.u33' in a declaration",
		head + ".global .align 3 .u32 x;":         "x.ptx:4:9: an alignment of 3 is not a power of two",
		head + ".global .u32 x = 0f12;":           "x.ptx:4:18: not a float in hexadecimal: '0f12'",
		head + ".global .u32 x = 1/0;":            "x.ptx:4:19: a division by zero",
		head + ".global .u32 x[-2];":              "x.ptx:4:16: an array size of -2 is not between 0 and 1125899906842624",
		head + "/* open":                          "x.ptx:4:1: a comment that does not end",
		head + "foo":                              "x.ptx:4:1: 'foo' where a directive should be",
		head + ".entry k(){ %r1; }":               "x.ptx:4:13: '%r1' where an instruction should be",
	} {
		_, err := Parse("x.ptx", []byte(src))
		assert.EqualError(t, err, want)
	}
}

func TestDeepNestingIsAnError(t *testing.T) {
	for _, open := range []string{"{", "add [", "add {", "add -", "add !", "add (", "add a[", "add 1+(", "add -(("} {
		src := head + ".entry k(){" + open + strings.Repeat(open[len(open)-1:], 100_000)
		_, err := Parse("", []byte(src))
		require.Error(t, err, open)
	}
}

// corpus is every PTX file of the repository.
func corpus(t testing.TB) []string {
	var files []string
	for _, pattern := range []string{"../sm_*/*.ptx", "../../driver/emu/testdata/*.ptx"} {
		m, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, m...)
	}
	return files
}

func TestPrintedCorpusIsEqual(t *testing.T) {
	files := corpus(t)
	require.NotEmpty(t, files)
	for _, name := range files {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := Parse(name, src)
		require.NoError(t, err)
		roundTrip(t, f)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + ".entry k(.param .u64 a){ .reg .b32 %r<3>; @%p1 add.s32 %r1, %r2, 1+2; L: bra L; }"))
	f.Add([]byte(head + ".global .align 8 .b8 t[4] = {1, 0xff(t), generic(t)+8};"))
	for _, name := range corpus(f) {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src[:min(len(src), 4096)])
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		tree, err := Parse("fuzz", src)
		if err != nil {
			require.IsType(t, &Error{}, err)
			return
		}
		roundTrip(t, tree)
	})
}
