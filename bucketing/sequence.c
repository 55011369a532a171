/*
 * sequence.c - see sequence.h.
 */
#include "bucketing/sequence.h"

void
sequence_add(struct sequence *sequence, int id)
{
    sequence->last[sequence->count++ % SEQUENCE_KEPT] = (uint8_t)id;
    /* FNV-1a's step (Fowler, Noll, Vo: 64-bit prime): order counts, and one odd boundary changes all that follow. */
    sequence->hash = (sequence->hash ^ (uint64_t)(id + 1)) * UINT64_C(0x100000001b3);
}

/* The boundary `back` places before the last. */
static uint8_t
before_last(const struct sequence *sequence, uint64_t back)
{
    return sequence->last[(sequence->count - 1 - back) % SEQUENCE_KEPT];
}

/* How many of the latest boundaries equal the one `period` places before them. */
static uint64_t
explained_by(const struct sequence *sequence, uint64_t period)
{
    uint64_t kept = sequence->count < SEQUENCE_KEPT ? sequence->count : SEQUENCE_KEPT, explained = 0;
    while (explained + period < kept && before_last(sequence, explained) == before_last(sequence, explained + period))
        ++explained;
    return explained;
}

int
sequence_next(const struct sequence *sequence)
{
    uint64_t best = 0, best_period = 0;
    for (uint64_t period = 1; period <= SEQUENCE_KEPT / 2 && 2 * period <= sequence->count; ++period) {
        uint64_t explained = explained_by(sequence, period);
        if (explained >= period && explained + period > best + best_period) {
            best = explained;
            best_period = period;
        }
    }
    return best_period == 0 ? SEQUENCE_NONE : before_last(sequence, best_period - 1);
}
