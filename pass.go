package ptxrun

import (
	"math"

	"github.com/ptxrun/ptxrun/driver"
)

// keptState is the state of single passes that a stream keeps, so that a small
// pass is one launch: a pass marks what it writes there, and takes what an earlier
// one has left for nothing. The marks come from the tickets taken.
type keptState struct {
	ptr     driver.Ptr
	tickets uint64 // taken since it was all zero
	valid   bool   // what the device did is known to be what it was given
}

// keptStateBytes is room for the totals of 2^13 tiles of 4 bytes, a scan of 2^26
// uint32. A larger pass clears a state of its own, in under 3% of its time: scans of
// 2^14 to 2^18 took 7.2 to 7.8 µs on an H200 when they did, their kernels alone take
// 3.6 to 4.1, and 2^28 take 528 (bench/NOTES.md).
const keptStateBytes = passStateHead + 64<<10

// maxTickets is where marks would repeat.
const maxTickets = math.MaxInt32 - 1

// launchPass launches the kernel of a single pass over n elements, which needs a
// state of the given size, or none if that is 0. build appends the arguments, with
// the state and the ticket's value before the pass. The state is workspace if that
// is not 0.
func (s *Stream) launchPass(k kernel, n int64, workspace driver.Ptr, bytes int64, build func(a *driver.Args, state driver.Ptr, first uint32)) error {
	blocks := min(k.tiles(n), k.resident)
	state, first := workspace, uint32(0)
	kept := workspace == 0 && 0 < bytes && bytes <= keptStateBytes
	switch {
	case bytes == 0:
	case kept:
		// A block takes a ticket for each of its tiles, and one to see the end.
		var err error
		if first, err = s.takeTickets(k.tiles(n) + blocks); err != nil {
			return err
		}
		state = s.state.ptr
	default:
		if workspace == 0 {
			var err error
			if state, err = s.alloc(bytes); err != nil {
				return err
			}
			defer s.free(state)
		}
		if err := s.s.Fill(state, 0, bytes); err != nil {
			return err
		}
	}
	a := driver.NewArgs()
	build(a, state, first)
	err := s.launch(k, blocks, n, a)
	if err != nil && kept {
		s.state.valid = false
	}
	return err
}

// takeTickets makes the kept state ready for a pass that takes so many tickets and
// returns the first. A GPU is trusted to have done what it was given, since one
// that has failed does nothing more, and twins leave the state alone; the emulator
// goes on after a fault.
func (s *Stream) takeTickets(n uint64) (first uint32, err error) {
	st := &s.state
	if st.ptr == 0 {
		if st.ptr, err = s.s.Alloc(keptStateBytes); err != nil {
			return 0, err
		}
		st.valid = false
	}
	if !st.valid || st.tickets+n > maxTickets {
		if err := s.s.Fill(st.ptr, 0, keptStateBytes); err != nil {
			return 0, err
		}
		kind := s.rt.dev.Info().Kind
		st.tickets, st.valid = 0, kind == driver.KindCUDA || kind == driver.KindCPU
	}
	first = uint32(st.tickets)
	st.tickets += n
	return first, nil
}
