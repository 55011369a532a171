/*
 * exchange.h - one rank's end of a communicator without CUDA: the shared segment, how far its operations have come, the
 * link model, and the first thing that went wrong.
 *
 * Operations run one after the other, each on a stream's thread (collective.c, point_to_point.c); the owner (comm.c,
 * comm_api.c) asks for errors and interrupts from other threads.
 */
#ifndef SOFTGPU_NCCL_EXCHANGE_H
#define SOFTGPU_NCCL_EXCHANGE_H

#include "nccl/link.h"
#include "nccl/segment.h"

#include <nccl.h>
#include <pthread.h>

struct exchange {
    struct segment segment;
    struct link_model link;
    int (*work_running)(void);         /* softgpuWorkRunning(), for the link's busy_factor; NULL: nothing else runs */
    void (*link_begins)(double slows); /* softgpuLinkBegins() and softgpuLinkEnds(), for its `slows`; or NULL */
    void (*link_ends)(void);
    bool corrupts;             /* SOFTGPU_NCCL_CORRUPTS (conduct.h) */
    pthread_mutex_t running;   /* held by the operation that runs; the order of operations is the streams' business */
    uint32_t operation_number; /* collectives run so far; touched by the running operation only */
    uint32_t chunk_number;     /* chunks of them, modulo 2^32; likewise */
    pthread_mutex_t lock;      /* guards what follows */
    ncclResult_t error;        /* ncclSuccess, or the first error; then no operation moves data any more */
    char error_text[SEGMENT_TEXT_BYTES];
    bool is_over; /* exchange_end(): there is only the error left */
};

/* An exchange that has not joined; segment.rank_count is 0. */
void exchange_init(struct exchange *exchange);

/* Frees everything. No operation may be running. */
void exchange_release(struct exchange *exchange);

/* The same, but operations may still come, from graphs: they do nothing and print a line. */
void exchange_end(struct exchange *exchange);

/* Whether an operation may move data: not after an error. Called by the running operation. */
bool exchange_may_run(struct exchange *exchange);

/*
 * Records an error unless there is one already, tells the peers, and, if `tell_user`, prints it. The text should name
 * ranks and operation. Called by the running operation.
 */
void exchange_fail(struct exchange *exchange, bool tell_user, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * What the kernel of an operation that failed does last: it does not end before its rank gives up the communicator, as
 * one whose peer is gone does not on a GPU. Whatever is enqueued after it would take what was never reduced for a
 * result. Returns at once where nothing failed.
 */
void exchange_stall(struct exchange *exchange);

/* Records what a failed wait for `peer` means for the operation that `doing` names ("all-reduce 7 of 100 float32
 * (sum)"). */
void exchange_fail_waiting(struct exchange *exchange, enum wait_result why, int peer, const char *doing);

/* The first error, or ncclSuccess; its text is copied if `text` is not NULL. Any thread. */
ncclResult_t exchange_error(struct exchange *exchange, char *text, size_t text_bytes);

#endif
