/* error.c - see error.h. */
#include "launcher/common/error.h"

#include <stdarg.h>
#include <stdio.h>

bool
error_set(struct error *error, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    error->exit_code = exit_code;
    error->rank = -1;
    return false;
}
