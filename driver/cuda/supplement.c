//go:build cuda && cgo && linux && (amd64 || arm64)

#include "supplement.h"

#define TRY(call)                        \
	do {                             \
		CUresult r = (call);     \
		if (r != CUDA_SUCCESS)   \
			return r;        \
	} while (0)

CUresult ptxrun_cu_launch(CUcontext ctx, CUfunction f, ptxrun_shape shape, CUstream stream,
			  const unsigned char *args, size_t size) {
	TRY(cuCtxSetCurrent(ctx));
	void *block[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};
	return cuLaunchKernel(f, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
			      shape.block[2], shape.shared, stream, NULL, size ? block : NULL);
}

CUresult ptxrun_cu_load(CUcontext ctx, CUmodule *module, const char *ptx, char *log, unsigned log_size) {
	TRY(cuCtxSetCurrent(ctx));
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)log_size};
	return cuModuleLoadDataEx(module, ptx, 2, options, values);
}

CUresult ptxrun_cu_copy_to_device(CUcontext ctx, CUdeviceptr dst, const unsigned char *src, size_t size,
				  CUstream stream) {
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuMemcpyHtoDAsync(dst, src, size, stream));
	return cuStreamSynchronize(stream);
}

CUresult ptxrun_cu_copy_to_host(CUcontext ctx, unsigned char *dst, CUdeviceptr src, size_t size, CUstream stream) {
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuMemcpyDtoHAsync(dst, src, size, stream));
	return cuStreamSynchronize(stream);
}

CUresult ptxrun_cu_host_alloc(CUcontext ctx, size_t size, void **host, CUdeviceptr *device) {
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuMemHostAlloc(host, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	CUresult r = cuMemHostGetDevicePointer(device, *host, 0);
	if (r != CUDA_SUCCESS)
		cuMemFreeHost(*host);
	return r;
}

CUresult ptxrun_cu_alloc_async(CUcontext ctx, CUdeviceptr *p, size_t size, CUstream stream) {
	TRY(cuCtxSetCurrent(ctx));
	return cuMemAllocAsync(p, size, stream);
}

CUresult ptxrun_cu_free_async(CUcontext ctx, CUdeviceptr p, CUstream stream) {
	TRY(cuCtxSetCurrent(ctx));
	return cuMemFreeAsync(p, stream);
}

CUresult ptxrun_cu_pool_threshold(CUcontext ctx, CUdevice dev, cuuint64_t *bytes) {
	CUmemoryPool pool;
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuDeviceGetDefaultMemPool(&pool, dev));
	return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes);
}

CUresult ptxrun_cu_pool_set_threshold(CUcontext ctx, CUdevice dev, cuuint64_t bytes) {
	CUmemoryPool pool;
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuDeviceGetDefaultMemPool(&pool, dev));
	return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
}

CUresult ptxrun_cu_pool_trim(CUcontext ctx, CUdevice dev) {
	CUmemoryPool pool;
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuDeviceGetDefaultMemPool(&pool, dev));
	return cuMemPoolTrimTo(pool, 0);
}

CUresult ptxrun_cu_param_info(CUcontext ctx, CUfunction f, size_t index, size_t *offset, size_t *size) {
	TRY(cuCtxSetCurrent(ctx));
	return cuFuncGetParamInfo(f, index, offset, size);
}

CUresult ptxrun_cu_set_attribute(CUcontext ctx, CUfunction f, CUfunction_attribute attribute, int value) {
	TRY(cuCtxSetCurrent(ctx));
	return cuFuncSetAttribute(f, attribute, value);
}
