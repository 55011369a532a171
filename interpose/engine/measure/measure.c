/*
 * measure.c - when do gradients become ready, and how long does the trainer's stream wait at a boundary?
 *
 * All by timing events, recorded where things happen and read at a later boundary, when all of them are complete: the
 * host never waits. Ready times are sampled in a few intervals after a plan was learned, and again before
 * each review; waits at as many boundaries as events are free for. Times of one group; each group has its own. Captured
 * steps are left out: events in a graph cannot be read.
 *
 * Events are only ever added: a thread that was given one may still be about to record it.
 */
#include "interpose/engine/measure/measure.h"

enum {
    INTERVALS_SAMPLED = MEASURED_INTERVALS,
    SKIPPED_STEPS = 4, /* of a plan: the checks of the first steps take time of their own */
    WAITS_IN_FLIGHT = 16,
};

/* One boundary whose events may not be complete. */
struct wait {
    CUevent backward_done, released;
    uint64_t boundary; /* its number, from 1 */
    bool in_flight;
    bool control; /* it goes another way than the others */
};

struct measured {
    /* ---- guarded by lock ---- */
    bool recording;    /* this interval is sampled */
    CUevent *ready;    /* [capacity] */
    uint8_t *recorded; /* [capacity]: in the interval that is, or was last, sampled */

    /* ---- the issuer's role ---- */
    size_t capacity;
    CUevent begin, done;                 /* of the interval that is sampled */
    bool pending;                        /* it is over; its events may not be complete */
    int64_t *samples[INTERVALS_SAMPLED]; /* each [capacity + 1] */
    size_t sample_count;
    bool wanted;

    struct wait waits[WAITS_IN_FLIGHT];
    size_t wait_at;
    bool counts; /* a wait was read since its promise */
    int64_t promised_exposed_ns, promised_bound_ns;
};

static struct measured groups[GROUPS_AT_MOST];

static struct measured *
measured_of(const struct group *group)
{
    return &groups[group->id];
}

static void
record(CUevent event, CUstream stream)
{
    stream_record(stream, event, "cuEventRecord of a measurement");
}

static bool
is_complete(CUevent event)
{
    return engine_state.driver.cuEventQuery_p(event) == CUDA_SUCCESS;
}

/* Nanoseconds between two complete events; false if they have no order to tell, as when one was recorded again. */
static bool
elapsed_ns(CUevent from, CUevent to, int64_t *ns_p)
{
    float ms = 0;
    if (engine_state.driver.cuEventElapsedTime_p(&ms, from, to) != CUDA_SUCCESS || !(ms >= 0.0f))
        return false;
    *ns_p = (int64_t)((double)ms * 1e6);
    return true;
}

/* ---- waits at boundaries ---- */

/* For the report: all groups that have a plan's promise, added up. */
static void
report(void)
{
    int64_t planned = 0, bound = 0, count = 0;
    for (size_t g = 0; g < GROUPS_AT_MOST; ++g) {
        if (!groups[g].counts)
            continue;
        planned += groups[g].promised_exposed_ns;
        bound = groups[g].promised_bound_ns < 0 || bound < 0 ? -1 : bound + groups[g].promised_bound_ns;
        ++count;
    }
    bool known = count > 0 && bound >= 0;
    atomic_store(&engine_state.status->exposed_planned_ns, known ? (uint64_t)planned : UINT64_MAX);
    atomic_store(&engine_state.status->exposed_bound_ns, known ? (uint64_t)bound : UINT64_MAX);
}

/* The launcher finds out which rank the others waited for. */
static void
share_wait(uint64_t boundary, int64_t ns, bool control)
{
    atomic_store(&engine_state.status->exposed_steps[rank_exposed_place(boundary)],
                 rank_exposed_pack(boundary, (uint64_t)ns) | (control ? RANK_EXPOSED_CONTROL : 0));
}

