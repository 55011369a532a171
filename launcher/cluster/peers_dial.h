/*
 * peers_dial.h - a leaf's way to supervisor 0: connecting and proving, with limits.
 *
 * In steps, for a supervisor that has a rank to watch meanwhile; or all at once, before it has one. The steps never
 * block. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEERS_DIAL_H
#define DDPRUN_LAUNCHER_CLUSTER_PEERS_DIAL_H

#include "launcher/cluster/hello.h"
#include "launcher/cluster/proof.h"
#include "launcher/common/signals.h"

#include <poll.h>

/* One way to supervisor 0. All of it belongs to peers_dial.c. */
struct peers_dial {
    const struct hello *root; /* borrowed */
    enum peer_purpose purpose;
    int rank;
    struct host_address addresses[ADDRESSES_AT_MOST + 3];
    int count, tried; /* of them, in rounds */
    int64_t deadline_ms, step_deadline_ms;
    int fd; /* -1: none at the moment */
    enum dial_state { DIAL_CONNECTS, DIAL_IS_CHALLENGED, DIAL_IS_WELCOMED, DIAL_IS_OPEN } state;
    struct proof_challenge challenge;
    struct proof_answer answer;
    struct proof_welcome welcome;
    size_t got; /* of what is heard now */
    int reason; /* errno of the address that failed last */
};

/*
 * Begins to dial the supervisor that said `root`: its addresses in order, the loopback ones first where it is on this
 * host (`own_host_id`), and before them the one that is known to work (NULL: none is). Proves `rank` for `purpose`.
 * Needs steps until its outcome, or peers_dial_close().
 */
void peers_dial_begin(struct peers_dial *dial, const struct hello *root, const char *own_host_id,
                      const struct host_address *known, enum peer_purpose purpose, int rank);
/* Gives up. After an outcome: does nothing. */
void peers_dial_close(struct peers_dial *dial);

enum dial_outcome {
    DIAL_GOES_ON,
    DIAL_DONE,   /* *fd_p is the socket, the caller's: without delay (TCP_NODELAY), non-blocking, closed by execve */
    DIAL_FAILED, /* every address did; `problem` says why */
};

/* Goes on without waiting. To be called when peers_dial_poll() is ready, and at least twice a second: a few seconds for
 * each address. */
enum dial_outcome peers_dial_step(struct peers_dial *dial, int *fd_p, struct problem *problem);

/* What the dial waits for, for poll(). */
struct pollfd peers_dial_poll(const struct peers_dial *dial);

/*
 * The same from begin to end, waiting. Gives up at once when a signal asks for the end. Returns the socket; -1 and the
 * problem.
 */
int peers_dial(const struct hello *root, const char *own_host_id, enum peer_purpose purpose, int rank,
               const struct signals *signals, struct problem *problem);

#endif
