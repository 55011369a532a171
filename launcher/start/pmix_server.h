/*
 * pmix_server.h - the launcher's own PMIx server: how the ranks find each other on one node.
 *
 * PMIx runs a thread of its own in the launcher. Its callbacks land in pmix_server.c, only note what happened, and wake
 * the supervisor through a pipe; nothing here blocks without a limit of time. One server per process (PMIx is a
 * singleton). All signals that the supervisor wants must be blocked before pmix_server_start(): its thread inherits the
 * mask.
 *
 * Nothing ends the server but the end of the process: PMIx_server_finalize() may hang or, where a client has just died,
 * crash (libpmix 4.2), and does no more than free memory and remove files of the folder, which the launcher removes.
 * PMIx's thread still runs then, so that a process with a server leaves by _exit() or execve().
 */
#ifndef DDPRUN_LAUNCHER_START_PMIX_SERVER_H
#define DDPRUN_LAUNCHER_START_PMIX_SERVER_H

#include "launcher/common/error.h"

/* A rank called PMIx_Abort. */
struct pmix_server_abort {
    int rank;
    int status;
    char message[256];
};

struct pmix_server;

/*
 * Starts the server with its files in `folder` and registers a job of `rank_count` ranks. Error
 * (DDPRUN_EXIT_FAILURE): PMIx refused or did not answer in time; *server is not NULL if its thread may run
 * nevertheless.
 */
bool pmix_server_start(const char *folder, int rank_count, struct pmix_server **server, struct error *error)
    __attribute__((warn_unused_result));

/* Adds PMIx's variables of `rank` to the environment `list` (environment.h). */
bool pmix_server_add_environment(struct pmix_server *server, int rank, char ***list, struct error *error)
    __attribute__((warn_unused_result));

/* Readable when pmix_server_next_abort() has something. */
int pmix_server_fd(const struct pmix_server *server);

/* Takes the next abort; false: no abort waits. */
bool pmix_server_next_abort(struct pmix_server *server, struct pmix_server_abort *abort);

/* The rank connected, and has not finalized (yet). */
bool pmix_server_is_connected(const struct pmix_server *server, int rank);

#endif
