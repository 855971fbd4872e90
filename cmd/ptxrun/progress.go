package main

import (
	"io"
	"sync"
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
	if f, ok := r.(seekingReaderAt); ok {
		return &progressFile{p, f}, p.stop
	}
	return p, p.stop
}

type seekingReaderAt interface {
	io.Seeker
	io.ReaderAt
}

// progressFile follows reads at offsets, too, by any number of goroutines.
type progressFile struct {
	*progressReader
	seekingReaderAt
}

func (p *progressFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.seekingReaderAt.ReadAt(b, off)
	p.count(n)
	return n, err
}

type progressReader struct {
	r     io.Reader
	w     io.Writer
	total int64
	what  string
	start time.Time

	mu   sync.Mutex
	read int64
	bar  *progressbar.ProgressBar // nil until progressDelay is over
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.count(n)
	return n, err
}

func (p *progressReader) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
}

func (p *progressReader) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
	}
}
