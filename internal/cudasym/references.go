package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reference is a use of a function of the driver API in a source file.
type reference struct{ name, file string }

var (
	driverName = regexp.MustCompile(`^cu[A-Z]\w*$`)
	cCall      = regexp.MustCompile(`\b(cu[A-Z]\w*)\s*\(`)
	cOwn       = regexp.MustCompile(`(?m)^(?:extern\s+)?\w+\s+\*?(cu[A-Z]\w*)\s*\(`)
	cComment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

// references finds what the package in dir uses of the driver API: C.cuName in
// Go, cuName( in C and in cgo preambles. Functions that the package's own C
// sources declare under such a name are not part of the API and left out.
func references(dir string) ([]reference, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var refs []reference
	own := map[string]bool{}
	scanC := func(file, text string) {
		text = cComment.ReplaceAllString(text, "")
		for _, m := range cOwn.FindAllStringSubmatch(text, -1) {
			own[m[1]] = true
		}
		for _, m := range cCall.FindAllStringSubmatch(text, -1) {
			refs = append(refs, reference{m[1], file})
		}
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch filepath.Ext(file) {
		case ".c", ".h":
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			scanC(file, string(text))
		case ".go":
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			refs = append(refs, goReferences(f, file)...)
			scanC(file, preamble(f))
		}
	}
	used := refs[:0]
	for _, r := range refs {
		if !own[r.name] {
			used = append(used, r)
		}
	}
	return used, nil
}

func goReferences(f *ast.File, file string) (refs []reference) {
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "C" && driverName.MatchString(sel.Sel.Name) {
			refs = append(refs, reference{sel.Sel.Name, file})
		}
		return true
	})
	return refs
}

// preamble is the C text in the comment before import "C".
func preamble(f *ast.File) string {
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.IMPORT {
			continue
		}
		for _, spec := range d.Specs {
			if s := spec.(*ast.ImportSpec); s.Path.Value == `"C"` {
				if s.Doc != nil {
					return s.Doc.Text()
				}
				return d.Doc.Text()
			}
		}
	}
	return ""
}
