// A driver library for tests: device memory is host memory, work is done at
// once, kernels are recorded instead of run. It is strict where a caller can go
// wrong: handles, sizes, the current context, freed memory. With OLD_DRIVER it
// is one of CUDA 11.0: no memory pools, no cuFuncGetParamInfo.
#include "fake.h"

#include <ctype.h>
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct fake fake;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int initialised;

enum { MAX_DEVICES = 8, MAX_PARAMS = 64, MAX_KERNELS = 16 };

struct CUctx_st {
	int retained;
};
static struct CUctx_st *primary[MAX_DEVICES];
static __thread CUcontext current;

// Every handle is the address of one of these, in one list.
enum kind { STREAM, EVENT, MODULE, MEMORY, HOST };
struct object {
	enum kind kind;
	struct object *next;
	CUcontext ctx;
	char *bytes; // MEMORY, HOST
	size_t size;
	int pooled, flags, recorded, ready;
	double time;
	struct CUfunc_st *functions; // MODULE
};
static struct object *objects;

struct CUfunc_st {
	char name[FAKE_NAME];
	int params, max_dynamic;
	size_t offset[MAX_PARAMS], size[MAX_PARAMS], total;
};

__attribute__((constructor)) static void configure(void) {
	const char *init = getenv("FAKE_CUDA_INIT"), *devices = getenv("FAKE_CUDA_DEVICES");
	fake.init_code = init ? atoi(init) : 0;
	fake.devices = devices ? atoi(devices) : 2;
	fake.pools = 1;
}

static void unlock(int *unused) {
	(void)unused;
	pthread_mutex_unlock(&mutex);
}

static CUresult enter(const char *name, int needs_context) {
	if (fake.calls < FAKE_TRACE)
		fake.trace[fake.calls] = name;
	fake.calls++;
	if (fake.fail_at > 0 && (!*fake.fail_name || !strcmp(name, fake.fail_name)) && --fake.fail_at == 0) {
		snprintf(fake.failed, FAKE_NAME, "%s", name);
		return fake.fail_code;
	}
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!needs_context)
		return CUDA_SUCCESS;
	for (int i = 0; i < MAX_DEVICES; i++)
		if (current && current == primary[i])
			return fake.lost;
	fake.wrong_context++;
	return CUDA_ERROR_INVALID_CONTEXT;
}

#define CALL(needs_context)                                            \
	pthread_mutex_lock(&mutex);                                    \
	__attribute__((cleanup(unlock))) int locked = 0;               \
	(void)locked;                                                  \
	CUresult result_ = enter(__func__, needs_context);             \
	if (result_ != CUDA_SUCCESS)                                   \
		return result_

#define REQUIRE(condition, code)     \
	if (!(condition))            \
		return code

static long *counter(enum kind kind) {
	switch (kind) {
	case STREAM: return &fake.streams;
	case EVENT: return &fake.events;
	case MODULE: return &fake.modules;
	case MEMORY: return &fake.allocations;
	default: return &fake.host_blocks;
	}
}

static struct object *create(enum kind kind) {
	struct object *o = calloc(1, sizeof *o);
	o->kind = kind;
	o->ctx = current;
	o->next = objects;
	objects = o;
	++*counter(kind);
	return o;
}

static struct object *find(enum kind kind, const void *handle) {
	for (struct object *o = objects; o; o = o->next)
		if (o == handle && o->kind == kind && o->ctx == current)
			return o;
	return NULL;
}

static void destroy(struct object *o) {
	for (struct object **p = &objects; *p; p = &(*p)->next)
		if (*p == o) {
			*p = o->next;
			break;
		}
	--*counter(o->kind);
	if (o->bytes)
		memset(o->bytes, 0xdd, o->size);
	free(o->bytes);
	free(o->functions);
	free(o);
}

static struct object *allocate(enum kind kind, size_t size) {
	char *bytes;
	if (size > (1ull << 40) || posix_memalign((void **)&bytes, 256, size))
		return NULL;
	memset(bytes, 0xcc, size);
	struct object *o = create(kind);
	o->bytes = bytes;
	o->size = size;
	return o;
}

