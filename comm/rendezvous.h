/*
 * rendezvous.h - which rank am I, and how do I reach the others?
 *
 * The launcher's supervisor on this host knows this rank's place and has connected it with the others; this process
 * asks on a socket in the job folder (base/supervisor_link.h). What ranks say to each other while they train goes
 * through control.h.
 *
 * One rendezvous in a process.
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_H
#define DDPRUN_COMM_RENDEZVOUS_H

#include "base/seal.h"
#include "comm/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rendezvous {
    int rank;
    int world_size;
    int local_rank;
    unsigned generation; /* how many programs were this rank before */
    bool open;
};

/* Joins the job as the rank of record `index`, once the supervisor has answered; at most timeout_s seconds. */
bool rendezvous_open(struct rendezvous *rendezvous, int index, unsigned generation, int timeout_s,
                     struct comm_error *error) __attribute__((warn_unused_result));

/* A connection to another rank. */
struct rank_link {
    int fd; /* -1: none */
    struct seal seal;
};

/*
 * Connections to the other ranks, which the caller owns, and keeps as long as rendezvous_share() is called: on rank 0
 * links[world_size] with its own left as it is, on other ranks links[0], to rank 0; all without a descriptor before.
 * Collective; waits at most timeout_s seconds.
 */
bool rendezvous_links(struct rendezvous *rendezvous, struct rank_link *links, int timeout_s, struct comm_error *error)
    __attribute__((warn_unused_result));

/*
 * Collective, at the same place of all ranks: rank 0's bytes are in out[bytes] after the call; `mine` of others is not
 * read. `key` is for messages. Waits at most timeout_s seconds for the others. After rendezvous_links(), and not
 * beside an exchange over them.
 */
bool rendezvous_share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                      int timeout_s, struct comm_error *error) __attribute__((warn_unused_result));

/* Asks the launcher to end the whole job, for the reason in this rank's status record. */
void rendezvous_abort(struct rendezvous *rendezvous);

/* Whether the launcher has gone without ending this process. Any thread. */
bool rendezvous_launcher_is_gone(void);

/* Leaves cleanly. */
void rendezvous_close(struct rendezvous *rendezvous);

/* In a forked child: lets go of what the parent continues to use. */
void rendezvous_forget(struct rendezvous *rendezvous);

/* ---- transfer.c ---- */
/*
 * Whole messages over sockets, with a limit of time. Any thread; one reader and one writer for a socket.
 */

enum transfer {
    TRANSFER_DONE,
    TRANSFER_LATE,
    TRANSFER_GONE,    /* the other end is closed */
    TRANSFER_CLOSED,  /* this one is: the descriptor is no socket any more */
    TRANSFER_ALTERED, /* what came is not what the other end sent next, or of another version */
    TRANSFER_NO_MEMORY,
};

/* Reports why the transfer with `rank` did not happen, at `about`; `is_last`: nothing comes after it. Always false. */
bool transfer_failed(enum transfer transfer, int rank, const char *about, int timeout_s, bool is_last,
                     struct comm_error *error);

/* Waits until `fd` is ready for `events` (poll); false when the deadline (clock_now_ms) passes. */
bool transfer_wait(int fd, short events, int64_t deadline_ms);

/* All `bytes`, or none that count: the others leave the stream in the middle of a message. */
enum transfer transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms);
enum transfer transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms);

/*
 * Frames: a header, then its bytes, same machine on both ends. Sealed, unless the link's ends are on one host
 * (base/seal.h).
 */
enum frame_kind {
    FRAME_MESSAGE = 1, /* control.c: to rank 0; */
    FRAME_FAILURE,     /* from rank 0: a line of text; */
    FRAME_ALL,         /* those of all ranks; */
    FRAME_RANK_LEFT,   /* a line for COMM_LEFT */
    FRAME_SHARED,      /* rendezvous_share() */
};
enum { FRAME_ABOUT_BYTES = 128 };

struct rank_frame_header {
    uint32_t magic, kind;
    int32_t rank; /* of the sender */
    uint32_t reserved;
    uint64_t bytes;
    char about[FRAME_ABOUT_BYTES]; /* NUL-terminated: where the sender is */
    unsigned char code[SEAL_CODE_BYTES];
};

/* One to be sent, to one link or several. */
struct rank_frame {
    struct rank_frame_header header;
    const void *data; /* borrowed */
    unsigned char digest[SEAL_HASH_BYTES];
    bool is_digested; /* `digest` is known: of the bytes */
};

struct rank_frame frame_make(enum frame_kind kind, int rank, const char *about, const void *data, size_t bytes);
enum transfer frame_send(struct rank_link *link, struct rank_frame *frame, int64_t deadline_ms);
/* Of at most `most` bytes; *data_p is malloc'ed, with a NUL behind it: texts are read as strings. */
enum transfer frame_receive(struct rank_link *link, size_t most, struct rank_frame_header *header_p, void **data_p,
                            int64_t deadline_ms);

#endif
