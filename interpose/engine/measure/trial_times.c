/*
 * trial_times.c - how long do steps of a trial take?
 *
 * Timing events of the steps of one trial (bucketing/trial.h), on the trainer's stream: a step's own work lies between
 * the release of the step before and its boundary, its wait after that. No more than one trial is under way; its
 * events stay for the next one. The host waits for none of them.
 */
#include "interpose/engine/measure/measure.h"

struct mark {
    CUevent event;
    bool recorded;
};

static struct mark done[TRIAL_STEPS_AT_MOST], released[TRIAL_STEPS_AT_MOST + 1]; /* released[n]: where step n begins */

static void
record(struct mark *mark, CUstream stream)
{
    if (mark->event == NULL)
        CUDA("cuEventCreate", cuEventCreate, &mark->event, CU_EVENT_DEFAULT);
    stream_record(stream, mark->event, "cuEventRecord of a trial");
    mark->recorded = true;
}

void
trial_times_begin(CUstream stream)
{
    for (size_t i = 0; i < TRIAL_STEPS_AT_MOST; ++i)
        done[i].recorded = released[i].recorded = released[i + 1].recorded = false;
    record(&released[0], stream);
}

void
trial_times_done(size_t step, CUstream stream)
{
    ASSERT(step < TRIAL_STEPS_AT_MOST);
    record(&done[step], stream);
}

void
trial_times_released(size_t step, CUstream stream)
{
    ASSERT(step < TRIAL_STEPS_AT_MOST);
    record(&released[step + 1], stream);
}

/* 0 where it is not known. */
static int64_t
elapsed_ns(const struct mark *from, const struct mark *to)
{
    float ms = 0;
    if (!from->recorded || !to->recorded ||
        engine_state.driver.cuEventElapsedTime_p(&ms, from->event, to->event) != CUDA_SUCCESS || !(ms >= 0.0f))
        return 0;
    return (int64_t)((double)ms * 1e6);
}

bool
trial_times_read(struct trial_step *steps)
{
    RELAX_CAPTURES();
    bool complete = true;
    for (size_t i = 0; i < TRIAL_STEPS_AT_MOST && complete; ++i)
        complete =
            !released[i + 1].recorded || engine_state.driver.cuEventQuery_p(released[i + 1].event) == CUDA_SUCCESS;
    for (size_t i = 0; i < TRIAL_STEPS_AT_MOST; ++i)
        steps[i] = complete
                       ? (struct trial_step){elapsed_ns(&released[i], &done[i]), elapsed_ns(&done[i], &released[i + 1])}
                       : (struct trial_step){0};
    return complete;
}
