package ptxrun

import (
	"fmt"
	"slices"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/internal/twin"
)

// This file is the only place where kernels are declared, their parameters listed
// and their launch shapes chosen. The generator compiles what stands here, a
// test holds it against the .entry and .param lines of the embedded PTX, and
// the algorithms launch from it.

// ParamKind is a kernel parameter as PTX declares it.
type ParamKind uint8

const (
	ParamPtr   ParamKind = iota // .u64, an address
	ParamU32                    // .u32
	ParamU64                    // .u64
	ParamValue                  // a value of the module's element type
)

// KernelSpec is one kernel: its name in the PTX, its parameters in order, and
// the shape it is launched with.
type KernelSpec struct {
	Name   string
	Params []ParamKind
	Block  int   // threads a block; the kernel is compiled with this bound
	Tile   int64 // elements a block handles; 0 where the launch says
	Twin   driver.Twin

	Shared   int64 // bytes of dynamic shared memory
	Resident bool  // blocks stay and take tiles: no more are launched than fit
	Target   int   // the oldest target that has the kernel; 0 is any
}

// ModuleSpec is one PTX file: a source compiled with a set of macros.
type ModuleSpec struct {
	Name    string   // the file is ptx/sm_NN/<Name>.ptx
	Source  string   // the file in ptx/src
	Defines []string // NAME=value
	// Targets are the variants built, oldest first: a newer one only where it is
	// faster.
	Targets []int
	// ValueSize and ValueAlign describe ParamValue.
	ValueSize, ValueAlign int
	Kernels               []KernelSpec

	identity []byte // of a scan operator
}

// Launch shapes. The tile is Block × items per thread.
const (
	// A thread of the recursive scan holds 64 bytes: 4 loads of 16 bytes in
	// flight.
	scanBlock     = 256
	scanItemBytes = 64

	// The single pass's tiles, the same on all variants: parts of rows of 32
	// vectors of 16 bytes. On sm_90 stages of whole tiles wait in shared memory.
	//
	// H200, 2^28 elements, these kernels built by nvcc into a program of their own
	// (bench/NOTES.md), GB/s for uint32, uint64, uint8 to uint32, with
	// parts × rows × stages, reducers: 8×8×6, 3: 4040, 4126, 3866. 8×6×8, 4: 4058,
	// 3792, 3311. 16×4×6, 3: 4034, 4057, 3523. 8×4×12, 4: 3763, 2729, 2441.
	// 8×12×4, 4: 3575, 3446, 2988.
	bulkCapability = 90
	passParts      = 8
	passRows       = 8
	passBlock      = passParts * 32
	bulkStages     = 6
	bulkReducers   = 3
	bulkBlock      = (2 + bulkReducers + passParts) * 32

	// Compaction: the same, with smaller tiles beside the memory in which what is
	// kept is brought together. Stages hold as many tiles, with their flags, as fit.
	selectParts       = 8
	selectRows        = 6
	selectBlock       = selectParts * 32
	selectTileBytes   = selectParts * selectRows * 32 * 16
	selectScratch     = selectTileBytes + selectParts*16
	selectStagesBytes = 192 << 10

	crcBlock = 256
	// At most: threads are a fixed number of words apart. 490 GB/s on an H200 for 64 MiB,
	// and 19 µs for a frame of 4 MiB.
	crcBlocks = 128

	headsBlock    = 256 // a thread looks at 16 bytes of keys or flags
	rleBlock      = 256
	rleTile       = 256 * 16 // elements a block marks or scatters
	decodeBlock   = 256
	decodeTile    = 16384 // bytes of output that a block of the tiled strategy owns
	runsBlock     = 256
	runsTile      = 256 * 4 // runs, or indices, that a block looks at one by one
	reduceBlock   = 256
	reduceChunk   = 256 * 8 // the fewest runs that a block reduces, and
	reduceChunks  = 1024    // the most blocks; both the same on all devices, as they are the order of sums
	overlayBlock  = 128
	overlayTile   = 128 * 7 // segments
	lcsBlockEdge  = 16      // the spin-wait strategy's blocks are 16×16 cells
	spinWaitBlock = lcsBlockEdge * lcsBlockEdge

	// The bit-parallel strategy's blocks are a band of rows, which is a warp; in a
	// pass another feeds it.
	lcsBitsBlock  = 32
	lcsPassBlock  = 64
	lcsCrossBlock = 256
	lcsTile       = 256 // the tiled strategy's squares are 256×256 cells
)

// lcsLanes are the lanes of a band's warp that hold 32 rows each: half of them
// where letters are wider than bytes, so that a table of as many letters as rows
// fits four times into a multiprocessor. As LCSAlphabet in ptx/src/lcs_bits.cuh.
func lcsLanes(size int) int64 {
	if size == 1 {
		return 32
	}
	return 16
}

// lcsRows is the rows of a band.
func lcsRows(size int) int64 { return 32 * lcsLanes(size) }

// lcsShared is the memory of a band in which distinct letters occur; as LCSBand
// in ptx/src/lcs_bits.cuh.
func lcsShared(size int, distinct int64) int64 {
	const ring, between = (512 + 32) * 4, 8 * 4
	alphabet := lcsRows(size)*int64(size) + lcsRows(size)*4*4
	if size == 1 {
		alphabet = lcsRows(size) + 8*4 + 256*2
	}
	valid := lcsLanes(size) * 4
	return ring + between + valid + alphabet + ((distinct+1)*lcsLanes(size)+32-lcsLanes(size))*4
}

