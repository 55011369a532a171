/*
 * bootstrap_wire.c - see bootstrap_wire.h: Unix sockets, messages with file descriptors, errors.
 */
#include "nccl/bootstrap_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

ncclResult_t
bootstrap_fail(struct bootstrap_error *error, ncclResult_t result, const char *what)
{
    snprintf(error->text, sizeof(error->text), "%s: %s", what, strerror(errno));
    return result;
}

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

/* The kernel's own limit for one message (SCM_MAX_FD) is 253. */
enum { FD_ROOM = 1 + SEGMENT_MAX_RANKS };

union control {
    struct cmsghdr alignment;
    char bytes[CMSG_SPACE(FD_ROOM * sizeof(int))];
};

bool
wire_send(int socket, const void *message, size_t bytes, const int *fds, int fd_count)
{
    union control control = {0};
    struct iovec data = {.iov_base = (void *)message, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)fd_count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes;
}

ssize_t
wire_receive(int socket, void *message, size_t bytes, int *fds, int fd_room, int *fd_count_p)
{
    union control control;
    struct iovec data = {.iov_base = message, .iov_len = bytes};
    struct msghdr header = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do {
        got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);

    int fd_count = 0;
    for (struct cmsghdr *part = got < 0 ? NULL : CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t received = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < received; ++i) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (fd_count < fd_room)
                fds[fd_count++] = fd;
            else
                close(fd);
        }
    }
    *fd_count_p = fd_count;
    return got;
}
