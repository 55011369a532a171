/*
 * bootstrap_root.h - what bootstrap_root.c (who is heard) and bootstrap_rule.c (what is answered) share. No other
 * file includes it.
 */
#ifndef SOFTGPU_NCCL_BOOTSTRAP_ROOT_H
#define SOFTGPU_NCCL_BOOTSTRAP_ROOT_H

#include "nccl/bootstrap_wire.h"

/* Connections that have not introduced themselves; more than that wait in the listen queue. */
enum { STRANGERS = 160, CONNECTIONS = SEGMENT_MAX_RANKS + STRANGERS };

struct connection {
    struct door door; /* its socket is the connection's, -1: free */
    bool is_tcp;
    bool is_known; /* over TCP: it has shown the secret */
    int rank;      /* -1: a stranger, has not said hello */
    int pidfd;     /* -1 */
    bool has_reported;
    unsigned char host[HOST_BYTES];
    struct net_address address;
    struct report report; /* the last one, or `got` bytes of the next */
    size_t got;
};

/* What the root waits for from all ranks. */
enum root_phase { PHASE_HELLO, PHASE_ADDRESS, PHASE_DONE, PHASE_OVER };

/* One unique id being served. The thread owns it. */
struct root {
    struct id_content id;
    int unix_listener, tcp_listener; /* -1: none */
    int rank_count;                  /* as the first hello said; 0 before */
    enum root_phase phase;
    int reported; /* ranks that have, in this phase */
    struct connection connections[CONNECTIONS];
    ncclResult_t result; /* other than success: why it ends early */
    char text[SEGMENT_TEXT_BYTES];
};

/* No other rank is expected: the address is free for the next root when a rank gets the ruling. */
void root_close_listeners(struct root *root);

/* Decides about a report that has come in; it may be the last one of its phase, and be answered. */
void root_take_report(struct root *root, struct connection *connection);

/* The first reason why the ranks do not come together. */
void root_refuse(struct root *root, ncclResult_t result, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Tells every rank the reason. */
void root_dismiss(struct root *root);

#endif
