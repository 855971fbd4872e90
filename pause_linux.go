package ptxrun

import (
	"syscall"
	"time"
)

// sleep takes the kernel's timer slack, 50 µs, more than d, or less if a signal comes.
// time.Sleep takes a whole millisecond where the process has nothing else to do, because
// Go's runtime waits for its timers by epoll_wait, which counts in those.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
