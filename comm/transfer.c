/*
 * transfer.c - see transfer.h.
 */
#include "comm/transfer.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

bool
transfer_wait(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - clock_now_ms();
        struct pollfd poller = {.fd = fd, .events = events};
        int ready = poll(&poller, 1, left > 0 ? (int)left : 0);
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

enum transfer
transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms)
{
    const char *at = data;
    while (bytes > 0) {
        if (!transfer_wait(fd, POLLOUT, deadline_ms))
            return TRANSFER_LATE;
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (sent <= 0)
            return TRANSFER_GONE;
        at += sent;
        bytes -= (size_t)sent;
    }
    return TRANSFER_DONE;
}

enum transfer
transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms)
{
    char *at = data;
    while (bytes > 0) {
        if (!transfer_wait(fd, POLLIN, deadline_ms))
            return TRANSFER_LATE;
        ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return TRANSFER_GONE;
        at += got;
        bytes -= (size_t)got;
    }
    return TRANSFER_DONE;
}
