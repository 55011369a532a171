/*
 * late_write.c - a touch of a gradient after its bucket is launched is measured, once for each call (touches.c): did it
 * change the gradient? Reading is allowed, writing ends the job.
 *
 * Two hashes in the order of the touch's stream, around it.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/verify/verify.h"

struct late_touch {
    struct hasher *hasher;
    struct tensor gradient;
    size_t bucket;
    bool anew;
    uint64_t step; /* counted from 1: the hash after it may come when the host is steps further */
    char call_text[CALL_TEXT_BYTES];
    uint64_t before;
    char stack[512];
};

static void
store_before(void *arg, const struct hashed *hashed)
{
    struct late_touch *late = arg;
    late->before = hashed->hash;
}

struct late_touch *
late_begin(const struct operation *operation, const char *call_text, const struct tensor *gradient, size_t bucket,
           bool anew)
{
    struct late_touch *late = engine_calloc(1, sizeof(*late));
    *late = (struct late_touch){.hasher = hasher_get(),
                                .gradient = *gradient,
                                .bucket = bucket,
                                .anew = anew,
                                .step = atomic_load(&engine_state.boundary_count) + 1};
    snprintf(late->call_text, sizeof(late->call_text), "%s", call_text);
    stack_describe(late->stack, sizeof(late->stack));
    hasher_add(late->hasher, gradient->address, gradient->bytes, 0, store_before, late);
    hasher_launch(late->hasher, operation->stream);
    return late;
}

/* What the user can do about the write. */
static const char *
advise(const struct late_touch *late)
{
    if (late->anew)
        return "DDP_STEP was left out of this step. Call it once in each step, between backward and the optimizer";
    if (late->gradient.declared)
        return "DDP_GRADIENT_READY stands before the gradient's last work, or DDP_STEP was left out of this step";
    return "earlier steps had no such write. Run with --no-overlap";
}

static void
judge_late_write(void *arg, const struct hashed *after)
{
    struct late_touch *late = arg;
    if (after->hash != late->before)
        stop_job_soon("in step %llu %s wrote %s after bucket %zu had been averaged: %s. Called from: %s",
                      (unsigned long long)late->step, late->call_text, tensor_text(&late->gradient), late->bucket,
                      advise(late), late->stack);
    hasher_put(late->hasher);
    free(late);
}

void
late_end(struct late_touch *late, CUstream stream)
{
    hasher_add(late->hasher, late->gradient.address, late->gradient.bytes, 0, judge_late_write, late);
    hasher_collect(late->hasher, stream);
}
