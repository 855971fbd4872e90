// What gorgonia.org/cu lacks, or does not offer in a form that Go memory can be
// given to. Each function makes ctx current for its own calls, so that callers
// need not stay on one thread.
#ifndef PTXRUN_SUPPLEMENT_H
#define PTXRUN_SUPPLEMENT_H

#include "include/cuda.h"

typedef struct {
	unsigned grid[3], block[3], shared;
} ptxrun_shape;

// Launch with the packed parameter block of size bytes at args.
CUresult ptxrun_cu_launch(CUcontext ctx, CUfunction f, ptxrun_shape shape, CUstream stream,
			  const unsigned char *args, size_t size);

// Load NUL-terminated PTX; the compiler's errors go to log.
CUresult ptxrun_cu_load(CUcontext ctx, CUmodule *module, const char *ptx, char *log, unsigned log_size);

// Copies between the device and memory that is not page-locked. They return when
// the copy is complete, so the driver keeps no address of Go memory.
CUresult ptxrun_cu_copy_to_device(CUcontext ctx, CUdeviceptr dst, const unsigned char *src, size_t size,
				  CUstream stream);
CUresult ptxrun_cu_copy_to_host(CUcontext ctx, unsigned char *dst, CUdeviceptr src, size_t size, CUstream stream);

// Page-locked memory, mapped for the device and portable between contexts.
CUresult ptxrun_cu_host_alloc(CUcontext ctx, size_t size, void **host, CUdeviceptr *device);

CUresult ptxrun_cu_alloc_async(CUcontext ctx, CUdeviceptr *p, size_t size, CUstream stream);
CUresult ptxrun_cu_free_async(CUcontext ctx, CUdeviceptr p, CUstream stream);

// The device's default memory pool: how many free bytes it keeps at most.
CUresult ptxrun_cu_pool_threshold(CUcontext ctx, CUdevice dev, cuuint64_t *bytes);
CUresult ptxrun_cu_pool_set_threshold(CUcontext ctx, CUdevice dev, cuuint64_t bytes);
CUresult ptxrun_cu_pool_trim(CUcontext ctx, CUdevice dev);

CUresult ptxrun_cu_param_info(CUcontext ctx, CUfunction f, size_t index, size_t *offset, size_t *size);
CUresult ptxrun_cu_set_attribute(CUcontext ctx, CUfunction f, CUfunction_attribute attribute, int value);

#endif
