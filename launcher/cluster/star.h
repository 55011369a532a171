/*
 * star.h - what a supervisor does because there are others: tells supervisor 0 of its rank or hears the others of
 * theirs, and gives its rank the sockets of its control plane. Under a cluster's launcher only; supervisor's thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_STAR_H
#define DDPRUN_LAUNCHER_CLUSTER_STAR_H

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/engine_link.h"
#include "launcher/cluster/hello.h"
#include "launcher/cluster/peers.h"
#include "launcher/cluster/peers_leaf.h"
#include "launcher/common/rank_view.h"

/* All borrowed; all NULL without a cluster's launcher. */
struct star_job {
    struct cluster *cluster;
    struct peers *peers;     /* on supervisor 0 */
    struct peers_leaf *leaf; /* on the others */
    struct engine_link *link;
    const struct hello *hellos; /* [world_size] */
    int rank_count;             /* that were started here */
};

struct star {
    struct star_job job;
    struct rank_view *views; /* of all ranks on supervisor 0, else of its own */
    unsigned joins;          /* of the engine, for which sockets were given: */
    bool *given;             /* supervisor 0: [world_size] */
    bool dialing;            /* leaf: for a socket, in steps: */
    struct peers_dial dial;
    int pending; /* leaf: a socket that the engine could not be given yet; -1: none */
    int64_t begin_ms;
};

/* More to wait for: fills in polled[STAR_FDS], fd -1 where there is nothing. At STAR_PEERS: that of the others. */
enum { STAR_LAUNCHER, STAR_ENGINE, STAR_PEERS, STAR_DIAL, STAR_FDS };

void star_open(struct star *star, const struct star_job *job, struct rank_view *views);
void star_close(struct star *star);
void star_poll(const struct star *star, struct pollfd polled[STAR_FDS]);

/* Does what is due, without waiting. Returns whether there is something new that may decide how the job ends. */
bool star_step(struct star *star);

/* Whether the supervisors themselves are a reason to end: one is lost, the launcher is gone, one ends by itself. */
bool star_find_problem(const struct star *star, struct problem *problem);

/* A signal that asked another supervisor for the end, which has not come here; 0: none. */
int star_signal(const struct star *star);

/* Supervisor 0: asks where the rank lives for a report on it, and gives what has come; nothing for a rank that lives
 * here, or none (-1). NULL: nothing has come. */
void star_ask_report(struct star *star, int rank);
const char *star_report(const struct star *star, int rank);

/* Supervisor 0: asks for views of this moment, and waits for them, a fraction of a second at most. */
void star_refresh(struct star *star);

/* Supervisor 0: the job ends, in this way, for all. */
void star_say_end(struct star *star, int exit_code, int signal, uint64_t grace_ms);

/* Leaf: why it ends by itself. `signal`: that asked for it, or 0. */
void star_say_problem(struct star *star, const struct problem *problem, int signal);

/* What the others still have to do, once nothing is left to do here. */
bool star_others_done(const struct star *star);

/* The last words: supervisor 0 lets the others go with the exit code; a leaf waits until it may, and for its code. */
int star_leave(struct star *star, int exit_code);

#endif
