/*
 * segment.h - the memory that the ranks of one communicator share: a slot for each rank (its state, its progress, what
 * it is doing, staging space) and a channel for each ordered pair of ranks.
 *
 * Between the ranks of one host it is a sealed memfd of fixed size, so it has no name, and nothing of it outlives the
 * ranks, however they end. Every word has one writer, the rank whose slot (or end of a channel) it is in; the others
 * wait for it with futexes. A rank's death shows in a pidfd that each of the others holds.
 *
 * A rank of another host has a mirror in this process's own memory: the same slot, and the two channels between it and
 * this rank. Its one writer is the thread that receives what the rank sends (remote.h). So a thread that waits or reads
 * need not know where a rank is; the functions here also send what it writes to the ranks of other hosts.
 *
 * Called by bootstrap.c (makes and maps it), collective.c and point_to_point.c (move data through it), comm.c (state).
 * Nothing here calls CUDA.
 */
#ifndef SOFTGPU_NCCL_SEGMENT_H
#define SOFTGPU_NCCL_SEGMENT_H

#include "nccl/reduce.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MAX_RANKS REDUCE_MAX_RANKS

enum {
    SEGMENT_CHUNK_BYTES = 512 << 10,  /* of one staging buffer: a multiple of every element's size */
    SEGMENT_STAGES = 2,               /* double buffering */
    SEGMENT_CHANNEL_BYTES = 64 << 10, /* of one buffer of a channel */
    SEGMENT_TEXT_BYTES = 512,
    SEGMENT_NOTE_BYTES = 128,
};

enum rank_state {
    RANK_ABSENT = 0,
    RANK_JOINED,
    RANK_LEFT,    /* destroyed its communicator in order */
    RANK_FAILED,  /* `text` says why */
    RANK_ABORTED, /* ncclCommAbort */
};

/* What a rank does in one operation: the same on all ranks, or the operation ends in error. */
struct operation_signature {
    uint32_t kind; /* enum operation_kind, collective.h */
    uint32_t type; /* ncclDataType_t */
    uint32_t op;   /* ncclRedOp_t; every premulsum counts as ncclNumOps */
    int32_t root;  /* -1 without */
    uint64_t count;
    uint64_t registered; /* 1: of all-reduce: what it receives into was registered */
};

/* A number that only grows (modulo 2^32) and can be waited for. */
struct counter {
    alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t waiters; /* processes that sleep on it, at least */
};

/*
 * A rank's progress. "Chunk" numbers run on from operation to operation, in step on all ranks; chunk c uses staging
 * buffer c % SEGMENT_STAGES.
 */
enum progress {
    PROGRESS_OPERATION,   /* operations whose signature this rank has published */
    PROGRESS_CONTRIBUTED, /* chunks whose contribution lies in this rank's staging */
    PROGRESS_REDUCED,     /* chunks of the others' contributions that this rank no longer reads; its result is there */
    PROGRESS_TAKEN,       /* chunks of the others' results that this rank no longer reads */
    PROGRESS_CONNECTED,   /* connections that this rank has come to (connect.h) */
    PROGRESS_MET,         /* calls in which all ranks meet that this rank has come to (connect.h) */
    PROGRESS_BELL,        /* rung by a peer when a channel from or to it has moved */
    PROGRESS_COUNT,
};

/* The two kinds of staging buffers. */
enum staging { STAGING_CONTRIBUTION, STAGING_RESULT, STAGING_COUNT };

struct rank_slot {
    alignas(4096) _Atomic uint32_t state;     /* enum rank_state */
    char text[SEGMENT_TEXT_BYTES];            /* written before `state` becomes RANK_FAILED */
    struct operation_signature signatures[2]; /* by the number of the operation, modulo 2 */
    struct counter progress[PROGRESS_COUNT];
    _Atomic uint64_t note_tag; /* which note lies in `note`; written after it */
    unsigned char note[SEGMENT_NOTE_BYTES];
    alignas(4096) unsigned char staging[STAGING_COUNT][SEGMENT_STAGES][SEGMENT_CHUNK_BYTES];
};

/* From one rank to another: a queue of pieces of messages. */
struct channel {
    alignas(4096) _Atomic uint32_t written; /* pieces, by the sender */
    alignas(64) _Atomic uint32_t taken;     /* pieces, by the receiver */
    struct {
        uint64_t message_bytes; /* of the message that the piece is part of */
        uint32_t type;
        uint32_t bytes; /* of the piece */
    } header[SEGMENT_STAGES];
    alignas(64) unsigned char data[SEGMENT_STAGES][SEGMENT_CHANNEL_BYTES];
};

/* What this process keeps of a rank of another host. */
struct mirror {
    struct rank_slot slot;
    struct channel from; /* that rank sends, this one receives: `taken` is ours */
    struct channel to;   /* the other way round: `written` is ours, and the data go out at once */
};

struct remote;

/* One rank's view of a segment. Filled by bootstrap_join(); owned by the communicator. */
struct segment {
    struct rank_slot *slots[SEGMENT_MAX_RANKS]; /* in the shared memory, or in a mirror; all NULL before joining */
    struct mirror *mirrors[SEGMENT_MAX_RANKS];  /* NULL for the ranks of this host */
    int place[SEGMENT_MAX_RANKS];               /* a rank's number among those of this host; -1: it has a mirror */
    struct channel *channels;                   /* [place of sender * local_count + place of receiver] */
    void *base;                                 /* the shared memory: slots, then channels */
    size_t bytes;
    int rank;
    int rank_count;
    int local_count;               /* ranks of this host */
    int spins;                     /* looks at a counter before sleeping */
    int pidfds[SEGMENT_MAX_RANKS]; /* readable once the rank's process has ended; -1: not open, or another host */
    struct remote *remote;         /* the connections to other hosts; NULL without */
    _Atomic bool interrupted;      /* this rank gives up: its waits return */
};

