/*
 * late_write.c - a touch of a gradient after its bucket is launched is measured, once for each call (touches.c): did it
 * change the gradient? Reading is allowed, writing ends the job.
 *
 * Two hashes in the order of the touch's stream, around it. A write is kept until DDP_STEP, which waits for all hashes
 * of its step and ends the job: the advice depends on the gradients that were touched up to there. Where no DDP_STEP
 * comes, the watch thread, or the end of the program, ends the job.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"

enum { PATIENCE_MS = 1000 }; /* with a DDP_STEP that does not come */

struct late_touch {
    struct hasher *hasher;
    struct tensor gradient;
    size_t bucket;
    bool anew;
    uint64_t step, number; /* counted from 1, of the step and of the touch */
    char call_text[CALL_TEXT_BYTES];
    uint64_t before;
    char stack[512];
};

/* The first touch that has written a gradient, malloc'ed, and when that was found; NULL: none has. */
static pthread_mutex_t written_lock = PTHREAD_MUTEX_INITIALIZER;
static struct late_touch *written;
static int64_t written_ms;

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
    static _Atomic uint64_t count;
    struct late_touch *late = engine_calloc(1, sizeof(*late));
    *late = (struct late_touch){.hasher = hasher_get(),
                                .gradient = *gradient,
                                .bucket = bucket,
                                .anew = anew,
                                .step = atomic_load(&engine_state.boundary_count) + 1,
                                .number = atomic_fetch_add(&count, 1)};
    snprintf(late->call_text, sizeof(late->call_text), "%s", call_text);
    stack_describe(late->stack, sizeof(late->stack));
    judgement_begins(JUDGED_IN_STEP);
    hasher_add(late->hasher, gradient->address, gradient->bytes, 0, store_before, late);
    hasher_launch(late->hasher, operation->stream);
    return late;
}

static void
keep_first(struct late_touch *late)
{
    pthread_mutex_lock(&written_lock);
    struct late_touch *other = late;
    if (written == NULL || late->number < written->number) {
        other = written;
        written = late;
        written_ms = clock_now_ms();
    }
    pthread_mutex_unlock(&written_lock);
    free(other);
}

static void
judge_late_write(void *arg, const struct hashed *after)
{
    struct late_touch *late = arg;
    hasher_put(late->hasher);
    if (after->hash != late->before)
        keep_first(late);
    else
        free(late);
    judgement_ends(JUDGED_IN_STEP);
}

void
late_end(struct late_touch *late, CUstream stream)
{
    hasher_add(late->hasher, late->gradient.address, late->gradient.bytes, 0, judge_late_write, late);
    hasher_collect(late->hasher, stream);
}

/* ---- the end of the job ---- */

/* What the user can do about the write. */
static const char *
advise(const struct late_touch *late)
{
    if (late->anew)
        return "DDP_STEP was left out of this step. Call it once in each step, between backward and the optimizer";
    if (late->gradient.declared)
        return "DDP_GRADIENT_READY stands before the gradient's last work, or DDP_STEP was left out of this step";
    if (LOCKED(readiness_is_another_pass(&memory_state.groups[late->gradient.group].readiness)))
        return "all averaged gradients were touched once more, in the order of a backward pass. Either DDP_STEP was "
               "left "
               "out of this step: call it once in each step, between backward and the optimizer. Or this step has more "
               "passes than earlier ones: run with --no-overlap";
    return "earlier steps had no such write. Run with --no-overlap";
}

/* Asks for the end of the job if a write was found that is older than `age_ms`. */
static void
tell_written(int64_t age_ms)
{
    pthread_mutex_lock(&written_lock);
    struct late_touch *late = written != NULL && clock_now_ms() - written_ms >= age_ms ? written : NULL;
    if (late != NULL)
        written = NULL;
    pthread_mutex_unlock(&written_lock);
    if (late == NULL)
        return;
    stop_job_soon(late->step, "in step %llu %s wrote %s after bucket %zu had been averaged: %s. Called from: %s",
                  (unsigned long long)late->step, late->call_text, tensor_text(&late->gradient), late->bucket,
                  advise(late), late->stack);
    free(late);
}

void
late_settle(void)
{
    judgement_wait(JUDGED_IN_STEP);
    late_tell();
    stop_if_asked();
}

void
late_period(void)
{
    tell_written(PATIENCE_MS);
}

void
late_tell(void)
{
    tell_written(0);
}
