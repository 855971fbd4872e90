package emu

import (
	"sync/atomic"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// writtenBits has a bit for each byte of an allocation that something wrote.
type writtenBits []uint64

func bitsOf(a *hostdev.Allocation) writtenBits {
	return a.Shadow(func() any { return make(writtenBits, (a.Size()+63)/64) }).(writtenBits)
}

// span calls f for the words and masks of bits [first, first+n).
func span(first, n uint64, f func(word, mask uint64) bool) bool {
	for n > 0 {
		bit := first & 63
		k := min(n, 64-bit)
		if !f(first>>6, ^uint64(0)>>(64-k)<<bit) {
			return false
		}
		first, n = first+k, n-k
	}
	return true
}

// A nil writtenBits is of memory that counts as written.

func (w writtenBits) set(first, n uint64) {
	if w == nil {
		return
	}
	span(first, n, func(word, mask uint64) bool {
		if atomic.LoadUint64(&w[word])&mask != mask {
			atomic.OrUint64(&w[word], mask)
		}
		return true
	})
}

func (w writtenBits) unset(first, n uint64) {
	if w == nil {
		return
	}
	span(first, n, func(word, mask uint64) bool {
		atomic.AndUint64(&w[word], ^mask)
		return true
	})
}

func (w writtenBits) all(first, n uint64) bool {
	return w == nil || span(first, n, func(word, mask uint64) bool { return atomic.LoadUint64(&w[word])&mask == mask })
}

func markWritten(a *hostdev.Allocation, first, n uint64) {
	if a.Kind() != hostdev.ForHost {
		bitsOf(a).set(first-uint64(a.Base()), n)
	}
}

// copied follows a copy or a fill; what was not written in its source is not
// written in its destination either.
func (b *backend) copied(dst, src, n uint64) {
	to := b.space.Find(driver.Ptr(dst))
	if to == nil {
		return
	}
	from := b.space.Find(driver.Ptr(src))
	if src == 0 || from == nil || from.Kind() == hostdev.ForHost {
		markWritten(to, dst, n)
		return
	}
	have, first := bitsOf(from), src-uint64(from.Base())
	for i := range n {
		if have.all(first+i, 1) {
			markWritten(to, dst+i, 1)
		}
	}
}

// written returns the bits of a view's memory, nil if all counts as written.
func (w *warp) written(v *view) writtenBits {
	switch {
	case v.space == spaceShared:
		return w.block.written
	case v.alloc.Kind() == hostdev.ForHost:
		return nil
	}
	return bitsOf(v.alloc)
}

// requireWritten faults if a copy reads bytes that nothing wrote.
func (w *warp) requireWritten(in *instr, lane int, v *view, addr, n uint64) {
	if !w.written(v).all(addr-v.first, n) {
		w.undefined(in, 1<<lane, "what it copies", in.line)
	}
}
