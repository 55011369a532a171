/*
 * inherited.c - see inherited.h.
 */
#include "nccl/inherited.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int *sockets;
static int count, room;

static void
after_fork_in_child(void)
{
    for (int i = 0; i < count; ++i)
        close(sockets[i]);
    count = 0;
    pthread_mutex_unlock(&lock);
}

static void
watch_forks(void)
{
    pthread_atfork(inherited_lock, inherited_unlock, after_fork_in_child);
}

void
inherited_lock(void)
{
    pthread_mutex_lock(&lock);
}

void
inherited_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool
inherited_add(int socket)
{
    static bool is_watching; /* guarded by the lock */
    if (!is_watching)
        watch_forks();
    is_watching = true;
    if (count == room) {
        int more = room ? 2 * room : 64;
        int *longer = realloc(sockets, (size_t)more * sizeof(*sockets));
        if (!longer)
            return false;
        sockets = longer;
        room = more;
    }
    sockets[count++] = socket;
    return true;
}

void
inherited_close(int socket)
{
    if (socket < 0)
        return;
    inherited_lock();
    for (int i = 0; i < count; ++i) {
        if (sockets[i] != socket)
            continue;
        sockets[i] = sockets[--count];
        break;
    }
    close(socket);
    inherited_unlock();
}
