/*
 * fake_engine.c - an engine that counts what the shim reports to it, and prints annotations.
 */
#include "fake_engine.h"

#include "base/protocol.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct fake_record fake_record;

EXPORT void *fake_look_up(void *handle, const char *name);

EXPORT void *
fake_look_up(void *handle, const char *name)
{
    void *volatile found = dlsym(handle, name); /* not a tail call: this library must be the caller */
    return found;
}

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    size_t used = strlen(fake_record.log);
    va_list args;
    va_start(args, format);
    vsnprintf(fake_record.log + used, sizeof(fake_record.log) - used, format, args);
    va_end(args);
}

static void
note_stream(CUstream stream)
{
    if (stream == CU_STREAM_LEGACY)
        note("legacy");
    else if (stream == CU_STREAM_PER_THREAD)
        note("per-thread");
    else
        note("%lx", (unsigned long)(uintptr_t)stream);
}

/* ARGUMENT:ADDRESS+BYTES; ARGUMENT.ENTRY of a list; /PIECE*COUNT@STRIDE*COUNT@STRIDE where there are holes */
static void
note_operand(const struct operand *operand)
{
    unsigned argument = operand->argument & 0xFFFF, entry = operand->argument >> OPERAND_LIST_SHIFT;
    note(entry > 0 ? " %u.%u" : " %u", argument, entry);
    note(":%llx+%zx", operand->address, operand->bytes);
    if (operand->pieces.bytes > 0)
        note("/%zx*%zx@%zx*%zx@%zx", operand->pieces.bytes, operand->pieces.inner_count, operand->pieces.inner_stride,
             operand->pieces.outer_count, operand->pieces.outer_stride);
}

static void
begin(struct operation *operation)
{
    ++fake_record.begins;
    operation->skip = fake_record.skips;
    snprintf(fake_record.name, sizeof(fake_record.name), "%s", operation->name);
    note("work ");
    note_stream(operation->stream);
    for (unsigned i = 0; i < operation->operand_count; ++i)
        note_operand(&operation->operands[i]);
    if (operation->host_source != NULL)
        note(" host %p+%zx", operation->host_source, operation->host_bytes);
    if (operation->function != NULL)
        note(" kernel %p %p %p", (void *)operation->function, (void *)operation->params, (void *)operation->extra);
    if (operation->graph != NULL)
        note(" graph %p", (void *)operation->graph);
    if (operation->opaque)
        note(" opaque");
    if (fake_record.call_inside != NULL) {
        unsigned long before = fake_record.begins;
        (void)fake_record.call_inside(1, 2, 3);
        fake_record.nested += fake_record.begins - before;
    }
}

static void
end(struct operation *operation, bool enqueued)
{
    fake_record.ends += enqueued;
    fake_record.grid_x = operation->config != NULL ? operation->config->gridDimX : 0;
    operation->again = fake_record.agains > 0;
    fake_record.agains -= operation->again;
    note(enqueued ? " done" : " refused");
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
step_parameters(int group, void *stream, const struct ddp_site *site)
{
    printf("step parameters %d %p %s\n", group, stream, site->text);
}

static void
gradient_group(int id, const struct ddp_site *site)
{
    printf("group %d %s\n", id, site->text);
}

static void
no_sync(int begins, const struct ddp_site *site)
{
    printf("no sync %d %s\n", begins, site->text);
}

static void
buffer(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    annotate("buffer", ptr, count, type, site);
}

static void
gradient_ready(void *ptr, void *stream, const struct ddp_site *site)
{
    printf("ready %s %p %s\n", ptr != NULL ? "ptr" : "null", stream, site->text);
}

static void
mean(const char *label, void *value, int type, const struct ddp_site *site)
{
    (void)site;
    bool wide = type == DDP_FLOAT64;
    double before = wide ? *(double *)value : (double)*(float *)value, after = label == NULL ? 7 : before + 1;
    printf("mean %.17g of type %d%s%s\n", before, type, label != NULL ? " as " : "", label != NULL ? label : "");
    if (wide)
        *(double *)value = after;
    else
        *(float *)value = (float)after;
}

static void
reduce(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site)
{
    printf("reduce %s %zu %d %d %p %s\n", site->text, count, type, op, stream, ptr != NULL ? "ptr" : "null");
}

static void
weight(size_t count, size_t total, const struct ddp_site *site)
{
    printf("weight %zu of %zu %s\n", count, total, site->text);
}

static void
state(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    annotate("state", ptr, count, type, site);
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
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    note("allocated %zx %d", bytes, (int)kind);
    (void)address; /* the fake driver has not written it */
}

static void
copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    uint64_t word = 0;
    memcpy(&word, source, bytes < sizeof(word) ? bytes : sizeof(word));
    note("host %zx/%zx*%zx %llx ", bytes, pitch, rows, (unsigned long long)word);
}