// lcsLetters is the most letters that occur in a band.
func lcsLetters(size int) int64 {
	if size == 1 {
		return 256
	}
	return lcsRows(size)
}

// scanTile is the elements a block of the recursive scan handles, for elements
// of the given size. It is the same expression as in ptx/src/scan.cuh.
func scanTile(size int) int64 { return scanBlock * int64(scanItemBytes/max(size, 4)) }

// passTile is the elements of a tile of the single pass, for results of the
// given size; as pass_tile in ptx/src/scan_pass.cuh.
func passTile(size int) int64 {
	width := 1
	if 16%size == 0 {
		width = 16 / size
	}
	return int64(passParts * passRows * 32 * width)
}

// passStateHead is the bytes before the tiles' totals in the single pass's state.
const passStateHead = 256

// passState is the bytes of state for n elements: a total is 8 bytes for every 4
// of its value.
func passState(n int64, size int) int64 {
	return passStateHead + ceilDiv(n, passTile(size))*8*int64((size+3)/4)
}

// newerTargets are the modules built for more than sm_70. sm_80 has an
// instruction that propagates NaN. What was tried and left out is in
// bench/NOTES.md.
var newerTargets = map[string][]int{
	"scan_recursive_min_f32": {80}, "scan_recursive_max_f32": {80},
}

// targets are the variants of a module, oldest first.
func targets(module string) []int { return append([]int{70}, newerTargets[module]...) }

// typeModule is a module of kernels for one type, whose source has the module's
// name.
func typeModule(stem string, t elemType, kernels ...KernelSpec) ModuleSpec {
	name := stem + "_" + t.name
	return ModuleSpec{
		Name: name, Source: stem + ".cu", Defines: []string{"PTXRUN_TYPE=" + t.ctype, "PTXRUN_NAME=" + t.name},
		Targets: targets(name), ValueSize: t.size, ValueAlign: t.size, Kernels: kernels,
	}
}

// bulkModule is a typeModule for GPUs with bulk copies.
func bulkModule(stem string, t elemType, kernels ...KernelSpec) ModuleSpec {
	m := typeModule(stem, t, kernels...)
	m.Targets = []int{bulkCapability}
	return m
}

// scanKernels are the kernels of a scan operator, built-in or a user's; suffix
// is the operator's name in them.
func scanKernels(suffix string, size int, upsweep, downsweep driver.Twin) []KernelSpec {
	tile := scanTile(size)
	return []KernelSpec{
		// in, n, sums
		{Name: "scan_upsweep_" + suffix, Params: []ParamKind{ParamPtr, ParamU64, ParamPtr}, Block: scanBlock, Tile: tile, Twin: upsweep},
		// in, out, n, prefixes or 0, init, exclusive
		{Name: "scan_downsweep_" + suffix, Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamValue, ParamU32}, Block: scanBlock, Tile: tile, Twin: downsweep},
	}
}

// operatorABI stands before a caller's operator's name in its kernels. It changes
// with the shape of tiles and the parameters, so that PTX of another version is
// not found rather than run wrongly. It is also in ptx/src/scan.cuh.
const operatorABI = "v3_"

// passKernel is the single-pass scan of an operator; bulkKernel the same by bulk
// copies, for aligned input and output, of inSize bytes an element.
func passKernel(suffix string, size int, t driver.Twin) KernelSpec {
	// in, out, n, state, first, init, mode
	return KernelSpec{
		Name: "scan_pass_" + suffix, Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamU32, ParamValue, ParamU32},
		Block: passBlock, Tile: passTile(size), Twin: t, Resident: true,
	}
}

func bulkKernel(suffix string, size, inSize int, t driver.Twin) KernelSpec {
	k := passKernel(suffix, size, t)
	k.Name, k.Block, k.Target = "scan_bulk_"+suffix, bulkBlock, bulkCapability
	k.Shared = bulkStages*k.Tile*int64(inSize) + 2048
	return k
}

// segmentedKernel is an operator's scan in segments. Its tiles, state and mode are
// the single pass's.
func segmentedKernel(suffix string, size int, t driver.Twin) KernelSpec {
	// in, out, n, heads or 0, state, first, init, mode
	return KernelSpec{
		Name: "scan_segmented_" + suffix, Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamU32, ParamValue, ParamU32},
		Block: passBlock, Tile: passTile(size), Twin: t, Resident: true,
	}
}

// operatorKernels are the kernels of a caller's operator, in the order of the
// kernelUpsweep and following constants.
func operatorKernels(name string, size int, upsweep, downsweep, pass, segmented driver.Twin) []KernelSpec {
	suffix := operatorABI + name
	return append(scanKernels(suffix, size, upsweep, downsweep),
		passKernel(suffix, size, pass), bulkKernel(suffix, size, size, pass), segmentedKernel(suffix, size, segmented))
}

