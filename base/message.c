/*
 * message.c - see message.h.
 */
#include "base/message.h"

#include "base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 4096 };

static _Atomic int target = STDERR_FILENO;

void
message_to(int fd)
{
    target = fd;
}

int
message_target(void)
{
    return target;
}

/* A message that cannot be written has nowhere else to go. */
static void
put(const char *text, size_t count)
{
    while (count > 0) {
        ssize_t written = write(target, text, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        count -= (size_t)written;
    }
}

void
message_text(const char *text)
{
    put(text, strlen(text));
}

void
message_line(const char *format, ...)
{
    static const char prefix[] = "ddprun: ";
    char line[LONGEST_LINE];
    size_t used = sizeof(prefix) - 1;
    memcpy(line, prefix, used);

    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    if (wanted < 0)
        return;
    printable_make(line + used, "\n\t");
    used += strlen(line + used);
    line[used++] = '\n';
    put(line, used);
}
