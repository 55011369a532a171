/*
 * hooks_waits.c - waits of the program, in a run of `ddprun check` (date.c): until a date, which is the program's and
 * not the system's, and those of loops that wait for a date by reading it.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"

#include <errno.h>

static bool
is_programs(const void *caller)
{
    return files_date() != NULL && caller_is_programs(NULL, caller);
}

/* ---- for so long ---- */

static void
note_sleep(int64_t us, const void *caller)
{
    if (is_programs(caller))
        date_slept(us, caller);
}

int
nanosleep(const struct timespec *time, struct timespec *left)
{
    int result = REAL(nanosleep)(time, left);
    if (result == 0)
        note_sleep((int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000, __builtin_return_address(0));
    return result;
}

int
usleep(useconds_t us)
{
    int result = REAL(usleep)(us);
    if (result == 0)
        note_sleep(us, __builtin_return_address(0));
    return result;
}

unsigned
sleep(unsigned seconds)
{
    unsigned left = REAL(sleep)(seconds);
    note_sleep((int64_t)(seconds - left) * 1000000, __builtin_return_address(0));
    return left;
}

/* ---- until a date ---- */

/* What the call behind the hook is to wait for: *until, or *real. */
static const struct timespec *
translate(const struct timespec *until, struct timespec *real, const void *caller)
{
    return until != NULL && is_programs(caller) && date_make_real(until, real) ? real : until;
}

int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct timespec real;
    bool is_date = clock == CLOCK_REALTIME && (flags & TIMER_ABSTIME) != 0;
    const struct timespec *given = is_date ? translate(time, &real, __builtin_return_address(0)) : time;
    int error = REAL(clock_nanosleep)(clock, flags, given, left);
    if (error == 0 && given != time)
        date_waited(time);
    else if (error == 0 && (flags & TIMER_ABSTIME) == 0)
        note_sleep((int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000, __builtin_return_address(0));
    return error;
}

/* `is_date`: `until` is one; `timed_out`: of the call's `result`. */
#define HOOK_WAITS(name, is_date, timed_out, declared, given)                                                  \
    int name declared                                                                                          \
    {                                                                                                          \
        struct timespec real;                                                                                  \
        const struct timespec *end = (is_date) ? translate(until, &real, __builtin_return_address(0)) : until; \
        int result = REAL(name) given;                                                                         \
        if ((timed_out) && end != until)                                                                       \
            date_waited(until);                                                                                \
        return result;                                                                                         \
    }
HOOK_WAITS(pthread_cond_timedwait, true, result == ETIMEDOUT,
           (pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until),
           (condition, mutex, end))
HOOK_WAITS(pthread_cond_clockwait, clock == CLOCK_REALTIME, result == ETIMEDOUT,
           (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
           (condition, mutex, clock, end))
HOOK_WAITS(pthread_mutex_timedlock, true, result == ETIMEDOUT,
           (pthread_mutex_t *restrict mutex, const struct timespec *restrict until), (mutex, end))
HOOK_WAITS(sem_timedwait, true, result != 0 && errno == ETIMEDOUT,
           (sem_t *restrict semaphore, const struct timespec *restrict until), (semaphore, end))
