//go:build !race

package hostdev

import "golang.org/x/sys/unix"

// advise asks for large pages where they fit: a first touch of many small ones
// costs more than the copies and kernels that follow.
func advise(b []byte) {
	if len(b) >= 8<<20 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}
