/*
 * fake_engine.c - an engine that counts what the shim tells it, and prints annotations.
 */
#include "interpose/engine.h"

#include "base/protocol.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { RECORDED_OPERANDS = 4 };

/* What the tests read. */
struct fake_record {
    unsigned long starts, begins, ends, frees, destroys, unloads, nested;
    char name[64];
    CUstream stream;
    unsigned operand_count;
    struct operand operands[RECORDED_OPERANDS];
    const struct shim_services *services;
    CUresult (*call_inside)(CUdeviceptr, CUdeviceptr, size_t); /* a hook to call from within begin() */
};
EXPORT struct fake_record fake_record;

/* A look-up from this library's code, which the tests exempt. */
EXPORT void *fake_look_up(void *handle, const char *name);

EXPORT void *
fake_look_up(void *handle, const char *name)
{
    void *volatile found = dlsym(handle, name); /* not a tail call: this library must be the caller */
    return found;
}

static void
begin(struct operation *operation)
{
    ++fake_record.begins;
    snprintf(fake_record.name, sizeof(fake_record.name), "%s", operation->name);
    fake_record.stream = operation->stream;
    fake_record.operand_count = operation->operand_count;
    for (unsigned i = 0; i < operation->operand_count && i < RECORDED_OPERANDS; ++i)
        fake_record.operands[i] = operation->operands[i];
    if (fake_record.call_inside != NULL) {
        unsigned long before = fake_record.begins;
        (void)fake_record.call_inside(1, 2, 3);
        fake_record.nested += fake_record.begins - before;
    }
}

static void
end(struct operation *operation, bool enqueued)
{
    (void)operation;
    fake_record.ends += enqueued;
}

static void
annotate(const char *what, void *ptr, size_t count, int type, const struct ddp_site *site)
{
    printf("%s %s %zu %d line %d %s\n", what, site->text, count, type, site->line > 0 ? 1 : 0,
           ptr != NULL ? "ptr" : "null");
}

static void
parameter(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    annotate("parameter", ptr, count, type, site);
}

static void
gradient(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    annotate("gradient", ptr, count, type, site);
}

static void
step(int group, void *stream, const struct ddp_site *site)
{
    printf("step %d %p %s\n", group, stream, site->text);
}

static void
gradient_group(int id, const struct ddp_site *site)
{
    printf("group %d %s\n", id, site->text);
}

static void
mean(float *value, const struct ddp_site *site)
{
    (void)site;
    printf("mean %g\n", (double)*value);
    *value = 7;
}

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    (void)site;
    *first = total / 4;
    *count = total / 2;
}

static void
forget(void *ptr, const struct ddp_site *site)
{
    printf("forget %s %s\n", site->text, ptr != NULL ? "ptr" : "null");
}

static void
before_free(CUdeviceptr address)
{
    (void)address;
    ++fake_record.frees;
}

static void
before_stream_destroy(CUstream stream)
{
    (void)stream;
    ++fake_record.destroys;
}

static void
functions_unloaded(void)
{
    ++fake_record.unloads;
}

static void
before_context_destroy(CUcontext context)
{
    (void)context;
    ++fake_record.unloads;
}

static void
before_device_reset(CUdevice device)
{
    (void)device;
    ++fake_record.unloads;
}

static void
after_fork_in_child(void)
{
}

static const struct engine engine = {
    .abi = ENGINE_ABI,
    .rank = 3,
    .world_size = 5,
    .local_rank = 1,
    .watching = true,
    .parameter = parameter,
    .gradient = gradient,
    .gradient_group = gradient_group,
    .step = step,
    .mean = mean,
    .shard = shard,
    .forget = forget,
    .begin = begin,
    .end = end,
    .before_free = before_free,
    .before_stream_destroy = before_stream_destroy,
    .before_context_destroy = before_context_destroy,
    .before_device_reset = before_device_reset,
    .functions_unloaded = functions_unloaded,
    .after_fork_in_child = after_fork_in_child,
};

EXPORT const struct engine *ddprun_engine_start(const struct shim_services *services, struct rank_status *status);

EXPORT const struct engine *
ddprun_engine_start(const struct shim_services *services, struct rank_status *status)
{
    (void)status;
    ++fake_record.starts;
    fake_record.services = services;
    return &engine;
}
