// The controls of the fake driver library: a struct that tests write before a
// call and read after it, and a function that starts anew. The library exports
// both.
#ifndef PTXRUN_FAKE_H
#define PTXRUN_FAKE_H

#include <stdint.h>

enum { FAKE_NAME = 64, FAKE_LOG = 256, FAKE_ARGS = 512, FAKE_TRACE = 4096, FAKE_LAUNCHES = 64 };

struct fake_launch {
	char kernel[FAKE_NAME];
	unsigned grid[3], block[3], shared;
	uint64_t size;
	unsigned char args[FAKE_ARGS];
};

struct fake {
	// How the machine is. The environment variables FAKE_CUDA_INIT and
	// FAKE_CUDA_DEVICES set the first two when the process starts.
	int init_code; // what cuInit returns
	int devices;
	int pools;       // whether devices have memory pools
	int module_code; // what loading a module returns, if not 0
	char module_log[FAKE_LOG];
	int busy; // work is never done until somebody waits for it
	int lost; // the code that every call in a context returns, if not 0

	// The fail_at-th call from now on (1 is the next) fails with fail_code;
	// only calls of fail_name count if that is not empty. failed is its name.
	long fail_at;
	int fail_code;
	char fail_name[FAKE_NAME];
	char failed[FAKE_NAME];

	// What is live.
	long contexts, streams, events, modules, allocations, host_blocks;
	uint64_t pool_threshold;

	// What was called: names in order (the first FAKE_TRACE), launches.
	long calls;
	const char *trace[FAKE_TRACE];
	long wrong_context; // calls that need a context, made without one
	long launches;
	struct fake_launch launch[FAKE_LAUNCHES];
};

extern struct fake fake;
void fake_reset(void);

#endif