/* What steps take since start-up, but control steps, from the boundary that was looked at before this one. */
static void
add_time(const struct wait *before, const struct wait *wait)
{
    struct rank_status *status = engine_state.status;
    uint64_t from = atomic_load(&status->training_step);
    int64_t ns;
    if (before->released == NULL || before->boundary < from || from == 0 || before->boundary >= wait->boundary ||
        !elapsed_ns(before->released, wait->released, &ns))
        return;
    atomic_fetch_add(&status->timed_ns, (uint64_t)ns);
    atomic_fetch_add(&status->timed_steps, wait->boundary - before->boundary);
}

static void
read_waits(struct measured *of)
{
    bool news = false;
    for (size_t i = 0; i < WAITS_IN_FLIGHT; ++i) {
        size_t at = (of->wait_at + i) % WAITS_IN_FLIGHT; /* oldest first */
        struct wait *wait = &of->waits[at];
        if (!wait->in_flight)
            continue;
        int64_t ns;
        if (!is_complete(wait->released))
            break;
        wait->in_flight = false;
        if (!elapsed_ns(wait->backward_done, wait->released, &ns))
            continue;
        share_wait(wait->boundary, ns, wait->control);
        if (!wait->control)
            add_time(&of->waits[(at + WAITS_IN_FLIGHT - 1) % WAITS_IN_FLIGHT], wait);
        news = news || (!wait->control && !of->counts);
        of->counts = of->counts || !wait->control;
    }
    if (news)
        report();
}

/*
 * For this boundary; NULL: the host is far ahead of the device, and this boundary is not looked at. Once half of all
 * are in flight, the others are kept for boundaries that every rank looks at.
 */
static struct wait *
next_wait(struct measured *of)
{
    struct wait *wait = &of->waits[of->wait_at];
    bool scarce = of->waits[(of->wait_at + WAITS_IN_FLIGHT / 2) % WAITS_IN_FLIGHT].in_flight;
    wait->boundary = wait->in_flight ? wait->boundary : engine_state.boundary_count + 1;
    return wait->in_flight || (scarce && wait->boundary % RANK_EXPOSED_SPARSE != 0) ? NULL : wait;
}

CUevent
measure_released(const struct group *group, CUstream stream)
{
    struct measured *of = measured_of(group);
    struct wait *wait = next_wait(of);
    if (wait == NULL)
        return NULL;
    record(wait->released, stream);
    wait->in_flight = true;
    wait->control = group->control;
    of->wait_at = (of->wait_at + 1) % WAITS_IN_FLIGHT;
    return wait->released;
}

/* ---- ready times ---- */

/* The sampled interval's times, once all its events are complete. */
static void
read_sample(struct measured *of, const struct group *group) BY_ISSUER
{
    RELAX_CAPTURES(); /* to query would end a capture in another thread */
    if (!of->pending || !is_complete(of->done))
        return;
    size_t count = group->gradient_count;
    ASSERT(of->sample_count < INTERVALS_SAMPLED && count <= of->capacity);
    int64_t *sample = of->samples[of->sample_count], last;
    for (size_t i = 0; i < count; ++i) {
        if (of->recorded[i] && !is_complete(of->ready[i]))
            return;
    }
    of->pending = false;
    if (!elapsed_ns(of->begin, of->done, &last))
        return;
    sample[count] = last;
    for (size_t i = 0; i < count; ++i) {
        int64_t ns = last; /* one that nothing made ready: at the boundary */
        if (of->recorded[i] && !elapsed_ns(of->begin, of->ready[i], &ns))
            return;
        sample[i] = ns < last ? ns : last;
    }
    ++of->sample_count;
}

CUevent
measure_ready_event(const struct group *group, size_t gradient)
{
    struct measured *of = measured_of(group);
    if (!of->recording)
        return NULL;
    ASSERT(gradient < of->capacity);
    of->recorded[gradient] = 1;
    return of->ready[gradient];
}

CUevent
measure_backward_done(const struct group *group, CUstream stream)
{
    struct measured *of = measured_of(group);
    read_waits(of); /* where the trainer has just waited for the device, all are free for this boundary and the next */
    struct wait *wait = next_wait(of);
    if (wait != NULL && wait->released == NULL) {
        wait->backward_done = timing_event();
        wait->released = timing_event();
    }
    if (wait != NULL)
        record(wait->backward_done, stream);

    issuer_lock();
    bool recorded = of->recording;
    of->recording = false;
    bool whole = recorded && group->overlapping && !group->readiness.deviates;
    issuer_unlock();
    if (whole)
        record(of->done, stream);
    of->pending = of->pending || whole;
    return wait != NULL ? wait->backward_done : NULL;
}

