//go:build !linux

package cpu

func processor() string { return fallbackName() }
