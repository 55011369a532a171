/*
 * judgement.c - DDP_STEP returns to the program when it is known that the step is right.
 *
 * A judgement measures on the device whether the engine was right in what it believed; a host function gets the result,
 * counts the judgement as over, and before that asks for the end of the job where the engine was wrong
 * (stop_job_soon()). state.h lists the judgements. In a step without one, nothing here waits: a comparison and a store.
 *
 * Two waits, both of the thread that calls DDP_STEP. First for this rank's own judgements. They come from the device,
 * which may wait for other ranks: the watch thread sees that and ends the job at the time limit. Then, in a step that
 * had a judgement, for the other ranks' judgements of it: each rank writes into its status record up to which step all
 * of its judgements were right. A rank without a judgement looks at the records of the others, and waits for those that
 * have one. Where each rank has a ddprun and a record of its own (several hosts, mpirun), ranks exchange a message in
 * the steps in which every rank knows that there is a judgement; in others, the rank that has one asks the supervisors,
 * which takes a few tenths of a second. There, a rank without a judgement does not learn of those of others.
 *
 * Called by step/ at its boundaries, by verify/, memory/ and the host functions of theirs.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"

#include <sched.h>

enum { SPIN_US = 300, PAUSE_NS = 50000 };

static _Atomic uint64_t pending[JUDGED_TIMES];
static _Atomic bool begun; /* one of JUDGED_IN_STEP, since the last step ended */

void
judgement_begins(enum judged judged)
{
    if (judged == JUDGED_IN_STEP) { /* before the work that may be wrong: other ranks look at it */
        atomic_store(&begun, true);
        atomic_store(&engine_state.status->judging_step, engine_state.boundary_count + 1);
    }
    atomic_fetch_add(&pending[judged], 1);
}

void
judgement_ends(enum judged judged)
{
    atomic_fetch_sub(&pending[judged], 1);
}

