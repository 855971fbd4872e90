//go:build cuda && cgo && linux && (amd64 || arm64)

package fake

/*
#cgo LDFLAGS: -ldl
#include "src/fake.h"
#include <dlfcn.h>
#include <stdlib.h>

// The library is the one that this process has loaded already.
static void *find(const char *path, const char *symbol) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	return lib ? dlsym(lib, symbol) : NULL;
}

static void call(void *f) { ((void (*)(void))f)(); }
*/
import "C"

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

func find(symbol string) unsafe.Pointer {
	path, name := C.CString(os.Getenv("PTXRUN_LIBCUDA")), C.CString(symbol)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(name))
	p := C.find(path, name)
	if p == nil {
		panic("fake: this process does not run on the fake driver library")
	}
	return p
}

var state = sync.OnceValue(func() *C.struct_fake { return (*C.struct_fake)(find("fake")) })

// The functions below must not run at the same time as calls of the driver.

// Reset makes a machine with two devices, on which nothing is live and nothing
// has been called.
func Reset() { C.call(find("fake_reset")) }

// Live counts what is live in the driver.
type Live struct {
	Contexts, Streams, Events, Modules, Allocations, HostBlocks int
}

// Objects is all that is live but contexts.
func (l Live) Objects() int {
	return l.Streams + l.Events + l.Modules + l.Allocations + l.HostBlocks
}

// Now returns what is live.
func Now() Live {
	s := state()
	return Live{int(s.contexts), int(s.streams), int(s.events), int(s.modules), int(s.allocations), int(s.host_blocks)}
}

// FailAt makes the n-th call from now (1 is the next) return code; only calls of
// symbol count if that is not empty.
func FailAt(n int, symbol string, code driver.Code) {
	s := state()
	s.fail_at, s.fail_code = C.long(n), C.int(code)
	put(unsafe.Slice((*byte)(unsafe.Pointer(&s.fail_name)), C.FAKE_NAME), symbol)
	s.failed = [C.FAKE_NAME]C.char{}
}

// Failed is the symbol whose call failed, "" if FailAt's call was not reached.
func Failed() string { return C.GoString(&state().failed[0]) }

// FailModules makes loading modules fail with a log; 0 stops that.
func FailModules(code driver.Code, log string) {
	s := state()
	s.module_code = C.int(code)
	put(unsafe.Slice((*byte)(unsafe.Pointer(&s.module_log)), C.FAKE_LOG), log)
}

// SetInit is what cuInit returns, SetDevices how many there are, SetPools
// whether they have memory pools.
func SetInit(code driver.Code) { state().init_code = C.int(code) }
func SetDevices(n int)         { state().devices = C.int(n) }
func SetPools(pools bool)      { state().pools = number(pools) }

// SetBusy makes recorded work stay undone until something waits for it.
func SetBusy(busy bool) { state().busy = number(busy) }

// LoseContexts makes every call in a context return code until that context is
// gone.
func LoseContexts(code driver.Code) { state().lost = C.int(code) }

// PoolThreshold is the release threshold of the memory pool.
func PoolThreshold() uint64     { return uint64(state().pool_threshold) }
func SetPoolThreshold(v uint64) { state().pool_threshold = C.uint64_t(v) }

// Calls is the number of calls since Reset, Trace their symbols (of the first
// few thousand), WrongContext how many were made without the context they need.
func Calls() int        { return int(state().calls) }
func WrongContext() int { return int(state().wrong_context) }

func Trace() []string {
	s := state()
	names := make([]string, min(s.calls, C.FAKE_TRACE))
	for i := range names {
		names[i] = C.GoString(s.trace[i])
	}
	return names
}

// Launch is a recorded kernel launch.
type Launch struct {
	Kernel      string
	Grid, Block driver.Dim3
	Shared      uint32
	Args        []byte // the parameter block
}

// Launches returns the launches since Reset, the last few dozen of them.
func Launches() []Launch {
	s := state()
	all := make([]Launch, min(s.launches, C.FAKE_LAUNCHES))
	for i := range all {
		l := &s.launch[i]
		all[i] = Launch{C.GoString(&l.kernel[0]), dim(l.grid), dim(l.block), uint32(l.shared),
			C.GoBytes(unsafe.Pointer(&l.args[0]), C.int(l.size))}
	}
	return all
}

func dim(d [3]C.uint) driver.Dim3 {
	return driver.Dim3{X: uint32(d[0]), Y: uint32(d[1]), Z: uint32(d[2])}
}

func number(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func put(dst []byte, s string) {
	clear(dst)
	copy(dst[:len(dst)-1], bytes.TrimRight([]byte(s), "\x00"))
}
