/*
 * allocate.c - the driver API's calls that allocate, free and register memory, in stream order too, and ask how much is
 * left.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <stdlib.h>

enum { PITCH_BYTES = 512 };

static CUresult
allocate(CUdeviceptr *pointer_out, size_t bytes, enum memory_kind kind, unsigned flags)
{
    struct context *context;
    TRY(context_enter(&context));
    TRY(capture_check_unsafe());
    REQUIRE(pointer_out != NULL);
    uintptr_t base;
    TRY(memory_allocate(context, bytes, kind, flags, NULL, &base));
    *pointer_out = base;
    return CUDA_SUCCESS;
}

CUresult
cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    SELF_LOOK_UP(cuMemAlloc_v2, (pointer, bytes));
    return allocate(pointer, bytes, MEMORY_DEVICE, 0);
}

CUresult
cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
    return allocate(pointer, bytes, MEMORY_MANAGED, flags);
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width_bytes, size_t height, unsigned int element_bytes)
{
    REQUIRE(pitch != NULL && (element_bytes == 4 || element_bytes == 8 || element_bytes == 16));
    REQUIRE(width_bytes != 0 && height != 0 && width_bytes <= SIZE_MAX - PITCH_BYTES);
    size_t row_bytes = (width_bytes + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES, bytes;
    REQUIRE_ELSE(!__builtin_mul_overflow(row_bytes, height, &bytes), CUDA_ERROR_OUT_OF_MEMORY);
    TRY(allocate(pointer, bytes, MEMORY_DEVICE, 0));
    *pitch = row_bytes;
    return CUDA_SUCCESS;
}

static const char *
free_call(enum memory_kind kind)
{
    return kind == MEMORY_HOST ? "cuMemFreeHost" : kind == MEMORY_REGISTERED ? "cuMemHostUnregister" : "cuMemFree";
}

/* Waits for the work that may use the allocation at `base`, then frees it. */
static CUresult
free_now(uintptr_t base, enum memory_kind kind)
{
    struct allocation entry;
    if (!memory_find(base, &entry) || entry.base != base || !memory_kind_matches(entry.kind, kind) || entry.freeing) {
        memory_explain_free(free_call(kind), base);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult drained = context_drain(entry.context);
    CUresult freed = memory_free(base, kind);
    return freed != CUDA_SUCCESS ? freed : drained;
}

CUresult
cuMemFree_v2(CUdeviceptr pointer)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS || pointer == 0) {
        return result;
    }
    result = capture_check_unsafe();
    return result == CUDA_SUCCESS ? free_now(pointer, MEMORY_DEVICE) : result;
}

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    struct context *context;
    TRY(context_enter(&context));
    if (free_bytes != NULL) {
        *free_bytes = driver.memory_bytes - memory_used(context->device);
    }
    if (total_bytes != NULL) {
        *total_bytes = driver.memory_bytes;
    }
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct context *context;
    TRY(context_enter(&context));
    struct allocation found;
    REQUIRE_ELSE(memory_find(pointer, &found), CUDA_ERROR_NOT_FOUND);
    if (base != NULL) {
        *base = found.base;
    }
    if (bytes != NULL) {
        *bytes = found.bytes;
    }
    return CUDA_SUCCESS;
}

/* ---- variables of the program ---- */

int
softgpuGlobalRegister(void *address, size_t bytes)
{
    struct context *context;
    TRY(context_enter(&context));
    CUresult result = memory_register(context, (uintptr_t)address, bytes, MEMORY_GLOBAL, 0);
    if (result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
        return result;
    }
    struct allocation found;
    bool same = memory_find((uintptr_t)address, &found) && found.kind == MEMORY_GLOBAL &&
                bytes <= found.bytes - ((uintptr_t)address - found.base);
    return same ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- page-locked host memory ---- */

CUresult
cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    REQUIRE(pointer != NULL && (flags & ~known) == 0);
    CUdeviceptr base;
    TRY(allocate(&base, bytes, MEMORY_HOST, flags | CU_MEMHOSTALLOC_DEVICEMAP));
    *pointer = (void *)base;
    return CUDA_SUCCESS;
}