static void
pause_since(int64_t begin_us)
{
    if (clock_now_us() - begin_us < SPIN_US)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* ---- this rank's ---- */

/* Ends the job if the device has failed: it calls no host function any more. */
static void
refuse_fault(void)
{
    CUresult result = engine_state.driver.cuEventQuery_p(engine_state.reduced);
    if (result != CUDA_ERROR_NOT_READY)
        require_cuda(result, "waiting for a judgement");
}

/* Counts the step once, however often it waits. */
static void
count_wait(uint64_t step)
{
    static _Atomic uint64_t counted; /* the last step that waited */
    if (atomic_exchange(&counted, step) != step)
        atomic_fetch_add(&engine_state.status->judgement_waits, 1);
}

void
judgement_wait(enum judged judged)
{
    if (atomic_load(&pending[judged]) > 0) {
        uint64_t step =
            judged == JUDGED_IN_NEXT ? engine_state.boundary_count : atomic_load(&engine_state.status->judging_step);
        int64_t begin_us = clock_now_us();
        RELAX_CAPTURES(); /* for the queries */
        range_begin("waits for the judgement of step %llu", (unsigned long long)step);
        count_wait(step);
        while (atomic_load(&pending[judged]) > 0) {
            stop_if_asked();
            refuse_fault();
            pause_since(begin_us);
        }
        range_end();
    }
    stop_if_asked();
}

/* ---- the other ranks' ---- */

/* Whether all ranks have their records in one page. */
static bool
shares_page(void)
{
    return engine_state.status_count == engine_state.rendezvous.world_size;
}

static const struct rank_status *
record_of(int rank)
{
    const char *first = (const char *)engine_state.status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    return (const struct rank_status *)(first + (size_t)rank * RANK_STATUS_STRIDE);
}

/* Whether the rank has judged the step right. The record may still be that of the program before this one. */
static bool
has_judged(int rank, uint64_t step)
{
    const struct rank_status *other = record_of(rank);
    return atomic_load(&other->generation) == engine_state.rendezvous.generation &&
           atomic_load(&other->judged_step) >= step;
}

/* Whether the supervisors have told that all ranks have judged the step right. */
static bool
have_all_judged(uint64_t step)
{
    uint64_t judged = atomic_load(&engine_state.status->all_judged),
             first = rank_judged_pack(engine_state.rendezvous.generation, 0);
    return judged >= first + step && judged < rank_judged_pack(engine_state.rendezvous.generation + 1, 0);
}

enum { ALL_RANKS = -1 };

static bool
is_judged(int rank, uint64_t step)
{
    return rank == ALL_RANKS ? have_all_judged(step) : has_judged(rank, step);
}

/* Ends the job if the rank will not come: it has reached the end of its program without that step. */
static void
refuse_end(int rank, uint64_t step)
{
    const struct rank_status *other = record_of(rank);
    bool at_end = atomic_load(&other->waits) != 0 && strncmp(other->place, RANK_PLACE_END, sizeof(other->place)) == 0;
    if (at_end && atomic_load(&other->step) < step &&
        atomic_load(&other->generation) == engine_state.rendezvous.generation)
        stop_job(
            "rank %d waits at %s after %llu steps, and rank %d waits for it at DDP_STEP number %llu: all ranks must "
            "make the same ddprun calls and the same number of steps",
            rank, RANK_PLACE_END, (unsigned long long)atomic_load(&other->step), engine_state.rendezvous.rank,
            (unsigned long long)step);
}

/* Of a rank with a record beside this one's; of ALL_RANKS, from the supervisors. */
static void
wait_for(int rank, uint64_t step)
{
    if (is_judged(rank, step))
        return;
    char place[64];
    int64_t begin_us = clock_now_us(), limit_us = (int64_t)engine_state.options.timeout_s * 1000000;
    snprintf(place, sizeof(place), RANK_PLACE_JUDGEMENT " %llu", (unsigned long long)step);
    status_waits_at(place);
    while (!is_judged(rank, step)) {
        stop_if_asked();
        if (rank != ALL_RANKS)
            refuse_end(rank, step);
        if (clock_now_us() - begin_us > limit_us)
            stop_job(
                "%s has been waited for %u s: another rank has not reached DDP_STEP; raise --timeout if it is only "
                "slow",
                place, engine_state.options.timeout_s);
        pause_since(begin_us);
    }
    status_waits_no_more();
}

/* The step up to `step` that the rank has begun to judge; 0: none. */
static uint64_t
step_judged_now(int rank, uint64_t step)
{
    uint64_t judging = atomic_load(&record_of(rank)->judging_step);
    return judging <= step ? judging : 0;
}

static void
wait_for_ranks(uint64_t step, bool all)
{
    for (int rank = 0; rank < engine_state.rendezvous.world_size; ++rank) {
        uint64_t awaited = all ? step : step_judged_now(rank, step);
        if (rank != engine_state.rendezvous.rank && awaited > 0)
            wait_for(rank, awaited);
    }
}

static void
exchange_judgement(uint64_t step)
{
    char about[64];
    struct control_messages all;
    snprintf(about, sizeof(about), RANK_PLACE_JUDGEMENT " %llu", (unsigned long long)step);
    exchange(about, &step, sizeof(step), &all);
    control_free_messages(&all);
}

void
judgement_end_step(bool is_agreed)
{
    struct rank_status *status = engine_state.status;
    uint64_t step = engine_state.boundary_count;
    judgement_wait(JUDGED_IN_STEP);
    uint64_t judging = atomic_load(&status->judging_step);
    atomic_store(&status->judged_step, step);
    if (judging <= step) /* another thread may have begun one of the next step */
        (void)atomic_compare_exchange_strong(&status->judging_step, &judging, 0);
    bool has_one = atomic_exchange(&begun, false);
    if (shares_page()) {
        wait_for_ranks(step, has_one || is_agreed);
    } else if (is_agreed) {
        exchange_judgement(step);
    } else if (has_one) {
        atomic_store(&status->judgement_asked, step);
        wait_for(ALL_RANKS, step);
    }
    stop_if_asked();
}