// scanModule is one way to scan with an operator on elements of type in, giving t.
func scanModule[T any](kind, op string, in, t elemType, o twin.Op[T], targets []int, kernels ...KernelSpec) ModuleSpec {
	suffix := scanSuffix(op, in, t)
	return ModuleSpec{
		Name:       "scan_" + kind + "_" + suffix,
		Source:     "scan_" + kind + ".cu",
		Defines:    []string{"PTXRUN_OP=" + opTypes[op], "PTXRUN_TYPE=" + t.ctype, "PTXRUN_IN=" + in.ctype, "PTXRUN_NAME=" + suffix},
		Targets:    targets,
		ValueSize:  t.size,
		ValueAlign: t.size,
		identity:   bytesOfValue(&o.Identity),
		Kernels:    kernels,
	}
}

// scanSuffix is an operator's name in kernels and modules.
func scanSuffix(op string, in, t elemType) string {
	if in == t {
		return op + "_" + t.name
	}
	return op + "_" + in.name + "_" + t.name
}

// operatorModules are the ways to scan with one operator on one type, in segments
// as well.
func operatorModules[T any](op string, t elemType, o twin.Op[T]) []ModuleSpec {
	return append(scanModules(op, t, o),
		scanModule("segmented", op, t, t, o, []int{70}, segmentedKernel(scanSuffix(op, t, t), t.size, twin.ScanSegmented(o))))
}

// scanModules are the ways to scan with one operator on one type.
func scanModules[T any](op string, t elemType, o twin.Op[T]) []ModuleSpec {
	suffix := scanSuffix(op, t, t)
	return append([]ModuleSpec{
		scanModule("recursive", op, t, t, o, targets("scan_recursive_"+suffix), scanKernels(suffix, t.size,
			twin.ScanUpsweep(o, scanTile(t.size)), twin.ScanDownsweep(o, scanTile(t.size)))...),
	}, passModules(op, t, t, o, twin.ScanPass[T](o, nil))...)
}

// passModules are the single pass, whose input may be of a narrower type.
func passModules[T any](op string, in, t elemType, o twin.Op[T], pass driver.Twin) []ModuleSpec {
	suffix := scanSuffix(op, in, t)
	return []ModuleSpec{
		scanModule("pass", op, in, t, o, []int{70}, passKernel(suffix, t.size, pass)),
		scanModule("bulk", op, in, t, o, []int{bulkCapability}, bulkKernel(suffix, t.size, in.size, pass)),
	}
}

// widening are the sums of a narrow unsigned type in a wider one.
func widening[In, T twin.Unsigned](in, t elemType) []ModuleSpec {
	o := twin.Sum[T]()
	return passModules("sum", in, t, o, twin.ScanPass(o, twin.Widen[In, T]))
}

// opTypes is each built-in operator's class in ptx/src/op.cuh.
var opTypes = map[string]string{
	"sum": "Sum", "prod": "Product", "min": "Min", "max": "Max",
	"and": "And", "or": "Or", "xor": "Xor", "satsum": "SaturatingSum",
}

// elemType is a type that device memory holds under its name in kernels.
type elemType struct {
	name  string // "u32"
	ctype string // in CUDA C++
	size  int
}

var (
	typeU8  = elemType{"u8", "uint8_t", 1}
	typeU16 = elemType{"u16", "uint16_t", 2}
	typeU32 = elemType{"u32", "uint32_t", 4}
	typeU64 = elemType{"u64", "uint64_t", 8}
	typeI8  = elemType{"i8", "int8_t", 1}
	typeI16 = elemType{"i16", "int16_t", 2}
	typeI32 = elemType{"i32", "int32_t", 4}
	typeI64 = elemType{"i64", "int64_t", 8}
	typeF32 = elemType{"f32", "float", 4}
	typeF64 = elemType{"f64", "double", 8}
)

// anySign are the operators whose result bits do not depend on the sign, so
// that signed types use the unsigned instance; ordered ones do depend on it.
func anySign[T twin.Unsigned](t elemType) []ModuleSpec {
	return slices.Concat(
		operatorModules("sum", t, twin.Sum[T]()),
		operatorModules("prod", t, twin.Product[T]()),
		operatorModules("and", t, twin.And[T]()),
		operatorModules("or", t, twin.Or[T]()),
		operatorModules("xor", t, twin.Xor[T]()),
	)
}

func ordered[T twin.Number](t elemType) []ModuleSpec {
	return slices.Concat(
		operatorModules("min", t, twin.Min[T]()),
		operatorModules("max", t, twin.Max[T]()),
	)
}

func floats[T twin.Float](t elemType) []ModuleSpec {
	return slices.Concat(
		operatorModules("sum", t, twin.Sum[T]()),
		operatorModules("prod", t, twin.Product[T]()),
	)
}

