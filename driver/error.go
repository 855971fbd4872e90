package driver

import (
	"fmt"
	"strings"
)

// Code says what went wrong. It is an error itself, so that
// errors.Is(err, driver.ErrNoDevice) holds for every [*Error] with that code.
//
// Codes below 10000 are the CUDA driver's own CUresult values, the same on all
// devices; the others are ptxrun's.
type Code int32

// The CUDA driver's codes that callers meet or act on. Others keep their
// number and say it.
const (
	ErrInvalidValue    Code = 1
	ErrOutOfMemory     Code = 2
	ErrNotInitialized  Code = 3
	ErrDeinitialized   Code = 4
	ErrNoDevice        Code = 100
	ErrInvalidDevice   Code = 101
	ErrInvalidImage    Code = 200
	ErrInvalidContext  Code = 201
	ErrNoBinaryForGPU  Code = 209
	ErrInvalidPTX      Code = 218
	ErrJITCompiler     Code = 221
	ErrPTXVersion      Code = 222 // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	ErrInvalidHandle   Code = 400
	ErrNotFound        Code = 500
	ErrNotReady        Code = 600
	ErrIllegalAddress  Code = 700
	ErrLaunchResources Code = 701
	ErrLaunchTimeout   Code = 702
	ErrAssert          Code = 710
	ErrIllegalInstr    Code = 715
	ErrMisaligned      Code = 716
	ErrLaunchFailed    Code = 719
	ErrNotSupported    Code = 801
	ErrSystemDriver    Code = 803 // the library does not match the kernel module
	ErrUnknown         Code = 999
)

// ptxrun's own codes.
const (
	ErrNoDriver      Code = 10000 + iota // libcuda is not on this machine, or this build has no cuda
	ErrClosed                            // runtime, device, stream or buffer is closed
	ErrNil                               // an argument that must be there is nil
	ErrLength                            // lengths that must agree do not
	ErrOverlap                           // buffers that must not overlap do
	ErrOverflow                          // a total or a length does not fit its type
	ErrTooSmall                          // an output is too small; Error.Need is the size needed
	ErrTooLarge                          // a size beyond what the algorithm or device takes
	ErrWrongDevice                       // a buffer or stream of another runtime
	ErrElementType                       // a type that device memory cannot hold, or the operator does not take
	ErrCorrupt                           // an encoded input that contradicts itself
	ErrLeak                              // memory was still held at Close
	ErrHang                              // no thread can make progress any more (emulator)
	ErrUnknownDevice                     // PTXRUN_DEVICE or an option names no device
	ErrArguments                         // a launch whose arguments do not match the kernel's parameters
	ErrRace                              // conflicting accesses without order (emulator)
	ErrUninitialized                     // a read of memory that nothing wrote (emulator)
	ErrSync                              // a barrier or warp instruction that part of its threads miss (emulator)
	ErrNoCompiler                        // nothing on this machine compiles CUDA C++
	ErrCompile                           // CUDA C++ that does not compile; Error.Log says why
)

var codeText = map[Code]string{
	ErrInvalidValue:    "invalid value",
	ErrOutOfMemory:     "out of memory",
	ErrNotInitialized:  "the driver is not initialised",
	ErrDeinitialized:   "the driver is shutting down",
	ErrNoDevice:        "no CUDA-capable device",
	ErrInvalidDevice:   "no device with that index",
	ErrInvalidImage:    "not a module that this device can load",
	ErrInvalidContext:  "no valid context",
	ErrNoBinaryForGPU:  "the module holds no code for this GPU",
	ErrInvalidPTX:      "the PTX does not compile",
	ErrJITCompiler:     "the driver's PTX compiler is missing",
	ErrPTXVersion:      "the PTX was written for a newer driver than this machine has: update the NVIDIA driver, or build the PTX for an older ISA (clang writes the oldest that the target allows; see the file's .version line)",
	ErrInvalidHandle:   "invalid handle",
	ErrNotFound:        "not found",
	ErrNotReady:        "not ready",
	ErrIllegalAddress:  "a kernel used an address that is not allocated",
	ErrLaunchResources: "the launch needs more registers, threads or shared memory than the device has",
	ErrLaunchTimeout:   "a kernel ran into the device's time limit",
	ErrAssert:          "a kernel's assertion failed",
	ErrIllegalInstr:    "a kernel executed an illegal instruction",
	ErrMisaligned:      "a kernel used a misaligned address",
	ErrLaunchFailed:    "a kernel failed",
	ErrNotSupported:    "not supported",
	ErrSystemDriver:    "the NVIDIA driver library does not match the loaded kernel module: reboot or reinstall the driver",
	ErrUnknown:         "unknown error",
	ErrNoDriver:        "no CUDA driver",
	ErrClosed:          "closed",
	ErrNil:             "nil argument",
	ErrLength:          "length mismatch",
	ErrOverlap:         "overlapping buffers",
	ErrOverflow:        "overflow",
	ErrTooSmall:        "output too small",
	ErrTooLarge:        "too large",
	ErrWrongDevice:     "belongs to another runtime",
	ErrElementType:     "element type not supported",
	ErrCorrupt:         "corrupt input",
	ErrLeak:            "memory still held",
	ErrHang:            "no thread can make progress",
	ErrUnknownDevice:   "unknown device",
	ErrArguments:       "arguments do not match the kernel's parameters",
	ErrRace:            "a data race",
	ErrUninitialized:   "a read of memory that nothing wrote",
	ErrSync:            "threads that do not meet",
	ErrNoCompiler:      "no compiler for CUDA C++",
	ErrCompile:         "the source does not compile",
}

func (c Code) Error() string {
	if s, ok := codeText[c]; ok {
		return s
	}
	return fmt.Sprintf("CUDA error %d", int32(c))
}

// Error is what every failing call returns: the operation, what went wrong,
// and for launches which kernel, shape and size.
type Error struct {
	Op     string // the call, as a user knows it: "InclusiveScan", "cuMemAlloc", …
	Code   Code
	Detail string // what exactly: names and numbers

	Kernel      string // at launches and kernel faults
	Grid, Block Dim3   // at launches
	At          *Dim3  // at kernel faults, the index of the block, where the device says it
	N           int64  // the problem's size, at launches
	Need        int64  // with ErrTooSmall, what is needed: elements, or bytes of a workspace
	Log         string // the PTX compiler's log, when a module was refused
}

// Error is the message with the library's name in front, followed by the log.
func (e *Error) Error() string {
	text := "ptxrun: " + e.Message()
	if e.Log != "" {
		text += "\n" + strings.TrimRight(e.Log, "\n\x00")
	}
	return text
}

// Message is the error in one line, without the log.
func (e *Error) Message() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	b.WriteString(e.Code.Error())
	if e.Code < 10000 && strings.HasPrefix(e.Op, "cu") {
		fmt.Fprintf(&b, " (CUDA error %d)", int32(e.Code))
	}
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Kernel != "" {
		fmt.Fprintf(&b, " [kernel %s", e.Kernel)
		if e.Grid != (Dim3{}) {
			fmt.Fprintf(&b, ", grid %d×%d×%d, block %d×%d×%d", e.Grid.X, e.Grid.Y, e.Grid.Z, e.Block.X, e.Block.Y, e.Block.Z)
		}
		if e.N != 0 {
			fmt.Fprintf(&b, ", n %d", e.N)
		}
		b.WriteString("]")
	}
	return b.String()
}

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Errorf is a shorthand for an *Error with a formatted detail.
func Errorf(op string, code Code, format string, args ...any) *Error {
	return &Error{Op: op, Code: code, Detail: fmt.Sprintf(format, args...)}
}
