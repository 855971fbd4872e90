//go:build unix && !race

package hostdev

import "golang.org/x/sys/unix"

// mapPages returns memory outside the Go heap: gigabytes of buffers must not
// set the pace of garbage collection, and go back to the system when freed.
func mapPages(bytes int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapPages(b []byte) { _ = unix.Munmap(b) }
