/* messages.c - see relay.h. */
#include "launcher/output/relay.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

bool
messages_open(struct messages *messages, struct error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));
    struct relay_source source = {.fd = ends[0], .unchanged = true};
    if (!relay_start(STDERR_FILENO, &source, 1, false, &messages->relay, error)) {
        close(ends[1]); /* the other end has been the relay's to close */
        return false;
    }
    (void)fcntl(ends[1], F_SETPIPE_SZ, MESSAGES_BYTES);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    messages->fd = ends[1];
    message_to(ends[1]);
    return true;
}

/* Returns whether the relay has left. */
static bool
wait_for_relay(const struct relay *relay, const struct signals *signals, bool hurried, int limit_ms)
{
    int64_t until_ms = clock_now_ms() + limit_ms;
    for (;;) {
        struct pollfd polled[2] = {{.fd = relay_fd(relay), .events = POLLIN}, {.fd = signals->fd, .events = POLLIN}};
        int64_t left_ms = until_ms - clock_now_ms();
        poll(polled, 2, !hurried ? -1 : left_ms > 0 ? (int)left_ms : 0);
        if (polled[0].revents != 0)
            return true;
        if (signals_next_end(signals) != 0 || (hurried && clock_now_ms() >= until_ms))
            return false;
    }
}

void
messages_close(struct messages *messages, const struct signals *signals, bool hurried, int limit_ms)
{
    if (messages->relay == NULL)
        return;
    message_to(STDERR_FILENO);
    close(messages->fd);
    relay_finish(messages->relay); /* a helper that hangs may hold the other end of its pipe */
    if (wait_for_relay(messages->relay, signals, hurried, limit_ms))
        relay_free(messages->relay);
    else
        relay_abandon(messages->relay);
    messages->relay = NULL;
}
