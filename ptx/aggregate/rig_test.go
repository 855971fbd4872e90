package aggregate_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/emu"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// child is one launch of a kernel.
type child struct {
	driver.Config
	args [][]byte
}

func word[T any](v T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

// rig is an emulator with memory that the test frees.
type rig struct {
	testing.TB
	dev  driver.Device
	s    driver.Stream
	held []driver.Ptr
}

func newRig(t testing.TB, opts ...emu.Option) *rig {
	dev, err := emu.Open(append(opts, emu.WithMemoryChecks())...)
	require.NoError(t, err)
	s, err := dev.NewStream()
	require.NoError(t, err)
	r := &rig{TB: t, dev: dev, s: s}
	t.Cleanup(func() {
		r.release()
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close(), "nothing is left on the device")
	})
	return r
}

func (r *rig) release() {
	for _, p := range r.held {
		require.NoError(r, r.dev.Free(p))
	}
	r.held = nil
}

func (r *rig) upload(b []byte) driver.Ptr {
	p, err := r.dev.Alloc(int64(max(len(b), 1)))
	require.NoError(r, err)
	r.held = append(r.held, p)
	require.NoError(r, r.s.CopyToDevice(p, b))
	return p
}

func (r *rig) download(p driver.Ptr, n int) []byte {
	b := make([]byte, n)
	require.NoError(r, r.s.CopyToHost(b, p))
	return b
}

func parse(t testing.TB, file string) *ast.File {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	f, err := ast.Parse(file, text)
	require.NoError(t, err)
	return f
}

func (r *rig) load(f *ast.File) driver.Module {
	text := f.String()
	m, err := r.dev.Load(driver.Image{Name: "rewritten", PTX: []byte(text)})
	require.NoError(r, err, "%s", text)
	return m
}

func (r *rig) kernel(m driver.Module, name string) driver.Kernel {
	k, err := m.Kernel(name)
	require.NoError(r, err)
	return k
}

// separate launches the children one after the other.
func (r *rig) separate(k driver.Kernel, e *aggregate.Entry, children []child) error {
	for _, c := range children {
		if c.Grid.Count() == 0 {
			continue
		}
		a := driver.NewArgs()
		for i, v := range c.args {
			a.Bytes(v, e.Params[i].Align)
		}
		err := r.s.Launch(k, c.Config, a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return r.s.Synchronize()
}

// queue is that of children of so many blocks in all, and what a launch needs to take it.
func (r *rig) queue(words int, blocks, threads, shared uint64) aggregate.Taking {
	q := make([]byte, 4*words)
	binary.LittleEndian.PutUint64(q[8:], blocks)
	binary.LittleEndian.PutUint32(q[32:], uint32(threads))
	binary.LittleEndian.PutUint32(q[36:], uint32(shared))
	binary.LittleEndian.PutUint64(q[88:], blocks)
	return aggregate.Taking{Queue: r.upload(q), Empty: r.upload(make([]byte, len(q))), Gates: r.upload(make([]byte, aggregate.GateBytes)),
		Seen: r.upload(make([]byte, 8*aggregate.SeenWords)), Mark: 1}
}

// together launches the children as one, or as several over parts of the blocks.
// If owned is set there is a table of owners, the last child's blocks are the first,
// and more blocks are launched than there are.
func (r *rig) together(k driver.Kernel, e *aggregate.Entry, children []child, part uint64, owned bool) error {
	var starts, configs []byte
	var blocks, threads, shared uint64
	equal := true
	for _, c := range children {
		starts = binary.LittleEndian.AppendUint64(starts, blocks)
		n := c.Grid.Count()
		blocks += n
		equal = equal && n == children[0].Grid.Count()
		if n > 0 {
			threads, shared = max(threads, c.Block.Count()), max(shared, uint64(c.Shared))
		}
		configs = append(configs, make([]byte, aggregate.ConfigBytes)...)
		aggregate.PutConfig(configs[len(configs)-aggregate.ConfigBytes:], c.Config)
	}
	if blocks == 0 {
		return nil
	}
	l := aggregate.Launch{Children: uint32(len(children)), Configs: aggregate.Column{Base: r.upload(configs), Stride: aggregate.ConfigBytes}}
	end := blocks
	switch {
	case owned:
		var owners []byte
		first := make([]uint64, len(children))
		for i := len(children) - 1; i >= 0; i-- {
			first[i] = uint64(len(owners) / 4)
			for range children[i].Grid.Count() {
				owners = append(owners, word(uint32(i))...)
			}
		}
		starts = nil
		for _, f := range first {
			starts = append(starts, word(f)...)
		}
		l.Children, l.Starts, l.Owners = 0, r.upload(starts), r.upload(append(owners, make([]byte, 4*5)...))
		if part == 0 {
			end += 5
			l.Taking = r.queue(aggregate.QueueWords, blocks, threads, shared)
		}
	case equal:
		l.Blocks = children[0].Grid.Count()
	default:
		l.Starts = r.upload(starts)
	}
	for i, p := range e.Params {
		var column []byte
		same := true
		for _, c := range children {
			column = append(column, c.args[i]...)
			same = same && bytes.Equal(c.args[i], children[0].args[i])
		}
		col := aggregate.Column{Stride: uint32(p.Size)}
		if same {
			column, col.Stride = children[0].args[i], 0
		}
		col.Base = r.upload(column)
		l.Args = append(l.Args, col)
	}
	if part == 0 {
		part = end
	}
	for l.First = 0; l.First < end; l.First = l.End {
		l.End = min(l.First+part, end)
		grid := l.End - l.First
		if e.Coarse {
			grid = (grid + 2) / 3
		}
		a := l.Pack()
		err := r.s.Launch(k, driver.Config{Grid: driver.D1(uint32(grid)), Block: driver.D1(uint32(threads+31) &^ 31), Shared: int64(shared)}, a)
		a.Release()
		if err != nil {
			return err
		}
	}
	return r.s.Synchronize()
}
