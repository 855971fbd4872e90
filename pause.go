package ptxrun

import (
	"runtime"
	"time"
)

// spinning is how long the host looks at what it waits for again and again. Seven of
// the eleven levels of a quadtree of 2^20 points take up to 100 µs on an H200, 1024 to
// 131072 parents are seen after 11 to 32, and a pause takes 60 or more (bench/NOTES.md).
const spinning = 100 * time.Microsecond

// pause rests before the next look at what has been waited for so long. A part of the
// time waited bounds the delay, and a millisecond the time to a cancellation. With 1/8,
// 1/16 and 1/32 the quadtree took 3.94, 3.78 and 3.71 ms, with the driver's event 3.51.
func pause(waited time.Duration) {
	if waited < spinning {
		runtime.Gosched()
		return
	}
	sleep(min(waited/32, time.Millisecond))
}