static void
may_wait(bool loads)
{
    note(loads ? "loads " : "frees ");
}

static void
before_release(CUdeviceptr address, size_t bytes)
{
    note("release %llx+%zx", address, bytes);
}

static void
before_stream_destroy(CUstream stream)
{
    note("stream ");
    note_stream(stream);
}

static void
before_context_destroy(CUcontext context)
{
    note("context %p", (void *)context);
}

static void
before_device_reset(CUdevice device)
{
    note("reset %d", device);
}

static void
before_primary_release(CUdevice device)
{
    note("primary %d", device);
}

static void
tensor_map_encoded(CUdeviceptr address, bool done)
{
    note("map %llx%s", address, done ? " done" : " refused");
}

static void
kernels_found(const CUkernel *kernels, unsigned room, CUlibrary library, bool done)
{
    note("kernels %p %u %p%s", (const void *)kernels, room, (void *)library, done ? " done" : " refused");
}

static void
before_unload(void)
{
    note("unload");
}

static void
after_unload(void)
{
    note(" unloaded");
}

static void
capture_begun(CUstream stream, bool into_graph, bool done)
{
    note("begun%s ", into_graph ? " into" : "");
    note_stream(stream);
    note(done ? " done" : " refused");
}

static void
capture_changes(CUstream stream)
{
    note("changes ");
    note_stream(stream);
}

static void *
capture_ends(CUstream stream)
{
    note("ends ");
    note_stream(stream);
    return &fake_record;
}

static void
capture_ended(void *ended, const CUgraph *graph, bool done)
{
    note(" ended%s %p%s", ended == &fake_record ? "" : " another", (const void *)graph, done ? " done" : " refused");
}

static void
graph_cloned(CUgraph from, const CUgraph *clone, bool done)
{
    note("cloned %p of %p%s", (const void *)clone, (void *)from, done ? " done" : " refused");
}

static void
graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done)
{
    note("made %p of %p %llx%s", (const void *)made, (void *)from, (unsigned long long)flags,
         done ? " done" : " refused");
}

static void
graph_updated(CUgraphExec exec, CUgraph graph, bool done)
{
    note("updated %p as %p%s", (void *)exec, (void *)graph, done ? " done" : " refused");
}

static void
graph_goes(void *handle)
{
    note("goes %p", handle);
}

static void
graph_gone(void *handle, bool done)
{
    note(" gone %p%s", handle, done ? " done" : " refused");
}

static void
graph_changes(CUgraph graph, const char *call)
{
    note("graph %p %s", (void *)graph, call);
}

static void
graph_nested(CUgraph graph, const char *call)
{
    note("nested %p ", (void *)graph);
    (void)call;
}

static void
node_changes(CUgraphExec exec, CUgraphNode node, struct operation *work)
{
    note("node %p of %p", (void *)node, (void *)exec);
    for (unsigned i = 0; i < work->operand_count; ++i)
        note_operand(&work->operands[i]);
    if (work->function != NULL)
        note(" kernel %p %p %p", (void *)work->function, (void *)work->params, (void *)work->extra);
    if (work->opaque)
        note(" opaque");
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
    .step_parameters = step_parameters,
    .mean = mean,
    .shard = shard,
    .forget = forget,
    .no_sync = no_sync,
    .buffer = buffer,
    .state = state,
    .weight = weight,
    .reduce = reduce,
    .gradient_ready = gradient_ready,
    .begin = begin,
    .end = end,
    .allocated = allocated,
    .copied_from_host = copied_from_host,
    .may_wait = may_wait,
    .before_release = before_release,
    .before_stream_destroy = before_stream_destroy,
    .before_context_destroy = before_context_destroy,
    .before_device_reset = before_device_reset,
    .before_primary_release = before_primary_release,
    .tensor_map_encoded = tensor_map_encoded,
    .kernels_found = kernels_found,
    .before_unload = before_unload,
    .after_unload = after_unload,
    .capture_begun = capture_begun,
    .capture_changes = capture_changes,
    .capture_ends = capture_ends,
    .capture_ended = capture_ended,
    .graph_cloned = graph_cloned,
    .graph_made = graph_made,
    .graph_updated = graph_updated,
    .graph_goes = graph_goes,
    .graph_gone = graph_gone,
    .graph_changes = graph_changes,
    .graph_nested = graph_nested,
    .node_changes = node_changes,
    .after_fork_in_child = after_fork_in_child,
};

EXPORT const struct engine *ddprun_engine_start(const struct shim_services *services, struct rank_status *status);

EXPORT const struct engine *
ddprun_engine_start(const struct shim_services *services, struct rank_status *status)
{
    (void)status;
    ++fake_record.starts;
    fake_record.services = services;
    void (*during)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "test_during_start");
    if (during != NULL)
        during();
    return &engine;
}
