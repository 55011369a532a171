/*
 * listener.h - the listener of supervisor 0: a port to which the supervisors of the other ranks, and their engines,
 * connect.
 *
 * Opened before the handshake, which names the port to all; supervisor_server.c takes it over. Any thread, one at a
 * time.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_LISTENER_H
#define DDPRUN_LAUNCHER_CLUSTER_LISTENER_H

#include "launcher/common/error.h"

#include <stdint.h>

struct listener {
    int fd; /* -1: closed */
    uint16_t port;
};

/*
 * A port that the system chooses, on all interfaces, IPv6 too where there is one. Error (DDPRUN_EXIT_FAILURE): the
 * system has none.
 */
bool listener_open(struct listener *listener, int backlog, struct error *error) __attribute__((warn_unused_result));
void listener_close(struct listener *listener);

#endif
