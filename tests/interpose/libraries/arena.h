/*
 * arena.h - device memory full of numbers, in which tests see what a call wrote and what it did not need.
 *
 * A call's life: fill, keep, call, wait; then ask what changed. What the arena itself copies is not recorded.
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
 * first one. Makes this process the rank. */
void arena_start(void);

/* Whether the context is broken by what a call has done: a wrong address, say. */
bool arena_is_broken(void);

/* The middle of area `index`: what is named there may lead backwards. */
void *arena_place(unsigned index);

/* Where the host's copy has it: for what arena_keep() is to bring to the device. */
void *arena_host(const void *place);

/* Fills area `index` with numbers between 1/2 and 2 of either sign. */
void arena_fill(unsigned index, enum arena_kind kind);
size_t arena_element_bytes(enum arena_kind kind);

/* Keeps a copy of everything, and brings it to the device; goes back to the copy. */
void arena_keep(void);
void arena_restore(void);
void arena_upload_kept(void); /* the copy, and what a call left stays in arena_same_results() */

/* Waits for the device, and fetches what is there now. */
void arena_wait(void);

/* The last call's operands as the record has them: which bytes of the arena they cover. */
enum { COVER_READ = 1, COVER_WRITE = 2 };
void arena_cover(const struct record *record);

/* The first byte that differs from the copy and that no written operand covers; -1 if there is no such byte. */
int64_t arena_stray_write(void);

/* Keeps what the written operands now hold; other numbers for every byte that no operand covers, over the copy. */
void arena_keep_results_and_disturb(enum arena_kind (*kind_of)(unsigned index));

/* Whether written operands hold what was kept. */
bool arena_same_results(void);

/* How often an operand was written, and how often up to both ends. Zeros; the list ends with an empty name. */
enum { ARENA_ENDS = 8 };
struct arena_ends {
    char name[48];
    unsigned written, tight;
};
void arena_note_ends(struct arena_ends ends[ARENA_ENDS], const struct operand *operand, size_t element_bytes);
/* Fails unless nearly always both ends changed: numbers may stay what they were by chance, but not often. */
void arena_check_ends(const struct arena_ends ends[ARENA_ENDS], const char *symbol);

#endif
