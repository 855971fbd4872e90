package hostdev

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ptxrun/ptxrun/driver"
)

const (
	// SpaceBase is the lowest device address. Below it a backend may place
	// other windows of its generic addresses.
	SpaceBase driver.Ptr = 1 << 40
	// spaceEnd bounds the addresses. Taken at 100 GB a second they last for
	// more than a year.
	spaceEnd driver.Ptr = 1 << 62
	// Align is the alignment of allocations, of the address and of the memory.
	Align = 256
	// Guard is the least distance between allocations.
	Guard = 4096

	canary     = 64 // bytes on either side of an allocation
	canaryByte = 0xca
	newByte    = 0xcd
	freedByte  = 0xdd

	// knownFreed is how many freed allocations are remembered at least.
	knownFreed = 1024
)

// Space is the memory of a host device. Its methods may be called by any number
// of goroutines; lookups take no lock.
type Space struct {
	options
	arena arena

	mu     sync.Mutex
	next   driver.Ptr
	freed  int // allocations in table that are freed
	live   int64
	closed bool

	// table is sorted by address. A reader's copy stays valid: growing appends
	// behind its end, and shrinking builds a new table.
	table atomic.Pointer[[]*Allocation]
	// hosts are the page-locked allocations, sorted by host address.
	hosts atomic.Pointer[[]*Allocation]
}

// Allocation is a piece of a [Space].
type Allocation struct {
	base  driver.Ptr
	data  []byte // what the user sees, inside block
	block []byte
	kind  Kind
	site  string
	state atomic.Int32

	shadowOnce sync.Once
	shadow     any
}

// Kind says who freed memory belongs to.
type Kind uint8

const (
	ForDevice Kind = iota // Device.Alloc and Stream.Alloc
	ForHost               // Device.AllocHost
	ForModule             // a module's variables; not a leak while it is loaded
)

func (k Kind) String() string { return [...]string{"device", "host", "module"}[k] }

const (
	stateLive int32 = iota
	stateFreeing
	stateFreed
)

// NewSpace returns an empty space.
func NewSpace(opts ...Option) (*Space, error) {
	o, err := makeOptions(opts)
	if err != nil {
		return nil, err
	}
	s := &Space{options: o, arena: newArena(o.limit), next: SpaceBase}
	s.table.Store(&[]*Allocation{})
	s.hosts.Store(&[]*Allocation{})
	return s, nil
}

// Base is the allocation's first address, Size its bytes, Bytes its memory.
func (a *Allocation) Base() driver.Ptr { return a.base }
func (a *Allocation) Size() int64      { return int64(len(a.data)) }
func (a *Allocation) Bytes() []byte    { return a.data }
func (a *Allocation) Kind() Kind       { return a.kind }

// Freed reports whether the allocation's memory is gone.
func (a *Allocation) Freed() bool { return a.state.Load() == stateFreed }

// Contains reports whether [p, p+bytes) lies inside; bytes is not negative.
func (a *Allocation) Contains(p driver.Ptr, bytes int64) bool {
	off := uint64(p - a.base) // huge below base
	size := uint64(len(a.data))
	return off <= size && uint64(bytes) <= size-off
}

// Shadow returns what the first call's make returned: a backend's notes about
// the allocation.
func (a *Allocation) Shadow(make func() any) any {
	a.shadowOnce.Do(func() { a.shadow = make() })
	return a.shadow
}

// String names the allocation in errors.
func (a *Allocation) String() string {
	s := fmt.Sprintf("%s allocation of %d bytes at %#x", a.kind, len(a.data), uint64(a.base))
	if a.site != "" {
		s += " from " + a.site
	}
	return s
}

