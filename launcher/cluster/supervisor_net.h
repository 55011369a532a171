/*
 * supervisor_net.h - what a supervisor does because there are others: tells supervisor 0 of its rank or hears the
 * others of theirs, and gives its rank the sockets of its control plane. Under a cluster's launcher only; supervisor's
 * thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_NET_H
#define DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_NET_H

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/handshake.h"
#include "launcher/cluster/supervisor_client.h"
#include "launcher/cluster/supervisor_server.h"
#include "launcher/common/rank_view.h"
#include "launcher/start/engine_link.h"

/* All borrowed; but for `link` all NULL without a cluster's launcher. */
struct supervisor_net_job {
    struct cluster *cluster;
    struct supervisor_server *server;   /* on supervisor 0 */
    struct supervisor_client *client;   /* on the others */
    struct engine_link *link;           /* of the ranks here */
    const struct handshake *handshakes; /* [world_size] */
    int rank_count;                     /* that were started here */
};

struct supervisor_net {
    struct supervisor_net_job job;
    struct rank_view *views; /* of all ranks on supervisor 0, else of its own */
    unsigned joins;          /* of the engine, for which sockets were given: */
    bool *given;             /* supervisor 0: [world_size] */
    bool connecting;         /* client: for a socket, in steps: */
    struct supervisor_connect connection;
    int pending; /* client: a socket that the engine could not be given yet; -1: none */
    int64_t begin_ms;
};

/* More to wait for: fills in polled[SUPERVISOR_NET_FDS], fd -1 where there is nothing. At SUPERVISOR_NET_PEERS: that of
 * the others. */
enum { SUPERVISOR_NET_LAUNCHER, SUPERVISOR_NET_PEERS, SUPERVISOR_NET_CONNECT, SUPERVISOR_NET_FDS };

void supervisor_net_open(struct supervisor_net *net, const struct supervisor_net_job *job, struct rank_view *views);
void supervisor_net_close(struct supervisor_net *net);
void supervisor_net_poll(const struct supervisor_net *net, struct pollfd polled[SUPERVISOR_NET_FDS]);

/* Does what is due, without waiting. Returns whether there is something new that may decide how the job ends. */
bool supervisor_net_step(struct supervisor_net *net);

/* Whether the supervisors themselves are a reason to end: one is lost, the launcher is gone, one ends by itself. */
bool supervisor_net_find_error(const struct supervisor_net *net, struct error *error);

/* Whether the supervisor of a rank has given a reason to end, and then ends its rank itself. */
bool supervisor_net_has_reason(const struct supervisor_net *net, int rank);

/* A signal that asked another supervisor for the end, which has not come here; 0: none. */
int supervisor_net_signal(const struct supervisor_net *net);

/* Supervisor 0: asks where the rank lives for a report on it, and gives what has come; nothing for a rank that lives
 * here, or none (-1). NULL: nothing has come. */
void supervisor_net_ask_report(struct supervisor_net *net, int rank);
const char *supervisor_net_report(const struct supervisor_net *net, int rank);

/* Supervisor 0: asks for views of this moment, and waits for them, a fraction of a second at most. */
void supervisor_net_refresh(struct supervisor_net *net);

/* Supervisor 0: the same without waiting; they come at supervisor_net_step(). */
void supervisor_net_ask_views(struct supervisor_net *net);

/* Supervisor 0: the job ends, in this way, for all. */
void supervisor_net_say_end(struct supervisor_net *net, const struct peer_order *order);

/* Supervisor 0: a rank that lives elsewhere is to be ended now. */
void supervisor_net_give_up(struct supervisor_net *net, int rank);

/* Client: why it ends by itself. `signal`: that asked for it, or 0. `final`: whether the job may begin again. */
void supervisor_net_say_error(struct supervisor_net *net, const struct error *error, int signal, enum job_final final);

/* Client: waits, a moment at most, for what supervisor 0 says to that. False: it has said nothing, or is lost. */
bool supervisor_net_await_end(struct supervisor_net *net);

/* Whether the job may begin again, as another supervisor, or supervisor 0, has said. */
enum job_final supervisor_net_final(const struct supervisor_net *net);

/* The last words: supervisor 0 lets the others go with the exit code; a client waits until it may, and for its code.
 * `others_ms`: the time that other ranks may still have (--grace). */
int supervisor_net_leave(struct supervisor_net *net, int exit_code, int64_t others_ms);

#endif
