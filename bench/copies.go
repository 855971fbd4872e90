package main

import "github.com/ptxrun/ptxrun"

// copies are slots of n elements in one buffer, each at a multiple of 256
// elements, together larger than twice the level-2 cache: calls that rotate over
// them find nothing in it.
type copies struct{ n, stride, count int }

// maxCopies bounds the slots of tiny inputs.
const maxCopies = 1 << 16

// newCopies plans slots of n elements for each of which some bytes are moved.
func newCopies(n int, moved, cache int64) copies {
	stride := (n + 255) / 256 * 256
	return copies{n, stride, int(min(2*cache/(int64(stride)*moved)+1, maxCopies))}
}

func (c copies) total() int { return c.stride * c.count }

// views are the slots of a buffer.
func views[T any](c copies, buf *ptxrun.Buffer[T]) ([]*ptxrun.Buffer[T], error) {
	all := make([]*ptxrun.Buffer[T], c.count)
	for i := range all {
		var err error
		if all[i], err = buf.Slice(i*c.stride, i*c.stride+c.n); err != nil {
			return nil, err
		}
	}
	return all, nil
}
