/*
 * unplanned_launches.c - see player.h: launches that are not in a plan by gradients, and come in all batches of a
 * round: a part of the program's step that began after the recorded ones, as a decay or an average that starts late.
 * All ranks make them, in each batch, and one update is made for N of these. Called by by_gradients.c.
 */
#include "tools/plan/trainer/player.h"

#include "base/message.h"
#include "base/printable.h"

enum { LAUNCHES_AT_MOST = 64, LOOKS_AT_MOST = 2 };

/* Guarded by player.following. */
static struct launch {
    uint64_t name, round, period; /* the last that it came in */
    uint32_t batches, looks;      /* of that round; at what is trained, before it and after it */
    char text[PLAY_NAME_BYTES];
} launches[LAUNCHES_AT_MOST];

/* What the operation of this thread is looked at for; the hash before it. */
static __thread struct launch *looked_at __attribute__((tls_model("initial-exec")));
static __thread uint64_t trained_before __attribute__((tls_model("initial-exec")));

/* NULL: too many others came before. */
static struct launch *
launch_of(uint64_t hash, const char *name)
{
    for (size_t i = 0; i < LAUNCHES_AT_MOST; ++i) {
        struct launch *it = &launches[i];
        if (it->name == 0) { /* it comes for the first time */
            (void)plain_name(name, it->text, sizeof(it->text));
            it->name = hash;
            return it;
        }
        if (it->name == hash)
            return it;
    }
    return NULL;
}

/* Counts that the launch has come in a batch of this period. One that comes in all batches of a round counts no
 * more. */
static void
count_batch(struct launch *it, uint64_t period)
{
    uint64_t round = period / player_world();
    if (it->batches < player_world()) {
        if (it->round != round)
            it->batches = 0;
        if (it->batches == 0 || it->period != period)
            ++it->batches;
    }
    it->period = period;
    it->round = round;
}

void
unplanned_meet(uint64_t hash, const char *name, uint64_t period)
{
    if (begins_with(name, "cuMem"))
        return;
    struct launch *it = launch_of(hash, name);
    if (it == NULL)
        return;
    count_batch(it, period);
    if (it->batches < player_world() || it->looks == LOOKS_AT_MOST)
        return;
    ++it->looks;
    looked_at = it;
    trained_before = player_hash_all(player_trains);
}

bool
unplanned_changed(bool enqueued)
{
    bool changed = looked_at != NULL && enqueued && player_hash_all(player_trains) != trained_before;
    looked_at = NULL;
    return changed;
}

void
unplanned_say(void)
{
    FOR_EACH(it, launches, LAUNCHES_AT_MOST) {
        if (it->looks > 0)
            message_warning("unplanned_launches",
                            "plan: %s is not in the plan, but ran in each of the later batches: all ranks launched it "
                            "%u times for each update, so its sums and averages count batches, not updates; annotate "
                            "the program, or train it with --by state",
                            it->text, player_world());
    }
}
