/*
 * states.c - see states.h.
 */
#include "curand/states.h"

void
states_seed(struct states *states, enum sequence_kind kind, uint64_t seed, uint64_t position)
{
    uint64_t ahead = position % TURN_NUMBERS / STATE_NUMBERS;
    states->kind = kind;
    states->seed = seed;
    for (uint64_t i = 0; i < STATE_COUNT; ++i)
        states->turns[i] = position / TURN_NUMBERS + (i < ahead);
}

static void
find(struct draw *draw, uint64_t position)
{
    sequence_start(&draw->sequence, (enum sequence_kind)draw->states->kind, draw->states->seed, position);
}

static uint64_t
position_at(const struct draw *draw)
{
    return draw->states->turns[draw->at / STATE_NUMBERS] * TURN_NUMBERS + draw->at;
}

void
states_begin(struct draw *draw, struct states *states, uint64_t at)
{
    draw->states = states;
    draw->at = at;
    find(draw, position_at(draw));
}

void
states_take(struct draw *draw, uint32_t *numbers, size_t count)
{
    while (count > 0) {
        size_t rest = STATE_NUMBERS - draw->at % STATE_NUMBERS, length = count < rest ? count : rest;
        if (draw->sequence.position != position_at(draw))
            find(draw, position_at(draw));
        sequence_take(&draw->sequence, numbers, length);
        if (length == rest)
            ++draw->states->turns[draw->at / STATE_NUMBERS];
        draw->at = (draw->at + length) % TURN_NUMBERS;
        numbers += length;
        count -= length;
    }
}