// Alloc returns a new allocation.
func (s *Space) Alloc(op string, bytes int64, kind Kind) (*Allocation, error) {
	if bytes <= 0 {
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%d bytes", bytes)
	}
	if bytes > s.limit {
		return nil, driver.Errorf(op, driver.ErrOutOfMemory, "%d bytes; the limit is %d", bytes, s.limit)
	}
	block, err := s.arena.take(Align + bytes + canary + Align)
	if err != nil {
		return nil, driver.Errorf(op, driver.ErrOutOfMemory, "%v", err)
	}
	start := Align + int(-uintptr(unsafe.Pointer(unsafe.SliceData(block)))%Align)
	a := &Allocation{
		data:  block[start : start+int(bytes) : start+int(bytes)],
		block: block,
		kind:  kind,
	}
	for _, c := range a.canaries() {
		fillBytes(c, canaryByte)
	}
	if s.poison {
		fillBytes(a.data, newByte)
	}
	if s.sites {
		a.site = callSite()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	step := (driver.Ptr(bytes) + Guard + Align - 1) / Align * Align
	if s.closed || step > spaceEnd-s.next {
		s.arena.give(block)
		if s.closed {
			return nil, driver.Errorf(op, driver.ErrClosed, "device")
		}
		return nil, driver.Errorf(op, driver.ErrOutOfMemory, "the address space is used up")
	}
	a.base = s.next
	s.next += step
	s.live += bytes
	table := append(*s.table.Load(), a)
	s.table.Store(&table)
	if kind == ForHost {
		hosts := slices.Clone(*s.hosts.Load())
		at, _ := slices.BinarySearchFunc(hosts, a, compareHost)
		hosts = slices.Insert(hosts, at, a)
		s.hosts.Store(&hosts)
	}
	return a, nil
}

func (a *Allocation) canaries() [2][]byte {
	start := int(uintptr(unsafe.Pointer(unsafe.SliceData(a.data))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.block))))
	end := start + len(a.data)
	return [2][]byte{a.block[start-canary : start], a.block[end : end+canary]}
}

func compareHost(a, b *Allocation) int {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a.data))), uintptr(unsafe.Pointer(unsafe.SliceData(b.data)))
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// Freeing claims the allocation that begins at p for a later [Space.Release]:
// from here on p cannot be freed again.
func (s *Space) Freeing(op string, p driver.Ptr, kind Kind) (*Allocation, error) {
	a, _ := s.find(p)
	switch {
	case a == nil || !a.Contains(p, 0):
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%#x was never allocated; %s", uint64(p), s.nearest(p))
	case a.base != p:
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%#x is inside the %v, not its start", uint64(p), a)
	case a.kind != kind:
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%#x is a %v", uint64(p), a)
	case !a.state.CompareAndSwap(stateLive, stateFreeing):
		return nil, driver.Errorf(op, driver.ErrInvalidValue, "%v is freed already", a)
	}
	return a, nil
}

