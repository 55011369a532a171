/*
 * judgement.c - DDP_STEP returns to the program when it is known that the step is right.
 *
 * A judgement measures on the device whether the program has done what it must do; a host function gets the result,
 * counts the judgement as over, and before that asks for the end of the job where it has not (stop_job_soon()). state.h
 * lists the judgements: each compares what all ranks have, so all of them come to the same result. In a step without
 * one, nothing here waits.
 *
 * Called by step/ at its boundaries, by verify/, memory/ and the host functions of theirs.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"

#include <sched.h>

enum { SPIN_US = 300, PAUSE_NS = 50000 };

static _Atomic uint64_t pending[JUDGED_TIMES];

void
judgement_begins(enum judged judged)
{
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
        uint64_t step = engine_state.boundary_count; /* of the one in a step, too: it has been counted */
        int64_t begin_us = clock_now_us();
        RELAX_CAPTURES(); /* for the queries */
        range_begin("waits for the judgement of step %llu", (unsigned long long)step);
        count_wait(step);
        atomic_store(&engine_state.status->in_step, judged == JUDGED_IN_STEP);
        while (atomic_load(&pending[judged]) > 0) {
            stop_if_asked();
            refuse_fault();
            pause_since(begin_us);
        }
        atomic_store(&engine_state.status->in_step, 0);
        range_end();
    }
    stop_if_asked();
}

void
judgement_end_step(void)
{
    judgement_wait(JUDGED_IN_STEP);
}
