// Package link holds the linker script that stands for -lcuda. It has no Go
// code; it is a package so that go mod vendor takes the script along.
package link
