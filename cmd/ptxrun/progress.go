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
	p := s.steps(total, what)
	if p.w == nil {
		return r, p.stop
	}
	p.bytes = true
	reader := &progressReader{r, p}
	if f, ok := r.(seekingReaderAt); ok {
		return &progressFile{reader, f}, p.stop
	}
	return reader, p.stop
}

// steps is work of total steps, -1 if unknown, that such a bar follows.
func (s *session) steps(total int64, what string) *steps {
	p := &steps{total: total, what: what, start: time.Now()}
	if !s.quiet && isTerminal(s.stderr) {
		p.w = s.stderr
	}
	return p
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
	p.count(int64(n))
	return n, err
}

type progressReader struct {
	r io.Reader
	*steps
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.count(int64(n))
	return n, err
}

type steps struct {
	w     io.Writer // nil where no bar is shown
	total int64
	what  string
	bytes bool // a step is a byte
	start time.Time

	mu   sync.Mutex
	done int64
	bar  *progressbar.ProgressBar // nil until progressDelay is over
}

func (p *steps) count(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.bar == nil && p.w != nil && time.Since(p.start) > progressDelay {
		shown := progressbar.OptionShowCount()
		if p.bytes {
			shown = progressbar.OptionShowBytes(true)
		}
		p.bar = progressbar.NewOptions64(p.total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.what),
			shown,
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	if p.bar != nil {
		p.bar.Set64(p.done)
	}
}

func (p *steps) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
	}
}
