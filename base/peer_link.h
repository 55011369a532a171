/*
 * peer_link.h - one connection between two processes of a job: frames of a kind and bounded bytes, both ways, over a
 * stream socket. Between supervisors (launcher/cluster/), where they meet (launcher/cluster/address/), and between the
 * engines of ranks (comm/control.h). Between hosts each frame is sealed (seal.h); over a pair of sockets inside a host
 * its code is zero.
 *
 * What cannot be sent yet waits in a bounded buffer; a peer that does not read for so long is as good as gone. Nothing
 * blocks but the calls with a deadline (clock_now_ms). One thread at a time for a link.
 */
#ifndef DDPRUN_BASE_PEER_LINK_H
#define DDPRUN_BASE_PEER_LINK_H

#include "base/seal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
    FRAME_HEARTBEAT = 1, /* nothing in it */
    FRAME_VIEW,          /* client: rank_view_encode() */
    FRAME_ERROR,         /* client: struct peer_order; it ends by itself, and why */
    FRAME_DONE,          /* client: no process of its rank is left, its output has been passed on */
    FRAME_END,           /* root: struct peer_order; the job ends */
    FRAME_LEAVE,         /* root: struct peer_order; exit with its code */
    FRAME_ASK,           /* root: a report on its rank is wanted; one byte: 1 with stacks */
    FRAME_LOOK,          /* root: a view of this moment is wanted */
    FRAME_WANTED,        /* root: rank_wanted_pack() of the last step whose buckets a rank has asked for, 64 bits */
    FRAME_REPORT,        /* client: the report, text without a NUL */
    FRAME_GIVE,          /* client: its bytes of a meeting's round */
    FRAME_GIVEN,         /* root: a rank, as 32 bits, and its bytes of the round; the last rank's end the round */
    FRAME_LEFT,          /* root: struct peer_order; a line about ranks that have left the meeting */
    FRAME_WAKE,          /* nothing, in many bytes; peer_link_next() keeps it to itself, and */
    FRAME_ANNOUNCED,     /* how many bytes the next frame has, as 64 bits, if more than FRAME_BYTES_AT_MOST */
    FRAME_MESSAGE,       /* engine, to rank 0: a place of the program, a NUL, and bytes; */
    FRAME_ALL,           /* from rank 0: the same, with those of all ranks; */
    FRAME_FAILURE,       /* a line of text; */
    FRAME_RANK_LEFT,     /* a line for COMM_LEFT */
    FRAME_GIVE_UP,       /* root: the client's rank is to be ended: it waits for one that has left, or has failed */
    FRAME_KINDS,
};

/* FRAME_HEADER_BYTES: length, kind and code. FRAME_BYTES_AT_MOST: of a frame that was not announced. The code of a
 * frame is proved once all of its bytes have come: a process in between that changes its length makes the reader keep
 * this many bytes at most. LINK_WAKE_BYTES: more than two views have. */
enum {
    FRAME_HEADER_BYTES = 8 + SEAL_CODE_BYTES,
    FRAME_BYTES_AT_MOST = 64 << 10,
    LINK_WAKE_BYTES = 4096,
    LINK_BACKLOG_BYTES = 1 << 20
};

struct peer_frame {
    enum frame_kind kind;
    const unsigned char *bytes; /* of one that came: valid until the next call on the link */
    size_t count;
    bool is_digested; /* `digest`, of the bytes, is known: the same frame may go to many */
    unsigned char digest[SEAL_HASH_BYTES];
};

/* The header of the frame, as the next one that is sent by `seal`. */
void peer_frame_seal(struct peer_frame *frame, struct seal *seal, unsigned char header[FRAME_HEADER_BYTES]);

/*
 * The frame at the beginning of bytes[count]. Returns how many bytes it takes; 0: there is not all of it yet; -1: this
 * is not a frame, or one of more than `most` bytes, or not the next one of the other end.
 */
long peer_frame_parse(const unsigned char *bytes, size_t count, size_t most, struct seal *seal,
                      struct peer_frame *frame) __attribute__((warn_unused_result));

enum link_state {
    LINK_OPEN,
    LINK_LATE,    /* the deadline has passed; the link is as it was */
    LINK_GONE,    /* the other end is closed */
    LINK_CLOSED,  /* this one is: the descriptor is no socket any more */
    LINK_ALTERED, /* a frame was not what the other end sent: changed, repeated, left out or added on the way */
    LINK_NO_MEMORY,
};

/* bytes[taken, count) are still to be sent, or looked at. */
struct link_bytes {
    unsigned char *bytes;
    size_t count, taken, room;
};

struct peer_link {
    int fd;                /* -1: none, or closed */
    enum link_state state; /* never LINK_LATE; but for LINK_OPEN nothing more can be sent */
    bool wakes;            /* peer_link_wake_late() */
    size_t most;           /* bytes of a frame that comes, */
    size_t announced;      /* of the next one; 0: FRAME_BYTES_AT_MOST */
    struct seal seal;
    struct link_bytes in, out;
};

/* Takes over the socket. `key`: of its session; NULL: both ends are on this host. `is_root`: this end listened. */
void peer_link_open(struct peer_link *link, int fd, const unsigned char *key, bool is_root, size_t most);
void peer_link_close(struct peer_link *link);

/*
 * To be called by both ends: from now on the socket is readable from LINK_WAKE_BYTES on (SO_RCVLOWAT, tcp(7)), or once
 * the other end has closed it. So heartbeats wake no process: they are read when their reader looks anyway, and
 * hundreds of them in a second cost no more than one. Urgent frames are padded, so that they wake it. Where a system
 * makes sockets readable earlier, all is heard, and costs more.
 */
void peer_link_wake_late(struct peer_link *link);

void peer_link_send(struct peer_link *link, enum frame_kind kind, const void *bytes, size_t count);
/* The same without waking the other end, which hears it when it looks. */
void peer_link_send_quietly(struct peer_link *link, enum frame_kind kind, const void *bytes, size_t count);
/* The same of a frame that goes to several links. */
void peer_link_send_frame(struct peer_link *link, struct peer_frame *frame, bool is_urgent);

/* Sends what waits; then whether nothing waits any more. */
bool peer_link_flush(struct peer_link *link);

/* Reads some of what has come, if anything has. Then peer_link_next() gives the frames, one by one, also those before
 * the end. */
bool peer_link_read(struct peer_link *link);
bool peer_link_next(struct peer_link *link, struct peer_frame *frame) __attribute__((warn_unused_result));

/* ---- with a deadline ---- */

/* Until all is sent; until a frame has come. What can be done at once is, also after the deadline. */
enum link_state peer_link_finish(struct peer_link *link, int64_t deadline_ms);
enum link_state peer_link_await(struct peer_link *link, struct peer_frame *frame, int64_t deadline_ms);

/* ---- of any socket ---- */

/* Waits until it is ready for `events` (poll); false when the deadline passes. */
bool socket_wait(int fd, short events, int64_t deadline_ms);

/* Reads until there are `count` bytes at `to`, of which *got_p have come. LINK_LATE: more are to come. Otherwise errno
 * says why. */
enum link_state socket_receive(int fd, void *to, size_t count, size_t *got_p);

/* Whether the other end of a Unix socket is of this user. */
bool socket_is_own_user(int fd);

#endif
