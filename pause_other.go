//go:build !linux

package ptxrun

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
