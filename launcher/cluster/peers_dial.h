/*
 * peers_dial.h - a leaf's way to supervisor 0: connecting and proving, with limits.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEERS_DIAL_H
#define DDPRUN_LAUNCHER_CLUSTER_PEERS_DIAL_H

#include "launcher/cluster/hello.h"
#include "launcher/cluster/proof.h"
#include "launcher/signals.h"

/*
 * Connects to the supervisor that said `root`, trying its addresses in order, the loopback ones first where it is on
 * this host (`own_host_id`), and proves `rank` for `purpose`. A few seconds for each address; gives up at once when a
 * signal asks for the end. Returns the socket, without delay (TCP_NODELAY) and closed by execve; -1 and the problem.
 */
int peers_dial(const struct hello *root, const char *own_host_id, enum peer_purpose purpose, int rank,
               const struct signals *signals, struct problem *problem);

#endif