// Release gives the memory back. Damage to the bytes around it, which no
// checked access can do, is an ErrIllegalAddress.
func (s *Space) Release(op string, a *Allocation) error {
	err := a.check(op)
	if s.poison {
		fillBytes(a.data, freedByte)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.state.Store(stateFreed)
	s.live -= int64(len(a.data))
	if a.kind == ForHost {
		hosts := slices.DeleteFunc(slices.Clone(*s.hosts.Load()), func(h *Allocation) bool { return h == a })
		s.hosts.Store(&hosts)
	}
	s.freed++
	if table := *s.table.Load(); s.freed > 2*knownFreed && s.freed > len(table)/2 {
		s.forget(table)
	}
	s.arena.give(a.block)
	return err
}

// Free is Freeing and Release.
func (s *Space) Free(op string, p driver.Ptr, kind Kind) error {
	a, err := s.Freeing(op, p, kind)
	if err != nil {
		return err
	}
	return s.Release(op, a)
}

// forget drops all freed allocations from the table but the youngest ones.
func (s *Space) forget(table []*Allocation) {
	drop := s.freed - knownFreed
	kept := make([]*Allocation, 0, len(table)-drop+knownFreed)
	for _, a := range table {
		if drop > 0 && a.Freed() {
			drop--
			continue
		}
		kept = append(kept, a)
	}
	s.freed = knownFreed
	s.table.Store(&kept)
}

func (a *Allocation) check(op string) error {
	for side, c := range a.canaries() {
		for i, b := range c {
			if b != canaryByte {
				offset := i - canary
				if side == 1 {
					offset = len(a.data) + i
				}
				return driver.Errorf(op, driver.ErrIllegalAddress, "something wrote to byte %d of the %v", offset, a)
			}
		}
	}
	return nil
}

// find returns the last allocation that begins at or below p, and the next.
func (s *Space) find(p driver.Ptr) (below, above *Allocation) {
	table := *s.table.Load()
	i := sort.Search(len(table), func(i int) bool { return table[i].base > p })
	if i > 0 {
		below = table[i-1]
	}
	if i < len(table) {
		above = table[i]
	}
	return below, above
}

// Find returns the live allocation that p lies in, or nil. Callers that look up
// many addresses keep it and ask its Contains first.
func (s *Space) Find(p driver.Ptr) *Allocation {
	if a, _ := s.find(p); a != nil && !a.Freed() && a.Contains(p, 1) {
		return a
	}
	return nil
}

// Resolve implements [driver.Memory].
func (s *Space) Resolve(p driver.Ptr, bytes int64) ([]byte, error) {
	return s.resolve("launch", p, bytes)
}

func (s *Space) resolve(op string, p driver.Ptr, bytes int64) ([]byte, error) {
	if bytes >= 0 {
		if a, _ := s.find(p); a != nil && !a.Freed() && a.Contains(p, bytes) {
			off := p - a.base
			end := off + driver.Ptr(bytes)
			return a.data[off:end:end], nil
		}
	}
	return nil, s.Illegal(op, p, bytes)
}

// Illegal is the error for an access of bytes at p that [Space.Resolve] does
// not allow. It names the allocation that was meant, or is nearest.
func (s *Space) Illegal(op string, p driver.Ptr, bytes int64) *driver.Error {
	return driver.Errorf(op, driver.ErrIllegalAddress, "%d bytes at %#x: %s", bytes, uint64(p), s.nearest(p))
}

func (s *Space) nearest(p driver.Ptr) string {
	below, above := s.find(p)
	switch {
	case below != nil && below.Contains(p, 0) && below.Freed():
		return fmt.Sprintf("used after free: %d bytes into the freed %v", uint64(p-below.base), below)
	case below != nil && below.Contains(p, 0):
		return fmt.Sprintf("from %d bytes into the %v", uint64(p-below.base), below)
	case below == nil && above == nil:
		return "nothing is allocated"
	case above == nil || below != nil && p-below.base-driver.Ptr(len(below.data)) <= above.base-p:
		return fmt.Sprintf("%d bytes past the end of the %s", uint64(p-below.base)-uint64(len(below.data)), below.named())
	}
	return fmt.Sprintf("%d bytes before the %s", uint64(above.base-p), above.named())
}

func (a *Allocation) named() string {
	if a.Freed() {
		return "freed " + a.String()
	}
	return a.String()
}

// pinned reports whether b lies in page-locked memory of this space.
func (s *Space) pinned(b []byte) bool {
	hosts := *s.hosts.Load()
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i := sort.Search(len(hosts), func(i int) bool {
		return uintptr(unsafe.Pointer(unsafe.SliceData(hosts[i].data))) > p
	})
	if i == 0 {
		return false
	}
	h := hosts[i-1].data
	off := p - uintptr(unsafe.Pointer(unsafe.SliceData(h)))
	return off+uintptr(len(b)) <= uintptr(len(h))
}

// Usage returns the number and the bytes of allocations that are held by users.
func (s *Space) Usage() (count int, bytes int64) {
	for _, a := range *s.table.Load() {
		if !a.Freed() && a.kind != ForModule {
			count++
			bytes += int64(len(a.data))
		}
	}
	return count, bytes
}

// free is the bytes that may still be allocated.
func (s *Space) free() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.limit-s.live)
}

// Close releases everything. It reports damaged memory, and as ErrLeak what was
// still allocated.
func (s *Space) Close(op string) []error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var errs []error
	var leaks []string
	var bytes int64
	for _, a := range *s.table.Load() {
		if !a.state.CompareAndSwap(stateLive, stateFreeing) {
			continue
		}
		if a.kind != ForModule {
			leaks = append(leaks, a.String())
			bytes += int64(len(a.data))
		}
		if err := s.Release(op, a); err != nil {
			errs = append(errs, err)
		}
	}
	s.arena.close()
	if n := len(leaks); n > 0 {
		if n > 8 {
			leaks = append(leaks[:8], "…")
		}
		if !s.sites {
			leaks = append(leaks, EnvMemory+"=sites tells where they are from")
		}
		errs = append(errs, driver.Errorf(op, driver.ErrLeak, "%d bytes in %d allocations: %s", bytes, n, strings.Join(leaks, "; ")))
	}
	return errs
}

// fillBytes sets all of b to v.
func fillBytes(b []byte, v byte) {
	if v == 0 {
		clear(b)
		return
	}
	const chunk = 16 << 10 // stays in the first-level cache
	head := b[:min(len(b), chunk)]
	for n := copy(head, []byte{v}); n < len(head); n *= 2 {
		copy(head[n:], head[:n])
	}
	for n := len(head); n < len(b); {
		n += copy(b[n:], head)
	}
}

// callSite is the place outside this package and the library's root package
// that asked for memory, tests of them included.
func callSite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, modulePath+".") || strings.HasPrefix(f.Function, modulePath+"/internal/hostdev.")
		if !inside || strings.HasSuffix(f.File, "_test.go") || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

const modulePath = "github.com/ptxrun/ptxrun"
