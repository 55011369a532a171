/* error.c - see error.h. */
#include "comm/error.h"

#include <stdarg.h>
#include <stdio.h>

bool
comm_fail_by(struct comm_error *error, enum comm_cause cause, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    error->cause = cause;
    return false;
}
