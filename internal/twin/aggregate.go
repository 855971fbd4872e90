package twin

import (
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/ptx/aggregate"
)

// ChildQueue is that of ptx/src/aggregate.cuh.
type ChildQueue struct {
	Count, Blocks, Groups, Capacity uint64
	Threads, Shared                 uint32
	ArgBytes, Wrong                 uint32
	Configs, Starts, Args, Group    driver.Ptr
	Owners                          driver.Ptr
	Room                            uint64
}

// QueueVersion is queue_version there, and QueueMaxArgs the most bytes of arguments.
const (
	QueueVersion = 2
	QueueMaxArgs = 1<<16 - 1
)

// QueueArgs is what queues and parents agree on for arguments of so many bytes.
func QueueArgs(bytes int64) uint32 { return uint32(bytes) + QueueVersion*(QueueMaxArgs+1) }

// TakeQueue empties a queue for a launch of so many blocks that is made ahead of it,
// shows the host what it held, and returns how many of its blocks that runs.
func TakeQueue(l *driver.TwinLaunch, t *aggregate.Taking, most uint64) (blocks uint64, err error) {
	queue, err := scalar[ChildQueue](l.Mem, t.Queue)
	if err != nil {
		return 0, err
	}
	empty, err := scalar[ChildQueue](l.Mem, t.Empty)
	if err != nil {
		return 0, err
	}
	seen, err := driver.Slice[uint64](l.Mem, t.Seen, aggregate.SeenWords)
	if err != nil {
		return 0, err
	}
	q := *queue
	*queue = *empty
	if q.Wrong == 0 && q.Groups == 0 && q.Count <= q.Capacity && q.Blocks <= q.Room && q.Threads <= l.Config.Block.X && int64(q.Shared) <= l.Config.Shared {
		blocks = min(q.Blocks, most)
	}
	mark := uint64(t.Mark) << 32
	for i, word := range *(*[aggregate.QueueWords]uint32)(unsafe.Pointer(&q)) {
		atomic.StoreUint64(&seen[i], mark|uint64(word))
	}
	atomic.StoreUint64(&seen[aggregate.QueueWords], mark|blocks)
	return blocks, nil
}
