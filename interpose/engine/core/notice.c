/*
 * notice.c - warnings to the user from places that must not block, such as host functions: the watch thread prints
 * them, or the end of the program.
 */
#include "interpose/engine/core/core.h"

#include "base/message.h"

#include <stdarg.h>

enum { NOTICES = 4, NOTICE_BYTES = 1024 };

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct notice {
    const char *key;
    char text[NOTICE_BYTES];
} waiting[NOTICES];
static _Atomic unsigned waiting_count;

void
notice_soon(const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&waiting_lock);
    unsigned count = atomic_load(&waiting_count);
    if (count < NOTICES) {
        waiting[count].key = key;
        vsnprintf(waiting[count].text, NOTICE_BYTES, format, args);
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
    struct notice notices[NOTICES];
    pthread_mutex_lock(&waiting_lock);
    unsigned count = atomic_exchange(&waiting_count, 0);
    memcpy(notices, waiting, sizeof(notices));
    pthread_mutex_unlock(&waiting_lock);
    for (unsigned i = 0; i < count; ++i) /* a reader of stderr that waits holds up this thread alone */
        message_warning(notices[i].key, "%s", notices[i].text);
}
