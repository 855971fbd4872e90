package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/term"
)

// writeTo calls f with a writer of the file name, "-" for standard output. The
// file appears, whole, when f has succeeded; until then there is a temporary
// file beside it, which does not outlive the call. An existing file is replaced
// with force only. Pipes and devices are written to as they are.
func (s *session) writeTo(name string, force bool, f func(io.Writer) error) error {
	if name == "-" {
		return f(s.stdout)
	}
	// A symbolic link is followed, so that the file it leads to is replaced.
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	existing, err := os.Stat(name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && existing.IsDir():
		return usagef("%s is a directory", name)
	case err == nil && !existing.Mode().IsRegular():
		return writeThrough(name, f)
	case err == nil && !force:
		return existsError(name)
	}
	mode := fs.FileMode(0o666) // less the umask
	if err == nil {
		mode = existing.Mode().Perm()
	}
	return replace(name, mode, force, f)
}

func existsError(name string) error {
	return usagef("%s exists; --force replaces it", name)
}

func writeThrough(name string, f func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}

func replace(name string, mode fs.FileMode, force bool, f func(io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%08x.tmp", filepath.Base(name), rand.Uint32()))
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: errors.Unwrap(err)}
	}
	defer os.Remove(temp) // fails when all went well
	err = f(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(temp, name)
	}
	// Unlike a rename, a link does not replace a file made in the meantime.
	if err := os.Link(temp, name); !errors.Is(err, fs.ErrExist) {
		if err == nil {
			return nil
		}
		return os.Rename(temp, name) // no links in this file system
	}
	return existsError(name)
}

// refuseTerminal is for output that would garble a terminal.
func (s *session) refuseTerminal(name, what string) error {
	if name == "-" && isTerminal(s.stdout) {
		return usagef("%s would go to the terminal; redirect it or use -o", what)
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
