/*
 * peers.h - the star of supervisors, at its centre: supervisor 0 hears what the others see of their ranks, and tells
 * them how the job ends.
 *
 * Listens on TCP; who connects must know the job's secret (proof.h) within a few seconds. One epoll descriptor for
 * all, no thread, nothing blocks: hundreds of leaves cost what they say, and heartbeats are heard together
 * (peer_link.h). Supervisor's thread only. The other ends are peers_leaf.h.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEERS_H
#define DDPRUN_LAUNCHER_CLUSTER_PEERS_H

#include "launcher/cluster/listener.h"
#include "launcher/cluster/peer_link.h"
#include "launcher/cluster/proof.h"
#include "launcher/common/problem.h"
#include "launcher/common/rank_view.h"

/*
 * What a leaf sees goes into what is judged, and so comes every PEERS_HEARTBEAT_MS. What supervisor 0 sends is there
 * only to show that it is: a few times in the limit, PEERS_SILENT_MS at most. A send is what it pays most for.
 */
enum { PEERS_HEARTBEAT_MS = 1000, PEERS_SILENT_MS = 10000, PEERS_BEATS_IN_LIMIT = 5, PEERS_STALL_MS = 3000 };

enum peer_state {
    PEER_AWAITED, /* has not connected yet */
    PEER_HERE,
    PEER_DONE, /* nothing of its rank is left */
    PEER_LOST, /* its connection is */
};

struct peer {
    enum peer_state state;
    const char *lost; /* why */
    bool has_problem; /* it ends by itself: */
    struct peer_order problem;
    char *report; /* that was asked for; NULL: has not come */
    /* of peers.c */
    struct peer_link link;
    int64_t heard_ms;
    bool spoke;     /* before, it may be busy with starting its rank */
    bool owes_view; /* it was asked for one */
    int engine_socket;
    bool waits_to_write;
};

struct peers;

/* Takes over the listener. `limit_s`: without a word of a leaf, until it is lost; 0: never. */
struct peers *peers_open(struct listener *listener, int world_size, const unsigned char secret[PROOF_BYTES],
                         unsigned limit_s, struct problem *problem);
void peers_close(struct peers *peers);

/* Readable when there is something to do at once. */
int peers_fd(const struct peers *peers);

/* Does what is due; views[rank] follow what the leaves say. Whenever peers_fd() is readable, and twice a second, for
 * what does not make it so. Returns whether there is something new that may decide how the job ends. */
bool peers_step(struct peers *peers, struct rank_view *views);

const struct peer *peers_look_at(const struct peers *peers, int rank);

/* The socket of a rank's control plane, which the caller then owns; -1: it has not come yet. */
int peers_take_engine_socket(struct peers *peers, int rank);
/* Gives it back: it could not be handed over yet. */
void peers_put_engine_socket(struct peers *peers, int rank, int fd);

/* Asks all leaves for views of this moment; then, whether all that are there have answered. */
void peers_ask_views(struct peers *peers);
bool peers_have_answered(const struct peers *peers);

/* Asks a leaf for a report on its rank: peers_look_at()->report, once it has come. */
void peers_ask_report(struct peers *peers, int rank, bool stacks);

/* To all, also to those who connect later. */
void peers_say_end(struct peers *peers, const struct peer_order *order);
/* To all; closing them is up to peers_close(). */
void peers_say_leave(struct peers *peers, int exit_code);

/* No peer has anything left to do. */
bool peers_all_done(const struct peers *peers);
/* All connections are closed, by the other ends: they have heard everything. */
bool peers_all_left(const struct peers *peers);

#endif
