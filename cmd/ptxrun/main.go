// Command ptxrun runs the library's primitives on files, and builds users' own
// kernels. See ptxrun --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is for how long an interrupted command may clean up.
const patience = 5 * time.Second

func main() {
	// With SIGPIPE taken, a write to a closed pipe is an error like others, and
	// temporary files are removed. Children get the default back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends the process at once, and the first one does after a
	// while, should the command be in a call that nothing interrupts: the opening
	// of a pipe without another end.
	context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(patience, func() { os.Exit(exitInterrupted) })
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
