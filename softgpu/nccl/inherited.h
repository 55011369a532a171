/*
 * inherited.h - sockets that a forked child of this process must not keep: as long as a copy is open somewhere, the
 * other end does not see that this process has ended.
 *
 * Called by the files that make such a socket: bootstrap*.c, spread.c, remote.c. Any thread.
 */
#ifndef SOFTGPU_NCCL_INHERITED_H
#define SOFTGPU_NCCL_INHERITED_H

#include <stdbool.h>

/*
 * Between the two no thread forks: what makes a socket stands here, with inherited_add() for what it made, so that no
 * child gets one that is not known yet. Never around anything that waits.
 */
void inherited_lock(void);
void inherited_unlock(void);

/* Notes a socket, between the two. False without memory. */
bool inherited_add(int socket);

/* Forgets and closes a socket; -1: there is no socket. */
void inherited_close(int socket);

#endif
