package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ptxrun/ptxrun/internal/hostdev"
)

// piecesPerCore is how many pieces a core gets on average: more than one, so
// that a core that is slowed down leaves its pieces to the others.
const piecesPerCore = 8

// job is one call of parallel.
type job struct {
	n, piece int64
	f        func(i int64)
	next     atomic.Int64 // first index that nobody has taken
	running  sync.WaitGroup
	failed   atomic.Pointer[hostdev.Panic]
	help     func() // j.helper, bound once
}

var jobs = sync.Pool{New: func() any {
	j := new(job)
	j.help = j.helper
	return j
}}

// parallel calls f(i) for every i in [0, n) on all cores, the caller's included,
// in ascending pieces. If f panics, no further piece begins, and parallel panics
// with the first of them once all cores are done.
func parallel(n int64, f func(i int64)) {
	cores := int64(runtime.GOMAXPROCS(0))
	if n <= 1 || cores == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	j := jobs.Get().(*job)
	j.n, j.f = n, f
	j.piece = max(1, n/(cores*piecesPerCore))
	j.next.Store(0)
	helpers := min(cores, n) - 1
	j.running.Add(int(helpers))
	for range helpers {
		go j.help()
	}
	defer j.end() // also where f ends this goroutine: the others use the launch's memory
	j.work()
}

// end waits for the helpers, and panics if one of them or the caller did.
func (j *job) end() {
	j.running.Wait()
	failed := j.failed.Swap(nil)
	j.f = nil
	jobs.Put(j)
	if failed != nil {
		panic(failed)
	}
}

func (j *job) helper() {
	defer j.running.Done()
	j.work()
}

func (j *job) work() {
	ended := false
	defer func() {
		v := recover()
		if v == nil && !ended {
			v = hostdev.Goexit // by a caller's operator: its piece is lost
		}
		if v != nil {
			j.failed.CompareAndSwap(nil, hostdev.AsPanic(v))
			j.next.Store(j.n)
		}
	}()
	for {
		lo := j.next.Add(j.piece) - j.piece
		if lo >= j.n {
			ended = true
			return
		}
		for i := lo; i < min(j.n, lo+j.piece); i++ {
			j.f(i)
		}
	}
}
