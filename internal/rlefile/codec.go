package rlefile

import (
	"context"
	"unsafe"

	"github.com/ptxrun/ptxrun"
)

// codec encodes and decodes frames of elements of one width on a device.
type codec struct {
	width  int
	buffer func(bytes int) []byte // aligned for the elements
	encode func(ctx context.Context, rt *ptxrun.Runtime, raw []byte) (values []byte, lengths []uint32, err error)
	decode func(ctx context.Context, rt *ptxrun.Runtime, values []byte, lengths []uint32) ([]byte, error)
}

func codecOf(width int) codec {
	switch width {
	case 1:
		return newCodec[uint8]()
	case 2:
		return newCodec[uint16]()
	case 4:
		return newCodec[uint32]()
	}
	return newCodec[uint64]()
}

// newCodec is the codec for elements of V's size. Runs are found by comparing
// bits, so V stands for any type of that size and in any byte order.
func newCodec[V uint8 | uint16 | uint32 | uint64]() codec {
	width := int(unsafe.Sizeof(V(0)))
	return codec{
		width:  width,
		buffer: func(bytes int) []byte { return bytesOf(make([]V, bytes/width)) },
		encode: func(ctx context.Context, rt *ptxrun.Runtime, raw []byte) ([]byte, []uint32, error) {
			values, lengths, err := ptxrun.RLEEncode(ctx, rt, elementsOf[V](raw))
			return bytesOf(values), lengths, err
		},
		decode: func(ctx context.Context, rt *ptxrun.Runtime, values []byte, lengths []uint32) ([]byte, error) {
			raw, err := ptxrun.RLEDecode(ctx, rt, elementsOf[V](values), lengths)
			return bytesOf(raw), err
		},
	}
}

func bytesOf[V any](s []V) []byte {
	var zero V
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// elementsOf is the inverse of bytesOf. b has a whole number of elements and is
// aligned for them, as codec.buffer's result is.
func elementsOf[V any](b []byte) []V {
	var zero V
	return unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