// rleModules are run-length encoding and decoding for values of one width.
// Positions are 32-bit where the input allows it, which halves the workspace.
func rleModules[V twin.Unsigned](t elemType) []ModuleSpec {
	name := func(stem string, ts ...elemType) string {
		for _, t := range ts {
			stem += "_" + t.name
		}
		return stem
	}
	mark := []ParamKind{ParamPtr, ParamU64, ParamPtr}                                             // raw, n, flags
	finish := []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamPtr}   // raw, n, starts, count, capacity, values, lengths
	decode := []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamU64}                       // values, ends, runs, out, total
	k := func(name string, params []ParamKind, block int, tile int64, t driver.Twin) KernelSpec { // in table form below
		return KernelSpec{Name: name, Params: params, Block: block, Tile: tile, Twin: t}
	}
	return []ModuleSpec{
		typeModule("rle", t,
			k(name("rle_mark", t, typeU32), mark, rleBlock, rleTile, twin.RLEMark[V, uint32]()),
			k(name("rle_mark", t, typeU64), mark, rleBlock, rleTile, twin.RLEMark[V, uint64]()),
			k(name("rle_finish", t, typeU32, typeU32), finish, rleBlock, 0, twin.RLEFinish[V, uint32, uint32]()),
			k(name("rle_finish", t, typeU32, typeU64), finish, rleBlock, 0, twin.RLEFinish[V, uint32, uint64]()),
			k(name("rle_finish", t, typeU64, typeU32), finish, rleBlock, 0, twin.RLEFinish[V, uint64, uint32]()),
			k(name("rle_finish", t, typeU64, typeU64), finish, rleBlock, 0, twin.RLEFinish[V, uint64, uint64]()),
			k(name("rle_decode_thread", t), decode, decodeBlock, decodeBlock, twin.RLEDecode[V]()),
			k(name("rle_decode_warp", t), decode, decodeBlock, decodeBlock/32, twin.RLEDecode[V]()),
			k(name("rle_decode_block", t), decode, decodeBlock, 1, twin.RLEDecode[V]()),
			k(name("rle_decode_tiled", t), decode, decodeBlock, decodeTile/int64(t.size), twin.RLEDecode[V]()),
		),
	}
}

// Encoding in a single pass has compaction's tiles; each warp's list of heads and
// the heads as bits are in shared memory. By bulk copies it has its own tiles, of
// parts of so many vectors a lane, in stages. As in ptx/src/rle_encode.cuh.
const (
	encodeParts     = 8
	encodeVectors   = 7
	encodeStages    = 5
	encodeReducers  = 4
	encodeTileBytes = encodeParts * encodeVectors * 32 * 16
)

// encodeBulkTile is the elements of a tile of encoding by bulk copies.
func encodeBulkTile(size int64) int64 { return encodeTileBytes / size }

// encodeState is the bytes of state for so many tiles: a tile's total is 4 bytes, and
// as many of a mark.
func encodeState(tiles int64) int64 { return passStateHead + tiles*8 }

// encodeList is the list of heads of a part of so many elements, of 2 bytes each.
func encodeList(part int64) int64 { return (2*part + 8 + 127) &^ 127 }

// encodePassShared is the shared memory of encoding; a part is also staged in its
// list.
func encodePassShared(size int64) int64 {
	const bits = selectRows * 32 * 2
	return selectParts * (max(encodeList(selectTile(int(size))/selectParts), (selectTileBytes/selectParts+16+112)&^127) + bits)
}

// encodeBulkShared is the shared memory of encoding by bulk copies.
func encodeBulkShared(size int64) int64 {
	bits := 32 * 4 * ceilDiv(encodeVectors*16/size, 32)
	return encodeStages*(16+encodeTileBytes+encodeParts*bits) + encodeParts*encodeList(encodeBulkTile(size)/encodeParts) + 2048
}

// Decoding in a single pass: parts of rows of 32 vectors of lengths, a warp's work
// each. A part of much output is cut into chunks. As in ptx/src/rle_decode.cuh.
const (
	decodeParts      = 8
	decodePassBlock  = decodeParts * 32
	decodeRowsMost   = 8
	decodeWindow     = 8 * 512 // bytes of output that a warp has in shared memory
	decodeChunkBytes = 32 << 10

	// By bulk copies tiles are of fewer parts, in stages; a group of writers has a warp
	// a part.
	decodeBulkParts    = 4
	decodeBulkGroups   = 3
	decodeBulkStages   = 9
	decodeBulkReducers = 3
	decodeBulkWriters  = decodeBulkParts * decodeBulkGroups
	decodeBulkSingle   = 3 // a loader, a placer, a scanner
	decodeBulkBlock    = (decodeBulkSingle + decodeBulkReducers + decodeBulkWriters) * 32
	decodeBulkChunk    = 64 << 10
	decodeBulkShared   = 227 << 10 // all that a block can have
)

// decodePart is the runs of a part, for values and lengths of the given sizes.
func decodePart(size, length int64) int64 {
	rows := int64(decodeRowsMost)
	if size > 1 {
		rows = min(decodeRowsMost/2, 16/size)
	}
	return rows * 32 * 16 / length
}

// decodePassShared is the shared memory of decoding: a window, lengths of 16 bits,
// values and two vectors a part.
func decodePassShared(size, length int64) int64 {
	return decodeParts * (decodeWindow + decodePart(size, length)*(2+size) + 32)
}

// decodeBulkPieces is the pieces of a tile of decoding by bulk copies, which may be given
// to other warps, and the runs of one.
func decodeBulkPieces(size, length int64) (pieces, runs int64) {
	runs = 32 * max(min(8, 16/size), 16/length)
	return decodeBulkParts * ((5 << 10) / (runs * (size + length))), runs
}

func decodeBulkTile(size, length int64) int64 {
	pieces, runs := decodeBulkPieces(size, length)
	return pieces * runs
}

// decodeState is the bytes of state for decoding runs in so many tiles: the tiles'
// totals and three words a piece, which is a part but by bulk copies.
func decodeState(tiles, pieces int64) int64 { return passStateHead + tiles*(16+pieces*24) }

