package ptxrun

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ptxrun/ptxrun/driver"
)

// Stream orders work on device buffers: what is given to one stream runs in
// that order, different streams run independently. Safe for concurrent use;
// calls of several goroutines on one stream run whole, in some order.
type Stream struct {
	rt     *Runtime
	s      driver.Stream
	closed atomic.Bool
	mu     sync.Mutex // one call's work stays together
	word   [8]byte    // what read reads, under mu

	pinned driver.HostMemory // of mapped

	// A stream of the pool keeps a little device memory, from which small
	// allocations are taken one behind the other until all are freed.
	pooled           bool
	scratch          driver.Ptr
	scratchAt, inUse int64

	state keptState // under mu
}

// NewStream returns a stream of the runtime's device. Close it when it is no
// longer needed. Errors: ErrNil, ErrClosed, ErrOutOfMemory.
func NewStream(rt *Runtime) (*Stream, error) {
	if err := rt.begin("NewStream"); err != nil {
		return nil, err
	}
	defer rt.end()
	s, err := rt.dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &Stream{rt: rt, s: s}, nil
}

// Synchronize blocks until everything given to the stream is complete, and
// returns the error of what failed.
func (s *Stream) Synchronize() error {
	const op = "Stream.Synchronize"
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	return named(op, s.s.Synchronize())
}

// Wait is Synchronize with a context: when ctx is done first it returns ctx's
// error, and the work goes on. If the stream is closed meanwhile, which waits for its
// work as well, it may return ErrClosed.
func (s *Stream) Wait(ctx context.Context) error {
	const op = "Stream.Wait"
	if ctx == nil {
		return driver.Errorf(op, driver.ErrNil, "context")
	}
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.end()
	return named(op, s.wait(ctx))
}

// Driver is the stream below, for callers that launch kernels of their own.
func (s *Stream) Driver() driver.Stream { return s.s }

// Close waits for the stream's work and releases it. It returns the error of
// work that failed; a second Close returns ErrClosed.
func (s *Stream) Close() error {
	if err := s.begin("Stream.Close"); err != nil {
		return err
	}
	defer s.end()
	s.mu.Lock() // calls on the stream end whole
	defer s.mu.Unlock()
	s.closed.Store(true)
	return s.release()
}

func (s *Stream) release() error {
	err := errors.Join(s.s.Synchronize(), s.unmap())
	for _, p := range []driver.Ptr{s.scratch, s.state.ptr} {
		if p != 0 {
			err = errors.Join(err, s.s.Free(p))
		}
	}
	return errors.Join(err, s.s.Close())
}

// keptScratch is the device memory that a stream of the pool keeps, enough for
// calls whose time an allocation would show in.
const keptScratch = 1 << 20

// maxBytes is more than any memory has, and far from where sizes would wrap.
const maxBytes = 1 << 60

// alloc is the driver's Alloc, and free its Free, in stream order. Small pieces
// come from the stream's own memory: what follows in the stream comes after the
// last use of what was freed.
func (s *Stream) alloc(bytes int64) (driver.Ptr, error) {
	if bytes < 0 || bytes > maxBytes {
		return 0, driver.Errorf("Alloc", driver.ErrOutOfMemory, "%d bytes", uint64(bytes))
	}
	need := align256(bytes)
	if !s.pooled || need > keptScratch-s.scratchAt {
		return s.s.Alloc(bytes)
	}
	if s.scratch == 0 {
		var err error
		if s.scratch, err = s.s.Alloc(keptScratch); err != nil {
			return 0, err
		}
	}
	p := s.scratch + driver.Ptr(s.scratchAt)
	s.scratchAt += need
	s.inUse++
	return p, nil
}

func (s *Stream) free(p driver.Ptr) {
	if s.scratch == 0 || p < s.scratch || p >= s.scratch+keptScratch {
		if s.s.Free(p) != nil {
			// The stream cannot: it failed, or was closed while a call was on
			// its way to it. The device waits for work that uses the memory.
			s.rt.dev.Free(p)
		}
		return
	}
	if s.inUse--; s.inUse == 0 {
		s.scratchAt = 0
	}
}

// keptPinned is how much page-locked memory a stream keeps between calls.
const keptPinned = 1 << 20

// mapped returns page-locked memory that kernels can read in place. It is the
// stream's own: the last use must be complete. Small ones are kept, because
// locking pages takes longer than the work on what fits in them.
func (s *Stream) mapped(bytes int64) (driver.HostMemory, error) {
	if int64(len(s.pinned.Bytes)) >= bytes {
		return s.pinned, nil
	}
	if err := s.unmap(); err != nil {
		return driver.HostMemory{}, err
	}
	var err error
	s.pinned, err = s.rt.dev.AllocHost(max(bytes, keptPinned))
	return s.pinned, err
}

// unmap gives the stream's page-locked memory back.
func (s *Stream) unmap() error {
	if s.pinned.Ptr == 0 {
		return nil
	}
	m := s.pinned
	s.pinned = driver.HostMemory{}
	return s.rt.dev.FreeHost(m)
}