// memory is the block that holds all of a range.
static struct object *memory(const void *p, size_t size) {
	for (struct object *o = objects; o; o = o->next)
		if (o->bytes && (char *)p >= o->bytes && (char *)p + size <= o->bytes + o->size)
			return o;
	return NULL;
}

static void *at(CUdeviceptr p) { return (void *)(uintptr_t)p; }

void fake_reset(void) {
	pthread_mutex_lock(&mutex);
	while (objects)
		destroy(objects);
	for (int i = 0; i < MAX_DEVICES; i++) {
		free(primary[i]);
		primary[i] = NULL;
	}
	fake = (struct fake){.devices = 2, .pools = 1};
	pthread_mutex_unlock(&mutex);
}

// The driver and its devices.

CUresult cuInit(unsigned flags) {
	(void)flags;
	pthread_mutex_lock(&mutex);
	__attribute__((cleanup(unlock))) int locked = 0;
	(void)locked;
	initialised = fake.init_code == CUDA_SUCCESS;
	CUresult r = enter(__func__, 0);
	return fake.init_code ? (CUresult)fake.init_code : r;
}

CUresult cuDriverGetVersion(int *version) {
	CALL(0);
#ifdef OLD_DRIVER
	*version = 11000;
#else
	*version = 12040;
#endif
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n) {
	CALL(0);
	*n = fake.devices;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *dev, int ordinal) {
	CALL(0);
	REQUIRE(ordinal >= 0 && ordinal < fake.devices, CUDA_ERROR_INVALID_DEVICE);
	*dev = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice dev) {
	CALL(0);
	snprintf(name, size, "Fake GPU %d", dev);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev) {
	CALL(0);
	(void)dev;
	*bytes = 80ull << 30;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev) {
	CALL(0);
	REQUIRE(dev >= 0 && dev < fake.devices, CUDA_ERROR_INVALID_DEVICE);
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 0x7fffffff; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
#ifndef OLD_DRIVER
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = fake.pools; break;
#endif
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

// Contexts.

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev) {
	CALL(0);
	if (!primary[dev]) {
		primary[dev] = calloc(1, sizeof **primary);
		fake.contexts++;
	}
	primary[dev]->retained++;
	*ctx = primary[dev];
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
	CALL(0);
	REQUIRE(primary[dev], CUDA_ERROR_INVALID_CONTEXT);
	if (--primary[dev]->retained == 0) {
		free(primary[dev]);
		primary[dev] = NULL;
		fake.contexts--;
		fake.lost = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
	CALL(0);
	current = ctx;
	return CUDA_SUCCESS;
}

static void finish(void) {
	for (struct object *o = objects; o; o = o->next)
		o->ready = 1;
}

CUresult cuCtxSynchronize(void) {
	CALL(1);
	finish();
	return CUDA_SUCCESS;
}

// Memory.

CUresult cuMemGetInfo(size_t *free, size_t *total) {
	CALL(1);
	*free = 79ull << 30;
	*total = 80ull << 30;
	return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *p, size_t size, int pooled) {
	REQUIRE(size > 0, CUDA_ERROR_INVALID_VALUE);
	struct object *o = allocate(MEMORY, size);
	REQUIRE(o, CUDA_ERROR_OUT_OF_MEMORY);
	o->pooled = pooled;
	*p = (uintptr_t)o->bytes;
	return CUDA_SUCCESS;
}

static CUresult mem_free(void *p, enum kind kind) {
	struct object *o = memory(p, 1);
	REQUIRE(o && o->bytes == p && o->kind == kind, CUDA_ERROR_INVALID_VALUE);
	destroy(o);
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t size) {
	CALL(1);
	return mem_alloc(p, size, 0);
}

CUresult cuMemFree(CUdeviceptr p) {
	CALL(1);
	return mem_free(at(p), MEMORY);
}

CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) {
	CALL(1);
	REQUIRE(flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), CUDA_ERROR_INVALID_VALUE);
	struct object *o = allocate(HOST, size);
	REQUIRE(o, CUDA_ERROR_OUT_OF_MEMORY);
	*p = o->bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *p, unsigned flags) {
	CALL(1);
	(void)flags;
	*device = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p) {
	CALL(1);
	return mem_free(p, HOST);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t size, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(memory(at(dst), size), CUDA_ERROR_INVALID_VALUE);
	memcpy(at(dst), src, size);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t size, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(memory(at(src), size), CUDA_ERROR_INVALID_VALUE);
	memcpy(dst, at(src), size);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(memory(at(dst), size) && memory(at(src), size), CUDA_ERROR_INVALID_VALUE);
	memcpy(at(dst), at(src), size);
	return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t size, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(memory(at(dst), size), CUDA_ERROR_INVALID_VALUE);
	memset(at(dst), value, size);
	return CUDA_SUCCESS;
}

