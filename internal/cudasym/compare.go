package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compareHeaders compares the values and layouts of our header with those of
// the toolkit's cuda.h in theirs. The report says what was compared and which
// names that toolkit does not have (toolkits drop old ones); any difference is
// an error.
func compareHeaders(ours, theirs string) (report string, err error) {
	h, err := readHeader(filepath.Join(ours, "cuda.h"))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(theirs, "cuda.h"))
	if err != nil {
		return "", err
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`\w+`).FindAllString(cComment.ReplaceAllString(string(text), ""), -1) {
		words[w] = true
	}

	var exprs, absent []string
	for _, c := range h.constants {
		if words[c] {
			exprs = append(exprs, c)
		} else {
			absent = append(absent, c)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(h.structs)) {
		if !words[s] {
			absent = append(absent, s)
			continue
		}
		exprs = append(exprs, "sizeof("+s+")")
		for _, f := range h.structs[s] {
			exprs = append(exprs, fmt.Sprintf("offsetof(%s, %s)", s, f))
		}
	}

	mine, err := evaluate(exprs, ours)
	if err != nil {
		return "", err
	}
	real, err := evaluate(exprs, theirs)
	if err != nil {
		return "", err
	}
	var differ []string
	for i, e := range exprs {
		if mine[i] != real[i] {
			differ = append(differ, fmt.Sprintf("%s is %s, should be %s", e, mine[i], real[i]))
		}
	}
	report = fmt.Sprintf("%d values and layouts compared, %d differ, %d not in that toolkit: %s\n",
		len(exprs), len(differ), len(absent), strings.Join(absent, " "))
	if len(differ) > 0 {
		err = fmt.Errorf("our cuda.h differs from %s:\n%s", theirs, strings.Join(differ, "\n"))
	}
	return report, err
}

// evaluate returns the values of C expressions with the cuda.h of a directory.
func evaluate(exprs []string, include string) ([]string, error) {
	dir, err := os.MkdirTemp("", "cudasym")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var src strings.Builder
	src.WriteString("#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n")
	for _, e := range exprs {
		fmt.Fprintf(&src, "\tprintf(\"%%lld\\n\", (long long)(%s));\n", e)
	}
	src.WriteString("\treturn 0;\n}\n")
	file, exe := filepath.Join(dir, "values.c"), filepath.Join(dir, "values")
	if err := os.WriteFile(file, []byte(src.String()), 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-I"+include, "-o", exe, file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling against %s: %w\n%s", include, err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}
