// Package hostdev is what the devices made of host memory share: an address
// space with checked allocations, streams, events, modules and the validation
// of launches. A [Backend] adds how a kernel runs: driver/cpu calls its Go
// twin, driver/emu executes its PTX.
//
// # Addresses
//
// Device addresses are virtual: they begin at [SpaceBase], are never used
// twice, and lie at least [Guard] bytes apart. An access that leaves its
// allocation therefore cannot land in another one, and a pointer that outlives
// its allocation is recognised as freed instead of reaching whatever came next,
// while the memory itself is recycled at once. An address and the memory behind
// it agree modulo [Align].
package hostdev
