/*
 * flight.h - the flight recorder: what a rank did last, in memory that outlives it.
 *
 * A ring of the last FLIGHT_EVENTS events after each rank's status record (protocol.h), in the file that the launcher
 * maps too: it reads the ring after the rank was killed. Written by the engine (interpose/engine/core/flight.c), in any
 * thread, without a lock and without a system call; read by the launcher, which believes nothing that it finds there.
 *
 * A slot's `sequence` is 2n + 1 while event n is being written, and 2n + 2 when it is whole. A writer that finds a slot
 * in the hands of another one, which 256 later events have overtaken, drops its event.
 */
#ifndef DDPRUN_BASE_FLIGHT_H
#define DDPRUN_BASE_FLIGHT_H

#include "base/protocol.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { FLIGHT_EVENTS = 256, FLIGHT_TEXT_WORDS = 6, FLIGHT_TEXT_BYTES = 8 * FLIGHT_TEXT_WORDS };

/* What happened; `number`, `bytes` and the text of an event say more, by its kind. */
enum flight_kind {
    FLIGHT_START = 1,      /* the engine began; number: the rank */
    FLIGHT_ANNOTATION,     /* bytes; text: expression */
    FLIGHT_BOUNDARY_BEGIN, /* DDP_STEP; number: group; text: file:line */
    FLIGHT_BOUNDARY_END,   /* the same */
    FLIGHT_BUCKET,         /* a bucket was sent; number; bytes; text: "early" or "at the boundary" */
    FLIGHT_EXCHANGE_BEGIN, /* the ranks say something to each other; text: what about */
    FLIGHT_EXCHANGE_END,   /* the same */
    FLIGHT_PLAN,           /* a plan takes effect; number: buckets */
    FLIGHT_LATE_TOUCH,     /* a gradient was touched after its launch; number: bucket; text: call */
    FLIGHT_REDUCE,         /* DDP_REDUCE; number of the call; text: file:line */
    FLIGHT_GRAPH_LAUNCH,   /* text: call */
    FLIGHT_STOP,           /* the rank stops the job */
    FLIGHT_END,            /* the rank exits cleanly */
    FLIGHT_KINDS,
};

struct flight_event {
    _Atomic uint64_t sequence; /* 0: nothing was ever written here */
    _Atomic uint64_t time_ns;  /* CLOCK_MONOTONIC */
    _Atomic uint64_t step;     /* boundaries passed before */
    _Atomic uint64_t what;     /* enum flight_kind in the lowest 8 bits, above it the number */
    _Atomic uint64_t bytes;
    _Atomic uint64_t text[FLIGHT_TEXT_WORDS]; /* NUL-terminated */
};

struct flight_ring {
    _Atomic uint64_t next; /* number of the next event */
    uint64_t unused[7];
    struct flight_event events[FLIGHT_EVENTS]; /* event n in slot n % FLIGHT_EVENTS */
};

_Static_assert(RANK_STATUS_BYTES + sizeof(struct flight_ring) <= RANK_STATUS_STRIDE, "the ring fits its pages");

/* An event as it was read: plain data. */
struct flight_entry {
    uint64_t order; /* its number; gaps are events that were torn or overwritten */
    uint64_t time_ns, step, number, bytes;
    enum flight_kind kind;
    char text[FLIGHT_TEXT_BYTES]; /* printable, NUL-terminated */
};

/* The ring of a rank, given its status record in the mapped file. */
struct flight_ring *flight_of(struct rank_status *status);

/* Any thread, async-signal-safe. `text` may be NULL; a longer one is cut. */
void flight_write(struct flight_ring *ring, enum flight_kind kind, uint64_t step, uint64_t number, uint64_t bytes,
                  const char *text);

/*
 * Copies the newest events that are whole into entries[most], in the order of their numbers; returns how many. The
 * ring may be written meanwhile, and may hold anything: what makes no sense is left out.
 */
size_t flight_read(const struct flight_ring *ring, struct flight_entry *entries, size_t most);

/* An event as text, such as "bucket 3 sent early, 4096 bytes". Into text[bytes]. */
void flight_describe(const struct flight_entry *entry, char *text, size_t bytes);

#endif
