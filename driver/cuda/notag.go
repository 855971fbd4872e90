//go:build !cuda

package cuda

// tagged reports whether the build has the tag cuda.
const tagged = false
