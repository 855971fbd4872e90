// Package include holds the cuda.h that driver/cuda is built with. It has no Go
// code; it is a package so that go mod vendor takes the header along.
package include
