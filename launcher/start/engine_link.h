/*
 * engine_link.h - the supervisor's end of the sockets on which the engines of its ranks ask for their place and their
 * connections (base/supervisor_link.h). Never blocks; supervisor's thread only.
 *
 * Where all ranks of the job live here, the connections of the control plane are socket pairs, made when both ranks
 * have joined, so that no end waits here for a late one; in a cluster supervisor_net.c gives them.
 *
 * The socket lies in the job folder, which other users cannot enter. Who connects is a stranger until its JOIN has
 * come: strangers are never waited for, and the oldest goes where they are too many.
 */
#ifndef DDPRUN_LAUNCHER_START_ENGINE_LINK_H
#define DDPRUN_LAUNCHER_START_ENGINE_LINK_H

#include "launcher/common/error.h"

#include <stdbool.h>

/* One rank that lives here. What its socket does not take yet is kept, and sent when there is room again. */
struct engine_slot {
    int fd;              /* of the process that is the rank; -1: none */
    bool joined;         /* it asked for its place; false again once it has exited cleanly */
    unsigned joins;      /* how many did, one after the other */
    unsigned generation; /* of the one that joined last */
    bool place_unsent;   /* to be sent: PLACE, before all else; */
    char *refusal;       /* REFUSED; NULL: not; */
    bool pair_unsent;    /* its pair with rank 0, once that has joined, too; of one that is made: */
    int own_end;         /* its end, */
    int root_end;        /* and rank 0's, to rank 0; -1: not */
};

struct engine_link {
    int epoll; /* readable when there is something to do */
    int listener;
    int first_rank, count, world_size, first_local_rank;
    struct engine_slot *slots; /* [count] */
    int *strangers;            /* [stranger_count]: connected, and no JOIN has come; -1: free */
    int stranger_count, oldest_stranger;
};

/* Listens in the job folder, which is open as `folder_fd`; `folder` is its path, for messages. Ranks: `count` from
 * `first_rank` on. */
bool engine_link_open(struct engine_link *link, int folder_fd, const char *folder, int first_rank, int count,
                      int world_size, int first_local_rank, struct error *error) MUST_USE;
void engine_link_close(struct engine_link *link);

/* Returns whether a rank asked for the end of the job. */
bool engine_link_step(struct engine_link *link);

/* Hands rank `slot` its socket to rank `to`, and closes it here. `key`: by which its frames are sealed; NULL: they are
 * not. False: not now, try again after a later step. */
bool engine_link_give(struct engine_link *link, int slot, int to, int fd, const unsigned char *key) MUST_USE;

/* Instead of sockets. */
void engine_link_refuse(struct engine_link *link, int slot, const char *text);

#endif
