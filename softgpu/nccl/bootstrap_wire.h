/*
 * bootstrap_wire.h - what passes between the ranks and the thread that serves a unique id; private to bootstrap*.c and
 * spread.c.
 *
 * A rank sends reports, the root answers with rulings, each of one size. Ranks on the root's own host speak with it
 * over a SOCK_SEQPACKET socket, and show the secret in their first report; the others over TCP, once they have shown it
 * (auth.h).
 *
 *     rank: HELLO, with its host and a pidfd     root: once all have come, WELCOME, with the memfd of the segment and
 *                                                the pidfds of all ranks; that was all, if all came that way.
 *                                                Else SPREAD: who is on which host
 *     rank: ADDRESS, where it can be reached     root: ADDRESSES, of all ranks
 *     rank: DONE, connected with all others      root: WELCOME
 *
 * A ruling with a result other than success says why it is the last. Ranks of one host, in a world of several, meet
 * once more, with the first of them as a root of their own, under a name that the root has chosen.
 */
#ifndef SOFTGPU_NCCL_BOOTSTRAP_WIRE_H
#define SOFTGPU_NCCL_BOOTSTRAP_WIRE_H

#include "nccl/address.h"
#include "nccl/auth.h"
#include "nccl/bootstrap.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define ID_MAGIC     "SGNCCL2" /* 8 bytes with the NUL; so are the others */
#define REPORT_MAGIC "SGREPT2"
#define RULING_MAGIC "SGRULE3"

/* What a unique id holds. The name is known to every process that can list sockets, the secret only to processes that
 * were given the id.
 */
struct id_content {
    char magic[8];
    unsigned char name[16];   /* of the Unix socket; zero: none, as of an id from NCCL_COMM_ID */
    unsigned char secret[32]; /* SECRET_BYTES */
    unsigned char host[16];   /* HOST_BYTES: where the root is */
    struct net_address root;  /* family 0: it cannot be reached from other hosts */
};

enum { HOST_BYTES = 16, HOSTS_MAX = SEGMENT_MAX_RANKS };

_Static_assert(SEGMENT_MAX_RANKS <= 256, "a host's number fits a byte");

enum report_kind { REPORT_HELLO = 1, REPORT_ADDRESS, REPORT_DONE, REPORT_FAILED };

struct report {
    char magic[8];
    uint32_t kind;
    int32_t rank;
    int32_t rank_count;
    int32_t result;                     /* of REPORT_FAILED: ncclResult_t, with the text */
    unsigned char secret[SECRET_BYTES]; /* on a Unix socket only */
    unsigned char host[HOST_BYTES];
    struct net_address address; /* family 0: all others are on this rank's host */
    char text[SEGMENT_TEXT_BYTES];
};

enum ruling_kind { RULING_WELCOME = 1, RULING_SPREAD, RULING_ADDRESSES };

struct ruling {
    char magic[8];
    uint32_t kind;
    int32_t result; /* ncclResult_t */
    char text[SEGMENT_TEXT_BYTES];
    unsigned char host_of[SEGMENT_MAX_RANKS];        /* of RULING_SPREAD, and */
    unsigned char name[16];                          /* where the ranks of one host meet: with its number */
    struct net_address addresses[SEGMENT_MAX_RANKS]; /* of RULING_ADDRESSES */
};

/* Whom the rank waits for while it meets the others, and how another thread cancels the wait. */
struct meeting {
    int socket;                  /* to the root */
    const unsigned char *secret; /* SECRET_BYTES, that a report shows; NULL: the root has seen it */
    struct bootstrap_wait *wait;
    struct bootstrap_error *error;
    ncclResult_t refusal; /* what the root has said in between; ncclSuccess: nothing */
};

socklen_t bootstrap_address(const struct id_content *id, struct sockaddr_un *address);

/* Whether the process at the other end of a connected Unix socket runs under our effective user id. */
bool bootstrap_same_user(int socket);

/* Sets "what: strerror(errno)" as the error's text; returns `result`. */
ncclResult_t bootstrap_fail(struct bootstrap_error *error, ncclResult_t result, const char *what);

/*
 * Starts the thread that serves an id: on its Unix socket if it has a name, and on TCP if it has an address, whose port
 * is set if it was 0.
 */
ncclResult_t bootstrap_root_start(struct id_content *id, struct bootstrap_error *error);

/*
 * A number for all processes that can share memory and Unix sockets with this one, and for NCCL one host: NCCL_HOSTID,
 * or else the host's name and boot, and in either case the network namespace and the user.
 */
void bootstrap_host(unsigned char host[HOST_BYTES]);

/*
 * The rank's way from RULING_SPREAD on, up to and without the last ruling: meets its host, connects with the others.
 * spread.c.
 */
ncclResult_t spread_join(struct segment *segment, const struct id_content *id, int rank, int rank_count,
                         const struct ruling *spread, struct meeting *meeting);

/* Gives up what a join that failed has made of the segment. */
void spread_undo(struct segment *segment);

bool meeting_is_cancelled(struct meeting *meeting);

/* Waits for one of `events` on a socket, for the root to say something, or for a cancel. Success: the event is there.
 * `deadline_ns` of CLOCK_MONOTONIC, 0 for none: ncclSystemError with errno ETIMEDOUT in the error. */
ncclResult_t meeting_wait(struct meeting *meeting, int socket, short events, int64_t deadline_ns);

/* Moves all of `bytes`, within AUTH_DEADLINE_NS. On failure errno is set and so is the error, to "what: ...". */
ncclResult_t meeting_send(struct meeting *meeting, int socket, const void *message, size_t bytes, const char *what);
ncclResult_t meeting_receive(struct meeting *meeting, int socket, void *message, size_t bytes, int64_t deadline_ns,
                             const char *what);

/* Connects, and both sides show that they know the secret. */
ncclResult_t meeting_connect(struct meeting *meeting, const struct net_address *address,
                             const unsigned char secret[SECRET_BYTES], enum auth_purpose purpose, int rank,
                             int *socket_p);

/* One report to the root, and its next ruling, which is checked to be of this kind (or to say why it is not). */
ncclResult_t meeting_report(struct meeting *meeting, const struct report *report);
ncclResult_t meeting_ruling(struct meeting *meeting, enum ruling_kind kind, struct ruling *ruling_p);

/*
 * Over a Unix socket, to the root or to the first rank of a host in its place: connects; says hello; takes the answer,
 * which is a welcome, and the segment is mapped, or the beginning of a world of several hosts.
 */
ncclResult_t meeting_connect_unix(struct meeting *meeting, const struct id_content *id, int *socket_p);
ncclResult_t meeting_hello_unix(struct meeting *meeting, int connection, struct report *hello,
                                const struct id_content *id);
ncclResult_t meeting_answer_unix(struct meeting *meeting, int connection, struct segment *segment,
                                 struct ruling *ruling);

/* One message with file descriptors, whole or not at all; no SIGPIPE. */
bool wire_send(int socket, const void *message, size_t bytes, const int *fds, int fd_count);

/* One message; returns its length, 0 at the end, -1 on error. The descriptors received (close-on-exec) are the
 * caller's. */
ssize_t wire_receive(int socket, void *message, size_t bytes, int *fds, int fd_room, int *fd_count_p);

#endif
