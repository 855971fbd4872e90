package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
	name, err := followLinks(name)
	if err != nil {
		return err
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
	return replace(name, existing, force, f)
}

// followLinks returns what a symbolic link leads to, also if there is nothing
// yet.
func followLinks(name string) (string, error) {
	for range 40 { // as far as Linux goes
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		target, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			// The link is relative to its real folder, which may be reached
			// by links itself.
			folder, err := filepath.EvalSymlinks(filepath.Dir(name))
			if err != nil {
				return "", err
			}
			target = filepath.Join(folder, target)
		}
		name = target
	}
	return "", &fs.PathError{Op: "create", Path: name, Err: syscall.ELOOP}
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

// replace puts what f writes in the place of the existing file, whose permissions
// it gets, or of none, nil.
func replace(name string, existing fs.FileInfo, force bool, f func(io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(name), tempName(filepath.Base(name)))
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: errors.Unwrap(err)}
	}
	defer os.Remove(temp) // fails when all went well
	if existing != nil {
		err = file.Chmod(existing.Mode().Perm()) // what the umask took away, too
	}
	if err == nil {
		err = f(file)
	}
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

// tempName is a name for a temporary file beside the one of that name. It is as
// long as file systems allow at most.
func tempName(name string) string {
	const longest = 255
	suffix := fmt.Sprintf(".%08x.tmp", rand.Uint32())
	name = "." + name
	if room := longest - len(suffix); len(name) > room {
		name = strings.ToValidUTF8(name[:room], "")
	}
	return name + suffix
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
