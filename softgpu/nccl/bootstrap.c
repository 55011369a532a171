/*
 * bootstrap.c - the rank's side of bootstrap.h: making an id, joining. The serving thread is in bootstrap_root.c.
 */
#include "nccl/bootstrap_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOT_SERVED                                                                                                 \
    "nobody serves this unique id (any more): it serves one communicator, on the host and during the life of the " \
    "process "                                                                                                     \
    "that made it, and not after one of its ranks has gone wrong"

_Static_assert(sizeof(struct id_content) <= NCCL_UNIQUE_ID_BYTES, "what an id holds fits into it");

socklen_t
bootstrap_address(const struct id_content *id, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "softgpu-nccl-"); /* [0] stays NUL: abstract */
    for (size_t i = 0; i < sizeof(id->name); ++i)
        length += snprintf(address->sun_path + 1 + length, sizeof(address->sun_path) - 1 - (size_t)length, "%02x",
                           id->name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool
bootstrap_same_user(int socket)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

ncclResult_t
bootstrap_fail(struct bootstrap_error *error, ncclResult_t result, const char *what)
{
    snprintf(error->text, sizeof(error->text), "%s: %s", what, strerror(errno));
    return result;
}

ncclResult_t
bootstrap_create_id(ncclUniqueId *id, struct bootstrap_error *error)
{
    struct id_content content = {.magic = ID_MAGIC};
    if (getrandom(content.name, sizeof(content.name), 0) != (ssize_t)sizeof(content.name) ||
        getrandom(content.secret, sizeof(content.secret), 0) != (ssize_t)sizeof(content.secret))
        return bootstrap_fail(error, ncclSystemError, "no random numbers for a unique id");

    ncclResult_t result = bootstrap_root_start(&content, error);
    if (result == ncclSuccess) {
        memset(id, 0, sizeof(*id));
        memcpy(id, &content, sizeof(content));
    }
    return result;
}

static ncclResult_t
connect_to_root(const struct id_content *id, int *socket_p, struct bootstrap_error *error)
{
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return bootstrap_fail(error, ncclSystemError, "no socket to meet the other ranks");
    struct sockaddr_un address;
    socklen_t length = bootstrap_address(id, &address);
    if (connect(connection, (struct sockaddr *)&address, length) < 0) {
        ncclResult_t result = bootstrap_fail(error, ncclSystemError, NOT_SERVED);
        close(connection);
        return result;
    }
    if (!bootstrap_same_user(connection)) {
        snprintf(error->text, sizeof(error->text), "this unique id is served by a process of another user");
        close(connection);
        return ncclSystemError;
    }
    *socket_p = connection;
    return ncclSuccess;
}

static ncclResult_t
introduce_oneself(int connection, const struct id_content *id, int rank, int rank_count, struct bootstrap_error *error)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return bootstrap_fail(error, ncclSystemError, "no pidfd (Linux 5.3 or newer is needed)");
    struct hello hello = {.magic = HELLO_MAGIC, .rank = rank, .rank_count = rank_count};
    memcpy(hello.secret, id->secret, sizeof(hello.secret));
    bool sent = wire_send(connection, &hello, sizeof(hello), &pidfd, 1);
    ncclResult_t result = sent ? ncclSuccess : bootstrap_fail(error, ncclSystemError, NOT_SERVED);
    close(pidfd);
    return result;
}

/* Takes the memfd and the pidfds out of the answer. */
static ncclResult_t
accept_welcome(int connection, struct segment *segment, int rank, int rank_count, struct bootstrap_error *error)
{
    struct welcome welcome;
    int fds[1 + SEGMENT_MAX_RANKS], fd_count = 0;
    ssize_t got = wire_receive(connection, &welcome, sizeof(welcome), fds, 1 + SEGMENT_MAX_RANKS, &fd_count);
    ncclResult_t result = ncclSuccess;
    if (got <= 0) { /* closed without a word: our hello was never looked at */
        errno = got < 0 ? errno : ECONNRESET;
        result = bootstrap_fail(error, ncclSystemError, NOT_SERVED);
    } else if (got != (ssize_t)sizeof(welcome) || memcmp(welcome.magic, WELCOME_MAGIC, sizeof(welcome.magic)) != 0) {
        snprintf(error->text, sizeof(error->text), "whoever serves this unique id answers what no rank understands");
        result = ncclSystemError;
    } else if (welcome.result != ncclSuccess) {
        welcome.text[sizeof(welcome.text) - 1] = '\0';
        snprintf(error->text, sizeof(error->text), "%s", welcome.text);
        result = (ncclResult_t)welcome.result;
    } else if (fd_count != 1 + rank_count || !segment_map(segment, fds[0], rank, rank_count)) {
        result = bootstrap_fail(error, ncclSystemError, "the ranks' shared memory cannot be used");
    } else {
        for (int r = 0; r < rank_count; ++r) {
            segment->pidfds[r] = fds[1 + r];
            fds[1 + r] = -1;
        }
    }
    for (int i = 0; i < fd_count; ++i) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return result;
}

/* Makes the connection known to bootstrap_cancel(); false if that has been called. */
static bool
announce(struct bootstrap_wait *wait, int connection)
{
    pthread_mutex_lock(&wait->lock);
    wait->connection = connection;
    bool goes_on = !wait->is_cancelled;
    pthread_mutex_unlock(&wait->lock);
    return goes_on;
}

void
bootstrap_cancel(struct bootstrap_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    wait->is_cancelled = true;
    if (wait->connection >= 0)
        shutdown(wait->connection, SHUT_RDWR);
    pthread_mutex_unlock(&wait->lock);
}

ncclResult_t
bootstrap_join(struct segment *segment, const ncclUniqueId *id, int rank, int rank_count, struct bootstrap_wait *wait,
               struct bootstrap_error *error)
{
    struct id_content content;
    memcpy(&content, id, sizeof(content));
    if (memcmp(content.magic, ID_MAGIC, sizeof(content.magic)) != 0) {
        snprintf(error->text, sizeof(error->text), "the unique id was not made by ncclGetUniqueId of the stand-in");
        return ncclInvalidArgument;
    }
    int connection;
    ncclResult_t result = connect_to_root(&content, &connection, error);
    if (result != ncclSuccess)
        return result;
    if (!announce(wait, connection)) {
        announce(wait, -1);
        close(connection);
        snprintf(error->text, sizeof(error->text), "the communicator was aborted before it was complete");
        return ncclInternalError;
    }
    result = introduce_oneself(connection, &content, rank, rank_count, error);
    if (result == ncclSuccess)
        result = accept_welcome(connection, segment, rank, rank_count, error);
    if (result == ncclSuccess)
        segment_set_state(segment, RANK_JOINED, NULL);

    announce(wait, -1);
    close(connection);
    return result;
}
