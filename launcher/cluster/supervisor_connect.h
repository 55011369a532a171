/*
 * supervisor_connect.h - a client's connection to supervisor 0: connecting and authentication, with limits.
 *
 * In steps, for a supervisor that has a rank to watch meanwhile; or all at once, before it has one. The steps never
 * block. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_CONNECT_H
#define DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_CONNECT_H

#include "launcher/cluster/auth.h"
#include "launcher/cluster/handshake.h"
#include "launcher/common/error.h"
#include "launcher/common/signals.h"

#include <poll.h>
#include <stdint.h>

/* One way to supervisor 0. All of it but `is_held` belongs to supervisor_connect.c. */
struct supervisor_connect {
    const struct handshake *root; /* borrowed */
    enum peer_purpose purpose;
    int rank;
    struct host_address addresses[ADDRESSES_AT_MOST + 3];
    int count, tried; /* of them, in rounds */
    int64_t deadline_ms, step_deadline_ms;
    int fd; /* -1: none at the moment */
    enum connect_state {
        CONNECT_OPENS,
        CONNECT_IS_CHALLENGED,
        CONNECT_ANSWERS,
        CONNECT_IS_WELCOMED,
        CONNECT_IS_OPEN
    } state;
    bool is_held;     /* the caller's, false at the beginning: the challenge is not answered yet */
    unsigned answers; /* so many were given, at all addresses */
    struct auth_challenge challenge;
    struct auth_answer answer;
    struct auth_welcome welcome;
    unsigned char key[AUTH_BYTES]; /* once it is open: of its session */
    size_t got;                    /* of what is heard now */
    int reason;                    /* errno of the address that failed last */
};

/*
 * Begins to connect to the supervisor that said `root`: its addresses in order, the loopback ones first where it is on
 * this host (`own_host_id`), and before them the one that is known to work (NULL: none is). Authenticates `rank` for
 * `purpose`. Needs steps until its outcome, or supervisor_connect_close().
 */
void supervisor_connect_begin(struct supervisor_connect *connection, const struct handshake *root,
                              const char *own_host_id, const struct host_address *known, enum peer_purpose purpose,
                              int rank);
/* Gives up. After an outcome: does nothing. */
void supervisor_connect_close(struct supervisor_connect *connection);

enum connect_outcome {
    CONNECT_CONTINUES,
    CONNECT_DONE,   /* *fd_p is the socket, the caller's: without delay (TCP_NODELAY), non-blocking, closed by execve */
    CONNECT_FAILED, /* every address did; `error` says why */
};

/* Continues without waiting. To be called when supervisor_connect_poll() is ready, and at least twice a second: a few
 * seconds for each address. */
enum connect_outcome supervisor_connect_step(struct supervisor_connect *connection, int *fd_p, struct error *error);

/* What the connection waits for, for poll(). */
struct pollfd supervisor_connect_poll(const struct supervisor_connect *connection);

/*
 * The same from begin to end, waiting. Gives up at once when a signal asks for the end. Returns the socket, and the key
 * of its session; -1 and the error.
 */
int supervisor_connect(const struct handshake *root, const char *own_host_id, enum peer_purpose purpose, int rank,
                       const struct signals *signals, unsigned char key[AUTH_BYTES], struct error *error);

/* ---- the other end ---- */

/* The port of supervisor 0, to which the supervisors of the other ranks, and their engines, connect: opened before the
 * handshake, which names it to all; supervisor_server.c takes it over. Any thread, one at a time. */
struct listener {
    int fd; /* -1: closed */
    uint16_t port;
};

/*
 * `port`, or one that the system chooses (0), on all interfaces, IPv6 too where there is one. Error
 * (DDPRUN_EXIT_FAILURE): the system has none, or not this one.
 */
bool listener_open(struct listener *listener, uint16_t port, int backlog, struct error *error) MUST_USE;
void listener_close(struct listener *listener);

#endif
