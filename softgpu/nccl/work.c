/*
 * work.c - see work.h.
 */
#include "nccl/work.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct work {
    work_function function;
    void *argument;
    pthread_t thread;
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t is_over; /* is_done was set */
    bool is_done;
    int users;
    ncclResult_t result;
};

static void *
run(void *argument)
{
    struct work *work = argument;
    ncclResult_t result = work->function(work->argument);
    pthread_mutex_lock(&work->lock);
    work->result = result;
    work->is_done = true;
    pthread_cond_broadcast(&work->is_over);
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

struct work *
work_start(work_function function, void *argument, int users)
{
    struct work *work = calloc(1, sizeof(*work));
    if (!work)
        return NULL;
    work->function = function;
    work->argument = argument;
    work->users = users;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->is_over, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&work->thread, NULL, run, work);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return work;
    free(work);
    return NULL;
}

bool
work_is_done(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    bool is_done = work->is_done;
    pthread_mutex_unlock(&work->lock);
    return is_done;
}

ncclResult_t
work_release(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    while (!work->is_done)
        pthread_cond_wait(&work->is_over, &work->lock);
    ncclResult_t result = work->result;
    bool is_last = --work->users == 0;
    pthread_mutex_unlock(&work->lock);
    if (!is_last)
        return result;
    pthread_join(work->thread, NULL);
    pthread_cond_destroy(&work->is_over);
    pthread_mutex_destroy(&work->lock);
    free(work);
    return result;
}
