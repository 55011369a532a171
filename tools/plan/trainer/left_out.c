/*
 * left_out.c - see player.h: steps of plans by state that leave out operations which a program may leave out
 * (PLAY_BY_CHOICE). A step without its update, as of an evaluation by the lines of training or where half precision has
 * overflowed, counts in no mean. One that leaves out something else, as one of two updates, counts.
 *
 * Steps that leave out the same operations are a kind. The first round that has a kind shows all ranks whether its
 * steps change what is averaged. All ranks see the same kinds. Called by state_steps.c and state_round.c.
 */
#include "tools/plan/trainer/player.h"

enum { KINDS_AT_MOST = 16 };

static struct kind {
    uint64_t missing;           /* sum of the operations' words: the step left out these */
    uint32_t steps;             /* of the round */
    bool has_changed;           /* one of these, on this rank */
    bool is_known, does_change; /* such steps change what is averaged, on some rank */
} kinds[KINDS_AT_MOST];
static uint32_t kind_count;
static uint64_t missing; /* of the step under way, so far */
static uint64_t all;     /* of a step that leaves out all that it may */

/* Sums of these are equal only for the same operations, as far as 64 bits can tell. */
static uint64_t
word_of(uint32_t at)
{
    uint64_t word = (at + 1) * 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 32)) * 0xd6e8feb86659fd93u;
    return word ^ (word >> 29);
}

/* Whether the operation is one without which its period is whole (PLAY_BY_CHOICE). Those after the last write of
 * what is averaged have no part in the mean. */
static bool
is_choice(uint32_t at)
{
    return at < player.play.plan.state_before && player.play.operations[at].part == PLAY_BY_CHOICE;
}

void
left_out_begin(void)
{
    missing = 0;
    for (uint32_t i = 0; i < player.play.plan.operation_count; ++i)
        missing += is_choice(i) ? word_of(i) : 0;
    all = missing;
}

bool
left_out_has_made_any(void)
{
    return missing != all;
}

void
left_out_make(uint32_t at)
{
    missing -= is_choice(at) ? word_of(at) : 0;
}

void
left_out_make_all(void)
{
    missing = 0;
}

/* NULL: there are too many kinds. */
static struct kind *
kind_of_step(void)
{
    struct kind *found = FIND(it, kinds, kind_count, it->missing == missing);
    if (found == NULL && kind_count < KINDS_AT_MOST) {
        found = &kinds[kind_count++];
        found->missing = missing;
    }
    return found;
}

void
left_out_end(bool is_own, bool (*has_changed)(void))
{
    struct kind *kind = missing != 0 ? kind_of_step() : NULL;
    if (kind == NULL)
        return;
    ++kind->steps;
    if (!kind->is_known && is_own && !kind->has_changed)
        kind->has_changed = has_changed();
}

uint32_t
left_out_steps(bool (*on_any)(bool here))
{
    uint32_t count = 0;
    FOR_EACH_MUTABLE(kind, kinds, kind_count) {
        if (kind->steps > 0 && !kind->is_known) {
            kind->does_change = on_any(kind->has_changed);
            kind->is_known = true;
        }
        count += kind->does_change ? 0 : kind->steps;
    }
    return count;
}

void
left_out_round_ends(void)
{
    FOR_EACH_MUTABLE(kind, kinds, kind_count) {
        kind->steps = 0;
        kind->has_changed = false;
    }
}
