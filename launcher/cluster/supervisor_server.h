/*
 * supervisor_server.h - the server among the supervisors: supervisor 0 hears what the others see of their ranks,
 * and tells them how the job ends.
 *
 * Listens on TCP; who connects must know the job's secret (auth.h) within a few seconds. One epoll descriptor for
 * all, no thread, nothing blocks: work grows with messages, not with clients, and heartbeats are heard together
 * (base/peer_link.h). Supervisor's thread only. The other ends are supervisor_client.h.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_SERVER_H
#define DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_SERVER_H

#include "launcher/cluster/auth.h"
#include "launcher/cluster/peer_bytes.h"
#include "launcher/cluster/supervisor_connect.h"
#include "launcher/common/error.h"
#include "launcher/common/rank_view.h"

/*
 * What a client sees goes into what is judged, and so comes every SUPERVISOR_SERVER_HEARTBEAT_MS. What supervisor 0
 * sends is there only to show that it is: a few times in the limit, SUPERVISOR_SERVER_SILENT_MS at most. A send is what
 * it pays most for.
 */
enum {
    SUPERVISOR_SERVER_HEARTBEAT_MS = 1000,
    SUPERVISOR_SERVER_SILENT_MS = 10000,
    SUPERVISOR_SERVER_BEATS_IN_LIMIT = 5,
    SUPERVISOR_SERVER_STALL_MS = 3000
};

enum peer_state {
    PEER_AWAITED, /* has not connected yet */
    PEER_HERE,
    PEER_DONE, /* nothing of its rank is left */
    PEER_LOST, /* its connection is */
};

struct peer {
    enum peer_state state;
    const char *lost; /* why */
    bool came_twice;  /* another supervisor of this rank was rejected: */
    struct peer_link second;
    bool came_back; /* in a meeting: it was lost, and has connected again */
    bool has_error; /* it ends by itself: */
    struct peer_order error;
    char *report;         /* that was asked for; NULL: has not come */
    unsigned char *given; /* in a meeting, malloc'ed; NULL: nothing */
    size_t given_count;
    int engine_socket;                    /* of its rank's control plane; -1: it has not come yet */
    unsigned char engine_key[AUTH_BYTES]; /* of its session */
    /* of supervisor_server.c */
    struct peer_link link;
    int64_t heard_ms;
    bool spoke;     /* before, it may be busy with starting its rank */
    bool owes_view; /* it was asked for one */
    bool waits_to_write;
};

struct supervisor_server;

/* Takes over the listener. `limit_s`: without a message from a client, until it is lost; 0: never. */
struct supervisor_server *supervisor_server_open(struct listener *listener, int world_size,
                                                 const unsigned char secret[AUTH_BYTES], unsigned limit_s,
                                                 struct error *error);
void supervisor_server_close(struct supervisor_server *server);

/* Readable when there is something to do at once. */
int supervisor_server_fd(const struct supervisor_server *server);

/* Does what is due; views[rank] follow what the clients say. Whenever supervisor_server_fd() is readable, and twice a
 * second, for what does not make it so. Returns whether there is something new that may decide how the job ends. */
bool supervisor_server_step(struct supervisor_server *server, struct rank_view *views);

/* Its engine's socket, and what it has given, the caller may take, leaving -1 or NULL. */
struct peer *supervisor_server_peer(const struct supervisor_server *server, int rank);

/* Asks all clients for views of this moment. */
void supervisor_server_ask_views(struct supervisor_server *server);

/* Tells all clients of which step a rank has asked for buckets: rank_wanted_pack(). */
void supervisor_server_say_wanted(struct supervisor_server *server, uint64_t wanted);

/* Whether all others are so far. */
enum peers_far {
    PEERS_ANSWERED, /* those that are there: with the view that they were asked for */
    PEERS_FLUSHED,  /* what was said to them has left this process */
    PEERS_DONE,     /* they have nothing left to do */
    PEERS_LEFT,     /* they have closed their connections: they have heard everything */
};
bool supervisor_server_all(const struct supervisor_server *server, enum peers_far far);

/* Asks a client for a report on its rank: supervisor_server_peer()->report, once it has come. */
void supervisor_server_ask_report(struct supervisor_server *server, int rank, bool stacks);

/* ---- a meeting: clients give bytes, and get those of all (address/meeting.c) ---- */

/* What the challenge begins with from now on: AUTH_MARK_BYTES. */
void supervisor_server_mark(struct supervisor_server *server, const unsigned char *mark);
/* Appends, in brackets, where a process that took part in this meeting by its mark, and failed to prove that it has the
 * key, came from last; nothing if none did. */
void supervisor_server_describe_refused(const struct supervisor_server *server, char *text, size_t bytes);
/* Gives the bytes of `rank` to all clients; `wakes`: they are the last of the round. */
void supervisor_server_give(struct supervisor_server *server, int rank, const void *bytes, size_t count, bool wakes);

/* ---- the end of a job ---- */

/* To one: its rank is to be ended, before the time is over that ranks have (watch/grace.h). */
void supervisor_server_give_up(struct supervisor_server *server, int rank);

/* To all that are here: FRAME_LEFT, in a meeting; FRAME_END, also to those who connect later; FRAME_LEAVE. Closing them
 * is up to supervisor_server_close(). */
void supervisor_server_say(struct supervisor_server *server, enum frame_kind kind, const struct peer_order *order);

#endif