/* Why a wait ended. */
enum wait_result {
    WAIT_REACHED = 0,
    WAIT_INTERRUPTED, /* segment_interrupt() */
    WAIT_PEER_LEFT,
    WAIT_PEER_FAILED,
    WAIT_PEER_ABORTED,
    WAIT_PEER_ENDED,   /* its process is gone */
    WAIT_PEER_SILENT,  /* its host does not answer */
    WAIT_PEER_GARBLED, /* it sent what no rank would */
};

/* ---- segment.c: the memory, and waking those who sleep on its counters ---- */

/* A segment that nothing is mapped into. */
void segment_init(struct segment *segment);

/* Whether the rank has joined. */
static inline bool
segment_is_mapped(const struct segment *segment)
{
    return segment->base != NULL;
}

/* Of the memory that `local_count` ranks of one host share. */
size_t segment_bytes(int local_count);

/* Says who the rank is and, if `host_of` is not NULL, which ranks are on one host: those with equal numbers. */
void segment_place(struct segment *segment, int rank, int rank_count, const unsigned char *host_of);

/*
 * Maps the memfd, whose size and seals are checked first, and makes the mirrors, after segment_place(). False with
 * errno set: not the memory of that many ranks, or no memory.
 */
bool segment_map(struct segment *segment, int memfd);

/* Unmaps, and closes the pidfds. The connections to other hosts have been closed. */
void segment_unmap(struct segment *segment);

static inline bool
segment_is_remote(const struct segment *segment, int peer)
{
    return segment->mirrors[peer] != NULL;
}

/* The channel from one rank to another, of which at least one is on this host, and one is this rank if not both are. */
static inline struct channel *
segment_channel(const struct segment *segment, int sender, int receiver)
{
    if (segment->mirrors[sender])
        return &segment->mirrors[sender]->from;
    if (segment->mirrors[receiver])
        return &segment->mirrors[receiver]->to;
    return &segment->channels[segment->place[sender] * segment->local_count + segment->place[receiver]];
}

/* Sets a counter and wakes who waits for it. */
void segment_counter_set(struct counter *counter, uint32_t value);

/* Wakes all who sleep on a rank's counters, so that they look at states again. */
void segment_wake_sleepers(struct rank_slot *slot);

/* Rings the bell of `peer`, this rank or another one of this host; others ring their own when something arrives. */
void segment_ring(struct segment *segment, int peer);

/* ---- segment_progress.c: what a rank publishes, and how it waits for the others ---- */

/* Waits, without using a core, until the counter of `peer` has come to `target`. */
enum wait_result segment_wait(struct segment *segment, int peer, enum progress which, uint32_t target);

/* The same for all other ranks. If one of them cannot be waited for, its number is put into *peer_p. */
enum wait_result segment_wait_all(struct segment *segment, enum progress which, uint32_t target, int *peer_p);

/* Sets this rank's own counter, and wakes who waits for it. */
void segment_advance(struct segment *segment, enum progress which, uint32_t value);

/*
 * Publishes what this rank does in operation `number`, and advances PROGRESS_OPERATION past it. `is_held`: other
 * hosts learn it with PROGRESS_CONTRIBUTED, which follows at once.
 */
void segment_publish(struct segment *segment, uint32_t number, const struct operation_signature *signature,
                     bool is_held);

/*
 * Gives `peer`, if it is on another host, `bytes` of this rank's staging buffer of `chunk` from `offset` on, which need
 * not lie there: they are read at `data`, up to segment_advance(), which comes next. Nothing to do for a rank of this
 * host.
 */
void segment_give(struct segment *segment, int peer, enum staging which, uint32_t chunk, size_t offset,
                  const void *data, size_t bytes);

/* The same, to all others. */
void segment_give_all(struct segment *segment, enum staging which, uint32_t chunk, size_t offset, const void *data,
                      size_t bytes);

/* Sleeps until this rank's bell no longer shows `seen`, at most 100 ms. */
void segment_wait_bell(struct segment *segment, uint32_t seen);

/* Whether `peer` can still be expected to do something; the answer is a WAIT_PEER_... or WAIT_REACHED for "yes". */
enum wait_result segment_peer_health(const struct segment *segment, int peer);

/*
 * Makes this rank's state known to the others; the first state other than joined stays. `text` (may be NULL) for
 * RANK_FAILED: from one thread at a time, the one that runs the rank's operations.
 */
void segment_set_state(struct segment *segment, enum rank_state state, const char *text);

/*
 * Leaves a note for other ranks, which find it by its tag, whatever has become of the operations. The one before must
 * have been read by all who wait for it.
 */
void segment_post_note(struct segment *segment, uint64_t tag, const void *note, size_t bytes);

/* Waits until `peer` has posted the note with this tag; in vain only if its process ends or one of the two gives up. */
enum wait_result segment_read_note(struct segment *segment, int peer, uint64_t tag, void *note, size_t bytes);

/* Makes all waits of this rank return WAIT_INTERRUPTED within 100 ms, usually at once. Any thread. */
void segment_interrupt(struct segment *segment);

/* Sleeps until `deadline_ns` of CLOCK_MONOTONIC; WAIT_INTERRUPTED if this rank gives up before. */
enum wait_result segment_sleep_until(struct segment *segment, int64_t deadline_ns);

#endif
