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

static int
any(volatile int *flag, const struct ddp_site *site)
{
    printf("any %d %s\n", *flag, site->text);
    *flag = 1;
    return 1;
}

static uint64_t
turn_begin(const struct ddp_site *site)
{
    static uint64_t regions;
    printf("turn %s\n", site->text);
    return ++regions;
}

static int
turn_mine(void)
{
    return 0;
}

static int
turn_updates(void)
{
    return 5;
}

static void
shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    (void)site;
    *first = total / 4;
    *count = total / 2;
}

static void
copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    uint64_t word = 0;
    memcpy(&word, source, bytes < sizeof(word) ? bytes : sizeof(word));
    note("host %zx/%zx*%zx %llx ", bytes, pitch, rows, (unsigned long long)word);
}

static void *
capture_ends(CUstream stream)
{
    note("ends ");
    note_stream(stream);
    return &fake_record;
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

#define DONE (done ? " done" : " refused")
#define SAYS(member, parameters, ...) \
    static void member parameters     \
    {                                 \
        __VA_ARGS__;                  \
    }
#include "fake_engine.def"
#undef SAYS

#define SAYS(member, ...) .member = member,
static const struct engine engine = {
    .abi = ENGINE_ABI,
    .rank = 3,
    .world_size = 5,
    .local_rank = 1,
    .watching = true,
    .mean = mean,
    .any = any,
    .turn_begin = turn_begin,
    .turn_mine = turn_mine,
    .turn_updates = turn_updates,
    .shard = shard,
    .begin = begin,
    .end = end,
    .copied_from_host = copied_from_host,
    .capture_ends = capture_ends,
    .node_changes = node_changes,
#include "fake_engine.def"
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
