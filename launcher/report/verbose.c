/*
 * verbose.c - see verbose.h.
 */
#include "launcher/report/verbose.h"

#include "base/message.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* The supervisor never waits for a reader. */
static bool
is_read(void)
{
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&error, 1, 0) == 1;
}

const char *
verbose_nccl_text(unsigned version, char text[32])
{
    snprintf(text, 32, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    return text;
}

void
verbose_tell(struct verbose *verbose, const struct rank_view *rank)
{
    char text[32];
    if (verbose == NULL ||
        (verbose->nccl_version == rank->nccl_version && verbose->bucket_count == rank->bucket_count) || !is_read())
        return;
    if (verbose->nccl_version != rank->nccl_version)
        message_line("the ranks have opened NCCL %s", verbose_nccl_text(rank->nccl_version, text));
    if (verbose->bucket_count != rank->bucket_count && rank->bucket_count > 0)
        message_line("plan %" PRIu64 " adopted after step %" PRIu64
                     ": gradients are reduced during backward, in %" PRIu64 " bucket%s",
                     rank->plan_count, rank->plan_step, rank->bucket_count, rank->bucket_count == 1 ? "" : "s");
    else if (verbose->bucket_count != rank->bucket_count)
        message_line("plan given up after step %" PRIu64 ": gradients are reduced at DDP_STEP until the next plan",
                     rank->plan_step);
    verbose->nccl_version = rank->nccl_version;
    verbose->bucket_count = rank->bucket_count;
}
