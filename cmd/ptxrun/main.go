// Command ptxrun runs the library's primitives on files, and builds users' own
// kernels. See ptxrun --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// With SIGPIPE taken, a write to a closed pipe is an error like others, and
	// temporary files are removed. Children get the default back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, should cleaning up hang.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
