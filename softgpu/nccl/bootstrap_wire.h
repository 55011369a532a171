/*
 * bootstrap_wire.h - what passes between the ranks and the thread that serves a unique id; private to bootstrap*.c.
 *
 * One message each way over a SOCK_SEQPACKET socket: the rank's hello with its pidfd, the root's welcome with the memfd
 * of the segment and the pidfds of all ranks in order (or with the reason of a refusal and nothing).
 */
#ifndef SOFTGPU_NCCL_BOOTSTRAP_WIRE_H
#define SOFTGPU_NCCL_BOOTSTRAP_WIRE_H

#include "nccl/bootstrap.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define ID_MAGIC      "SGNCCL1" /* 8 bytes with the NUL; so are the others */
#define HELLO_MAGIC   "SGHELO1"
#define WELCOME_MAGIC "SGWELC1"

/* What a unique id holds. The name is known to everyone who can list sockets, the secret only to who was given the id.
 */
struct id_content {
    char magic[8];
    unsigned char name[16];
    unsigned char secret[32];
};

struct hello {
    char magic[8];
    unsigned char secret[32];
    int32_t rank;
    int32_t rank_count;
};

struct welcome {
    char magic[8];
    int32_t result; /* ncclResult_t */
    char text[SEGMENT_TEXT_BYTES];
};

socklen_t bootstrap_address(const struct id_content *id, struct sockaddr_un *address);

/* Whether the process at the other end of a connected Unix socket runs under our effective user id. */
bool bootstrap_same_user(int socket);

/* Sets "what: strerror(errno)" as the error's text; returns `result`. */
ncclResult_t bootstrap_fail(struct bootstrap_error *error, ncclResult_t result, const char *what);

/* Listens on the id's socket and starts the thread that serves it. */
ncclResult_t bootstrap_root_start(const struct id_content *id, struct bootstrap_error *error);

/* One message with file descriptors, whole or not at all; no SIGPIPE. */
bool wire_send(int socket, const void *message, size_t bytes, const int *fds, int fd_count);

/* One message; returns its length, 0 at the end, -1 on error. The descriptors received (close-on-exec) are the
 * caller's. */
ssize_t wire_receive(int socket, void *message, size_t bytes, int *fds, int fd_room, int *fd_count_p);

#endif
