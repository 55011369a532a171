/*
 * close_stdout.c - see close_stdout.h.
 */
#include "launcher/common/close_stdout.h"

#include "base/message.h"
#include "base/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

int
close_stdout(FILE *out)
{
    bool flushed = fflush(out) == 0;
    int why = errno;
    if (flushed && !ferror(out))
        return 0;
    message_line("cannot write to stdout: %s; make room, or print elsewhere",
                 flushed ? "a part was refused" : strerror(why));
    return DDPRUN_EXIT_FAILURE;
}
