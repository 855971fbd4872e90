//go:build cuda && cgo && linux && (amd64 || arm64)

// One jump through its slot for each symbol in symbols.inc. The symbols are
// hidden, so that libraries loaded later keep finding the driver's own.

#if defined(__x86_64__)
.macro JUMP i
	jmp *(ptxrun_cu_slots + 8 * \i)(%rip)
.endm
#elif defined(__aarch64__)
.macro JUMP i
	adrp x16, ptxrun_cu_slots + 8 * \i
	ldr x16, [x16, #:lo12:(ptxrun_cu_slots + 8 * \i)]
	br x16
.endm
#endif

.macro TRAMPOLINE i, name
	.globl \name
	.hidden \name
	.type \name, %function
\name:
	JUMP \i
	.size \name, . - \name
.endm

#define SYMBOL(i, name) TRAMPOLINE i, name
	.hidden ptxrun_cu_slots
	.text
	.balign 16
#include "symbols.inc"

	.section .note.GNU-stack, "", %progbits
