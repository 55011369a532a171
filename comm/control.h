/*
 * control.h - the control plane: what ranks say to each other on the host, a few hundred bytes at a time.
 *
 * A star around rank 0: every exchange gathers one message from each rank and gives all of them to all. Used at
 * start-up, at annotations, when a plan is agreed on, for DDP_MEAN, for DDP_ANY and at the end; never once per bucket.
 * Each message says what it is about, so ranks that have reached different places get an error that names them, instead
 * of taking each other's bytes.
 *
 * Transport: sockets that the supervisors have made, on one host, or connected and proven, between hosts
 * (rendezvous_links). One exchange at a time in a process: callers serialise.
 */
#ifndef DDPRUN_COMM_CONTROL_H
#define DDPRUN_COMM_CONTROL_H

#include "comm/rendezvous.h"

#include <stdint.h>

struct control {
    int rank;
    int world_size;
    struct peer_link *peers; /* rank 0: by rank, without its own; others: peers[0] leads to rank 0 */
    int peer_count;
    int timeout_s;
    bool last;          /* nothing comes after this exchange */
    void (*idle)(void); /* called now and then while a message is waited for; NULL: nothing is */
};

/* What all ranks sent: messages[r] of bytes[r], in one allocation. control_free_messages() releases it. */
struct control_messages {
    void **messages;
    size_t *bytes;
    int count;
};

/* Connects all ranks of `rendezvous`. Collective. */
bool control_open(struct control *control, struct rendezvous *rendezvous, int timeout_s,
                  struct comm_error *error) MUST_USE;

/*
 * Collective: gives this rank's bytes to all and gets theirs. `about` names the reason (at most 127 characters): equal
 * on all ranks, or all of them fail with a line that names two ranks and their reasons. Waits at most the time limit.
 */
bool control_exchange(struct control *control, const char *about, const void *mine, size_t bytes,
                      struct control_messages *messages_p, struct comm_error *error) MUST_USE;

/* The same, for the last time, at the end of the program. A rank that has left already is not missed: when all others
 * have come, the call fails on all of them with COMM_LEFT. */
bool control_exchange_last(struct control *control, const char *about, const void *mine, size_t bytes,
                           struct control_messages *messages_p, struct comm_error *error) MUST_USE;

void control_free_messages(struct control_messages *messages);

/* Closes the sockets; safe in a forked child. */
void control_close(struct control *control);

#endif
