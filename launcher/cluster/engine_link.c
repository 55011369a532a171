/*
 * engine_link.c - see engine_link.h.
 *
 * The lock in the job folder makes one process the rank; a later one may follow it (a script that trains twice). So the
 * process that joined last is the one that counts.
 */
#include "launcher/cluster/engine_link.h"

#include "base/protocol.h"
#include "base/supervisor_link.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool
engine_link_open(struct engine_link *link_p, int folder_fd, const char *folder, const struct cluster *cluster,
                 struct error *error)
{
    struct engine_link link = {
        .fd = -1, .rank = cluster->rank, .world_size = cluster->world_size, .local_rank = cluster->local_rank};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* A path in sockaddr_un is short; through a descriptor of its folder every path is (proc(5)). */
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SUPERVISOR_SOCKET_NAME, folder_fd);
    link.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    link.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    bool ok = link.listener >= 0 && link.epoll >= 0 &&
              bind(link.listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(link.listener, 8) == 0 &&
              epoll_ctl(link.epoll, EPOLL_CTL_ADD, link.listener, &event) == 0;
    if (ok) {
        *link_p = link;
        return true;
    }
    error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a socket in %s: %s; make room there, or set TMPDIR", folder,
              strerror(errno));
    engine_link_close(&link);
    return false;
}

void
engine_link_close(struct engine_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    if (link->listener >= 0)
        close(link->listener);
    if (link->epoll >= 0)
        close(link->epoll);
    link->fd = link->listener = link->epoll = -1;
}

int
engine_link_fd(const struct engine_link *link)
{
    return link->epoll;
}

static struct supervisor_message
message_of(const struct engine_link *link, enum supervisor_message_kind kind)
{
    return (struct supervisor_message){.protocol = DDPRUN_PROTOCOL_VERSION,
                                       .kind = kind,
                                       .rank = link->rank,
                                       .world_size = link->world_size,
                                       .local_rank = link->local_rank};
}

static void
take_message(struct engine_link *link, const struct supervisor_message *message)
{
    struct supervisor_message answer = message_of(link, SUPERVISOR_PLACE);
    if (message->protocol != DDPRUN_PROTOCOL_VERSION)
        return;
    switch (message->kind) {
    case SUPERVISOR_JOIN:
        link->joined = true;
        ++link->joins;
        (void)send(link->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case SUPERVISOR_ABORT:
        link->aborted = true;
        link->abort_status = message->status & 0xff;
        snprintf(link->abort_text, sizeof(link->abort_text), "%.255s", message->text);
        break;
    case SUPERVISOR_BYE:
        link->joined = false;
        break;
    default:
        break;
    }
}

/* What was said before the end counts too. */
static void
hear(struct engine_link *link)
{
    struct supervisor_message message;
    while (link->fd >= 0) {
        ssize_t got = recv(link->fd, &message, sizeof(message), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            close(link->fd);
            link->fd = -1;
            return;
        }
        message.text[sizeof(message.text) - 1] = '\0';
        if (got == (ssize_t)sizeof(message))
            take_message(link, &message);
    }
}

static void
welcome(struct engine_link *link)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    int fd = accept4(link->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct epoll_event event = {.events = EPOLLIN};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid() ||
        epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    if (link->fd >= 0)
        close(link->fd);
    link->fd = fd;
    link->joined = false;
}

void
engine_link_step(struct engine_link *link)
{
    hear(link);
    welcome(link);
    hear(link);
}

/* ---- connections ---- */

static bool
send_links(const struct engine_link *link, int first, const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * SUPERVISOR_LINKS_AT_MOST)];
    } control = {.bytes = {0}};
    struct supervisor_message message = message_of(link, SUPERVISOR_LINKS);
    message.rank = first;
    message.count = count;
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)count);
    return sendmsg(link->fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(message);
}

bool
engine_link_give(struct engine_link *link, int first, const int *fds, int count)
{
    if (link->fd < 0 || count > SUPERVISOR_LINKS_AT_MOST || !send_links(link, first, fds, count))
        return false;
    for (int i = 0; i < count; ++i)
        close(fds[i]); /* the rank has its own; ours would keep the connection open after its death */
    return true;
}

void
engine_link_refuse(struct engine_link *link, const char *text)
{
    struct supervisor_message message = message_of(link, SUPERVISOR_REFUSED);
    snprintf(message.text, sizeof(message.text), "%s", text);
    (void)send(link->fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}
