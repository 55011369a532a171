/*
 * bootstrap.c - the rank's side of bootstrap.h: joining. Ids are made in bootstrap_id.c, the serving thread is in
 * bootstrap_root.c, what a world of several hosts needs besides in spread.c, talking to the root in meeting.c.
 */
#include "nccl/bootstrap_wire.h"

#include "nccl/exchange.h"
#include "nccl/inherited.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOT_SERVED                                                                                                  \
    "no process serves this unique id (any more): it serves one communicator, during the life of the process that " \
    "made it, and not after one of its ranks has gone wrong"

/* How long the ranks of an id from NCCL_COMM_ID wait for rank 0 to serve it. */
#define RANK_0_PATIENCE_NS 60000000000LL

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

/* ---- the root, or the first rank of a host in its place, over a Unix socket ---- */

static ncclResult_t
connect_unix(const struct id_content *id, int *socket_p, struct bootstrap_error *error)
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
hello_unix(int connection, struct report *hello, const struct id_content *id, struct bootstrap_error *error)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return bootstrap_fail(error, ncclSystemError, "no pidfd (Linux 5.3 or newer is needed)");
    memcpy(hello->secret, id->secret, sizeof(hello->secret));
    bool sent = wire_send(connection, hello, sizeof(*hello), &pidfd, 1);
    ncclResult_t result = sent ? ncclSuccess : bootstrap_fail(error, ncclSystemError, NOT_SERVED);
    close(pidfd);
    return result;
}

/* Takes the memfd and the pidfds: fds[0] and those behind it, in the order of the ranks' places. */
static ncclResult_t
take_segment(struct segment *segment, int *fds, int fd_count, struct bootstrap_error *error)
{
    if (fd_count != 1 + segment->local_count || !segment_map(segment, fds[0]))
        return bootstrap_fail(error, ncclSystemError, "the ranks' shared memory cannot be used");
    for (int r = 0; r < segment->rank_count; ++r) {
        if (segment->place[r] < 0)
            continue;
        segment->pidfds[r] = fds[1 + segment->place[r]];
        fds[1 + segment->place[r]] = -1;
    }
    return ncclSuccess;
}

/*
 * The answer to a hello over a Unix socket: a welcome, and the segment is mapped, or (is_spread_p) the beginning of a
 * world of several hosts.
 */
static ncclResult_t
answer_unix(int connection, struct segment *segment, struct meeting *meeting, struct ruling *ruling)
{
    int fds[1 + SEGMENT_MAX_RANKS], fd_count = 0;
    ncclResult_t result = meeting_wait(meeting, connection, POLLIN, 0);
    if (result != ncclSuccess)
        return result;
    ssize_t got = wire_receive(connection, ruling, sizeof(*ruling), fds, 1 + SEGMENT_MAX_RANKS, &fd_count);
    if (got <= 0) { /* closed without a message: the root has not read this rank's hello */
        errno = got < 0 ? errno : ECONNRESET;
        result = bootstrap_fail(meeting->error, ncclSystemError, NOT_SERVED);
    } else if (got != (ssize_t)sizeof(*ruling)) {
        result = meeting_not_understood(meeting);
    } else {
        result = meeting_check_ruling(meeting, ruling);
    }
    if (result == ncclSuccess && ruling->kind == RULING_WELCOME)
        result = take_segment(segment, fds, fd_count, meeting->error);
    for (int i = 0; i < fd_count; ++i) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return result;
}

ncclResult_t
bootstrap_join_host(struct segment *segment, const struct id_content *id, int place, int count, struct meeting *meeting)
{
    int connection = -1;
    struct ruling ruling;
    struct report hello = {.magic = REPORT_MAGIC, .kind = REPORT_HELLO, .rank = place, .rank_count = count};
    ncclResult_t result = connect_unix(id, &connection, meeting->error);
    if (result != ncclSuccess)
        return result;
    result = hello_unix(connection, &hello, id, meeting->error);
    if (result == ncclSuccess)
        result = answer_unix(connection, segment, meeting, &ruling);
    close(connection);
    return result;
}

/* ---- joining ---- */

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

