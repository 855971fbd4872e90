package ptxrun

import "time"

// pause rests before the next look at what has been waited for so long. A part of
// that bounds the delay, and a millisecond the time to a cancellation.
func pause(waited time.Duration) { sleep(min(waited/16, time.Millisecond)) }
