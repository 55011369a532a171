/*
 * peers_leaf.h - the connection of a supervisor that is not the first to supervisor 0: tells what it sees of its rank,
 * hears how the job ends. Never blocks. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEERS_LEAF_H
#define DDPRUN_LAUNCHER_CLUSTER_PEERS_LEAF_H

#include "launcher/cluster/hello.h"
#include "launcher/cluster/peer_link.h"
#include "launcher/cluster/peers_dial.h"
#include "launcher/common/rank_view.h"

struct peers_leaf {
    int rank;
    const struct hello *root; /* borrowed */
    char host_id[HOST_ID_BYTES];
    struct peer_link link;
    int limit_ms; /* without a word of supervisor 0; 0: for ever */
    int64_t looked_ms, heard_ms, said_ms;
    struct rank_view told; /* what supervisor 0 knows */

    bool asked_view;          /* supervisor 0 wants to know how it is now: peers_leaf_say_view() */
    bool asked, asked_stacks; /* supervisor 0 wants a report; with stacks */
    bool end;                 /* the job ends: */
    struct peer_order ending; /* how */
    bool leave;               /* and this process may: */
    int exit_code;            /* with this code */
    const char *lost;         /* supervisor 0 is, for this reason; else NULL */
};

/* Takes over the connected and proven socket. */
void peers_leaf_open(struct peers_leaf *leaf, const struct hello *root, int rank, int fd, unsigned limit_s);
void peers_leaf_close(struct peers_leaf *leaf);

/* Hears and says what is due. To be called whenever the socket is readable, and twice a second. */
void peers_leaf_step(struct peers_leaf *leaf, const struct rank_view *view);

void peers_leaf_say_problem(struct peers_leaf *leaf, const struct peer_order *problem);
void peers_leaf_say_done(struct peers_leaf *leaf, const struct rank_view *view);

/* Answers `asked_view`. */
void peers_leaf_say_view(struct peers_leaf *leaf, const struct rank_view *view);

/* Answers `asked`. Text beyond FRAME_BYTES_AT_MOST is cut. */
void peers_leaf_say_report(struct peers_leaf *leaf, const char *text);

/* Begins a second connection, for the rank's control plane, first by the address under which this one was made. */
void peers_leaf_dial(const struct peers_leaf *leaf, struct peers_dial *dial);

#endif
