// The CUDA driver library, opened at run time instead of linked.
#ifndef PTXRUN_LIBRARY_H
#define PTXRUN_LIBRARY_H

#include "include/cuda.h"

// ptxrun_cu_init is the driver's own cuInit; see library.c for the one that the
// process links.
CUresult ptxrun_cu_init(void);

// ptxrun_cu_load_error says why there is no driver library, or is NULL.
const char *ptxrun_cu_load_error(void);

// ptxrun_cu_has tells whether the library exports a symbol.
int ptxrun_cu_has(const char *name);

#endif
