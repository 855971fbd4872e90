// Package ptxrun gives Go programs the primitives behind irregular work on GPUs:
// scans over any associative operator, compaction, run-length encoding and
// decoding, and longest common subsequences with the edit scripts, similarities
// and diffs that follow from them. It carries its kernels as PTX and drives them
// through the CUDA Driver API; where there is no GPU the same calls run on the
// processor.
//
// # Two ways to call
//
// [Open] gives a [Runtime]. Functions on slices (InclusiveScan, RLEEncode, …)
// take a context, copy to the device and back, and return when the result is
// there. Functions on device memory (InclusiveScanBuffer, …) take a [Stream] and
// [Buffer] values, and return when the work is given to the stream; work of one
// stream runs in order, and data stays on the device from call to call.
//
// # Kernels of the caller's own
//
// [Runtime.LoadModule] loads PTX and [Stream.Launch] launches its kernels.
// [Runtime.Aggregate] turns many launches of one kernel into few; the kernel's source
// is not needed for it. The processor runs the Go forms that [WithTwin] gives.
//
// # Devices
//
// Open takes the first CUDA GPU if there is one, else the processor;
// [Runtime.Fallback] says why it did not take a GPU. PTXRUN_DEVICE or
// [WithDevice] chooses another, among them "emu", which executes the PTX itself.
// CUDA is known to builds with the tag cuda only.
//
// # Concurrency and cancelling
//
// Everything may be used by any number of goroutines. When a context ends, a
// call stops waiting and returns; what it had started on the device runs to its
// end, and nothing that it uses is released before.
//
// # Errors
//
// Every error but a context's is a [*driver.Error], with the call, what exactly,
// and for kernels their launch. The codes are in package driver:
//
//	if errors.Is(err, driver.ErrOutOfMemory) { … }
//
// A call that fails has written nothing to its output. A nil slice is an empty one,
// but for the batches of [LCSMatrix], [LCSPairs] and [LCSBest], where nil is ErrNil.
package ptxrun