/* Over TCP. Rank 0 may begin to serve an id from NCCL_COMM_ID after the others have come. */
static ncclResult_t
connect_tcp(struct meeting *meeting, const struct id_content *id, int rank, bool may_be_early)
{
    if (id->root.family == 0) {
        snprintf(meeting->error->text, sizeof(meeting->error->text),
                 "this unique id was made on another host, and that had no network interface that was up when it was "
                 "made");
        return ncclSystemError;
    }
    int64_t deadline_ns = exchange_now_ns() + RANK_0_PATIENCE_NS;
    for (;;) {
        ncclResult_t result = meeting_connect(meeting, &id->root, id->secret, AUTH_ROOT, rank, &meeting->socket);
        if (result == ncclSuccess || !may_be_early || meeting_is_cancelled(meeting) || exchange_now_ns() > deadline_ns)
            return result;
        const struct timespec nap = {.tv_nsec = 20000000};
        nanosleep(&nap, NULL);
    }
}

static ncclResult_t
connect_to_root(struct meeting *meeting, struct id_content *id, const struct report *hello, bool *is_unix_p)
{
    static const unsigned char no_name[sizeof(id->name)];
    bool has_name = memcmp(id->name, no_name, sizeof(no_name)) != 0;
    *is_unix_p = has_name && memcmp(id->host, hello->host, HOST_BYTES) == 0;
    if (*is_unix_p)
        return connect_unix(id, &meeting->socket, meeting->error);
    if (!has_name && hello->rank == 0) {
        ncclResult_t result = bootstrap_root_start(id, meeting->error);
        if (result != ncclSuccess)
            return result;
    }
    return connect_tcp(meeting, id, hello->rank, !has_name);
}

/* Hello, and what follows from the first ruling. */
static ncclResult_t
join_through(struct meeting *meeting, struct segment *segment, const struct id_content *id, struct report *hello,
             bool is_unix)
{
    struct ruling ruling;
    ncclResult_t result;
    if (is_unix) {
        result = hello_unix(meeting->socket, hello, id, meeting->error);
        if (result == ncclSuccess)
            result = answer_unix(meeting->socket, segment, meeting, &ruling);
        if (result != ncclSuccess || ruling.kind == RULING_WELCOME)
            return result;
    } else {
        result = meeting_report(meeting, hello);
        if (result == ncclSuccess)
            result = meeting_ruling(meeting, RULING_SPREAD, &ruling);
        if (result != ncclSuccess)
            return result;
    }
    result = spread_join(segment, id, hello->rank, hello->rank_count, &ruling, meeting);
    struct report last = {.magic = REPORT_MAGIC, .kind = REPORT_DONE};
    if (result == ncclSuccess) {
        result = meeting_report(meeting, &last);
        return result == ncclSuccess ? meeting_ruling(meeting, RULING_WELCOME, &ruling) : result;
    }
    if (meeting->refusal == ncclSuccess) { /* the others shall know why */
        last.kind = REPORT_FAILED;
        last.result = ncclRemoteError;
        if (meeting->secret)
            memcpy(last.secret, meeting->secret, sizeof(last.secret));
        snprintf(last.text, sizeof(last.text), "rank %d: %.400s", hello->rank, meeting->error->text);
        struct bootstrap_error ignored;
        struct meeting farewell = *meeting;
        farewell.error = &ignored;
        if (meeting_send(&farewell, meeting->socket, &last, sizeof(last), "") != ncclSuccess)
            return result; /* who is gone need not hear it */
    }
    return result;
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
    struct meeting meeting = {.socket = -1, .wait = wait, .error = error};
    struct report hello = {.magic = REPORT_MAGIC, .kind = REPORT_HELLO, .rank = rank, .rank_count = rank_count};
    bootstrap_host(hello.host);
    bool is_unix = false;
    ncclResult_t result = connect_to_root(&meeting, &content, &hello, &is_unix);
    if (result != ncclSuccess)
        return result;
    if (!announce(wait, meeting.socket)) {
        snprintf(error->text, sizeof(error->text), "the communicator was aborted before it was complete");
        result = ncclInternalError;
    }
    meeting.secret = is_unix ? content.secret : NULL;
    segment_place(segment, rank, rank_count, NULL);
    if (result == ncclSuccess)
        result = join_through(&meeting, segment, &content, &hello, is_unix);
    if (result == ncclSuccess)
        segment_set_state(segment, RANK_JOINED, NULL);
    else
        spread_undo(segment);
    announce(wait, -1);
    inherited_close(meeting.socket);
    return result;
}
