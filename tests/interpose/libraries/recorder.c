/*
 * recorder.c - an engine that records what hooks of libraries report to it.
 */
#include "recorder.h"

#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct record recorder_record;

static void
begin(struct operation *operation)
{
    struct record *record = &recorder_record;
    if (record->paused)
        return;
    ++record->begins;
    operation->skip = record->skips;
    snprintf(record->name, sizeof(record->name), "%s", operation->name);
    record->stream = operation->stream;
    record->opaque = operation->opaque;
    record->operand_count = operation->operand_count;
    for (unsigned i = 0; i < operation->operand_count && i < RECORDED_OPERANDS; ++i)
        record->operands[i] = operation->operands[i];
    if (record->inside != NULL)
        record->inside();
}

static void
end(struct operation *operation, bool enqueued)
{
    (void)operation;
    if (recorder_record.paused)
        return;
    ++recorder_record.ends;
    recorder_record.enqueued += enqueued;
}

/* What is no operation is not recorded. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define IGNORES(member, ...)        \
    static void member(__VA_ARGS__) \
    {                               \
    }
IGNORES(allocated, const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
IGNORES(copied_from_host, const void *source, size_t bytes, size_t pitch, size_t rows)
IGNORES(before_release, CUdeviceptr address, size_t bytes)
IGNORES(before_stream_destroy, CUstream stream)
IGNORES(before_context_destroy, CUcontext context)
IGNORES(before_device_reset, CUdevice device)
IGNORES(kernels_found, const CUkernel *kernels, unsigned room, CUlibrary library, bool done)
IGNORES(may_wait, bool loads)
IGNORES(around_unload, void)
IGNORES(after_fork_in_child, void)

static const struct engine engine = {
    .abi = ENGINE_ABI,
    .world_size = 2,
    .watching = true,
    .begin = begin,
    .end = end,
    .allocated = allocated,
    .copied_from_host = copied_from_host,
    .may_wait = may_wait,
    .before_release = before_release,
    .before_stream_destroy = before_stream_destroy,
    .before_context_destroy = before_context_destroy,
    .before_device_reset = before_device_reset,
    .before_primary_release = before_device_reset,
    .kernels_found = kernels_found,
    .before_unload = around_unload,
    .after_unload = around_unload,
    .after_fork_in_child = after_fork_in_child,
};

EXPORT const struct engine *ddprun_engine_start(const struct shim_services *services, struct rank_status *status);

EXPORT const struct engine *
ddprun_engine_start(const struct shim_services *services, struct rank_status *status)
{
    return &engine;
}
