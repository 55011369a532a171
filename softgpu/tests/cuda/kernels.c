/* kernels.c - see kernels.h. */
#include "kernels.h"

#include "softgpu/private_calls.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void
add(const struct softgpu_launch *launch)
{
    float *values = *(float *const *)launch->args[0];
    float by = *(const float *)launch->args[1];
    unsigned count = *(const unsigned *)launch->args[2];
    for (uint64_t block = launch->block_begin; block < launch->block_end; ++block) {
        for (unsigned thread = 0; thread < launch->block[0]; ++thread) {
            uint64_t i = block * launch->block[0] + thread;
            if (i < count)
                values[i] += by;
        }
    }
}

static const struct softgpu_param add_params[] = {{0, 8}, {8, 4}, {12, 4}};
const struct softgpu_image add_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "add", add, 3, add_params, 0, 1024};

static void
nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

bool
wait_for(atomic_int *flag)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (atomic_load(flag) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > 20)
            return false;
        nap();
    }
    return true;
}

atomic_int gate_gave_up;

static void
gate(const struct softgpu_launch *launch)
{
    if (!wait_for(*(atomic_int *const *)launch->args[0]))
        atomic_store(&gate_gave_up, 1);
}

static const struct softgpu_param pointer_params[] = {{0, 8}};
const struct softgpu_image gate_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "gate", gate, 1, pointer_params, 0, 1024};

static atomic_ulong span_clock = 1;

static void
span(const struct softgpu_launch *launch)
{
    struct span *span = *(struct span *const *)launch->args[0];
    atomic_store(&span->begin, atomic_fetch_add(&span_clock, 1));
    nap();
    atomic_store(&span->end, atomic_fetch_add(&span_clock, 1));
}

const struct softgpu_image span_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "span", span, 1, pointer_params, 0, 1024};

static void
mixed(const struct softgpu_launch *launch)
{
    struct mixed *out = *(struct mixed *const *)launch->args[4];
    out->a = *(const char *)launch->args[0];
    out->b = *(const double *)launch->args[1];
    memcpy(out->text, launch->args[2], sizeof out->text);
    out->d = *(const short *)launch->args[3];
    out->blocks_seen += launch->block_end - launch->block_begin;
    memcpy(out->grid, launch->grid, sizeof out->grid);
    memcpy(out->block, launch->block, sizeof out->block);
    out->dynamic_shared_bytes = launch->dynamic_shared_bytes;
    out->aligned = (uintptr_t)launch->args[1] % 8 == 0 && (uintptr_t)launch->args[3] % 2 == 0;
}

static const struct softgpu_param mixed_params[] = {{0, 1}, {8, 8}, {16, 24}, {40, 2}, {48, 8}};
const struct softgpu_image mixed_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, SOFTGPU_IMAGE_WHOLE_GRID, "mixed", mixed, 5, mixed_params, 0, 1024};

static void
whole(const struct softgpu_launch *launch)
{
    atomic_fetch_add(*(atomic_int *const *)launch->args[0], 1);
}

const struct softgpu_image whole_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, SOFTGPU_IMAGE_WHOLE_GRID, "whole", whole, 1, pointer_params, 0, 1024};

static void
bounded(const struct softgpu_launch *launch)
{
    (void)launch;
}

const struct softgpu_image bounded_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "bounded", bounded, 0, NULL, 1000, 128};

static void
report_failure(const struct softgpu_launch *launch)
{
    (void)launch;
    softgpuLaunchFailed(CUDA_ERROR_ASSERT, "this test's kernel fails");
}

const struct softgpu_image fail_image = {
    SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, "fail", report_failure, 0, NULL, 0, 1024};

/* These helpers also serve outside of Check's tests, where ck_assert cannot be used. */
static void
must(CUresult result, int line)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "kernels.c:%d: error %d\n", line, (int)result);
        abort();
    }
}

void
use_device(void)
{
    CUcontext context;
    must(cuInit(0), __LINE__);
    must(cuDevicePrimaryCtxRetain(&context, 0), __LINE__);
    must(cuCtxSetCurrent(context), __LINE__);
}

CUstream
new_stream(unsigned flags)
{
    CUstream stream;
    must(cuStreamCreate(&stream, flags), __LINE__);
    return stream;
}

CUfunction
load_function(const struct softgpu_image *image)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    must(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), __LINE__);
    must(cuLibraryGetKernel(&kernel, library, image->name), __LINE__);
    must(cuKernelGetFunction(&function, kernel), __LINE__);
    must(cuFuncLoad(function), __LINE__); /* else SOFTGPU_UNRULY's first launch waits for all streams */
    return function;
}

void
launch_one(CUfunction function, CUstream stream, void *pointer)
{
    void *args[] = {&pointer};
    must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL), __LINE__);
}

void
launch_add(CUfunction add, CUstream stream, CUdeviceptr values, float by, unsigned count)
{
    void *args[] = {&values, &by, &count};
    must(cuLaunchKernel(add, count, 1, 1, 1, 1, 1, 0, stream, args, NULL), __LINE__);
}

CUdeviceptr
device_memory(size_t bytes)
{
    CUdeviceptr memory;
    must(cuMemAlloc(&memory, bytes), __LINE__);
    must(memory % 256 == 0 ? CUDA_SUCCESS : CUDA_ERROR_MISALIGNED_ADDRESS, __LINE__);
    return memory;
}

CUdeviceptr
managed_memory(size_t bytes)
{
    CUdeviceptr memory;
    must(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL), __LINE__);
    return memory;
}

void *
pinned_memory(size_t bytes)
{
    void *memory;
    must(cuMemAllocHost(&memory, bytes), __LINE__);
    return memory;
}

CUevent
new_event(void)
{
    CUevent event;
    must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), __LINE__);
    return event;
}