// rlePassModules are run-length encoding and decoding in a single pass, of values
// of one width.
func rlePassModules[V twin.Unsigned](t elemType) []ModuleSpec {
	size := int64(t.size)
	encode := func(kind string, length elemType, tw driver.Twin) KernelSpec {
		// in, n, values, lengths, capacity, count, too long or 0, state, first
		return KernelSpec{
			Name:   "rle_encode_" + kind + "_" + t.name + "_" + length.name,
			Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamPtr, ParamU32},
			Block:  selectBlock, Tile: selectTile(t.size), Twin: tw, Shared: encodePassShared(size), Resident: true,
		}
	}
	bulk := func(length elemType, tw driver.Twin) KernelSpec {
		k := encode("bulk", length, tw)
		k.Block, k.Target = (2+encodeReducers+encodeParts)*32, bulkCapability
		k.Tile, k.Shared = encodeBulkTile(size), encodeBulkShared(size)
		return k
	}
	decode := func(length elemType, tw driver.Twin) KernelSpec {
		// values, lengths, runs, out, from, size, total, state
		return KernelSpec{
			Name:   "rle_decode_pass_" + t.name + "_" + length.name,
			Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamU64, ParamU64, ParamPtr, ParamPtr},
			Block:  decodePassBlock, Tile: decodeParts * decodePart(size, int64(length.size)), Shared: decodePassShared(size, int64(length.size)),
			Twin: tw, Resident: true,
		}
	}
	decodeBulk := func(length elemType, tw driver.Twin) KernelSpec {
		k := decode(length, tw)
		k.Name, k.Block, k.Target = "rle_decode_bulk_"+t.name+"_"+length.name, decodeBulkBlock, bulkCapability
		k.Tile, k.Shared = decodeBulkTile(size, int64(length.size)), decodeBulkShared
		return k
	}
	return []ModuleSpec{
		typeModule("rle_encode_pass", t, encode("pass", typeU32, twin.RLEEncode[V, uint32]()), encode("pass", typeU64, twin.RLEEncode[V, uint64]())),
		bulkModule("rle_encode_bulk", t, bulk(typeU32, twin.RLEEncode[V, uint32]()), bulk(typeU64, twin.RLEEncode[V, uint64]())),
		typeModule("rle_decode", t, decode(typeU32, twin.RLEDecodePass[V, uint32]()), decode(typeU64, twin.RLEDecodePass[V, uint64]())),
		bulkModule("rle_decode_bulk", t, decodeBulk(typeU32, twin.RLEDecodePass[V, uint32]()), decodeBulk(typeU64, twin.RLEDecodePass[V, uint64]())),
	}
}

func crcModule() ModuleSpec {
	return ModuleSpec{
		Name: "crc32c", Source: "crc32c.cu", Targets: targets("crc32c"),
		Kernels: []KernelSpec{
			// data, n, state, first, sum
			{Name: "crc32c", Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamU32, ParamPtr}, Block: crcBlock, Tile: crcBlock * 4, Twin: twin.CRC32C()},
		},
	}
}

// rleIndexModule are the run-length kernels that do not touch values.
func rleIndexModule() ModuleSpec {
	scatter := []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr} // scanned, n, starts, capacity, count
	return ModuleSpec{
		Name: "rle_index", Source: "rle_index.cu", Targets: targets("rle_index"),
		Kernels: []KernelSpec{
			{Name: "rle_scatter_u32", Params: scatter, Block: rleBlock, Tile: rleTile, Twin: twin.RLEScatter[uint32]()},
			{Name: "rle_scatter_u64", Params: scatter, Block: rleBlock, Tile: rleTile, Twin: twin.RLEScatter[uint64]()},
		},
	}
}

// runEndKernels are the kernels of run ends of one type.
func runEndKernels[E twin.Signed](e elemType) []KernelSpec {
	k := func(name string, t driver.Twin, params ...ParamKind) KernelSpec {
		return KernelSpec{Name: name, Params: params, Block: runsBlock, Tile: runsTile, Twin: t}
	}
	return []KernelSpec{
		// ends, n, longest, first
		k("run_ends_check_"+e.name, twin.RunEndsCheck[E](), ParamPtr, ParamU64, ParamU64, ParamPtr),
		// ends, n, narrow
		k("run_ends_narrow_"+e.name, twin.RunEndsNarrow[E](), ParamPtr, ParamU64, ParamPtr),
		// ends, n, count or 0, lengths
		k("run_lengths_"+e.name+"_u32", twin.RunLengths[E, uint32](), ParamPtr, ParamU64, ParamPtr, ParamPtr),
		k("run_lengths_"+e.name+"_u64", twin.RunLengths[E, uint64](), ParamPtr, ParamU64, ParamPtr, ParamPtr),
		// ends, runs, indices, n, first
		k("run_index_check_"+e.name+"_u32", twin.RunIndexCheck[E, uint32](), ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr),
		k("run_index_check_"+e.name+"_u64", twin.RunIndexCheck[E, uint64](), ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr),
	}
}

func runEndModule() ModuleSpec {
	return ModuleSpec{
		Name: "run_ends", Source: "run_ends.cu", Targets: targets("run_ends"),
		Kernels: slices.Concat(runEndKernels[int16](typeI16), runEndKernels[int32](typeI32), runEndKernels[int64](typeI64)),
	}
}

