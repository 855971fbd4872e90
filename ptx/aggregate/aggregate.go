// Package aggregate rewrites PTX so that many launches of a kernel become one.
//
// The rewritten kernel is launched once over the sum of the children's grids.
// Each of its blocks finds the child that it belongs to, in a table of the blocks'
// owners where there is one, else by a search in the prefix sums of the children's
// block counts, and sees that child's arguments, grid, block, blockIdx and
// threadIdx; threads beyond the child's block end at once. This is launch aggregation
// as in El Hajj, Gómez-Luna, Li, Chang, Milojicic and Hwu, KLAP: Kernel launch
// aggregation and promotion for optimizing dynamic parallelism, MICRO 2016, made on
// PTX at load time instead of on source text.
//
// The package changes text and knows no device. What is refused, and why, is
// listed at [Rewrite].
package aggregate

import (
	"encoding/binary"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/ast"
)

// Suffix is what the aggregated entry's name has more than the kernel's.
const Suffix = "_aggregated"

// Param is a parameter of the original kernel.
type Param struct {
	Name   string
	Offset int // in the kernel's parameter block
	Size   int // bytes
	Align  int // bytes, a power of two
}

// Entry describes a kernel and what an aggregated launch of it needs.
type Entry struct {
	Kernel string // the original entry
	Name   string // the aggregated one
	Params []Param

	// MaxThreads bounds the threads of a child's block, 0 where the PTX sets no
	// bound. Block is the only block that a child can have, zero if any will do.
	MaxThreads int
	Block      driver.Dim3

	// Coarse is set if blocks take one child block after the other, so that a
	// launch may have fewer blocks than its children have.
	Coarse bool

	// Ahead is set if launches take what [Taking] says. The module is for sm_70 or a
	// later architecture then.
	Ahead bool
}

// Bytes is the size of the original kernel's parameter block.
func (e *Entry) Bytes() int {
	if len(e.Params) == 0 {
		return 0
	}
	p := e.Params[len(e.Params)-1]
	return p.Offset + p.Size
}

// ConfigBytes is the size of a child's configuration in device memory: the grid's
// and the block's three sizes, the bytes of dynamic shared memory and the number of
// the thread that asked for it, each 32 bits.
const ConfigBytes = 32

// NoParent is the number of the thread where no thread of a kernel has asked.
const NoParent = 1<<32 - 1

// PutConfig writes a child's configuration to b, with no parent.
func PutConfig(b []byte, c driver.Config) {
	for i, v := range [8]uint32{c.Grid.X, c.Grid.Y, c.Grid.Z, c.Block.X, c.Block.Y, c.Block.Z, uint32(c.Shared), NoParent} {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
}

// GetConfig reads what PutConfig wrote.
func GetConfig(b []byte) driver.Config {
	var v [7]uint32
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return driver.Config{Grid: driver.Dim3{X: v[0], Y: v[1], Z: v[2]}, Block: driver.Dim3{X: v[3], Y: v[4], Z: v[5]}, Shared: int64(v[6])}
}

// Parent is the number of the thread that asked for the child of a configuration.
func Parent(b []byte) uint32 { return binary.LittleEndian.Uint32(b[28:]) }

// Column is where the children's values of something lie: child c's is at
// Base + c·Stride. What is equal for all children is there once, with stride 0.
type Column struct {
	Base   driver.Ptr
	Stride uint32
}

// Launch is the argument list of an aggregated entry. All pointers are to device
// memory.
type Launch struct {
	Children uint32
	// First and End are the range of blocks of this launch, counted over all
	// children.
	First, End uint64
	// Starts has a uint64 for each child: the number of its first block, which is
	// the sum of the blocks of those before it unless there are Owners. It is 0 where
	// all children have Blocks blocks each.
	Starts driver.Ptr
	Blocks uint64
	// Owners has a uint32 for each block, the child that it is of; or is 0. Children
	// is not used then.
	Owners  driver.Ptr
	Configs Column
	Args    []Column // one for each of Entry.Params
	Taking  Taking
}

// Taking is what a launch needs that is made before it is known what a queue of
// children holds, in the layout of ptx/src/aggregate.cuh. Before any of its blocks
// runs a child's, one of its warps empties the queue. Blocks beyond those of the
// queue end at once, all of them if its children need more threads or shared memory
// than the launch has, or if the queue is not to be launched as it is.
type Taking struct {
	Queue driver.Ptr // 0 for other launches
	Empty driver.Ptr // what the queue is to hold then
	Gates driver.Ptr // of GateBytes bytes, 0 at first
	Seen  driver.Ptr // SeenWords of 64 bits, which the host reads meanwhile: each a word of the queue below Mark
	Mark  uint32     // other than that of the launch before with the same gates
}

// Gates are words of 64 bits that open by having the launch's mark above the number
// of the blocks that may run. So many, so far apart, keep the blocks from waiting for
// each other's looks. Behind them is the mark of the launch that a warp has claimed
// to empty the queue for.
const (
	gates     = 64
	gateBytes = 128
	GateBytes = gates*gateBytes + 8
)

// A queue has QueueWords of 32 bits. The host sees the blocks that may run behind
// them.
const (
	QueueWords = 24
	SeenWords  = QueueWords + 1
)

// Pack returns the parameter block, which the caller releases.
func (l *Launch) Pack() *driver.Args {
	a := driver.NewArgs().Uint32(l.Children).Uint32(l.Configs.Stride)
	a.Uint64(l.First).Uint64(l.End).Ptr(l.Starts).Uint64(l.Blocks).Ptr(l.Owners).Ptr(l.Configs.Base)
	a.Ptr(l.Taking.Queue).Ptr(l.Taking.Empty).Ptr(l.Taking.Gates).Ptr(l.Taking.Seen)
	for _, c := range l.Args {
		a.Ptr(c.Base)
	}
	for _, c := range l.Args {
		a.Uint32(c.Stride)
	}
	return a.Uint32(l.Taking.Mark)
}

// Unpack reads a parameter block of a kernel with that many parameters.
func Unpack(r *driver.ArgReader, params int) Launch {
	l := Launch{Children: r.Uint32()}
	l.Configs.Stride = r.Uint32()
	l.First, l.End, l.Starts, l.Blocks = r.Uint64(), r.Uint64(), r.Ptr(), r.Uint64()
	l.Owners, l.Configs.Base = r.Ptr(), r.Ptr()
	l.Taking = Taking{Queue: r.Ptr(), Empty: r.Ptr(), Gates: r.Ptr(), Seen: r.Ptr()}
	l.Args = make([]Column, params)
	for i := range l.Args {
		l.Args[i].Base = r.Ptr()
	}
	for i := range l.Args {
		l.Args[i].Stride = r.Uint32()
	}
	l.Taking.Mark = r.Uint32()
	return l
}

// Describe returns a kernel's parameters and bounds without rewriting it.
//
// Errors: ErrNotFound where the module has no such entry, ErrNotSupported for a
// parameter that has no size, such as a texture reference.
func Describe(f *ast.File, name, kernel string) (*Entry, error) {
	r := &rewriter{name: name, file: f}
	return r.describe(kernel)
}

// Global returns a variable in global memory of the module, or nil if it has none.
// A copy of the module would have its own.
func Global(f *ast.File) *ast.Var {
	for _, d := range f.Decls {
		if v, ok := d.(*ast.Var); ok && v.Space == "global" {
			return v
		}
	}
	return nil
}
