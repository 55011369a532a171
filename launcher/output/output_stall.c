/*
 * output_stall.c - see output_stall.h.
 */
#include "launcher/output/output_stall.h"

#include "base/message.h"

#include <poll.h>
#include <unistd.h>

bool
output_stall_look(struct output_stall *stall, uint64_t now_ns, uint64_t warning_ns)
{
    struct pollfd polled[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT}, {.fd = STDERR_FILENO, .events = POLLOUT}};
    poll(polled, 2, 0);
    if (polled[0].revents != 0 && polled[1].revents != 0) { /* one that has no reader any more takes everything */
        *stall = (struct output_stall){0};
        return false;
    }
    if (stall->since_ns == 0)
        stall->since_ns = now_ns;
    if (warning_ns > 0 && now_ns - stall->since_ns >= warning_ns && !stall->told) {
        stall->told = true;
        message_line(
            "%s has not been read for %.0f s: ranks that print wait for its reader, and others for them, as long "
            "as --timeout allows; read it, or send it to a file",
            polled[0].revents == 0 ? "stdout" : "stderr", (double)(now_ns - stall->since_ns) * 1e-9);
    }
    return true;
}
