/*
 * read_slots.h - pages that all ranks of a supervisor share (struct play_exchange), by which a rank gives others what
 * their host reads. Exchanges are numbered from 0, alike on all ranks; each takes the next slot, and a slot serves one
 * exchange after another: an owner fills it, and all other ranks take what it holds.
 *
 * Threads: any, after slots_open(). Only slots_wait_until() waits; `following` is not held then.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_READ_SLOTS_H
#define DDPRUN_TOOLS_PLAN_TRAINER_READ_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the pages beside the plan's file at `path`, for `world` ranks. Ends the rank if it cannot. */
void slots_open(const char *path, uint32_t world);

/* The slot of an exchange: [PLAY_SLOT_BYTES]. */
char *slots_bytes(uint64_t exchange);
/* Locks all slots for the device: a copy to other pages waits until the device has come as far. More than once is once.
 */
void slots_lock(void);

/* Whether the bytes of an exchange are there. */
bool slots_is_filled(uint64_t exchange);
/* Whether all ranks have taken what its slot held before. */
bool slots_is_free(uint64_t exchange);
void slots_fill(uint64_t exchange);
void slots_take(uint64_t exchange);

/* For whom a rank waits, and what messages and the launcher see of it. */
struct slots_wait {
    uint32_t owner;   /* rank that fills */
    uint64_t period;  /* of the program, from 0 */
    const char *name; /* of the operation that reads; NULL: it waits for ranks that take, and one that has ended is
                         waited for at its next read */
};
/* Returns once `is_so` holds. Ends the rank where the owner has ended and would have to fill. */
void slots_wait_until(bool (*is_so)(uint64_t exchange), uint64_t exchange, const struct slots_wait *wait);

/* The rank fills and takes nothing more. */
void slots_end(uint32_t rank);
/* True once for all ranks: a read of an owner that is not sure is to be reported. */
bool slots_is_first_unsure(void);

#endif