func (s *Stream) begin(op string) error {
	if s == nil {
		return driver.Errorf(op, driver.ErrNil, "stream")
	}
	if s.closed.Load() {
		return driver.Errorf(op, driver.ErrClosed, "stream")
	}
	return s.rt.begin(op)
}

func (s *Stream) end() { s.rt.end() }

// wait polls rather than blocks when ctx can be cancelled: a blocked driver
// call cannot be woken, and a helper goroutine a call would cost more than the
// small work it waits for.
func (s *Stream) wait(ctx context.Context) error {
	if ctx.Done() == nil {
		return s.s.Synchronize()
	}
	start := time.Now()
	for {
		done, err := s.s.Query()
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		pause(time.Since(start))
	}
}

// take returns an idle stream for a call on host slices; give puts it back.
func (rt *Runtime) take() (*Stream, error) {
	rt.mu.Lock()
	if n := len(rt.idle); n > 0 {
		s := rt.idle[n-1]
		rt.idle = rt.idle[:n-1]
		rt.mu.Unlock()
		return s, nil
	}
	rt.mu.Unlock()
	s, err := rt.dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &Stream{rt: rt, s: s, pooled: true}, nil
}

func (rt *Runtime) give(s *Stream) {
	rt.mu.Lock()
	kept := len(rt.idle) < 2*runtime.GOMAXPROCS(0)
	if kept {
		rt.idle = append(rt.idle, s)
	}
	rt.mu.Unlock()
	if !kept {
		rt.retire(s)
	}
}

// launch runs a kernel with its own block size over a grid of blocks, and
// releases the arguments.
func (s *Stream) launch(k kernel, blocks uint64, n int64, a *driver.Args) error {
	defer a.Release()
	c := driver.Config{Grid: driver.D1(uint32(blocks)), Block: driver.D1(uint32(k.spec.Block)), Shared: k.spec.Shared, N: n}
	if limit := s.rt.dev.Info().MaxGridX; blocks > uint64(limit) {
		return &driver.Error{Op: "launch", Code: driver.ErrTooLarge, Kernel: k.spec.Name, N: n,
			Detail: "needs " + strconv.FormatUint(blocks, 10) + " blocks, the device launches at most " + strconv.FormatInt(limit, 10)}
	}
	return s.s.Launch(k.Kernel, c, a)
}

// tiles is how many blocks cover n elements.
func (k kernel) tiles(n int64) uint64 { return uint64(ceilDiv(n, k.spec.Tile)) }

// strideBlocks is the grid of a kernel that strides over n elements, tile of
// them a block: enough blocks to fill the device several times over, so that
// uneven ones even out.
func (rt *Runtime) strideBlocks(n, tile int64) uint64 {
	return uint64(min(ceilDiv(n, tile), int64(rt.dev.Info().Multiprocessors)*64))
}

// onStream runs a call on host slices on a stream of its own. A stream on which
// a call failed or was given up is not used again: what is still in it, and its
// errors, must not reach the next call.
func (rt *Runtime) onStream(call string, f func(s *Stream) error) error {
	s, err := rt.take()
	if err != nil {
		return named(call, err)
	}
	if err := f(s); err != nil {
		rt.retire(s)
		return named(call, err)
	}
	rt.give(s)
	return nil
}

// named makes an error of a layer below say which of the package's calls failed,
// unless it names a call of the CUDA driver, which the operator wants to see.
func named(call string, err error) error {
	var e *driver.Error
	if errors.As(err, &e) && e.Op != call && !strings.HasPrefix(e.Op, "cu") {
		c := *e
		c.Op = call
		return &c
	}
	return err
}

// retire releases a stream when its work is done, without waiting for it here.
// Close waits. The call has reported its error already.
func (rt *Runtime) retire(s *Stream) {
	rt.retiring.Go(func() { s.release() })
}

// copyPiece is how much a copy to the device moves between two looks at the
// context.
const copyPiece = 256 << 20

// upload copies src to the device, giving up between pieces when ctx is done.
func (s *Stream) upload(ctx context.Context, dst driver.Ptr, src []byte) error {
	for len(src) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(src), copyPiece)
		if err := s.s.CopyToDevice(dst, src[:n]); err != nil {
			return err
		}
		dst, src = dst+driver.Ptr(n), src[n:]
	}
	return nil
}

// download waits for the stream's work, which ctx may interrupt, and copies the
// result out, which it may not: dst is written whole or not at all.
func (s *Stream) download(ctx context.Context, dst []byte, src driver.Ptr) error {
	if err := s.wait(ctx); err != nil || len(dst) == 0 {
		return err
	}
	if err := s.s.CopyToHost(dst, src); err != nil {
		return err
	}
	return s.s.Synchronize()
}

// read waits for the stream and returns the 4- or 8-byte word at p.
func (s *Stream) read(p driver.Ptr, size int64) (uint64, error) {
	if err := s.s.CopyToHost(s.word[:size], p); err != nil {
		return 0, err
	}
	if err := s.s.Synchronize(); err != nil {
		return 0, err
	}
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(s.word[:])), nil
	}
	return binary.LittleEndian.Uint64(s.word[:]), nil
}