// reduceKernel is a reduction of runs; params are its own.
func reduceKernel(name string, t driver.Twin, params ...ParamKind) KernelSpec {
	// values, lengths, n, chunk, …
	return KernelSpec{
		Name: name, Params: append([]ParamKind{ParamPtr, ParamPtr, ParamU64, ParamU64}, params...),
		Block: reduceBlock, Tile: reduceChunk, Twin: t,
	}
}

// overlayParams are two encodings: a's values, ends and n, then b's.
var overlayParams = []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamU64}

// bitRunsModules are what reads encodings by the bits of their values.
func bitRunsModules[V twin.Unsigned](t elemType) []ModuleSpec {
	// partials, fold, low, span, negate
	count := []ParamKind{ParamPtr, ParamValue, ParamValue, ParamValue, ParamU32}
	at := func(e, i string, t driver.Twin) KernelSpec {
		// values, ends, runs, indices, n, out
		return KernelSpec{Name: "run_at_" + e + "_" + i, Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr}, Block: runsBlock, Tile: runsTile, Twin: t}
	}
	return []ModuleSpec{
		typeModule("runs", t,
			reduceKernel("runs_count_"+t.name+"_u32", twin.RunsCount[V, uint32](), count...),
			reduceKernel("runs_count_"+t.name+"_u64", twin.RunsCount[V, uint64](), count...),
			// a, b, differs
			KernelSpec{Name: "runs_equal_" + t.name, Params: append(slices.Clone(overlayParams), ParamPtr), Block: overlayBlock, Tile: overlayTile, Twin: twin.RunsEqual[V]()},
			// values, ends, n, keep
			KernelSpec{Name: "runs_last_" + t.name, Params: []ParamKind{ParamPtr, ParamPtr, ParamU64, ParamPtr}, Block: runsBlock, Tile: runsTile, Twin: twin.RunsLast[V]()},
		),
		typeModule("run_at", t,
			at(t.name+"_i16", "u32", twin.RunAt[V, int16, uint32]()), at(t.name+"_i16", "u64", twin.RunAt[V, int16, uint64]()),
			at(t.name+"_i32", "u32", twin.RunAt[V, int32, uint32]()), at(t.name+"_i32", "u64", twin.RunAt[V, int32, uint64]()),
			at(t.name+"_i64", "u32", twin.RunAt[V, int64, uint32]()), at(t.name+"_i64", "u64", twin.RunAt[V, int64, uint64]()),
		),
	}
}

// numberRunsModules are what reads encodings of numbers of one type; the twins
// are those that integers and floats have apart.
func numberRunsModules[V twin.Number](t elemType, sum32, sum64, combine driver.Twin) []ModuleSpec {
	overlay := func(name string, tw driver.Twin) KernelSpec {
		// a, b, op, values, ends, keep
		return KernelSpec{
			Name: name + "_" + t.name, Params: slices.Concat(overlayParams, []ParamKind{ParamU32, ParamPtr, ParamPtr, ParamPtr}),
			Block: overlayBlock, Tile: overlayTile, Twin: tw,
		}
	}
	histogram := []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamPtr} // edges, bins, counts, elements
	return []ModuleSpec{
		typeModule("runs_reduce", t,
			reduceKernel("runs_sum_"+t.name+"_u32", sum32, ParamPtr),
			reduceKernel("runs_sum_"+t.name+"_u64", sum64, ParamPtr),
			reduceKernel("runs_minmax_"+t.name+"_u32", twin.RunsMinMax[V, uint32](), ParamPtr),
			reduceKernel("runs_minmax_"+t.name+"_u64", twin.RunsMinMax[V, uint64](), ParamPtr),
			reduceKernel("runs_histogram_"+t.name+"_u32", twin.RunsHistogram[V, uint32](), histogram...),
			reduceKernel("runs_histogram_"+t.name+"_u64", twin.RunsHistogram[V, uint64](), histogram...),
		),
		typeModule("runs_combine", t, overlay("runs_combine", combine), overlay("runs_compare", twin.RunsCompare[V]())),
	}
}

func integerRunsModules[V twin.Unsigned | twin.Signed](t elemType) []ModuleSpec {
	return numberRunsModules[V](t, twin.RunsSum[V, uint32](), twin.RunsSum[V, uint64](), twin.RunsCombine[V]())
}

func floatRunsModules[V twin.Float](t elemType) []ModuleSpec {
	return numberRunsModules[V](t, twin.RunsFloatSum[V, uint32](), twin.RunsFloatSum[V, uint64](), twin.RunsFloatCombine[V]())
}

// segmentModule are the kernels that make a bit an element of what describes
// segments.
func segmentModule() ModuleSpec {
	heads := func(name string, size int64, t driver.Twin) KernelSpec {
		// keys or flags, n, bits, reverse
		return KernelSpec{Name: "segment_heads_" + name, Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamU32}, Block: headsBlock, Tile: headsBlock * 16 / size, Twin: t}
	}
	offsets := []ParamKind{ParamPtr, ParamU64, ParamU64, ParamPtr, ParamU32, ParamPtr} // offsets, count, n, bits, reverse, bad
	return ModuleSpec{
		Name: "segment_heads", Source: "segment_heads.cu", Targets: targets("segment_heads"),
		Kernels: []KernelSpec{
			heads("flags", 1, twin.SegmentFlags()),
			heads("u8", 1, twin.SegmentKeys[uint8]()), heads("u16", 2, twin.SegmentKeys[uint16]()),
			heads("u32", 4, twin.SegmentKeys[uint32]()), heads("u64", 8, twin.SegmentKeys[uint64]()),
			{Name: "segment_offsets_u32", Params: offsets, Block: headsBlock, Tile: headsBlock, Twin: twin.SegmentOffsets[uint32]()},
			{Name: "segment_offsets_u64", Params: offsets, Block: headsBlock, Tile: headsBlock, Twin: twin.SegmentOffsets[uint64]()},
		},
	}
}

