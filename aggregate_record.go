package ptxrun

import (
	"bytes"
	"encoding/binary"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
)

// column are the values of one parameter in the order of the children. While they
// are all equal there is only the first.
type column struct {
	size, stride int
	varies       bool
	data         []byte
}

// add appends child n's value.
func (c *column) add(n int, v []byte) {
	if n == 0 {
		c.varies, c.data = false, c.data[:0]
		c.append(v)
		return
	}
	if !c.varies {
		if bytes.Equal(v, c.data[:c.size]) {
			return
		}
		c.varies = true
		for range n - 1 {
			c.append(c.data[:c.size])
		}
	}
	c.append(v)
}

func (c *column) append(v []byte) {
	c.data = append(c.data, v...)
	for len(c.data)%c.stride != 0 {
		c.data = append(c.data, 0)
	}
}

// at describes the values once they lie at p.
func (c *column) at(p driver.Ptr) aggregate.Column {
	if c.varies {
		return aggregate.Column{Base: p, Stride: uint32(c.stride)}
	}
	return aggregate.Column{Base: p}
}

// config is child i's configuration, of a column of them.
func (c *column) config(i int) driver.Config {
	if !c.varies {
		i = 0
	}
	return aggregate.GetConfig(c.data[i*c.stride:])
}

// recording are the children of one flush.
type recording struct {
	f        *flushed
	children int
	configs  column
	args     []column
	blocks   uint64
	each     uint64        // blocks of the first child
	like     driver.Config // of the first child
	unequal  bool          // a child has other than each blocks
	starts   []byte        // if unequal, uint64 each: the blocks of the children before
	threads  uint64
	shared   int64
	config   [aggregate.ConfigBytes]byte
}

func newRecording(e *aggregate.Entry) *recording {
	r := &recording{configs: column{size: aggregate.ConfigBytes, stride: aggregate.ConfigBytes}}
	for _, p := range e.Params {
		r.args = append(r.args, column{size: p.Size, stride: (p.Size + p.Align - 1) &^ (p.Align - 1)})
	}
	return r
}

func (r *recording) reset() {
	r.children, r.blocks, r.unequal, r.threads, r.shared = 0, 0, false, 0, 0
	r.starts = r.starts[:0]
	r.f = &flushed{done: make(chan struct{})}
}

// add records a child of n blocks, whose arguments are of the accepted types.
func (r *recording) add(c *driver.Config, n uint64, types []accepted, args []any) {
	i := r.children
	if i == 0 {
		r.each, r.like = n, *c
	}
	if i == 0 || r.configs.varies || *c != r.like {
		aggregate.PutConfig(r.config[:], *c)
		r.configs.add(i, r.config[:])
	}
	for k := range args {
		r.args[k].add(i, argumentOf(args[k], types[k].kind, r.args[k].size))
	}
	if !r.unequal && n != r.each {
		r.unequal = true
		for k := range uint64(i) {
			r.starts = binary.LittleEndian.AppendUint64(r.starts, k*r.each)
		}
	}
	if r.unequal {
		r.starts = binary.LittleEndian.AppendUint64(r.starts, r.blocks)
	}
	r.blocks += n
	r.threads = max(r.threads, c.Block.Count())
	r.shared = max(r.shared, c.Shared)
	r.children++
}

// bytes is what the recording takes.
func (r *recording) bytes() int64 {
	n := int64(len(r.starts) + len(r.configs.data))
	for i := range r.args {
		n += int64(len(r.args[i].data))
	}
	return n
}
