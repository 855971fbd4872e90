package hostdev

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Goexit is the Value of a [Panic] that was none: a kernel's Go form ended its
// goroutine.
const Goexit = "runtime.Goexit was called"

// Panic is a recovered panic and where it happened. A backend that recovers on
// a goroutine of its own panics again with it on the one that called Run.
type Panic struct {
	Value any
	At    string // file:line
}

func (p *Panic) Error() string { return fmt.Sprintf("panic at %s: %v", p.At, p.Value) }

// AsPanic wraps what recover returned. It must be called by the deferred
// function itself, while the stack still shows the panic.
func AsPanic(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicking = true
		case panicking:
			return &Panic{v, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)}
		}
		if !more {
			return &Panic{v, "unknown place"}
		}
	}
}
