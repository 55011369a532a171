/*
 * late.c - a touch of a gradient after its bucket has left is measured, once for each call (touches.c): did it change
 * the gradient? Reading is allowed, writing ends the job.
 *
 * Two hashes in the order of the touch's stream, around it.
 */
#include "interpose/engine/state.h"

#include "base/mutant.h"

#include <stdio.h>
#include <stdlib.h>

struct late_touch {
    struct hasher *hasher;
    CUdeviceptr address;
    size_t bytes;
    size_t bucket;
    uint64_t step; /* counted from 1: the hash after it may come when the host is steps further */
    struct ddp_site site;
    char call_text[CALL_TEXT_BYTES];
    uint64_t before;
    char stack[512];
};

static void
store_before(void *arg, uint64_t hash)
{
    struct late_touch *late = arg;
    late->before = hash;
}

struct late_touch *
late_begin(const struct operation *operation, const char *call_text, const struct tensor *gradient, size_t bucket)
{
    struct late_touch *late = malloc(sizeof(*late));
    if (late == NULL)
        stop_job("out of memory");
    *late = (struct late_touch){.hasher = hasher_get(),
                                .address = gradient->address,
                                .bytes = gradient->bytes,
                                .bucket = bucket,
                                .step = atomic_load(&engine_state.boundary_count) + 1,
                                .site = gradient->site};
    snprintf(late->call_text, sizeof(late->call_text), "%s", call_text);
    stack_describe(late->stack, sizeof(late->stack));
    hasher_enqueue(late->hasher, operation->stream, late->address, late->bytes, store_before, late);
    return late;
}

static void
judge(void *arg, uint64_t after)
{
    struct late_touch *late = arg;
    if (after != late->before && !MUTANT(LATE_LET_THROUGH))
        stop_job_soon(
            "in step %llu %s wrote gradient `%s` (%s:%d) after bucket %zu with it had been averaged; the steps "
            "before did not. Run with --no-overlap. Called from: %s",
            (unsigned long long)late->step, late->call_text, late->site.text, late->site.file, late->site.line,
            late->bucket, late->stack);
    hasher_put(late->hasher);
    free(late);
}

void
late_end(struct late_touch *late, CUstream stream)
{
    hasher_enqueue(late->hasher, stream, late->address, late->bytes, judge, late);
}
