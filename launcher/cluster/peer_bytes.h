/*
 * peer_bytes.h - what supervisors say to each other, as the bytes of frames (base/peer_link.h): orders, and what a
 * supervisor sees of its rank. Pure functions, but for supervisor_link_open(); supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEER_BYTES_H
#define DDPRUN_LAUNCHER_CLUSTER_PEER_BYTES_H

#include "base/peer_link.h"
#include "launcher/common/rank_view.h"

/* What END, LEAVE, ERROR and LEFT carry. */
/* Whether a job that has failed may begin again (--max-restarts). */
enum job_final {
    JOB_MAY_BEGIN_AGAIN,
    JOB_HOST_WAS_KILLED, /* the first ddprun of a host was, which would not be there */
    JOB_STEP_WAS_WRONG,  /* a step was judged wrong: the program would repeat it, or continue from wrong files */
};

struct peer_order {
    int exit_code;
    int signal;      /* END: for the rank; ERROR: that asked for the end, or 0 */
    int grace_ms;    /* END: until SIGKILL */
    int asked;       /* END: the signal that asked ranks to stop, at whichever supervisor; 0: none did */
    int final;       /* END, ERROR: enum job_final, for all hosts */
    char text[1024]; /* why; empty where ranks have ended well */
};

size_t peer_order_encode(const struct peer_order *order, unsigned char *bytes, size_t room);
bool peer_order_decode(const void *bytes, size_t count, struct peer_order *order) __attribute__((warn_unused_result));
void peer_order_send(struct peer_link *link, enum frame_kind kind, const struct peer_order *order);

#define PEER_ALTERED "a message on its connection is damaged: a process in between has changed it"

/* Takes over a socket between supervisors, on which heartbeats wake no process. */
void supervisor_link_open(struct peer_link *link, int fd, const unsigned char key[SEAL_HASH_BYTES], bool is_root);

/* A view is the rows of base/rank_fields.def. */
enum { RANK_VIEW_BYTES_AT_MOST = 16384 };

/* Writes the view into bytes[RANK_VIEW_BYTES_AT_MOST]; returns how many. */
size_t rank_view_encode(const struct rank_view *view, unsigned char *bytes);

/* Takes over what was sent; fields that are no part of it (such as `order`) stay. False and untouched: no view. */
bool rank_view_decode(const void *bytes, size_t count, struct rank_view *view) __attribute__((warn_unused_result));

/* Whether supervisor 0 should hear of the change at once; else it does with the next heartbeat. */
bool rank_view_is_urgent(const struct rank_view *before, const struct rank_view *after);

#endif
