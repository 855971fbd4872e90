package twin

import (
	"hash/crc32"

	"github.com/ptxrun/ptxrun/driver"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C stores the CRC-32C of n bytes. The state is left alone.
//
// Parameters: data, n, state, first, sum.
func CRC32C() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		dataAt, n := l.Args.Ptr(), int64(l.Args.Uint64())
		l.Args.Ptr()
		l.Args.Uint32()
		data, err := driver.Slice[byte](l.Mem, dataAt, n)
		if err != nil {
			return err
		}
		sum, err := scalar[uint32](l.Mem, l.Args.Ptr())
		if err != nil {
			return err
		}
		*sum = crc32.Checksum(data, castagnoli)
		return nil
	}
}
