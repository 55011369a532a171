/*
 * engine_link.h - the supervisor's end of the socket on which the engine of its rank asks for its place and its
 * connections (base/supervisor_link.h). Only under a cluster's launcher. Never blocks; supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_ENGINE_LINK_H
#define DDPRUN_LAUNCHER_CLUSTER_ENGINE_LINK_H

#include "launcher/cluster/cluster.h"
#include "launcher/common/error.h"

#include <stdbool.h>

struct engine_link {
    int epoll, listener;
    int rank, world_size, local_rank;
    int fd;           /* of the process that is the rank; -1: none */
    bool joined;      /* it asked for its place; false again once it has exited cleanly */
    unsigned joins;   /* how many did, one after the other */
    bool aborted;     /* it asked for the end of the job: */
    int abort_status; /* exit code */
    char abort_text[256];
};

/* Listens in the job folder, which is open as `folder_fd`; `folder` is its path, for messages. */
bool engine_link_open(struct engine_link *link, int folder_fd, const char *folder, const struct cluster *cluster,
                      struct error *error) __attribute__((warn_unused_result));
void engine_link_close(struct engine_link *link);

/* Readable when there is something to do. */
int engine_link_fd(const struct engine_link *link);
void engine_link_step(struct engine_link *link);

/*
 * Hands the rank sockets to ranks first ... first + count - 1 (on a client: one, to rank 0, first = 0). Closes them
 * here once they are handed over. False: not now, try again later.
 */
bool engine_link_give(struct engine_link *link, int first, const int *fds, int count);

/* Instead of sockets. */
void engine_link_refuse(struct engine_link *link, const char *text);

#endif
