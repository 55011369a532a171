/*
 * notice.c - lines to the user from places that must not block, such as host functions: the watch thread prints them,
 * or the end of the program.
 */
#include "interpose/engine/core/core.h"

#include "base/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NOTICES = 4, NOTICE_BYTES = 1024 };

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static char waiting[NOTICES][NOTICE_BYTES];
static _Atomic unsigned waiting_count;

void
notice_soon(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&waiting_lock);
    unsigned count = atomic_load(&waiting_count);
    if (count < NOTICES) {
        vsnprintf(waiting[count], NOTICE_BYTES, format, args);
        atomic_store(&waiting_count, count + 1);
    }
    pthread_mutex_unlock(&waiting_lock);
    va_end(args);
}

void
notice_print(void)
{
    if (atomic_load(&waiting_count) == 0)
        return;
    char texts[NOTICES][NOTICE_BYTES];
    pthread_mutex_lock(&waiting_lock);
    unsigned count = atomic_exchange(&waiting_count, 0);
    memcpy(texts, waiting, sizeof(texts));
    pthread_mutex_unlock(&waiting_lock);
    for (unsigned i = 0; i < count; ++i) /* a reader of stderr that waits holds up this thread alone */
        message_line("%s", texts[i]);
}
