/*
 * rendezvous_supervisor.c - the rendezvous under a cluster's launcher: this rank's supervisor knows its place, and has
 * connected its control plane (base/supervisor_link.h).
 */
#include "comm/rendezvous_way.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "base/supervisor_link.h"
#include "comm/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PLACE_LIMIT_S = 60, SHARE_MAGIC = 0x64647368, KEY_BYTES = 56 };

/* In front of what rank 0 shares, to each link. */
struct share_header {
    uint32_t magic;
    uint32_t bytes;
    char key[KEY_BYTES];
};

static _Atomic int supervisor = -1;
static int *links_known; /* a copy of what rendezvous_links() gave; the sockets belong to its caller */

/* A path in sockaddr_un is short; through a descriptor of its folder every path is (proc(5)). */
static bool
address_through(int folder, const char *path, struct sockaddr_un *address)
{
    const char *name = strrchr(path, '/');
    address->sun_family = AF_UNIX;
    return name != NULL && snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d%s", folder, name) <
                               (int)sizeof(address->sun_path);
}

static bool
is_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

static int
connect_to_supervisor(struct comm_error *error)
{
    const char *path = getenv(DDPRUN_ENV_SUPERVISOR);
    char *copy = path != NULL ? strdup(path) : NULL;
    int folder = copy != NULL ? open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {0};
    bool connected = folder >= 0 && fd >= 0 && address_through(folder, path, &address) &&
                     connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    int reason = errno;
    free(copy);
    if (folder >= 0)
        close(folder);
    if (connected && is_same_user(fd))
        return fd;
    comm_fail(error, "cannot reach this rank's supervisor at %s: %s; is ddprun still running?", path,
              connected ? "it is another user's" : strerror(reason));
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool
say(uint32_t kind, int status, const char *text)
{
    struct supervisor_message message = {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = kind, .status = status};
    snprintf(message.text, sizeof(message.text), "%s", text);
    return send(atomic_load(&supervisor), &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

/* Closes descriptors that came where none should be. */
static void
close_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        close(fds[i]);
}

/* The next message with its descriptors, fds[SUPERVISOR_LINKS_AT_MOST]. */
static bool
hear(struct supervisor_message *message, int *fds, size_t *fd_count_p, int64_t deadline_ms, struct comm_error *error)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * SUPERVISOR_LINKS_AT_MOST)];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    int fd = atomic_load(&supervisor);
    *fd_count_p = 0;
    if (!transfer_wait(fd, POLLIN, deadline_ms))
        return comm_fail(error, "this rank's supervisor does not answer");
    ssize_t got = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got <= 0)
        return comm_fail(error, "this rank's supervisor is gone");
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&packet); head != NULL; head = CMSG_NXTHDR(&packet, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        *fd_count_p = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(head), *fd_count_p * sizeof(int));
    }
    message->text[sizeof(message->text) - 1] = '\0';
    if (got == (ssize_t)sizeof(*message) && message->protocol == DDPRUN_PROTOCOL_VERSION)
        return true;
    close_fds(fds, *fd_count_p);
    return comm_fail(error, "this rank's supervisor is another version of ddprun; reinstall it");
}

static bool
open_supervisor(struct rendezvous *rendezvous, struct comm_error *error)
{
    int fds[SUPERVISOR_LINKS_AT_MOST], fd = connect_to_supervisor(error);
    size_t fd_count;
    struct supervisor_message place = {.kind = SUPERVISOR_REFUSED};
    if (fd < 0)
        return false;
    atomic_store(&supervisor, fd);
    if (!say(SUPERVISOR_JOIN, 0, ""))
        return comm_fail(error, "this rank's supervisor is gone");
    if (!hear(&place, fds, &fd_count, clock_now_ms() + PLACE_LIMIT_S * 1000, error))
        return false;
    close_fds(fds, fd_count);
    if (place.kind == SUPERVISOR_REFUSED)
        return comm_fail(error, "%s", place.text);
    if (place.kind != SUPERVISOR_PLACE || place.world_size < 1 || place.rank < 0 || place.rank >= place.world_size)
        return comm_fail(error, "this rank's supervisor says no place");
    *rendezvous = (struct rendezvous){.rank = place.rank,
                                      .world_size = place.world_size,
                                      .local_rank = place.local_rank,
                                      .open = true,
                                      .way = &rendezvous_supervisor};
    return true;
}

static int
link_count(const struct rendezvous *rendezvous)
{
    return rendezvous->rank == 0 ? rendezvous->world_size : 1;
}

