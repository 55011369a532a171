/*
 * strict.c - SOFTGPU_STRICT=1: device memory can be reached only while an operation runs, so that the host cannot read
 * or write it unseen; and operations run one at a time, each followed by a look at the ends of all allocations.
 *
 * Called by: whatever runs in streams. Must never: hold its lock while an operation runs.
 */
#include "driver.h"

#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static bool exclusive;   /* an operation that excludes others of its kind runs */
static unsigned running; /* operations of both kinds; memory is open while there are any */

void
strict_begin(bool shared)
{
    mapping_open(true);
    if (!driver.strict) {
        return;
    }
    pthread_mutex_lock(&lock);
    while (!shared && exclusive) {
        pthread_cond_wait(&ended, &lock);
    }
    exclusive = exclusive || !shared;
    if (running++ == 0) {
        memory_protect(true);
    }
    pthread_mutex_unlock(&lock);
}

void
strict_end(bool shared, struct context *context, const char *what)
{
    mapping_open(driver.strict); /* for the look at the ends: another thread may have begun it */
    if (!driver.strict) {
        return;
    }
    struct allocation entry;
    pthread_mutex_lock(&lock);
    if (memory_overrun(&entry)) {
        char text[512];
        snprintf(text, sizeof text, "%.*s wrote behind the end of allocation %llu (%zu bytes of device memory at %#lx)",
                 KERNEL_NAME_SHOWN, what, (unsigned long long)entry.buffer_id, entry.bytes, (unsigned long)entry.base);
        context_fail(context, CUDA_ERROR_ILLEGAL_ADDRESS, text);
    }
    if (!shared) {
        exclusive = false;
        pthread_cond_signal(&ended);
    }
    if (--running == 0) {
        memory_protect(false);
    }
    pthread_mutex_unlock(&lock);
    mapping_open(false);
}