// selectTile is the elements of a tile of compaction; as select_tile in
// ptx/src/select.cuh.
func selectTile(size int) int64 { return selectTileBytes / int64(size) }

// selectState is the bytes of state for n elements.
func selectState(n int64, size int) int64 { return passStateHead + ceilDiv(n, selectTile(size))*8 }

// selectKernel is a compaction in a single pass, by elements of size bytes; input
// are the parameters of its criterion.
func selectKernel(name string, size int, input []ParamKind, t driver.Twin) KernelSpec {
	// …, n, out, count, capacity, mode, state, first
	return KernelSpec{
		Name: name, Params: slices.Concat(input, []ParamKind{ParamU64, ParamPtr, ParamPtr, ParamU64, ParamU32, ParamPtr, ParamU32}),
		Block: selectBlock, Tile: selectTile(size), Twin: t, Resident: true,
	}
}

// selectBulkKernel is the same by bulk copies, of flags too where the criterion
// has them; as SelectShape in ptx/src/select.cuh.
func selectBulkKernel(name string, size int, flags bool, input []ParamKind, t driver.Twin) KernelSpec {
	k := selectKernel(name, size, input, t)
	stage := int64(selectTileBytes)
	if flags {
		stage += k.Tile
	}
	stages, reducers := selectStagesBytes/stage, 4
	for stages%int64(reducers) != 0 {
		reducers--
	}
	k.Block, k.Target = (2+reducers+selectParts)*32, bulkCapability
	k.Shared = stages*stage + selectScratch + 2048
	return k
}

func selectCountKernel(name string, size int, input []ParamKind, t driver.Twin) KernelSpec {
	// …, n, count
	return KernelSpec{Name: name, Params: slices.Concat(input, []ParamKind{ParamU64, ParamPtr}), Block: selectBlock, Tile: selectTile(size), Twin: t, Resident: true}
}

// selectModules are the compaction of values of one width.
func selectModules[V twin.Unsigned](t elemType) []ModuleSpec {
	flagged := []ParamKind{ParamPtr, ParamPtr}                                     // in, flags
	compare := []ParamKind{ParamPtr, ParamValue, ParamValue, ParamValue, ParamU32} // in, fold, low, span, negate
	unique := []ParamKind{ParamPtr}                                                // in
	return []ModuleSpec{
		typeModule("select_pass", t,
			selectKernel("select_pass_flagged_"+t.name, t.size, flagged, twin.SelectFlagged[V]()),
			selectKernel("select_pass_compare_"+t.name, t.size, compare, twin.SelectCompare[V]()),
			selectKernel("select_pass_unique_"+t.name, t.size, unique, twin.SelectUnique[V]()),
			selectCountKernel("select_count_compare_"+t.name, t.size, compare, twin.CountCompare[V]()),
			selectCountKernel("select_count_unique_"+t.name, t.size, unique, twin.CountUnique[V]()),
		),
		bulkModule("select_bulk", t,
			selectBulkKernel("select_bulk_flagged_"+t.name, t.size, true, flagged, twin.SelectFlagged[V]()),
			selectBulkKernel("select_bulk_compare_"+t.name, t.size, false, compare, twin.SelectCompare[V]()),
			selectBulkKernel("select_bulk_unique_"+t.name, t.size, false, unique, twin.SelectUnique[V]()),
		),
	}
}

// selectFlagsModule is what reads flags and no values.
func selectFlagsModule() ModuleSpec {
	flags := []ParamKind{ParamPtr}
	return ModuleSpec{
		Name: "select_flags", Source: "select_flags.cu", Targets: []int{70},
		Kernels: []KernelSpec{
			selectCountKernel("select_count_flagged", 1, flags, twin.CountFlagged()),
			selectKernel("select_pass_indices_u32", 4, flags, twin.SelectIndices[uint32]()),
			selectKernel("select_pass_indices_u64", 8, flags, twin.SelectIndices[uint64]()),
		},
	}
}

func lcsModule() ModuleSpec {
	return ModuleSpec{
		Name: "lcs", Source: "lcs.cu", Targets: targets("lcs"),
		Kernels: []KernelSpec{
			// a, m, b, n, table of -1, ticket: a u64 of 0
			{Name: "lcs_spinwait", Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr, ParamPtr}, Block: spinWaitBlock, Twin: twin.LCSSpinWait()},
			// bits, n, out
			{Name: "lcs_unpack", Params: []ParamKind{ParamPtr, ParamU64, ParamPtr}, Block: spinWaitBlock, Tile: spinWaitBlock, Twin: twin.LCSUnpack()},
			// lengths, n, places, results
			{Name: "lcs_place", Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamPtr}, Block: spinWaitBlock, Tile: spinWaitBlock, Twin: twin.LCSPlace()},
		},
	}
}

