/*
 * peer_link.h - one connection between two supervisors, already proven: sealed frames of a kind and bounded bytes, both
 * ways, without ever blocking.
 *
 * What cannot be sent yet waits in a bounded buffer; a peer that does not read for so long is as good as gone.
 *
 * A socket is readable from LINK_WAKE_BYTES on (SO_RCVLOWAT, tcp(7)), or once the other end has closed it. So
 * heartbeats wake no process: they are read when their reader looks anyway, and hundreds of them in a second cost no
 * more than one. What must be heard at once is sent with so many bytes behind it. Where a system makes sockets readable
 * earlier, all is heard, and costs more. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PEER_LINK_H
#define DDPRUN_LAUNCHER_CLUSTER_PEER_LINK_H

#include "base/seal.h"
#include "launcher/common/rank_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum peer_frame_kind {
    FRAME_HEARTBEAT = 1, /* nothing in it */
    FRAME_VIEW,          /* client: rank_view_encode() */
    FRAME_ERROR,         /* client: struct peer_order; it ends by itself, and why */
    FRAME_DONE,          /* client: no process of its rank is left, its output has been passed on */
    FRAME_END,           /* root: struct peer_order; the job ends */
    FRAME_LEAVE,         /* root: struct peer_order; exit with its code */
    FRAME_ASK,           /* root: a report on its rank is wanted; one byte: 1 with stacks */
    FRAME_LOOK,          /* root: a view of this moment is wanted */
    FRAME_REPORT,        /* client: the report, text without a NUL */
    FRAME_GIVE,          /* client: its bytes of a meeting's round */
    FRAME_GIVEN,         /* root: a rank, as 32 bits, and its bytes of the round; the last rank's end the round */
    FRAME_LEFT,          /* root: struct peer_order; a line about ranks that have left the meeting */
    FRAME_WAKE,          /* nothing, in many bytes; peer_link_next() keeps it to itself */
    FRAME_KINDS,
};

/* FRAME_HEADER_BYTES: length, kind and code (base/seal.h). LINK_WAKE_BYTES: more than two views have. */
enum {
    FRAME_HEADER_BYTES = 8 + SEAL_CODE_BYTES,
    FRAME_BYTES_AT_MOST = 64 << 10,
    LINK_WAKE_BYTES = 4096,
    LINK_BACKLOG_BYTES = 1 << 20
};

struct peer_frame {
    enum peer_frame_kind kind;
    const unsigned char *bytes; /* valid until the next call on the link */
    size_t count;
};

/* What END, LEAVE, ERROR and LEFT carry. */
struct peer_order {
    int exit_code;
    int signal;   /* END: for the rank; ERROR: that asked for the end, or 0 */
    int grace_ms; /* END: until SIGKILL */
    char text[1024];
};

/*
 * The frame at the beginning of bytes[count]. Returns how many bytes it takes; 0: there is not all of it yet; -1: this
 * is not a frame, or not the next one of the other end.
 */
long peer_frame_parse(const unsigned char *bytes, size_t count, struct seal *seal, struct peer_frame *frame)
    __attribute__((warn_unused_result));

size_t peer_order_encode(const struct peer_order *order, unsigned char *bytes, size_t room);
bool peer_order_decode(const void *bytes, size_t count, struct peer_order *order) __attribute__((warn_unused_result));

#define PEER_ALTERED "what came over its connection is not what it sent: a process in between has changed it"

struct peer_link {
    int fd;        /* -1: none, or closed */
    bool gone;     /* the other end closed it, or spoke nonsense; nothing more can be sent */
    bool nonsense; /* a frame was not what the other end sent: changed, repeated, left out or added on the way */
    struct seal seal;
    unsigned char *in, *out;
    size_t in_count, in_taken, in_room; /* in[in_taken, in_count) is not looked at yet */
    size_t out_count, out_sent, out_room;
};

/* Takes over the socket. `key`: of its session (auth.h); `is_root`: this end listened. */
void peer_link_open(struct peer_link *link, int fd, const unsigned char key[SEAL_HASH_BYTES], bool is_root);
void peer_link_close(struct peer_link *link);

void peer_link_send(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count);
/* The same without waking the other end, which hears it when it looks. */
void peer_link_send_quietly(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count);
void peer_link_send_order(struct peer_link *link, enum peer_frame_kind kind, const struct peer_order *order);

/* Sends what waits; then whether nothing waits any more. */
bool peer_link_flush(struct peer_link *link);

/* Reads what has come. Then peer_link_next() gives the frames, one by one, also those before the end. */
void peer_link_read(struct peer_link *link);
bool peer_link_next(struct peer_link *link, struct peer_frame *frame) __attribute__((warn_unused_result));

/* ---- rank_view_wire.c: what a supervisor sees of its rank, as bytes: the rows of base/rank_fields.def; pure ---- */
enum { RANK_VIEW_BYTES_AT_MOST = 16384 };

/* Writes the view into bytes[RANK_VIEW_BYTES_AT_MOST]; returns how many. */
size_t rank_view_encode(const struct rank_view *view, unsigned char *bytes);

/* Takes over what was sent; fields that are no part of it (such as `order`) stay. False and untouched: no view. */
bool rank_view_decode(const void *bytes, size_t count, struct rank_view *view) __attribute__((warn_unused_result));

/* Whether supervisor 0 should hear of the change at once; else it does with the next heartbeat. */
bool rank_view_is_urgent(const struct rank_view *before, const struct rank_view *after);

#endif
