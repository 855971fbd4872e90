//go:build race

package ptxrun

const raceEnabled = true
