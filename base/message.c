/*
 * message.c - see message.h.
 */
#include "base/message.h"

#include "base/printable.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 4096 };

void
message_line_v(const char *format, va_list args)
{
    static const char prefix[] = "ddprun: ";
    char line[LONGEST_LINE];
    size_t used = sizeof(prefix) - 1;
    memcpy(line, prefix, used);

    int wanted = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    if (wanted < 0)
        return;
    printable_make(line + used, "\n\t");
    used += strlen(line + used);
    line[used++] = '\n';

    /* A message that cannot be written has nowhere else to go. */
    ssize_t ignored = write(STDERR_FILENO, line, used);
    (void)ignored;
}

void
message_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    message_line_v(format, args);
    va_end(args);
}
