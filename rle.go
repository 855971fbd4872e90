package ptxrun

import "github.com/ptxrun/ptxrun/driver"

// RunLength is the type of a run's length.
type RunLength interface{ ~uint32 | ~uint64 }

// EncodeStrategy is an algorithm for run-length encoding.
type EncodeStrategy uint8

const (
	// EncodeSinglePass finds the heads of runs, numbers and measures the runs and
	// stores them in one pass over the input: decoupled look-back (Merrill and
	// Garland 2016) over how many runs begin in each tile and how long the last of
	// them is. An element is read once, a run written once.
	EncodeSinglePass EncodeStrategy = iota
	// EncodeMarkScan marks the heads of runs, scans the marks to number the
	// runs, scatters the heads' positions and finishes the lengths from
	// neighbouring positions: four kernels and a workspace of 4 to 8 bytes an
	// element (8 to 16 from 2^32 elements on).
	EncodeMarkScan
	encodeStrategies
)

func (s EncodeStrategy) String() string {
	if s < encodeStrategies {
		return [...]string{"single-pass", "mark-scan"}[s]
	}
	return "unknown strategy"
}

// DecodeStrategy is who writes a run's elements in run-length decoding.
type DecodeStrategy uint8

const (
	// DecodeSinglePass gives every warp the same number of runs, whose place in the
	// output it learns by decoupled look-back (Merrill and Garland 2016) over the
	// lengths' sums; where they are long, all warps share their output. One pass
	// over the lengths and one over the output, balanced whatever the lengths.
	DecodeSinglePass DecodeStrategy = iota

	// The others begin with a scan of the lengths into run ends, 8 bytes a run.

	// DecodeTiled gives every block a slice of the output, for which it
	// searches the runs: balanced whatever the lengths.
	DecodeTiled
	// DecodeThread gives every run a thread: for very many runs of a few
	// elements each.
	DecodeThread
	// DecodeWarp gives every run a warp: for runs of hundreds of elements.
	DecodeWarp
	// DecodeBlock gives every run a block: for runs of many thousands.
	DecodeBlock
	decodeStrategies
)

var decodeNames = [decodeStrategies]string{"single-pass", "tiled", "thread", "warp", "block"}

func (s DecodeStrategy) String() string {
	if s < decodeStrategies {
		return decodeNames[s]
	}
	return "unknown strategy"
}

// EncodeOption changes how runs are encoded.
type EncodeOption struct{ strategy EncodeStrategy }

// WithEncodeStrategy chooses the algorithm.
func WithEncodeStrategy(s EncodeStrategy) EncodeOption { return EncodeOption{s} }

func encodeStrategy(call string, opts []EncodeOption) (s EncodeStrategy, err error) {
	for _, o := range opts {
		s = o.strategy
	}
	if s >= encodeStrategies {
		return s, driver.Errorf(call, driver.ErrInvalidValue, "encode strategy %d", s)
	}
	return s, nil
}

// DecodeOption changes how runs are decoded.
type DecodeOption struct{ strategy DecodeStrategy }

// WithDecodeStrategy chooses the algorithm.
func WithDecodeStrategy(s DecodeStrategy) DecodeOption { return DecodeOption{s} }

func decodeStrategy(call string, opts []DecodeOption) (s DecodeStrategy, err error) {
	for _, o := range opts {
		s = o.strategy
	}
	if s >= decodeStrategies {
		return s, driver.Errorf(call, driver.ErrInvalidValue, "decode strategy %d", s)
	}
	return s, nil
}
