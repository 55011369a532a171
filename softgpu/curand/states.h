/*
 * states.h - a generator's memory: as many states as threads of NVIDIA's kernels draw from, each with its share of
 * every turn through the sequence. Called by generator.c and distribution.c, on a stream's thread or, for host
 * generators, on the program's.
 *
 * A state is the number of turns that it has made. Numbers come from the states in turn, from a place that the host
 * keeps; a state is written when its share is drawn. So a call depends on calls of one turn before, by device memory
 * alone, and on none of those in between.
 */
#ifndef SOFTGPU_CURAND_STATES_H
#define SOFTGPU_CURAND_STATES_H

#include "curand/sequence.h"

enum {
    STATE_COUNT = 4096,
    STATE_NUMBERS = 2, /* of each turn: what a normal number's pair takes */
    TURN_NUMBERS = STATE_COUNT * STATE_NUMBERS,
};

struct states {
    uint64_t kind; /* enum sequence_kind */
    uint64_t seed;
    uint64_t turns[STATE_COUNT];
};

/* The states of `seed` when `position` numbers are drawn; the next one is then number position % TURN_NUMBERS of a
 * turn.
 */
void states_seed(struct states *states, enum sequence_kind kind, uint64_t seed, uint64_t position);

/* Where a draw is. */
struct draw {
    struct states *states;
    uint64_t at; /* the next number's, in a turn */
    struct sequence sequence;
};

/* Starts at number `at` of a turn. */
void states_begin(struct draw *draw, struct states *states, uint64_t at);

/* numbers[count] = the next ones. */
void states_take(struct draw *draw, uint32_t *numbers, size_t count);

#endif
