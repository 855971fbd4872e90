//go:build !linux && !darwin

package hostdev

// TotalMemory is the machine's memory in bytes, as far as it is known.
func TotalMemory() int64 { return unknownMemory }