CUresult
cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

CUresult
cuMemFreeHost(void *pointer)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS || pointer == NULL) {
        return result;
    }
    result = capture_check_unsafe();
    return result == CUDA_SUCCESS ? free_now((uintptr_t)pointer, MEMORY_HOST) : result;
}

CUresult
cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    struct context *context;
    TRY(context_enter(&context));
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        say("cuMemHostRegister: memory of other devices is not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return memory_register(context, (uintptr_t)pointer, bytes, MEMORY_REGISTERED, flags);
}

CUresult
cuMemHostUnregister(void *pointer)
{
    struct context *context;
    TRY(context_enter(&context));
    CUresult result = free_now((uintptr_t)pointer, MEMORY_REGISTERED);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

static CUresult
find_host(const void *pointer, struct allocation *found)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(memory_find((uintptr_t)pointer, found) && (found->kind == MEMORY_HOST || found->kind == MEMORY_REGISTERED));
    return CUDA_SUCCESS;
}

CUresult
cuMemHostGetDevicePointer_v2(CUdeviceptr *device_pointer, void *pointer, unsigned int flags)
{
    struct allocation found;
    REQUIRE(device_pointer != NULL && flags == 0);
    TRY(find_host(pointer, &found));
    *device_pointer = (CUdeviceptr)pointer;
    return CUDA_SUCCESS;
}

CUresult
cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
    struct allocation found;
    CUresult result = find_host(pointer, &found);
    return ANSWER(result, flags, found.flags);
}

/* ---- in stream order ---- */

/* The memory is there at once, which a program that keeps to the stream's order cannot tell from CUDA's later. */
static CUresult
allocate_async(CUdeviceptr *pointer, size_t bytes, struct pool *pool, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE(pointer != NULL);
    if (capture_is_on(stream)) {
        say("cuMemAllocAsync: allocations in a captured stream are not supported; allocate before the capture");
        capture_invalidate(stream);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    uintptr_t base;
    pool = pool != NULL ? pool : pool_default(stream->context->device);
    TRY(memory_allocate(stream->context, bytes, MEMORY_DEVICE, 0, pool, &base));
    *pointer = base;
    return CUDA_SUCCESS;
}

static CUresult
allocate_from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle, CUstream stream, enum flavour flavour)
{
    struct pool *pool;
    CUresult result = pool_from_handle(handle, &pool);
    return result == CUDA_SUCCESS ? allocate_async(pointer, bytes, pool, stream, flavour) : result;
}

struct free_command {
    struct command command;
    uintptr_t base;
};

static void
run_free(struct command *command, struct stream *stream)
{
    if (memory_free(((struct free_command *)command)->base, MEMORY_DEVICE) != CUDA_SUCCESS) {
        context_fail(stream->context, CUDA_ERROR_INVALID_VALUE,
                     "cuMemFreeAsync: the allocation is gone before its turn came");
    }
}

static CUresult
free_async(CUdeviceptr pointer, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result != CUDA_SUCCESS || pointer == 0) {
        return result;
    }
    if (capture_is_on(stream)) {
        say("cuMemFreeAsync: frees in a captured stream are not supported; free after the capture");
        capture_invalidate(stream);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct free_command *command = command_new(sizeof *command, run_free);
    REQUIRE_ELSE(command != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    command->base = pointer;
    result = memory_mark_freeing(pointer);
    if (result != CUDA_SUCCESS) {
        memory_explain_free("cuMemFreeAsync", pointer);
        command_drop(command);
        return result;
    }
    return stream_submit(stream, &command->command, NULL);
}

BOTH_FLAVOURS(cuMemAllocAsync, _ptsz, (CUdeviceptr * pointer, size_t bytes, CUstream stream),
              allocate_async(pointer, bytes, NULL, stream, flavour))
BOTH_FLAVOURS(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream),
              allocate_from_pool(pointer, bytes, pool, stream, flavour))
BOTH_FLAVOURS(cuMemFreeAsync, _ptsz, (CUdeviceptr pointer, CUstream stream), free_async(pointer, stream, flavour))
