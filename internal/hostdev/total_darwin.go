package hostdev

import (
	"sync"

	"golang.org/x/sys/unix"
)

// TotalMemory is the machine's memory in bytes.
var TotalMemory = sync.OnceValue(func() int64 {
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		return int64(n)
	}
	return unknownMemory
})
