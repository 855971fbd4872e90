// Package cuda runs kernels on NVIDIA GPUs through the CUDA Driver API, bound by
// gorgonia.org/cu.
//
// It is compiled in by the build tag cuda, needs cgo, and then takes a C
// compiler but no CUDA toolkit: the header and the link script that the binding
// asks for are part of this package, and [Env] returns the environment variables
// that point the go command to them. Without the tag the package has the same
// functions, and [Open] says what is missing.
//
// A program built with the tag starts on every machine. The driver library is
// opened, not linked: it is libcuda.so.1 from the system's library path, or the
// file that the environment variable PTXRUN_LIBCUDA names. Where the library,
// the GPU or a working kernel module is missing, Open returns an error with the
// code [driver.ErrNoDriver], [driver.ErrNoDevice], or that of the failing call.
// The whole of gorgonia.org/cu works in such a program once Open has succeeded.
package cuda

//go:generate go run ../../internal/cudasym

import (
	// Folders of files for C, which go mod vendor would leave out otherwise.
	_ "github.com/ptxrun/ptxrun/driver/cuda/include"
	_ "github.com/ptxrun/ptxrun/driver/cuda/link"
)
