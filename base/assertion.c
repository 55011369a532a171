/*
 * assertion.c - see assertion.h.
 */
#include "base/assertion.h"

#include "base/message.h"
#include "base/protocol.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic(assertion_handler) handler_of_process;

void
assertion_handle(assertion_handler handler)
{
    atomic_store(&handler_of_process, handler);
}

/* The path in the repository, whose root this file is below as the others are. */
static const char *
path_in_repository(const char *file)
{
    static const char own[] = "base/assertion.c";
    size_t root = sizeof(__FILE__) - sizeof(own);
    return strncmp(file, __FILE__, root) == 0 ? file + root : file;
}

void
assertion_failed(const char *condition, const char *file, int line)
{
    char text[768]; /* a status record holds it */
    assertion_handler handler = atomic_load(&handler_of_process);
    snprintf(text, sizeof(text),
             "internal error: %s:%d: %.400s is false; the job ends, because its results could be wrong; please report "
             "this line, the version of ddprun, the options and a trace (--trace DIR)",
             path_in_repository(file), line, condition);
    if (handler != NULL)
        handler(text);
    message_line("%s", text);
    _exit(DDPRUN_EXIT_FAILURE);
}
