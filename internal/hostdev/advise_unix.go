//go:build unix && !linux && !race

package hostdev

func advise([]byte) {}
