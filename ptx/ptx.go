// Package ptx holds the kernels: their PTX as built from ptx/src, one variant
// for each GPU generation that gains from its own, and the headers that users
// build their own operators with.
package ptx

import (
	"cmp"
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
)

//go:embed sm_*/*.ptx
var built embed.FS

//go:embed src/*.cuh
var sources embed.FS

// variant is one built file.
type variant struct {
	target int // 70 is sm_70
	file   string
}

// variants are each module's, newest target first.
var variants = func() map[string][]variant {
	files, err := fs.Glob(built, "sm_*/*.ptx")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	m := make(map[string][]variant)
	for _, file := range files {
		dir, base := path.Split(file)
		target, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(dir, "sm_"), "/"))
		if err != nil {
			panic("ptx: " + dir + " is not named after a target")
		}
		name := strings.TrimSuffix(base, ".ptx")
		m[name] = append(m[name], variant{target, file})
	}
	for _, v := range m {
		slices.SortFunc(v, func(a, b variant) int { return cmp.Compare(b.target, a.target) })
	}
	return m
}()

// Source returns the PTX of a module for a device of the given compute
// capability (90 is 9.0): the variant with the highest target that the device
// can run, and that target.
//
// Errors: ErrNotFound for a module that is not embedded, ErrNoBinaryForGPU for
// a device older than every variant.
func Source(module string, capability int) (text []byte, target int, err error) {
	const op = "ptx.Source"
	all := variants[module]
	if len(all) == 0 {
		return nil, 0, driver.Errorf(op, driver.ErrNotFound, "module %s", module)
	}
	for _, v := range all {
		if v.target > capability {
			continue
		}
		if text, err = built.ReadFile(v.file); err != nil {
			return nil, 0, driver.Errorf(op, driver.ErrNotFound, "%v", err)
		}
		return text, v.target, nil
	}
	return nil, 0, driver.Errorf(op, driver.ErrNoBinaryForGPU, "module %s needs compute capability %s, the device has %s",
		module, version(all[len(all)-1].target), version(capability))
}

// targetLine is a PTX text's directive that names its target.
var targetLine = regexp.MustCompile(`(?m)^\s*\.target\s+sm_(\d+)`)

// Newest returns the text with the highest target among those that a device of
// the given compute capability can run. A text whose target cannot be read is
// taken to be for every device, which will say what is wrong with it.
//
// Errors: ErrNoBinaryForGPU for a device older than every text.
func Newest(texts [][]byte, capability int) ([]byte, error) {
	newest, oldest := -1, 0
	var found []byte
	for _, text := range texts {
		target := 0
		if m := targetLine.FindSubmatch(text); m != nil {
			target, _ = strconv.Atoi(string(m[1])) // digits
		}
		if target <= capability && target > newest {
			newest, found = target, text
		}
		if oldest == 0 || target < oldest {
			oldest = target
		}
	}
	if found == nil {
		return nil, driver.Errorf("ptx.Newest", driver.ErrNoBinaryForGPU, "the PTX needs compute capability %s, the device has %s",
			version(oldest), version(capability))
	}
	return found, nil
}

func version(capability int) string {
	return strconv.Itoa(capability/10) + "." + strconv.Itoa(capability%10)
}

// Headers is the folder that a user's source includes as <ptxrun/…>.
func Headers() fs.FS {
	f, err := fs.Sub(sources, "src")
	if err != nil {
		panic(err) // the path is malformed
	}
	return f
}
