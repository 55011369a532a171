/*
 * sequence.h - which group's boundary comes next?
 *
 * A program with two optimizers steps them in some rhythm: one after the other, or five times the one and once the
 * other. From the boundaries so far, the same on all ranks, this predicts the next one, the same on all ranks: only
 * that group may send buckets before its boundary, or ranks would send in different orders.
 *
 * Pure. Not thread-safe: the owner locks.
 */
#ifndef DDPRUN_BUCKETING_SEQUENCE_H
#define DDPRUN_BUCKETING_SEQUENCE_H

#include <stdint.h>

enum { SEQUENCE_KEPT = 64, SEQUENCE_NONE = -1, SEQUENCE_IDS = 256 };

/* Zero-initialise before use. */
struct sequence {
    uint8_t last[SEQUENCE_KEPT]; /* the last boundaries; number n at n % SEQUENCE_KEPT */
    uint64_t count;              /* boundaries so far */
    uint64_t hash;               /* of all of them, in order: equal on two ranks when their sequences are */
};

/* A boundary of group `id`, 0..SEQUENCE_IDS - 1, is passed. */
void sequence_add(struct sequence *sequence, int id);

/*
 * The group whose boundary is expected next, or SEQUENCE_NONE. Of all periods up to half of what is kept, the one that
 * explains the longest stretch of the latest boundaries, and at least one whole period of it, decides; of equal ones
 * the shortest.
 */
int sequence_next(const struct sequence *sequence);

#endif
