/*
 * contents_gradients.c - see player.h: what ranks by gradients are held against, in one process. A batch is what lies
 * between the last write of what is trained in the batch before and its own last one (by_contents.c), wherever the plan
 * takes a batch to begin, and whichever operations it names.
 *
 * Each batch of a round is computed as the program computes it, update included, from what is trained as the round
 * began. In front of the operation at which the plan averages, its gradients are added up; the round's last batch goes
 * on from there with the mean (all_turns.c). After the last write of every other batch all is put back: so a round
 * makes one update, from the mean gradient of its batches. What each rank has for itself changes with the batch.
 *
 * Called by follow.c, under its lock.
 */
#include "tools/plan/trainer/player.h"

static char **begun;     /* [tensor_count]: as the round began; NULL: none has begun */
static bool has_passed;  /* an operation has come since the last batch's last write */
static bool in_batch;    /* a batch has begun */
static bool is_averaged; /* and has come to where gradients are averaged */

/* Whether an update of another turn must leave no trace in the tensor. */
static bool
is_put_back(uint32_t tensor)
{
    const uint32_t role = player.play.tensors[tensor].role;
    if (player_trains(tensor))
        return !by_contents_counts(tensor);
    return role == PLAY_COMPARED || role == PLAY_GRADIENT || role == PLAY_CHANGES;
}

bool
contents_passes_border(void)
{
    const bool passes = !has_passed;
    has_passed = true;
    return passes;
}

/* Whether a batch begins here. In front of the first one memory of the plan may not be there yet. Until gradients
 * are averaged no batch writes what is trained. */
bool
contents_must_begin(bool averages)
{
    const struct play_tensor *all = player.play.tensors;
    return !in_batch && (averages || ALL_NUMBERS(i, 0, player.play.plan.tensor_count,
                                                 !(is_put_back(i) || all[i].role == PLAY_PER_RANK) ||
                                                     player_allocation(&all[i]) != NULL));
}

void
contents_batch_begins(void)
{
    in_batch = true;
    is_averaged = false;
    if (player_turn() == 0)
        begun = player_hold(is_put_back);
    turns_begin((uint32_t)player.period);
}

void
contents_average(void)
{
    if (is_averaged)
        return;
    is_averaged = true;
    turns_add_up(player.period);
}

bool
contents_in_dropped_update(void)
{
    return in_batch && is_averaged && !player_is_last_turn();
}

void
contents_batch_ends(void)
{
    if (!in_batch)
        return;
    if (!is_averaged)
        player_refuse("batch %llu, by the program's writes of what is trained, has not come to where the plan averages "
                      "gradients",
                      (unsigned long long)player.period + 1);
    turns_end((uint32_t)player.period);
    const bool is_round_complete = player_is_last_turn();
    if (!is_round_complete)
        player_put_back(begun);
    else
        player_release(&begun);
    ++player.period;
    if (is_round_complete)
        turns_report((uint32_t)(player.period / player_world()));
    in_batch = has_passed = false; /* while this has waited for the device, a loader may have made a copy */
}
