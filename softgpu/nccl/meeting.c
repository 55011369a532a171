/*
 * meeting.c - how a rank speaks with the root of its unique id, and with the rank that it connects to, while it can be
 * cancelled and the root can report that the ranks cannot meet. See bootstrap_wire.h.
 */
#include "nccl/bootstrap_wire.h"

#include "nccl/clock.h"
#include "nccl/inherited.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOT_SERVED                                                                                                  \
    "no process serves this unique id (any more): it serves one communicator, during the life of the process that " \
    "made it, and not after one of its ranks has gone wrong"

bool
meeting_is_cancelled(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->wait->lock);
    bool is_cancelled = meeting->wait->is_cancelled;
    pthread_mutex_unlock(&meeting->wait->lock);
    return is_cancelled;
}

static ncclResult_t
not_understood(struct meeting *meeting)
{
    snprintf(meeting->error->text, sizeof(meeting->error->text),
             "the process that serves this unique id sends an invalid answer");
    return ncclSystemError;
}

static ncclResult_t
cancelled(struct meeting *meeting)
{
    snprintf(meeting->error->text, sizeof(meeting->error->text), "the communicator was aborted before it was complete");
    return ncclInternalError;
}

/* What a ruling says: success, or why it is the last. */
static ncclResult_t
check_ruling(struct meeting *meeting, struct ruling *ruling)
{
    ruling->text[sizeof(ruling->text) - 1] = '\0';
    if (memcmp(ruling->magic, RULING_MAGIC, sizeof(ruling->magic)) != 0)
        return not_understood(meeting);
    if (ruling->result == ncclSuccess)
        return ncclSuccess;
    snprintf(meeting->error->text, sizeof(meeting->error->text), "%s", ruling->text);
    return ruling->result > 0 && ruling->result < ncclNumResults ? (ncclResult_t)ruling->result : ncclSystemError;
}

/* The root has said something while the rank was busy with others: it can only be that it is all over. */
static ncclResult_t
hear_refusal(struct meeting *meeting)
{
    struct ruling ruling;
    ncclResult_t result = meeting_receive(meeting, meeting->socket, &ruling, sizeof(ruling), 0,
                                          "the process that serves this unique id went away");
    if (result == ncclSuccess)
        result = check_ruling(meeting, &ruling);
    if (result == ncclSuccess)
        result = not_understood(meeting);
    meeting->refusal = result;
    return result;
}

ncclResult_t
meeting_wait(struct meeting *meeting, int socket, short events, int64_t deadline_ns)
{
    for (;;) {
        if (meeting_is_cancelled(meeting))
            return cancelled(meeting);
        struct pollfd fds[2] = {{.fd = socket, .events = events},
                                {.fd = socket == meeting->socket ? -1 : meeting->socket, .events = POLLIN}};
        if (poll(fds, 2, 100) < 0 && errno != EINTR)
            return bootstrap_fail(meeting->error, ncclSystemError, "cannot wait for the other ranks");
        if (fds[1].revents)
            return hear_refusal(meeting);
        if (fds[0].revents)
            return ncclSuccess;
        if (deadline_ns != 0 && clock_now_ns() > deadline_ns) {
            errno = ETIMEDOUT;
            return bootstrap_fail(meeting->error, ncclSystemError, "no answer in time");
        }
    }
}

ncclResult_t
meeting_send(struct meeting *meeting, int socket, const void *message, size_t bytes, const char *what)
{
    int64_t deadline_ns = clock_now_ns() + AUTH_DEADLINE_NS;
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = send(socket, (const unsigned char *)message + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            done += (size_t)sent;
        } else if (errno == EAGAIN) {
            TRY(meeting_wait(meeting, socket, POLLOUT, deadline_ns));
        } else if (errno != EINTR) {
            return bootstrap_fail(meeting->error, ncclSystemError, what);
        }
    }
    return ncclSuccess;
}

ncclResult_t
meeting_receive(struct meeting *meeting, int socket, void *message, size_t bytes, int64_t deadline_ns, const char *what)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = recv(socket, (unsigned char *)message + done, bytes - done, MSG_DONTWAIT);
        if (got > 0) {
            done += (size_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            TRY(meeting_wait(meeting, socket, POLLIN, deadline_ns));
        } else if (got == 0 || errno != EINTR) {
            if (meeting_is_cancelled(meeting))
                return cancelled(meeting);
            errno = got == 0 ? ECONNRESET : errno;
            return bootstrap_fail(meeting->error, ncclSystemError, what);
        }
    }
    return ncclSuccess;
}

/* ---- connections ---- */

