package emu

import (
	"github.com/ptxrun/ptxrun/driver"
)

// lanes is a register of a warp: one value a lane. Values narrower than 64 bits
// are kept zero-extended, whatever their sign.
type lanes = [32]uint64

// full is the mask of all lanes of a warp.
const full = ^uint32(0)

// program is a module decoded for execution: the instructions of all its
// functions one after the other, so that a program counter says the function too.
type program struct {
	name      string // the image's, for errors
	code      []instr
	functions []*function
	entries   map[string]*function
	extra     []extra
	constant  []byte // the .const bank
	version   int    // the target's architecture: 70 is sm_70
	// dynamicAlign is what the declarations of dynamic shared memory ask for.
	dynamicAlign int64
}

// extra is an operand that is no register: an immediate or a special register.
type extra struct {
	special special // specialNone for an immediate
	value   uint64
}

// function is an entry or a device function of a program.
type function struct {
	name       string
	entry      bool
	line       int
	start      int32 // its first instruction
	end        int32
	registers  int32 // slots of a frame
	predicates int32
	local      int32 // bytes of a frame: variables, parameters, call arguments
	params     []param
	results    []param
	layout     []driver.Param // of an entry's parameter block
	paramBytes int64
	maxThreads int
	reqThreads [3]uint32 // .reqntid, or zero
	shared     int64     // bytes of static shared memory of an entry
}

// param is a parameter or result of a device function: bytes of the frame, or a
// register.
type param struct {
	offset, size int32
	register     slot
	isRegister   bool
}

// slot names a register: s ≥ 0 is register s of the frame, s < 0 entry ^s of the
// program's extra operands.
type slot = int32

// predicate is an operand: a slot of the frame's predicates or, if slot is
// negative, the constant true; inverted by not.
type predicate struct {
	slot int32
	not  bool
}

// kind selects how the warp executes an instruction.
type kind uint8

const (
	kindALU     kind = iota // alu(d, a, b, c)
	kindCompare             // p, q = cmp(a, b) combined with r
	kindSet                 // d = all ones or 1.0 where cmp(a, b) combined with r
	kindSelect              // d = r ? a : b
	kindLogic               // p = combine(r, s)
	kindCarry               // d, carry = carry(a, b, c, carry)
	kindPack                // d = the parts mem.regs, from the lowest up
	kindUnpack              // mem.regs = the parts of a
	kindInsert              // bfi
	kindClock               // d = a special register that changes
	kindFrame               // d = the frame's local memory + imm
	kindParam               // d = kernel parameters, the same for all lanes
	kindLoad
	kindStore
	kindAtomic
	kindBranch
	kindIndexed // brx.idx
	kindCall
	kindReturn
	kindExit
	kindWarp    // shuffle, vote, match, redux, elect, bar.warp.sync
	kindActive  // activemask
	kindBarrier // of the block
	kindFence
	kindAsync
	kindYield // nanosleep
	kindTrap
	kindNothing
)

type (
	alu     func(d, a, b, c *lanes)
	compare func(a, b *lanes) uint32
	carry   func(d, a, b, c *lanes, in uint32) (out uint32)
)

// instr is one decoded instruction.
type instr struct {
	kind  kind
	class Class
	// spins is set on a backward branch whose loop reads memory that others
	// may be asked to change: a wait, most likely.
	spins  bool
	setsCC bool
	keep   uint64 // the bits of d's register
	flow   flow
	// known refines the taint of a bitwise instruction.
	known   func(v, a, b, ta, tb *lanes)
	guard   predicate
	d       slot
	a, b, c slot
	p, q    int32 // predicate results, -1 for none
	r, s    predicate
	logic   logic
	target  int32
	line    int32
	imm     int64
	alu     alu
	cmp     compare
	carry   carry
	mem     *memory
	warp    *warpOp
	async   *asyncOp
	barrier *barrierOp
	call    *callOp
	targets []int32
	fn      *function // that it belongs to
	name    string    // the opcode as written, for errors
}

// logic is how setp and the predicate instructions combine two masks.
type logic uint8

const (
	logicNone logic = iota
	logicAnd
	logicOr
	logicXor
)

func (l logic) combine(a, b uint32) uint32 {
	switch l {
	case logicAnd:
		return a & b
	case logicOr:
		return a | b
	case logicXor:
		return a ^ b
	}
	return a
}

// special is a special register whose value does not change while a thread runs.
type special uint8

const (
	specialNone special = iota
	specialTidX
	specialTidY
	specialTidZ
	specialNtidX
	specialNtidY
	specialNtidZ
	specialCtaidX
	specialCtaidY
	specialCtaidZ
	specialNctaidX
	specialNctaidY
	specialNctaidZ
	specialLane
	specialWarp
	specialWarps
	specialSM
	specialSMs
	specialGrid
	specialMaskEq
	specialMaskLe
	specialMaskLt
	specialMaskGe
	specialMaskGt
	specialDynamicShared
	specialTotalShared
	specialDynamicBase // where dynamic shared memory begins
	specialZero
	specialOne
)

var specialNames = map[string]special{
	"%tid.x": specialTidX, "%tid.y": specialTidY, "%tid.z": specialTidZ,
	"%ntid.x": specialNtidX, "%ntid.y": specialNtidY, "%ntid.z": specialNtidZ,
	"%ctaid.x": specialCtaidX, "%ctaid.y": specialCtaidY, "%ctaid.z": specialCtaidZ,
	"%nctaid.x": specialNctaidX, "%nctaid.y": specialNctaidY, "%nctaid.z": specialNctaidZ,
	"%laneid": specialLane, "%warpid": specialWarp, "%nwarpid": specialWarps,
	"%smid": specialSM, "%nsmid": specialSMs, "%gridid": specialGrid,
	"%lanemask_eq": specialMaskEq, "%lanemask_le": specialMaskLe, "%lanemask_lt": specialMaskLt,
	"%lanemask_ge": specialMaskGe, "%lanemask_gt": specialMaskGt,
	"%dynamic_smem_size": specialDynamicShared, "%total_smem_size": specialTotalShared,
	"%reserved_smem_offset_begin": specialZero, "%reserved_smem_offset_end": specialZero,
	"%reserved_smem_offset_cap": specialZero, "%aggr_smem_size": specialTotalShared,
	// Without clusters a block is a cluster of its own.
	"%clusterid.x": specialCtaidX, "%clusterid.y": specialCtaidY, "%clusterid.z": specialCtaidZ,
	"%nclusterid.x": specialNctaidX, "%nclusterid.y": specialNctaidY, "%nclusterid.z": specialNctaidZ,
	"%cluster_ctaid.x": specialZero, "%cluster_ctaid.y": specialZero, "%cluster_ctaid.z": specialZero,
	"%cluster_nctaid.x": specialOne, "%cluster_nctaid.y": specialOne, "%cluster_nctaid.z": specialOne,
	"%cluster_ctarank": specialZero, "%cluster_nctarank": specialOne,
}

// special64 are the special registers of 64 bits.
var special64 = map[special]bool{specialGrid: true}

// clocks are the special registers that change while a thread runs, with their
// width in bits.
var clocks = map[string]int{
	"%clock": 32, "%clock_hi": 32, "%clock64": 64,
	"%globaltimer": 64, "%globaltimer_lo": 32, "%globaltimer_hi": 32,
}
