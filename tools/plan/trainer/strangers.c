/*
 * strangers.c - see player.h: launches that are not in a plan by gradients, and come in all batches of a round: a part
 * of the program's step that began behind the recorded ones, as a decay or an average that starts late. All ranks make
 * them, in each batch, and one update is made for N of these.
 */
#include "tools/plan/trainer/player.h"

#include "base/message.h"
#include "base/printable.h"

#include <string.h>

enum { STRANGERS_AT_MOST = 64, LOOKS_AT_MOST = 2 };

/* Guarded by player.following. */
static struct stranger {
    uint64_t name, round, period; /* the last that it came in */
    uint32_t batches, looks;      /* of that round; at what is trained, before it and behind it */
    char text[PLAY_NAME_BYTES];
} strangers[STRANGERS_AT_MOST];

/* What the operation of this thread is looked at for; the hash before it. */
static __thread struct stranger *looked_at __attribute__((tls_model("initial-exec")));
static __thread uint64_t trained_before __attribute__((tls_model("initial-exec")));

static uint64_t
hash_of_trained(void)
{
    uint64_t hash = 0;
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        if ((tensor->role == PLAY_PARAMETER || tensor->role == PLAY_STATE) && player_allocation(tensor) != NULL)
            hash = hash * 31 + player_hash(tensor);
    }
    return hash;
}

void
strangers_meet(uint64_t hash, const char *name, uint64_t period)
{
    struct stranger *it = strangers;
    while (it < strangers + STRANGERS_AT_MOST - 1 && it->name != 0 && it->name != hash)
        ++it;
    if (strncmp(name, "cuMem", strlen("cuMem")) == 0 || (it->name != 0 && it->name != hash))
        return;
    if (it->name == 0)
        (void)plain_name(name, it->text, sizeof(it->text));
    if (it->batches < player_world()) {
        it->batches = it->round == period / player_world() ? it->batches : 0;
        it->batches += it->batches == 0 || it->period != period;
    }
    it->name = hash;
    it->period = period;
    it->round = period / player_world();
    if (it->batches < player_world() || it->looks == LOOKS_AT_MOST)
        return;
    ++it->looks;
    looked_at = it;
    trained_before = hash_of_trained();
}

bool
strangers_changed(bool enqueued)
{
    bool changed = looked_at != NULL && enqueued && hash_of_trained() != trained_before;
    looked_at = NULL;
    return changed;
}

void
strangers_say(void)
{
    for (const struct stranger *it = strangers; it < strangers + STRANGERS_AT_MOST; ++it) {
        if (it->looks > 0)
            message_warning(
                "unplanned_launches",
                "plan: %s, which is not in the plan, comes in each batch from some batch on: all ranks make "
                "it for each of the %u batches of an update, and what it adds up or averages counts batches; "
                "annotate the program, or train it by --by state",
                it->text, player_world());
    }
}
