/*
 * remote_links.h - what remote.c and remote_receive.c share: the connections themselves. No other file includes it.
 */
#ifndef SOFTGPU_NCCL_REMOTE_LINKS_H
#define SOFTGPU_NCCL_REMOTE_LINKS_H

#include "nccl/frame.h"
#include "nccl/remote.h"

#include <pthread.h>

/* The connection with one rank of another host. */
struct link {
    int socket;              /* non-blocking; -1: none, the rank is on this host */
    pthread_mutex_t sending; /* guards can_send, and keeps frames whole */
    bool can_send;
    _Atomic int send_error;     /* errno of a send that failed, which the receiver cannot see any more; 0 */
    _Atomic int health;         /* enum wait_result: WAIT_REACHED while more can come */
    struct frame_reader reader; /* the receiving thread's */
};

struct remote {
    struct segment *segment; /* outlives this */
    int ending;              /* eventfd: the thread ends */
    pthread_t thread;
    struct link links[SEGMENT_MAX_RANKS];
};

/* Starts the thread; an errno, 0 for success. */
int remote_receive_start(struct remote *remote);

#endif
