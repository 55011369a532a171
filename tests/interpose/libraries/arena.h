/*
 * arena.h - device memory full of numbers, in which tests see what a call wrote and what it did not need.
 *
 * A call's life: fill, then try. What the arena itself copies is not recorded.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_ARENA_H
#define TESTS_INTERPOSE_LIBRARIES_ARENA_H

#include "recorder.h"

#include <stdint.h>

/* Half an area holds a batch of complex doubles. */
enum { ARENA_AREAS = 30, ARENA_AREA_BYTES = 6144, ARENA_BYTES = ARENA_AREAS * ARENA_AREA_BYTES };

enum arena_kind { ARENA_FLOAT, ARENA_DOUBLE, ARENA_HALF };

uint64_t arena_random(void);
/* In [0, bound). */
int64_t arena_below(int64_t bound);

/* Allocates it, in the driver's context, which becomes current; once more in a new context after a call has broken the
 * first one. Makes this process the rank, and returns its record. */
struct record *arena_start(void);

/* Whether the context is broken by what a call has done: a wrong address, say. */
bool arena_is_broken(void);

/* The middle of area `index`: what is named there may lead backwards. */
void *arena_place(unsigned index);

/* Where the host's copy has it, which goes to the device before the call. */
void *arena_host(const void *place);

/* Fills area `index` with numbers between 1/2 and 2 of either sign. */
void arena_fill(unsigned index, enum arena_kind kind);
size_t arena_element_bytes(enum arena_kind kind);

/* How often an operand was written, and how often up to both ends. Zeros; the list ends with an empty name. */
enum { ARENA_ENDS = 8 };
struct arena_ends {
    char name[48];
    unsigned written, tight;
};
/* Fails unless nearly always both ends changed: numbers may stay what they were by chance, but not often. */
void arena_check_ends(const struct arena_ends ends[ARENA_ENDS], const char *symbol);

/* A call as tests try it. */
struct arena_call {
    const char *text; /* of messages */
    const void *values;
    bool (*make)(const void *values); /* false: the library does not do it */
    enum arena_kind (*kind_of)(unsigned index);
    size_t element_bytes;
};

/*
 * Makes the call, which is to be reported once: fails if it writes a byte that is in no written operand, or gives other
 * results where other bytes lie outside of all operands. Returns false if the library does not do it; else `ends` has
 * the written operands for which `shows_ends`, if there is such a function, is true.
 */
bool arena_try(struct record *record, const struct arena_call *call, struct arena_ends ends[ARENA_ENDS],
               bool (*shows_ends)(const void *values, const struct operand *operand));

/* Fails unless nothing changes where the engine drops the call. */
void arena_check_dropped(struct record *record, const struct arena_call *call);

#endif
