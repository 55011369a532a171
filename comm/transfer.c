/*
 * transfer.c - see rendezvous.h.
 */
#include "comm/rendezvous.h"

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

/*
 * What a call that moved nothing means: true to try it again. It is tried before anything is waited for: what it wants
 * is most often there, and a poll in front of each would double the calls.
 */
static bool
try_again(int fd, short events, ssize_t moved, int64_t deadline_ms, enum transfer *why_p)
{
    *why_p = moved < 0 && (errno == EBADF || errno == ENOTSOCK) ? TRANSFER_CLOSED : TRANSFER_GONE;
    if (moved == 0 || (errno != EINTR && errno != EAGAIN))
        return false;
    *why_p = TRANSFER_LATE;
    return errno == EINTR || transfer_wait(fd, events, deadline_ms);
}

static enum transfer
move_all(int fd, short events, char *at, size_t bytes, int64_t deadline_ms)
{
    enum transfer why;
    while (bytes > 0) {
        ssize_t moved =
            events == POLLOUT ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, bytes, MSG_DONTWAIT);
        if (moved <= 0 && !try_again(fd, events, moved, deadline_ms, &why))
            return why;
        at += moved > 0 ? moved : 0;
        bytes -= moved > 0 ? (size_t)moved : 0;
    }
    return TRANSFER_DONE;
}

enum transfer
transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms)
{
    return move_all(fd, POLLOUT, (char *)(uintptr_t)data, bytes, deadline_ms);
}

enum transfer
transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms)
{
    return move_all(fd, POLLIN, data, bytes, deadline_ms);
}
