package emu_test

import "github.com/ptxrun/ptxrun/internal/twin"

// queueCrossings empty queues of n children of a block each, which a launch ahead may
// run whole, or not for one of the reasons there are.
func queueCrossings(n uint64) (list []crossing) {
	ready := twin.ChildQueue{Count: n, Blocks: n + 1<<32, Capacity: n, Threads: 64, Shared: 16, ArgBytes: 8, Room: n + 1<<32, Configs: 1 << 40}
	for _, change := range []func(q *twin.ChildQueue){
		func(q *twin.ChildQueue) {},
		func(q *twin.ChildQueue) { q.Capacity-- },
		func(q *twin.ChildQueue) { q.Room-- },
		func(q *twin.ChildQueue) { q.Threads++ },
		func(q *twin.ChildQueue) { q.Shared++ },
		func(q *twin.ChildQueue) { q.Groups = 1 },
		func(q *twin.ChildQueue) { q.Wrong = 4 },
	} {
		q := ready
		change(&q)
		list = append(list, crossing{1, []value{result([]twin.ChildQueue{q}), memory([]twin.ChildQueue{{Capacity: n, Starts: 1 << 41}}),
			result(make([]twin.TakenQueue, 1)), result(make([]twin.TakenQueue, 1)), scalar(uint32(64)), scalar(uint32(16))}})
	}
	return list
}