static ncclResult_t
authenticate(struct meeting *meeting, int socket, const unsigned char secret[SECRET_BYTES], enum auth_purpose purpose,
             int rank, const char *what)
{
    int64_t deadline_ns = clock_now_ns() + 3 * AUTH_DEADLINE_NS; /* it may have many to hear before us */
    struct auth_greeting greeting;
    struct auth_answer answer;
    struct auth_reply reply;
    TRY(meeting_receive(meeting, socket, &greeting, sizeof(greeting), deadline_ns, what));
    bool is_ours = auth_make_answer(&greeting, secret, purpose, rank, &answer);
    if (is_ours) {
        TRY(meeting_send(meeting, socket, &answer, sizeof(answer), what));
        TRY(meeting_receive(meeting, socket, &reply, sizeof(reply), deadline_ns, what));
        is_ours = auth_check_reply(&reply, secret);
    }
    if (is_ours)
        return ncclSuccess;
    snprintf(meeting->error->text, sizeof(meeting->error->text),
             "%s: the process that answers there does not know the secret of this unique id", what);
    return ncclSystemError;
}

ncclResult_t
meeting_connect(struct meeting *meeting, const struct net_address *address, const unsigned char secret[SECRET_BYTES],
                enum auth_purpose purpose, int rank, int *socket_p)
{
    char where[ADDRESS_TEXT_BYTES], what[160];
    net_address_text(address, where);
    if (purpose == AUTH_ROOT)
        snprintf(what, sizeof(what), "cannot meet the other ranks at %s, where this unique id was to be served", where);
    else
        snprintf(what, sizeof(what), "cannot connect to a rank of another host at %s", where);
    inherited_lock();
    int socket = net_connect(address);
    bool is_noted = socket >= 0 && inherited_add(socket);
    inherited_unlock();
    if (!is_noted)
        return bootstrap_fail(meeting->error, ncclSystemError, what);
    ncclResult_t result = meeting_wait(meeting, socket, POLLOUT, clock_now_ns() + 2 * AUTH_DEADLINE_NS);
    if (result == ncclSuccess && (errno = net_connect_result(socket)) != 0)
        result = bootstrap_fail(meeting->error, ncclSystemError, what);
    if (result == ncclSuccess)
        result = authenticate(meeting, socket, secret, purpose, rank, what);
    if (result != ncclSuccess) {
        inherited_close(socket);
        return result;
    }
    *socket_p = socket;
    return ncclSuccess;
}

/* ---- the root ---- */

static const char gone[] = "the process that serves this unique id went away before all ranks had come";

ncclResult_t
meeting_report(struct meeting *meeting, const struct report *report)
{
    struct report full = *report;
    memcpy(full.magic, REPORT_MAGIC, sizeof(full.magic));
    if (meeting->secret)
        memcpy(full.secret, meeting->secret, sizeof(full.secret));
    ncclResult_t result = meeting_send(meeting, meeting->socket, &full, sizeof(full), gone);
    if (result == ncclSystemError) /* its last word may lie there */
        return hear_refusal(meeting);
    return result;
}

ncclResult_t
meeting_ruling(struct meeting *meeting, enum ruling_kind kind, struct ruling *ruling_p)
{
    ncclResult_t result = meeting_receive(meeting, meeting->socket, ruling_p, sizeof(*ruling_p), 0, gone);
    if (result == ncclSuccess)
        result = check_ruling(meeting, ruling_p);
    if (result == ncclSuccess && ruling_p->kind != (uint32_t)kind)
        result = not_understood(meeting);
    if (result != ncclSuccess)
        meeting->refusal = result;
    return result;
}

/* ---- over a Unix socket: the root, or the first rank of a host in its place ---- */

ncclResult_t
meeting_connect_unix(struct meeting *meeting, const struct id_content *id, int *socket_p)
{
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return bootstrap_fail(meeting->error, ncclSystemError, "no socket to meet the other ranks");
    struct sockaddr_un address;
    socklen_t length = bootstrap_address(id, &address);
    if (connect(connection, (struct sockaddr *)&address, length) < 0) {
        ncclResult_t result = bootstrap_fail(meeting->error, ncclSystemError, NOT_SERVED);
        close(connection);
        return result;
    }
    if (!bootstrap_same_user(connection)) {
        snprintf(meeting->error->text, sizeof(meeting->error->text),
                 "this unique id is served by a process of another user");
        close(connection);
        return ncclSystemError;
    }
    *socket_p = connection;
    return ncclSuccess;
}

ncclResult_t
meeting_hello_unix(struct meeting *meeting, int connection, struct report *hello, const struct id_content *id)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return bootstrap_fail(meeting->error, ncclSystemError, "no pidfd (Linux 5.3 or newer is needed)");
    memcpy(hello->secret, id->secret, sizeof(hello->secret));
    bool sent = wire_send(connection, hello, sizeof(*hello), &pidfd, 1);
    ncclResult_t result = sent ? ncclSuccess : bootstrap_fail(meeting->error, ncclSystemError, NOT_SERVED);
    close(pidfd);
    return result;
}

/* Takes the memfd and the pidfds: fds[0] and those after it, in the order of the ranks' places. */
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

ncclResult_t
meeting_answer_unix(struct meeting *meeting, int connection, struct segment *segment, struct ruling *ruling)
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
        result = not_understood(meeting);
    } else {
        result = check_ruling(meeting, ruling);
    }
    if (result == ncclSuccess && ruling->kind == RULING_WELCOME)
        result = take_segment(segment, fds, fd_count, meeting->error);
    for (int i = 0; i < fd_count; ++i) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return result;
}
