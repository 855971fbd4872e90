package twin

import "github.com/ptxrun/ptxrun/driver"

// ChildQueue and TakenQueue are those of ptx/src/aggregate.cuh.
type ChildQueue struct {
	Count, Blocks, Groups, Capacity uint64
	Threads, Shared                 uint32
	ArgBytes, Wrong                 uint32
	Configs, Starts, Args, Group    driver.Ptr
	Owners                          driver.Ptr
	Room                            uint64
}

type TakenQueue struct {
	ChildQueue
	End uint64
}

// QueueVersion is queue_version there, and QueueMaxArgs the most bytes of arguments.
const (
	QueueVersion = 1
	QueueMaxArgs = 1<<16 - 1
)

// QueueArgs is what queues and parents agree on for arguments of so many bytes.
func QueueArgs(bytes int64) uint32 { return uint32(bytes) + QueueVersion*(QueueMaxArgs+1) }

// QueueTake empties a queue, and reports what it held in taken and seen.
//
// Parameters: queue, empty, taken, seen, threads, shared.
func QueueTake(l *driver.TwinLaunch) error {
	queue, err := scalar[ChildQueue](l.Mem, l.Args.Ptr())
	if err != nil {
		return err
	}
	empty, err := scalar[ChildQueue](l.Mem, l.Args.Ptr())
	if err != nil {
		return err
	}
	q := TakenQueue{ChildQueue: *queue}
	copies := [2]*TakenQueue{}
	for i := range copies {
		if copies[i], err = scalar[TakenQueue](l.Mem, l.Args.Ptr()); err != nil {
			return err
		}
	}
	threads, shared := l.Args.Uint32(), l.Args.Uint32()
	if q.Wrong == 0 && q.Groups == 0 && q.Count <= q.Capacity && q.Blocks <= q.Room && q.Threads <= threads && q.Shared <= shared {
		q.End = q.Blocks
	}
	*copies[0], *copies[1], *queue = q, q, *empty
	return nil
}
