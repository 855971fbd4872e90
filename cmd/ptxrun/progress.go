package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressDelay is how long work may take before it shows a bar.
const progressDelay = 400 * time.Millisecond

// progress wraps a reader of total bytes, -1 if unknown, so that a bar on
// standard error follows it when that is a terminal. stop removes the bar.
func (s *session) progress(r io.Reader, total int64, what string) (_ io.Reader, stop func()) {
	if s.quiet || !isTerminal(s.stderr) {
		return r, func() {}
	}
	p := &progressReader{r: r, w: s.stderr, total: total, what: what, start: time.Now()}
	return p, p.stop
}

type progressReader struct {
	r     io.Reader
	w     io.Writer
	total int64
	what  string
	start time.Time
	read  int64
	bar   *progressbar.ProgressBar // nil until progressDelay is over
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if p.bar == nil && time.Since(p.start) > progressDelay {
		p.bar = progressbar.NewOptions64(p.total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	if p.bar != nil {
		p.bar.Set64(p.read)
	}
	return n, err
}

func (p *progressReader) stop() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
