/*
 * supervisor_client.h - the connection of a supervisor that is not the first to supervisor 0: tells what it sees of its
 * rank, hears how the job ends. Never blocks. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_CLIENT_H
#define DDPRUN_LAUNCHER_CLUSTER_SUPERVISOR_CLIENT_H

#include "launcher/cluster/handshake.h"
#include "launcher/cluster/peer_bytes.h"
#include "launcher/cluster/supervisor_connect.h"
#include "launcher/common/rank_view.h"

struct supervisor_client {
    int rank;
    const struct handshake *root; /* borrowed */
    char host_id[HOST_ID_BYTES];
    struct peer_link link;
    int limit_ms; /* without a message from supervisor 0; 0: for ever */
    int64_t looked_ms, heard_ms, said_ms;
    struct rank_view told; /* what supervisor 0 knows */

    bool asked_view;          /* supervisor 0 wants to know how it is now: supervisor_client_say_view() */
    bool asked, asked_stacks; /* supervisor 0 wants a report; with stacks */
    bool give_up;             /* its rank is to be ended now */
    uint64_t wanted;          /* FRAME_WANTED; 0: none has come */
    bool end;                 /* the job ends: */
    struct peer_order ending; /* how, as it was said last, */
    uint64_t end_ns;          /* and when */
    bool leave;               /* and this process may: */
    int exit_code;            /* with this code */
    const char *lost;         /* supervisor 0 is, for this reason; else NULL */
};

/* Takes over the connected and proven socket; peer_link_close() of `link` closes it. */
void supervisor_client_open(struct supervisor_client *client, const struct handshake *root, int rank, int fd,
                            const unsigned char key[AUTH_BYTES], unsigned limit_s);

/* Hears and says what is due. To be called whenever the socket is readable, and twice a second. */
void supervisor_client_step(struct supervisor_client *client, const struct rank_view *view);

void supervisor_client_say_done(struct supervisor_client *client, const struct rank_view *view);

/* Answers `asked_view`. */
void supervisor_client_say_view(struct supervisor_client *client, const struct rank_view *view);

/* Answers `asked`. Text beyond FRAME_BYTES_AT_MOST is cut. */
void supervisor_client_say_report(struct supervisor_client *client, const char *text);

/* Begins a second connection, for the rank's control plane, first by the address under which this one was made. */
void supervisor_client_connect(const struct supervisor_client *client, struct supervisor_connect *connection);

#endif