/* Room for the group's gradients. */
static void
make_room(struct measured *of, size_t count)
{
    if (of->begin == NULL) {
        of->begin = timing_event();
        of->done = timing_event();
    }
    if (count <= of->capacity && of->samples[0] != NULL)
        return;
    CUevent *ready = engine_calloc(count + 1, sizeof(*ready));
    uint8_t *recorded = engine_calloc(count + 1, 1);
    if (of->capacity > 0)
        memcpy(ready, of->ready, of->capacity * sizeof(*ready));
    for (size_t i = of->capacity; i < count; ++i)
        ready[i] = timing_event();
    for (size_t s = 0; s < INTERVALS_SAMPLED; ++s) {
        free(of->samples[s]);
        of->samples[s] = engine_calloc(count + 1, sizeof(*of->samples[s]));
    }
    engine_lock();
    CUevent *old_ready = of->ready;
    uint8_t *old_recorded = of->recorded;
    of->ready = ready;
    of->recorded = recorded;
    engine_unlock();
    free(old_ready);
    free(old_recorded);
    of->capacity = count;
}

void
measure_next_interval(const struct group *group, CUstream stream)
{
    struct measured *of = measured_of(group);
    read_sample(of, group);
    if (!of->wanted || of->pending || of->sample_count == INTERVALS_SAMPLED || !group->overlapping || group->direct ||
        group->tried || group->overlapped_steps < SKIPPED_STEPS || all_reduce_cost()->count == 0 ||
        group->overlapped_steps % 2 != 0) /* so that ranks that read a sample one boundary later take the same ones */
        return;
    make_room(of, group->gradient_count);
    record(of->begin, stream);
    issuer_lock();
    memset(of->recorded, 0, group->gradient_count);
    of->recording = true;
    issuer_unlock();
}

/* ---- for planner.c ---- */

void
measure_pause(const struct group *group)
{
    struct measured *of = measured_of(group);
    issuer_lock();
    of->recording = false;
    issuer_unlock();
    of->pending = false;
}

void
measure_way_changed(const struct group *group)
{
    struct measured *of = measured_of(group);
    measure_pause(group);
    of->sample_count = 0;
    of->counts = false;
    for (size_t i = 0; i < WAITS_IN_FLIGHT; ++i)
        of->waits[i].in_flight = false;
    of->promised_exposed_ns = of->promised_bound_ns = -1;
}

void
measure_forget(const struct group *group)
{
    measure_way_changed(group);
    measured_of(group)->wanted = true;
}

bool
measure_times(const struct group *group, int64_t *ns)
{
    struct measured *of = measured_of(group);
    if (of->sample_count < INTERVALS_SAMPLED)
        return false;
    for (size_t i = 0; i <= group->gradient_count; ++i) {
        int64_t values[INTERVALS_SAMPLED];
        for (size_t s = 0; s < INTERVALS_SAMPLED; ++s)
            values[s] = of->samples[s][i];
        ns[i] = trial_median(values, INTERVALS_SAMPLED);
    }
    return true;
}

void
measure_times_used(const struct group *group)
{
    struct measured *of = measured_of(group);
    of->sample_count = 0;
    of->wanted = false;
}

void
measure_wanted(const struct group *group)
{
    measured_of(group)->wanted = true;
}

void
measure_promise(const struct group *group, int64_t exposed_ns, int64_t bound_ns)
{
    struct measured *of = measured_of(group);
    of->promised_exposed_ns = exposed_ns;
    of->promised_bound_ns = bound_ns;
    report();
}

void
measure_promised(const struct group *group, int64_t *exposed_ns_p, int64_t *bound_ns_p)
{
    const struct measured *of = measured_of(group);
    *exposed_ns_p = of->promised_exposed_ns;
    *bound_ns_p = of->promised_bound_ns;
}
