/*
 * waiting.h - what steps waited for at their end: the network, and the rank that came last.
 *
 * Clocks of hosts differ, so only durations are compared: how long each rank's stream waited at the same boundary. The
 * rank that waited least came last. What it waited is *exposed*, the network's part; what each other rank waited
 * longer, it waited for that rank. Of a job that runs (watch/pace.h) and of a trace (tools/): these words are computed
 * here, and nowhere else. docs/insight.md defines them. Times have the caller's unit. Pure.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_WAITING_H
#define DDPRUN_LAUNCHER_COMMON_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rank that came last to a boundary, of those added so far. */
struct last_rank {
    int rank;            /* the first added of several; -1: none was added */
    double waited, next; /* what it waited, and what the rank before it did; INFINITY: there is none */
    int count;           /* of ranks that were added */
    bool control;        /* a control step of a trial */
    uint64_t step;       /* whose boundary it is */
};

struct last_rank last_rank_none(void);

/* Takes a rank that waited so long; NAN: not known, which is left out. */
void last_rank_add(struct last_rank *last, int rank, double waited);

/* How much later it came than the rank before it; 0: there is no other. */
double last_rank_gap(const struct last_rank *last);

/* With fewer than WAITING_LEAST boundaries nothing is said of ranks. Who is late now, the last WAITING_LATEST say. */
enum { WAITING_LEAST = 8, WAITING_LATEST = 20 };

/* Figures of the same `count` boundaries, without control steps: means, so that they add up to what a step takes. */
struct waiting {
    size_t count;
    double least;      /* waiting_least() of these steps: */
    bool matters;      /* there is a straggler, or `waiting` is as much. Else it is not worth a sentence */
    double exposed;    /* NAN: there are none */
    double waiting;    /* what ranks waited for another one, without the straggler's own; NAN: too few boundaries */
    int straggler;     /* the rank that they waited for, by the latest boundaries, control steps too; -1: none */
    size_t last_count; /* in so many of them the straggler was the last, */
    size_t now_count, now_latest; /* and in so many of the latest so many */
};

/* What one rank waited for others at these boundaries, added up, and at how many it was the last. */
struct rank_waits {
    double sum;
    size_t last_count;
};

/* Takes what a rank waited at one boundary, which is no control step. */
void rank_waits_add(struct rank_waits *waits, int rank, double waited, const struct last_rank *last);

/* The least waiting that is worth a sentence: a tenth of a step, and a millisecond. `ms`: what one is in the unit. */
double waiting_least(double step, double ms);

/* Whether steps take less than two thirds of what they took in a trial: what it has found is theirs no more. */
static inline bool
waiting_outdates(double step, double in_trial)
{
    return 1.5 * step < in_trial;
}

/*
 * Who the straggler is, by the `count` boundaries before now, the latest first: the last in three of four of the
 * latest WAITING_LATEST, and in these the others would be done `least` earlier without it. Of a machine with too few
 * cores, one rank may often be the last, but by little now and by much then. Where ranks take turns, or several are
 * late, each waits for others, and no single one is to blame.
 */
void waiting_find_straggler(struct waiting *waiting, const struct last_rank *latest, size_t count);

/* The other figures, of ranks whose waits are added up: `exposed` becomes the mean of a sum. After the straggler is
 * known. */
void waiting_take(struct waiting *waiting, const struct rank_waits *ranks, size_t count);

/*
 * The sentence about it, the same wherever a user reads one: "waiting for rank 3: 58 ms per step, last to arrive in 60
 * of 64 steps", "waiting for each other: 11 ms per step". `ms`: what one millisecond is in the figures' unit.
 */
enum { WAITING_TEXT_BYTES = 160 };
const char *waiting_text(const struct waiting *waiting, double ms, char text[WAITING_TEXT_BYTES]);

/* "12.1", "0.08": a time in milliseconds, with three digits. */
const char *waiting_ms_text(double ms, char text[32]);

/* Sorts the values that are known, and leaves out those that are NAN; the mean of two in the middle. NAN: there are
 * none. */
double waiting_median(double *values, size_t count);

#endif
