/*
 * core.c - what all of the recorder shares: its state, the lock that one operation at a time passes, the driver's
 * table, and the end of the process.
 */
#include "interpose/tools/scout/scout.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct scout_state scout_state;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the filling of the driver's table */
static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER;     /* from `begin` to `end` of an operation */

void
scout_stop(const char *format, ...)
{
    struct rank_status *status = scout_state.status;
    va_list args;
    va_start(args, format);
    vsnprintf(status->failure, sizeof(status->failure), format, args);
    va_end(args);
    atomic_store(&status->stage, RANK_STAGE_FAILED);
    quiet_end();
    _exit(DDPRUN_EXIT_FAILURE);
}

void
scout_require(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    struct comm_error error;
    (void)driver_fail(&scout_state.driver, result, what, &error);
    scout_stop("%s", error.text);
}

void
scout_ensure_driver(void)
{
    if (atomic_load_explicit(&scout_state.driver_ready, memory_order_acquire))
        return;
    pthread_mutex_lock(&driver_lock);
    struct comm_error error;
    if (!atomic_load(&scout_state.driver_ready) &&
        !driver_fill(&scout_state.driver, scout_state.services->driver_function, &error))
        scout_stop("%s", error.text);
    atomic_store_explicit(&scout_state.driver_ready, true, memory_order_release);
    pthread_mutex_unlock(&driver_lock);
}

void
scout_lock(void)
{
    pthread_mutex_lock(&passing);
}

void
scout_unlock(void)
{
    pthread_mutex_unlock(&passing);
}