#ifndef OLD_DRIVER
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev) {
	CALL(0);
	*pool = (CUmemoryPool)&primary[dev];
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
	CALL(0);
	REQUIRE(pool && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CUDA_ERROR_INVALID_VALUE);
	*(uint64_t *)value = fake.pool_threshold;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
	CALL(0);
	REQUIRE(pool && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CUDA_ERROR_INVALID_VALUE);
	fake.pool_threshold = *(uint64_t *)value;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
	CALL(0);
	(void)keep;
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr *p, size_t size, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	return mem_alloc(p, size, 1);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	struct object *o = memory(at(p), 1);
	REQUIRE(o && o->pooled, CUDA_ERROR_INVALID_VALUE);
	return mem_free(at(p), MEMORY);
}
#endif

// Streams and events.

static CUresult readiness(struct object *o) {
	REQUIRE(o, CUDA_ERROR_INVALID_HANDLE);
	return fake.busy && !o->ready ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult wait_for(struct object *o) {
	REQUIRE(o, CUDA_ERROR_INVALID_HANDLE);
	finish();
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags) {
	CALL(1);
	REQUIRE(flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
	*s = (CUstream)create(STREAM);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream s) {
	CALL(1);
	REQUIRE(find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	destroy((struct object *)s);
	return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream s) {
	CALL(1);
	return readiness(find(STREAM, s));
}

CUresult cuStreamSynchronize(CUstream s) {
	CALL(1);
	return wait_for(find(STREAM, s));
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
	CALL(1);
	REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
	REQUIRE(find(STREAM, s) && find(EVENT, e), CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *e, unsigned flags) {
	CALL(1);
	struct object *o = create(EVENT);
	o->flags = flags;
	o->ready = 1;
	*e = (CUevent)o;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e) {
	CALL(1);
	REQUIRE(find(EVENT, e), CUDA_ERROR_INVALID_HANDLE);
	destroy((struct object *)e);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s) {
	CALL(1);
	struct object *o = find(EVENT, e);
	REQUIRE(o && find(STREAM, s), CUDA_ERROR_INVALID_HANDLE);
	o->recorded = 1;
	o->ready = 0;
	o->time = fake.calls;
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent e) {
	CALL(1);
	return readiness(find(EVENT, e));
}

CUresult cuEventSynchronize(CUevent e) {
	CALL(1);
	return wait_for(find(EVENT, e));
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
	CALL(1);
	struct object *a = find(EVENT, from), *b = find(EVENT, to);
	REQUIRE(a && b && a->recorded && b->recorded, CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(!((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(readiness(a) == 0 && readiness(b) == 0, CUDA_ERROR_NOT_READY);
	*ms = b->time - a->time;
	return CUDA_SUCCESS;
}

// Modules: entries and their parameters are read off the PTX.

static void parse_param(struct CUfunc_st *f, char *text) {
	static const struct {
		const char *name;
		size_t size;
	} types[] = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
	size_t size = 0, align = 1, count = 1;
	for (char *dot = strchr(text, '.'); dot && !size; dot = strchr(dot + 1, '.'))
		for (int i = 0; i < 4; i++)
			if (strchr("usbf", dot[1]) && !strncmp(dot + 2, types[i].name, strlen(types[i].name)) &&
			    isspace(dot[2 + strlen(types[i].name)]))
				size = align = types[i].size;
	char *bracket = strchr(text, '['), *given = strstr(text, ".align");
	if (bracket) {
		count = strtoul(bracket + 1, NULL, 10);
		if (given)
			align = strtoul(given + 6, NULL, 10);
	}
	size_t offset = (f->total + align - 1) / align * align;
	f->offset[f->params] = offset;
	f->size[f->params++] = size * count;
	f->total = offset + size * count;
}

static struct CUfunc_st *parse(const char *ptx) {
	struct CUfunc_st *all = calloc(MAX_KERNELS + 1, sizeof *all), *f = all;
	for (const char *p = ptx; (p = strstr(p, ".entry")) && f < all + MAX_KERNELS; f++) {
		p += strspn(p + 6, " \t\n") + 6;
		size_t length = strcspn(p, " \t\n({");
		snprintf(f->name, FAKE_NAME, "%.*s", (int)length, p);
		p += length;
		p += strspn(p, " \t\n");
		if (*p != '(')
			continue;
		char *list = strndup(p + 1, strcspn(p, ")") - 1), *rest = list, *one;
		while ((one = strsep(&rest, ",")))
			if (strstr(one, ".param"))
				parse_param(f, one);
		free(list);
	}
	return all;
}

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values) {
	CALL(1);
	char *log = NULL;
	size_t log_size = 0;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			log = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			log_size = (uintptr_t)values[i];
	}
	if (fake.module_code) {
		snprintf(log, log_size, "%s", fake.module_log);
		return fake.module_code;
	}
	if (!strstr(image, ".version")) {
		snprintf(log, log_size, "ptxas application ptx input, line 1; fatal   : Missing .version directive");
		return CUDA_ERROR_INVALID_PTX;
	}
	struct object *o = create(MODULE);
	o->functions = parse(image);
	*m = (CUmodule)o;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m) {
	CALL(1);
	REQUIRE(find(MODULE, m), CUDA_ERROR_INVALID_HANDLE);
	destroy((struct object *)m);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	CALL(1);
	struct object *o = find(MODULE, m);
	REQUIRE(o, CUDA_ERROR_INVALID_HANDLE);
	for (*f = o->functions; *(*f)->name; ++*f)
		if (!strcmp((*f)->name, name))
			return CUDA_SUCCESS;
	return CUDA_ERROR_NOT_FOUND;
}

static int is_function(CUfunction f) {
	for (struct object *o = objects; o; o = o->next)
		if (o->functions && f >= o->functions && f < o->functions + MAX_KERNELS)
			return o->ctx == current;
	return 0;
}

#ifndef OLD_DRIVER
CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size) {
	CALL(1);
	REQUIRE(is_function(f), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(i < (size_t)f->params, CUDA_ERROR_INVALID_VALUE);
	*offset = f->offset[i];
	*size = f->size[i];
	return CUDA_SUCCESS;
}
#endif

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
	CALL(1);
	REQUIRE(is_function(f), CUDA_ERROR_INVALID_HANDLE);
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 512; break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = 1024; break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 16; break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 8; break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 40; break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = 70; break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->max_dynamic; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
	CALL(1);
	REQUIRE(is_function(f), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CUDA_ERROR_INVALID_VALUE);
	f->max_dynamic = value;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t shared) {
	CALL(1);
	REQUIRE(is_function(f), CUDA_ERROR_INVALID_HANDLE);
	int by_shared = (228 << 10) / (2048 + (int)shared), by_threads = 2048 / threads;
	*blocks = by_shared < by_threads ? by_shared : by_threads;
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			unsigned shared, CUstream s, void **params, void **extra) {
	CALL(1);
	REQUIRE(find(STREAM, s) && is_function(f), CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(!params && bx * by * bz <= 1024, CUDA_ERROR_INVALID_VALUE);
	struct fake_launch l = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
	const void *args = NULL;
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			args = extra[1];
		if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			l.size = *(size_t *)extra[1];
	}
	REQUIRE(l.size == f->total && l.size <= FAKE_ARGS && (args || !l.size), CUDA_ERROR_INVALID_VALUE);
	snprintf(l.kernel, FAKE_NAME, "%s", f->name);
	if (l.size)
		memcpy(l.args, args, l.size);
	fake.launch[fake.launches++ % FAKE_LAUNCHES] = l;
	((struct object *)s)->ready = 0;
	return CUDA_SUCCESS;
}
