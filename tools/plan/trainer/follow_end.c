/*
 * follow_end.c - see follow.h: the end of a training by turns. A round that is open ends first where the program ends,
 * frees memory of the plan, or gives up its context.
 */
#include "base/message.h"
#include "tools/plan/trainer/follow.h"

static pid_t own_pid;

/* ---- memory goes ---- */

/* Memory is about to be released: a round that needs it is closed before. */
static void
before_release(CUdeviceptr address, size_t bytes)
{
    player_lock();
    if (player.is_alone && named_is_in(address))
        alone_look();
    else if (player.is_open && !rounds_are_plain() && named_is_in(address))
        follow_close_round(true);
    player_unlock();
    player.engine->before_release(address, bytes);
    player_lock();
    agreement_release(address, bytes);
    player_forget(address, bytes);
    player_unlock();
}

/* The context is about to go, and all memory with it: the end of a training, as samples of CUDA have it. */
static void
device_goes(void)
{
    player_lock();
    if (player.is_alone) {
        alone_look();
    } else if (player.begun && follow.way.close != NULL && !rounds_are_plain() && !follow.is_gone) {
        follow_finish(true);
        player.is_open = false;
        follow.is_gone = true;
    }
    agreement_release(1, SIZE_MAX - 1);
    player_forget(1, SIZE_MAX - 1);
    kernels_forget(true);
    player_unlock();
}

static void
before_device_reset(CUdevice device)
{
    device_goes();
    player.engine->before_device_reset(device);
}

/* A context is about to go: if it is the current one, all memory of the training goes with it, and the training
 * ends. */
static void
before_context_destroy(CUcontext context)
{
    CUcontext current = NULL;
    if (player.begun && scout_state.driver.cuCtxGetCurrent_p(&current) == CUDA_SUCCESS && current == context)
        device_goes();
    player.engine->before_context_destroy(context);
}

/* ---- the program ends ---- */

/* At the program's end: closes the last round, and says what was not as in the plan. Ends the job if no step began. */
static void
end_following(void)
{
    if (rounds_are_plain()) {
        rounds_end();
        return;
    }
    if (by_contents_is_played())
        by_contents_end();
    if (!player.begun)
        scout_stop("the program ended, and no step of the plan began: it is another program, or has other arguments, "
                   "than when its plan was made");
    if (follow.way.end != NULL) {
        follow.way.end();
        return;
    }
    if (player.is_alone) {
        rounds_end();
        alone_end();
        return;
    }
    bool averages = player.is_open && !follow.is_gone;
    if (averages) /* a rank that ends alone would average, while others wait for what the host reads */
        player.engine->programs_end();
    if (!follow.is_gone)
        follow_finish(true);
    if (player.rank != 0)
        return;
    rounds_end();
    follow.way.say();
    if (2 * follow.outside > (player.period + 1) * player.play.plan.operation_count)
        message_warning("outside_plan",
                        "plan: after the last batch of the plan the program launched %llu operations that are not in "
                        "the plan. Each rank made all of them: if they train, ranks did not share that training",
                        (unsigned long long)follow.outside);
    if (player.seen > 0)
        message_warning(
            "unplanned_reads",
            "plan: %llu operations that are not in the plan, perhaps for a log, have read %s: they show values "
            "of one rank",
            (unsigned long long)player.seen, follow.way.reads);
    if (agreement_smaller() > 0)
        message_warning("smaller_batches",
                        "plan: %llu copies brought less data than in the plan; a smaller batch counts as a whole one",
                        (unsigned long long)agreement_smaller());
}

/* At the exit of the process that began; of a rank that failed nothing is closed. */
static void
at_exit(int exit_status, void *unused)
{
    static bool has_ended; /* it is called twice */
    (void)unused;
    if (getpid() != own_pid)
        return;
    if (exit_status != 0 || has_ended) /* the launcher reports a rank that failed, and ends those that wait for it */
        return;
    reads_close();
    has_ended = true;
    player_lock();
    end_following();
    player_unlock();
}

static void
await_end(void)
{
    if (on_exit(at_exit, NULL) != 0)
        scout_stop("out of memory");
}

void
follow_end_open(struct engine *table)
{
    own_pid = getpid();
    player.await_end = await_end;
    table->before_release = before_release;
    table->before_device_reset = before_device_reset;
    table->before_context_destroy = before_context_destroy;
    await_end();
}
