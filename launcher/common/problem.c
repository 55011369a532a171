/*
 * problem.c - see problem.h.
 */
#include "launcher/common/problem.h"

#include <stdarg.h>
#include <stdio.h>

bool
problem_set(struct problem *problem, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem->text, sizeof(problem->text), format, args);
    va_end(args);
    problem->exit_code = exit_code;
    problem->rank = -1;
    return false;
}
