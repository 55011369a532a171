/*
 * remote_links.h - what remote.c and remote_receive.c share: the connections themselves. No other file includes it.
 */
#ifndef SOFTGPU_NCCL_REMOTE_LINKS_H
#define SOFTGPU_NCCL_REMOTE_LINKS_H

#include "nccl/frame.h"
#include "nccl/remote.h"

#include <pthread.h>

/*
 * Frames on their way to one rank. A frame is held, and sent in one call with the next one, if no rank waits for it
 * before the next one: a signature and the data of a chunk until the progress after them, and PROGRESS_TAKEN. A rank
 * waits for PROGRESS_TAKEN of chunk c when it reduces chunk c + 2. Before, it waits for PROGRESS_CONTRIBUTED of chunk
 * c + 2, which the same connection brings later than PROGRESS_TAKEN of chunk c. States and notes pass held frames: what
 * a rank that leaves or fails has held, no rank needs any more.
 */
enum { LINK_HELD = 4 };

struct outgoing {
    struct frame frame;
    const void *data; /* frame.bytes of them */
};

/* The connection with one rank of another host. */
struct link {
    int socket;              /* non-blocking; -1: none, the rank is on this host */
    pthread_mutex_t sending; /* guards can_send, and keeps frames whole */
    bool can_send;
    _Atomic int send_error;          /* errno of a send that failed, which the receiver cannot see any more; 0 */
    _Atomic int health;              /* enum wait_result: WAIT_REACHED while more can come */
    struct outgoing held[LINK_HELD]; /* the operation's thread's */
    int held_count;
    pthread_mutex_t receiving; /* guards what follows */
    struct frame_reader reader;
    int low; /* SO_RCVLOWAT */
    unsigned char ahead[2048];
};

/* Who receives: remote_receive.c. The operation's set is made first. */
enum receiver { RECEIVER_OPERATION, RECEIVER_THREAD, RECEIVER_COUNT };

struct receiver_set {
    int set;   /* epoll: of all sockets and `event`; -1: none */
    int event; /* eventfd. The operation looks again; the thread ends */
};

struct remote {
    struct segment *segment; /* outlives this */
    struct receiver_set receivers[RECEIVER_COUNT];
    _Atomic uint32_t waiters; /* operations that wait for a rank of another host: at most one */
    pthread_t thread;
    struct link links[SEGMENT_MAX_RANKS];
};

/* Makes the sets and starts the thread; an errno, 0 for success. The sets are closed by the caller in any case. */
int remote_receive_start(struct remote *remote);

void remote_signal(struct remote *remote, enum receiver receiver);

#endif
