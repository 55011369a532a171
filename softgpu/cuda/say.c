/*
 * say.c - see say.h.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void
say(const char *format, ...)
{
    char line[1024] = "softgpu: ";
    size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    if (n > 0) {
        used += (size_t)n < sizeof line - used - 1 ? (size_t)n : sizeof line - used - 2;
    }
    line[used++] = '\n';
    /* One write, so that lines of several ranks do not mix; nothing can be done if it fails. */
    if (write(STDERR_FILENO, line, used) < 0) {
        return;
    }
}