/* Puts the descriptors of one message into their places. */
static bool
keep_links(const struct rendezvous *rendezvous, const struct supervisor_message *message, const int *fds,
           size_t fd_count, int *links, struct comm_error *error)
{
    int first = rendezvous->rank == 0 ? 1 : 0;
    bool fits = message->kind == SUPERVISOR_LINKS && fd_count > 0 && message->count == (int)fd_count &&
                message->rank >= first && message->rank <= link_count(rendezvous) - (int)fd_count;
    for (size_t i = 0; fits && i < fd_count; ++i) {
        if (links_known[message->rank + (int)i] >= 0)
            fits = false;
    }
    if (!fits) {
        close_fds(fds, fd_count);
        return comm_fail(error, "%s",
                         message->kind == SUPERVISOR_REFUSED ? message->text
                                                             : "this rank's supervisor mixed up its connections");
    }
    for (size_t i = 0; i < fd_count; ++i)
        links_known[message->rank + (int)i] = links[message->rank + (int)i] = fds[i];
    return true;
}

static bool
take_links(struct rendezvous *rendezvous, int *links, int timeout_s, struct comm_error *error)
{
    int count = link_count(rendezvous), missing = rendezvous->rank == 0 ? count - 1 : 1;
    if (rendezvous->world_size == 1)
        return true;
    links_known = malloc((size_t)count * sizeof(int));
    if (links_known == NULL)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    for (int i = 0; i < count; ++i)
        links_known[i] = -1;

    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    while (missing > 0) {
        int fds[SUPERVISOR_LINKS_AT_MOST];
        size_t fd_count;
        struct supervisor_message message = {0};
        if (!hear(&message, fds, &fd_count, deadline_ms, error))
            return clock_now_ms() < deadline_ms
                       ? false
                       : comm_fail_by(error, COMM_OTHERS, "waited %d s for %d more rank%s to begin", timeout_s, missing,
                                      missing == 1 ? "" : "s");
        if (!keep_links(rendezvous, &message, fds, fd_count, links, error))
            return false;
        missing -= (int)fd_count;
    }
    return true;
}

static bool
share_failed(enum transfer transfer, int rank, const char *key, int timeout_s, struct comm_error *error)
{
    return transfer == TRANSFER_LATE
               ? comm_fail_by(error, COMM_OTHERS, "waited %d s for rank %d, at the exchange of \"%s\"", timeout_s, rank,
                              key)
               : comm_fail_by(error, COMM_OTHERS, "rank %d has left, at the exchange of \"%s\"", rank, key);
}

static bool
share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes, int timeout_s,
      struct comm_error *error)
{
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    struct share_header header = {.magic = SHARE_MAGIC, .bytes = (uint32_t)bytes}, theirs;
    snprintf(header.key, sizeof(header.key), "%s", key);
    if (rendezvous->rank == 0) {
        memcpy(out, mine, bytes);
        for (int r = 1; r < rendezvous->world_size; ++r) {
            enum transfer sent = transfer_send(links_known[r], &header, sizeof(header), deadline_ms);
            if (sent == TRANSFER_DONE)
                sent = transfer_send(links_known[r], mine, bytes, deadline_ms);
            if (sent != TRANSFER_DONE)
                return share_failed(sent, r, key, timeout_s, error);
        }
        return true;
    }
    enum transfer got = transfer_receive(links_known[0], &theirs, sizeof(theirs), deadline_ms);
    if (got == TRANSFER_DONE && memcmp(&theirs, &header, sizeof(header)) != 0)
        return comm_fail(error, "rank 0 does not share \"%s\"; all ranks must make the same ddprun calls", key);
    if (got == TRANSFER_DONE)
        got = transfer_receive(links_known[0], out, bytes, deadline_ms);
    return got == TRANSFER_DONE || share_failed(got, 0, key, timeout_s, error);
}

static void
ask_for_abort(struct rendezvous *rendezvous, int status, const char *message)
{
    (void)rendezvous;
    (void)say(SUPERVISOR_ABORT, status, message);
}

/* The supervisor says nothing after the links: what can be read then is its end. */
static bool
is_supervisor_gone(void)
{
    char byte;
    int fd = atomic_load(&supervisor);
    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void
forget(struct rendezvous *rendezvous)
{
    (void)rendezvous;
    int fd = atomic_exchange(&supervisor, -1);
    if (fd >= 0)
        close(fd);
    free(links_known);
    links_known = NULL;
}

static void
leave(struct rendezvous *rendezvous)
{
    (void)say(SUPERVISOR_BYE, 0, "");
    forget(rendezvous);
}

const struct rendezvous_way rendezvous_supervisor = {
    .open = open_supervisor,
    .links = take_links,
    .share = share,
    .abort = ask_for_abort,
    .launcher_is_gone = is_supervisor_gone,
    .close = leave,
    .forget = forget,
};
