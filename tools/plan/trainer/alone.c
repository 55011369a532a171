/*
 * alone.c - see player.h: rank 0 goes on as one process once an operation has come that the plan does not know, such as
 * that of a last epoch that only evaluates: from the state that the last round has left. The other ranks end, and their
 * devices are free.
 *
 * Rank 0 may not have computed the beginning of the batch under way, which is given up: its launches are not made, and
 * what launches outside of the plan change of trained memory is put back. Batches and updates are counted by the plan.
 * An update makes the job's exit code 1 (launcher/watch/verdict.c).
 *
 * Called by follow.c, under its lock.
 */
#include "base/message.h"
#include "base/printable.h"
#include "tools/check/format/run.h"
#include "tools/common/idle.h"
#include "tools/plan/trainer/player.h"

enum { UPDATES_AT_MOST = 1000 };

static char **held;      /* [tensor_count]: what is trained, while a batch is given up; else NULL */
static bool has_updated; /* the batch under way */
static uint64_t trained; /* hash of what is trained, as the last round or a copy has left it; 0: looked at */
static bool touches;     /* an operation outside of the plan, what is trained */

/* Whether these bytes, or those that were asked about before for the same operation, are of memory that is trained. */
static bool
is_of_trained(uint64_t address, uint64_t bytes)
{
    touches = touches || ANY_NUMBER(i, 0, player.play.plan.tensor_count,
                                    player_trains(i) && player_touches(&player.play.tensors[i], address, bytes));
    return touches;
}

/* Gradients that ranks have averaged without an update are as an update leaves them, or a batch overwrites them. */
static void
clear_gradients(void)
{
    FOR_EACH_THERE(tensor, allocation, tensor->role == PLAY_GRADIENT)
        DRIVER(cuMemsetD8Async, allocation->address + tensor->lo, 0, tensor->hi - tensor->lo, CU_STREAM_LEGACY);
}

/* ---- the way there ---- */

bool
alone_may_begin(uint64_t rounds)
{
    return rounds > 0 && player.play.plan.data == PLAY_TRAINING && !player_plays_all() &&
           player.engine->world_size > 1 && getenv(DDPRUN_ENV_CHECK_RUN) == NULL;
}

void
alone_begin(const char *name, const char *what, uint64_t lost, bool is_given_up)
{
    struct rank_status *status = scout_state.status;
    char plain[PLAY_NAME_BYTES];
    player.engine->end_in_order();
    if (player.rank != 0)
        _exit(0);
    atomic_store(&status->stage, RANK_STAGE_TRAINING); /* until it ends, too */
    atomic_store(&status->lost_batches, lost);
    message_warning("alone",
                    "plan: in batch %llu of the program, %s %s. Rank 0 continues alone from the last update, as one "
                    "process; the other ranks have ended; batches that are in no update: %llu",
                    (unsigned long long)player.period + 1, plain_name(name, plain, sizeof(plain)), what,
                    (unsigned long long)lost);
    player.engine = &engine_idle;
    player.is_alone = true;
    if (lost > 0)
        clear_gradients();
    trained = player_hash_all(player_trains);
    if (is_given_up)
        held = player_hold(player_trains);
}

/* ---- on the way ---- */

/* Counts an update that rank 0 makes alone, once a batch. Ends the job after UPDATES_AT_MOST of them. */
static void
note_update(void)
{
    uint64_t updates = atomic_fetch_add(&scout_state.status->alone_updates, !has_updated) + !has_updated;
    has_updated = true;
    if (updates >= UPDATES_AT_MOST)
        scout_stop("rank 0 has made %d updates alone: end the program where its plan ends, or annotate it "
                   "(man ddprun.h), so that all ranks train",
                   UPDATES_AT_MOST);
}

/* Whether the operation of the plan is the last of a batch that writes what is trained, or any such of an update. */
static bool
updates(uint32_t at)
{
    uint32_t last = player.play.plan.average_before;
    return player_is_by_state() ? at + 1 == player.play.plan.state_before
                                : player.play.operations[at].part == PLAY_BY_LAST && at >= last;
}

void
alone_meet(struct operation *operation, uint32_t at, bool begins)
{
    bool is_planned = at < player.play.plan.operation_count, is_transfer = loaders_is_transfer(operation);
    touches = false;
    if (begins) {
        player_release(&held);
        has_updated = false;
        ++player.period;
        atomic_fetch_add(&scout_state.status->alone_batches, 1);
    }
    if (is_planned)
        player.next = (at + 1) % player.play.plan.operation_count;
    operation->skip = is_planned && held != NULL && !is_transfer;
    if (is_planned && held == NULL && !is_transfer && updates(at))
        note_update();
    if (!is_planned)
        (void)player_any(operation, true, is_of_trained);
}

void
alone_take(const struct operation *operation)
{
    touches = false;
    (void)player_any(operation, true, is_of_trained);
}

void
alone_after(const struct operation *operation)
{
    char plain[PLAY_NAME_BYTES];
    if (!touches || (!loaders_is_transfer(operation) && held == NULL))
        return;
    if (player_hash_all(player_trains) == trained)
        return;
    if (loaders_is_transfer(operation)) { /* the program puts back the best of its models */
        trained = player_hash_all(player_trains);
        if (held != NULL) {
            player_release(&held);
            held = player_hold(player_trains);
        }
        return;
    }
    message_warning("undone",
                    "plan: %s changed trained memory in a batch whose beginning is missing: the change is undone",
                    plain_name(player_name_of(operation), plain, sizeof(plain)));
    player_put_back(held);
}

void
alone_look(void)
{
    if (trained != 0 && scout_state.driver.cuCtxSynchronize_p() == CUDA_SUCCESS &&
        player_hash_all(player_trains) != trained && atomic_load(&scout_state.status->alone_updates) == 0)
        note_update();
    trained = 0;
}

void
alone_end(void)
{
    struct rank_status *status = scout_state.status;
    alone_look();
    atomic_store(&status->stage, RANK_STAGE_ENDED);
    message_line(
        "plan: rank 0 continued alone after batch %llu of the program; batches before that are in no update: %llu; "
        "alone it made %llu batches and %llu updates",
        (unsigned long long)(player.period + 1 - atomic_load(&status->alone_batches)),
        (unsigned long long)atomic_load(&status->lost_batches), (unsigned long long)atomic_load(&status->alone_batches),
        (unsigned long long)atomic_load(&status->alone_updates));
}
