package hostdev

import (
	"os"
	"strings"

	"github.com/ptxrun/ptxrun/driver"
)

// EnvMemory is the environment variable that turns on memory checks in every
// host device: a comma-separated list of poison and sites, as [WithPoison] and
// [WithSites].
const EnvMemory = "PTXRUN_MEMORY"

// Option changes a device made by [New].
type Option func(*options)

type options struct {
	limit  int64
	poison bool
	sites  bool
}

// WithLimit sets the bytes that allocations may hold together. The default is
// three quarters of [TotalMemory].
func WithLimit(bytes int64) Option { return func(o *options) { o.limit = bytes } }

// WithPoison fills new and freed memory with a pattern, so that nothing works
// by finding zeros or old contents there.
func WithPoison() Option { return func(o *options) { o.poison = true } }

// WithSites keeps the file and line of each allocation, for errors and leaks.
func WithSites() Option { return func(o *options) { o.sites = true } }

// Options are several as one.
func Options(opts ...Option) Option {
	return func(o *options) {
		for _, opt := range opts {
			opt(o)
		}
	}
}

func makeOptions(opts []Option) (options, error) {
	o := options{limit: TotalMemory() / 4 * 3}
	for word := range strings.SplitSeq(os.Getenv(EnvMemory), ",") {
		switch strings.TrimSpace(word) {
		case "":
		case "poison":
			o.poison = true
		case "sites":
			o.sites = true
		default:
			return o, driver.Errorf("Open", driver.ErrInvalidValue, "%s: %q is neither poison nor sites", EnvMemory, word)
		}
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.limit <= 0 {
		return o, driver.Errorf("Open", driver.ErrInvalidValue, "a memory limit of %d bytes", o.limit)
	}
	return o, nil
}

// unknownMemory stands for the machine's memory where the system does not tell.
const unknownMemory = 8 << 30
