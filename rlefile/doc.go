// Package rlefile reads and writes .rle files: run-length encoded data of any
// size in frames, encoded and decoded on a [ptxrun.Runtime]'s device while the
// frames before and after are copied, read and written. Every byte is covered
// by a checksum, and an index gives access to any part without what precedes it.
//
//   - [Writer] compresses what is written to it.
//   - [Reader] decompresses a stream: a pipe, a network connection.
//   - [File] decompresses a file: any part of it, by offset.
//
// All three pass frames through page-locked buffers, a device stream a buffer,
// so that copies in, kernels and copies out of different frames overlap. They
// touch the writer or reader below them from the caller's goroutine only and in
// order, but for ReadAt of an [io.ReaderAt] and, in [File.WriteTo], WriteAt of an
// [os.File]. No Read or Write below begins when the context is done; one that
// has begun is waited for. A reader that time and again gives
// neither bytes nor an error is left with [io.ErrNoProgress]; a count of bytes
// that cannot be is ErrInvalidValue. Close waits for what is in flight and frees
// everything, also after an error or when the context is done. A runtime's Close
// waits for their calls, also for one that waits for the reader or writer below.
//
// # Checksums
//
// A frame's checksum is computed by the device, of the copy that it encodes (of a frame
// that cannot become runs, by the host), and is verified by the host, of what it gives
// out. It covers all between: encoding, the copy back, the file, decoding. The copy to the
// device is left to the error detection of link and memory.
//
// # Memory
//
// No more frames are held than [WithBuffers] says, by the methods of one position
// and as many by ReadAt and WriteTo of a file. Each takes, on the host and on the
// device together, at most 20 times the bytes that it decodes to, which are
// [MaxFrame] at most; where runs are long, less than 8 times. A [Pool] keeps that
// memory for the next Writer, Reader or File.
//
// What a file claims about itself costs nothing: memory for a payload is taken as
// its bytes arrive, at most 128 KiB or four times the bytes of the file read so
// far; memory for decoded data when the run lengths were added up and found to
// agree with the header; memory for the index, twice its size in the file, when
// the file is known to be that large.
//
// # Format, version 1
//
// Numbers are little-endian. A checksum is a CRC-32C (Castagnoli). A file is a
// file header, any number of data frames, an index, a footer, and nothing after
// it.
//
//	file header, 16 bytes
//	 0  6  magic: 89 'R' 'L' 'E' 0d 0a
//	 6  1  version: 1
//	 7  1  width: bytes of an element, 1, 2, 4 or 8
//	 8  4  limit: the most bytes that a frame decodes to, 16 MiB at most
//	12  4  checksum of bytes 0 to 11
//
//	frame header, 24 bytes, followed by the frame's payload
//	 0  1  kind: 1 runs, 2 stored, 3 index
//	 1  1  size: bytes of a run's length in a frame of kind 1: 1, 2 or 4; else 0
//	 2  2  zero
//	 4  4  runs: number of runs in a frame of kind 1, else 0
//	 8  4  raw: bytes that a data frame decodes to; in the index 0
//	12  4  payload: bytes that follow this header
//	16  4  checksum of the decoded bytes; in the index, of the payload
//	20  4  checksum of the preceding header's checksum (the file header's before
//	       the first frame) and of bytes 0 to 19
//
// The payload of a frame of runs is each run's value, width bytes a run, and
// then each run's length less one, size bytes a run. It is shorter than what it
// decodes to. Neighbouring runs may have the same value: a writer splits a long
// run where shorter lengths make the frame smaller.
//
// The payload of a stored frame is the decoded bytes themselves, for data that
// runs do not make smaller. The last data frame is a stored frame of fewer than
// width bytes in a file that is not a whole number of elements; all others have
// whole elements.
//
// The payload of the index is 12 bytes a data frame, in order:
//
//	 0  4  raw    \
//	 4  4  payload > as in the frame's header
//	 8  4  checksum of the frame's header, its last 4 bytes
//
//	footer, 32 bytes
//	 0  8  bytes that all frames decode to
//	 8  8  runs in all frames
//	16  4  number of data frames, 2^28 at most
//	20  4  checksum of the index's header, its last 4 bytes
//	24  4  checksum of bytes 0 to 23
//	28  4  magic: 'E' 'L' 'R' 1a
//
// Headers' checksums run on from frame to frame, so that frames that were lost,
// repeated, swapped or taken from another file do not go unseen, while frames
// stay independent of each other for decoding. Stored frames bound the growth
// of a file: 72 bytes and 36 a frame.
package rlefile
