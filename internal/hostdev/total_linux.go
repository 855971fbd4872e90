package hostdev

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// TotalMemory is the machine's memory in bytes, or what the process's control
// group may use of it.
var TotalMemory = sync.OnceValue(func() int64 {
	total := int64(math.MaxInt64)
	meminfo, _ := os.ReadFile("/proc/meminfo")
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				total = kib << 10
			}
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	if total == math.MaxInt64 {
		return unknownMemory
	}
	return total
})
