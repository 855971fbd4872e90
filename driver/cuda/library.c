//go:build cuda && cgo && linux && (amd64 || arm64)

// Every function of the driver API that this process links is a trampoline (see
// trampolines.S) through a slot that is filled here, before Go starts. A process
// so linked runs on any machine: what the machine lacks answers an error.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define SYMBOL(i, name) #name,
static const char *const names[] = {
#include "symbols.inc"
};
enum { count = sizeof names / sizeof *names };

typedef CUresult (*function)(void);
__attribute__((visibility("hidden"))) function ptxrun_cu_slots[count];

static CUresult (*real_init)(unsigned);
static char load_error[512];

// Reading fewer arguments than were passed is fine in both calling conventions.
static CUresult no_library(void) { return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED; }
static CUresult no_symbol(void) { return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND; }

__attribute__((constructor)) static void load(void) {
	const char *path = secure_getenv("PTXRUN_LIBCUDA");
	if (!path || !*path)
		path = "libcuda.so.1";
	void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		snprintf(load_error, sizeof load_error, "%s", dlerror());
	for (int i = 0; i < count; i++) {
		function f = lib ? (function)dlsym(lib, names[i]) : no_library;
		ptxrun_cu_slots[i] = f ? f : no_symbol;
	}
	if (lib && !(real_init = (CUresult (*)(unsigned))dlsym(lib, "cuInit")))
		snprintf(load_error, sizeof load_error, "%s exports no cuInit", path);
}

// The binding calls cuInit in its package init and ends the process if that
// fails, so this one always succeeds and does nothing. Open initialises the
// driver, and returns the error.
__attribute__((visibility("hidden"))) CUresult cuInit(unsigned flags) {
	(void)flags;
	return CUDA_SUCCESS;
}

CUresult ptxrun_cu_init(void) {
	return real_init ? real_init(0) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

const char *ptxrun_cu_load_error(void) {
	return *load_error ? load_error : NULL;
}

int ptxrun_cu_has(const char *name) {
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return ptxrun_cu_slots[i] != no_symbol && ptxrun_cu_slots[i] != no_library;
	return 0;
}
