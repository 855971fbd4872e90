package hostdev

import (
	"fmt"
	"math/bits"
	"sync"
)

const (
	// mappedFrom is the block size from which on memory is mapped from the
	// system instead of taken from the Go heap.
	mappedFrom = 256 << 10
	// maxKept bounds the bytes of free blocks that are kept for reuse.
	maxKept = 1 << 30
)

// arena hands out blocks of memory and takes them back. Free blocks are kept
// for reuse, since touching fresh pages costs more than many kernels; a block
// given back while work is running is not reused before that work is done, so
// that a pointer used after its free reaches no other allocation's memory.
type arena struct {
	mu    sync.Mutex
	limit int64
	taken int64 // bytes handed out
	kept  int64 // bytes in free and limbo
	most  int64 // bytes in free at most; 0 once closed
	free  map[int64][][]byte

	// Work is counted by the generation it began in. Blocks wait in the limbo
	// of the current generation; when the other one has no work left its limbo
	// is emptied and the two swap.
	generation int
	working    [2]int
	limbo      [2][][]byte
}

// blockSize rounds up to one of eight sizes between powers of two, so that
// blocks are found again.
func blockSize(bytes int64) int64 {
	step := int64(256)
	if n := bits.Len64(uint64(bytes)); n > 12 {
		step = 1 << (n - 4)
	}
	return (bytes + step - 1) / step * step
}

func newArena(limit int64) arena {
	return arena{limit: limit, most: min(maxKept, limit/8), free: map[int64][][]byte{}}
}

func (a *arena) take(bytes int64) ([]byte, error) {
	size := blockSize(bytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if size > a.limit-a.taken {
		return nil, fmt.Errorf("%d bytes; %d of %d are taken", bytes, a.taken, a.limit)
	}
	if list := a.free[size]; len(list) > 0 {
		b := list[len(list)-1]
		a.free[size] = list[:len(list)-1]
		a.kept -= size
		a.taken += size
		return b, nil
	}
	if size > a.limit-a.taken-a.kept {
		a.flush()
	}
	if size < mappedFrom {
		a.taken += size
		return make([]byte, size), nil
	}
	b, err := mapPages(size)
	if err != nil {
		a.flush()
		if b, err = mapPages(size); err != nil {
			return nil, fmt.Errorf("%d bytes: %w", bytes, err)
		}
	}
	a.taken += size
	return b, nil
}

func (a *arena) give(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= int64(len(b))
	a.kept += int64(len(b))
	if a.working == [2]int{} {
		a.keep(b)
		return
	}
	a.limbo[a.generation] = append(a.limbo[a.generation], b)
}

// begin and end frame work that uses memory.
func (a *arena) begin() (generation int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working[a.generation]++
	return a.generation
}

func (a *arena) end(generation int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working[generation]--
	for range 2 {
		other := 1 - a.generation
		if a.working[other] != 0 {
			return
		}
		for i, b := range a.limbo[other] {
			a.keep(b)
			a.limbo[other][i] = nil
		}
		a.limbo[other] = a.limbo[other][:0]
		a.generation = other
	}
}

// keep moves a block counted in kept to the free blocks.
func (a *arena) keep(b []byte) {
	size := int64(len(b))
	if a.kept > a.most {
		a.flush()
	}
	if size > a.most {
		a.kept -= size
		release(b)
		return
	}
	a.free[size] = append(a.free[size], b)
}

// flush gives the free blocks back to the system.
func (a *arena) flush() {
	for size, list := range a.free {
		for _, b := range list {
			release(b)
			a.kept -= size
		}
	}
	clear(a.free)
}

func release(b []byte) {
	if len(b) >= mappedFrom {
		unmapPages(b)
	}
}

func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = 0
	a.flush()
}