// lcsWidthModule are the kernels for letters of one width.
func lcsWidthModule[V twin.Unsigned](t elemType) ModuleSpec {
	rows, shared := lcsRows(t.size), lcsShared(t.size, lcsLetters(t.size))
	return ModuleSpec{
		Name: "lcs_" + t.name, Source: "lcs_bits.cu",
		Defines: []string{"PTXRUN_TYPE=" + t.ctype, "PTXRUN_NAME=" + t.name},
		Targets: targets("lcs_" + t.name),
		Kernels: []KernelSpec{
			// a, b, problems, count or 0 and: rows, columns, front, keep, slots; units, ring, kept, lengths, ticket: a u64 of 0
			{Name: "lcs_pass_" + t.name, Params: []ParamKind{ParamPtr, ParamPtr, ParamPtr, ParamU64, ParamU64, ParamU64, ParamU64, ParamU64, ParamU64, ParamU64, ParamPtr, ParamPtr, ParamPtr, ParamPtr},
				Block: lcsPassBlock, Shared: shared, Twin: twin.LCSPass[V](rows)},
			// problems, count or 0 and: columns; kept, crossings or null, lengths or null
			{Name: "lcs_cross_" + t.name, Params: []ParamKind{ParamPtr, ParamU64, ParamU64, ParamPtr, ParamPtr, ParamPtr}, Block: lcsCrossBlock, Twin: twin.LCSCross(rows)},
			// a, b, pieces, values, states, rows, a's marks, b's marks
			{Name: "lcs_trace_" + t.name, Params: []ParamKind{ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr},
				Block: lcsBitsBlock, Shared: shared, Twin: twin.LCSTrace[V](rows)},
			// a, b, lanes, slices, counts, columns, results, stride, where
			{Name: "lcs_many_" + t.name, Params: []ParamKind{ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamPtr, ParamU64, ParamU32},
				Block: lcsBitsBlock, Shared: shared, Twin: twin.LCSMany[V](rows)},
			// a, m, b, n, right, lower, corners, diagonal, first
			{Name: "lcs_tiled_" + t.name, Params: []ParamKind{ParamPtr, ParamU64, ParamPtr, ParamU64, ParamPtr, ParamPtr, ParamPtr, ParamU64, ParamU64},
				Block: lcsTile, Twin: twin.LCSTiled[V](lcsTile)},
		},
	}
}

// moduleTable is every embedded module.
var moduleTable = slices.Concat(
	anySign[uint8](typeU8), anySign[uint16](typeU16), anySign[uint32](typeU32), anySign[uint64](typeU64),
	floats[float32](typeF32), floats[float64](typeF64),
	ordered[uint8](typeU8), ordered[uint16](typeU16), ordered[uint32](typeU32), ordered[uint64](typeU64),
	ordered[int8](typeI8), ordered[int16](typeI16), ordered[int32](typeI32), ordered[int64](typeI64),
	ordered[float32](typeF32), ordered[float64](typeF64),
	scanModules("satsum", typeU64, twin.SaturatingSum()),
	widening[uint8, uint32](typeU8, typeU32), widening[uint8, uint64](typeU8, typeU64),
	widening[uint16, uint32](typeU16, typeU32), widening[uint16, uint64](typeU16, typeU64),
	widening[uint32, uint64](typeU32, typeU64),
	passModules("satsum", typeU32, typeU64, twin.SaturatingSum(), twin.ScanPass(twin.SaturatingSum(), twin.Widen[uint32, uint64])),
	rleModules[uint8](typeU8), rleModules[uint16](typeU16), rleModules[uint32](typeU32), rleModules[uint64](typeU64),
	rlePassModules[uint8](typeU8), rlePassModules[uint16](typeU16), rlePassModules[uint32](typeU32), rlePassModules[uint64](typeU64),
	selectModules[uint8](typeU8), selectModules[uint16](typeU16), selectModules[uint32](typeU32), selectModules[uint64](typeU64),
	[]ModuleSpec{selectFlagsModule()},
	bitRunsModules[uint8](typeU8), bitRunsModules[uint16](typeU16), bitRunsModules[uint32](typeU32), bitRunsModules[uint64](typeU64),
	integerRunsModules[uint8](typeU8), integerRunsModules[uint16](typeU16), integerRunsModules[uint32](typeU32), integerRunsModules[uint64](typeU64),
	integerRunsModules[int8](typeI8), integerRunsModules[int16](typeI16), integerRunsModules[int32](typeI32), integerRunsModules[int64](typeI64),
	floatRunsModules[float32](typeF32), floatRunsModules[float64](typeF64),
	[]ModuleSpec{runEndModule()},
	[]ModuleSpec{rleIndexModule(), segmentModule(), crcModule(), lcsModule()},
	[]ModuleSpec{lcsWidthModule[uint8](typeU8), lcsWidthModule[uint16](typeU16), lcsWidthModule[uint32](typeU32), lcsWidthModule[uint64](typeU64)},
)

// Modules lists every kernel that this library embeds, for tools that build,
// inspect or check them. The result must not be changed.
func Modules() []ModuleSpec { return moduleTable }

var moduleByName = func() map[string]*ModuleSpec {
	m := make(map[string]*ModuleSpec, len(moduleTable))
	for i := range moduleTable {
		s := &moduleTable[i]
		if m[s.Name] != nil {
			panic(fmt.Sprintf("ptxrun: module %s is listed twice", s.Name))
		}
		m[s.Name] = s
	}
	return m
}()
