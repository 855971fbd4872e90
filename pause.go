package ptxrun

import (
	"runtime"
	"time"
)

// spinning is how long the host looks at what it waits for again and again. What 1024
// to 131072 parents record it sees after 11 to 32 µs on an H200 (bench/NOTES.md), and
// a pause takes 60 or more.
const spinning = 50 * time.Microsecond

// pause rests before the next look at what has been waited for so long. A part of
// that bounds the delay, and a millisecond the time to a cancellation.
func pause(waited time.Duration) {
	if waited < spinning {
		runtime.Gosched()
		return
	}
	sleep(min(waited/16, time.Millisecond))
}
