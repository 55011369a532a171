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
    double sum;          /* of all ranks, */
    int count;           /* which are so many */
    bool control;        /* a control step of a trial */
    uint64_t step;       /* whose boundary it is */
};

struct last_rank last_rank_none(void);

/* Takes a rank that waited so long; NAN: not known, which is left out. */
void last_rank_add(struct last_rank *last, int rank, double waited);

/* How much later it came than the rank before it; 0: there is no other. */
double last_rank_gap(const struct last_rank *last);

/* What the other ranks waited for it, in the mean of these; 0: there is no other. */
double last_rank_waiting(const struct last_rank *last);

/* WAITING_WINDOW: figures are of so many last steps at most; with fewer than WAITING_LEAST nothing is said of ranks. */
enum { WAITING_WINDOW = 64, WAITING_LEAST = 8 };

/* Times of all of it are of the same `count` boundaries, which are no control steps. */
struct waiting {
    size_t count;
    double exposed;    /* the median; NAN: there are none */
    double waiting;    /* for another rank: the mean, for a median does not see what happens now and then */
    int straggler;     /* the rank that they waited for, by the latest of them, control steps too; -1: none */
    int last;          /* the straggler, or else the rank that was the last in more than half of them; -1: none */
    size_t last_count; /* in so many of them it was the last, */
    size_t now_count, now_latest; /* and the straggler in so many of the latest so many of them */
};

/*
 * Of `count` boundaries, the latest first, at most WAITING_WINDOW and at least 1. A straggler is the last in three of
 * four of the latest 20, and in these the others would be done `least` earlier without it: of a machine with too few
 * cores, one rank may often be the last, but by little now and by much then. Where ranks take turns, or several are
 * late, each waits for others, and no single one is to blame.
 */
struct waiting waiting_of(const struct last_rank *boundaries, size_t count, double least);

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
