/*
 * abort.c - the one place that ends the job.
 *
 * A rank that cannot continue writes why into its status record, asks its supervisor to end everything, and waits to
 * be killed. It never exits by itself while the launcher lives: the other ranks would learn of it late.
 */
#include "interpose/engine/core/observer.h"

#include "base/assertion.h"
#include "base/message.h"

#include <signal.h>
#include <stdarg.h>

/* The launcher kills within two seconds, or after the grace if another thread still saves; beyond this it is not there.
 */
enum { WAIT_FOR_LAUNCHER_S = 10 };

/* A text is written in less. */
enum { SAYS_MS = 1000 };

static const char *(*kernel_name)(CUfunction function); /* constant once the engine has started */

static _Atomic bool told;     /* a thread writes into the status record why, */
static _Atomic bool is_said;  /* and has done so */
static _Atomic bool stopping; /* a thread ends the job */

/* Guards soon_text until soon_asked is set. */
static pthread_mutex_t soon_lock = PTHREAD_MUTEX_INITIALIZER;
static char soon_text[sizeof(engine_state.status->failure)];
static _Atomic bool soon_asked;

/* What the launcher finds in the status record, whatever becomes of this process: the first reason stays. */
static void
tell(enum rank_follows follows, const char *text)
{
    if (atomic_exchange(&told, true))
        return;
    flight_note(FLIGHT_STOP, 0, 0, "");
    if (follows != RANK_FOLLOWS && follows != RANK_MAY_FOLLOW)
        OBSERVED(job_stops, text);
    struct rank_status *status = engine_state.status;
    snprintf(status->failure, sizeof(status->failure), "%s", text);
    atomic_store(&status->failure_follows, follows);
    status_reach(RANK_STAGE_FAILED);
    atomic_store(&is_said, true);
}

static void __attribute__((noreturn)) wait_for_the_end(const char *text)
{
    unsigned limit_s = WAIT_FOR_LAUNCHER_S + engine_state.options.grace_s;
    for (unsigned i = 0; i < limit_s && !rendezvous_launcher_is_gone(); ++i)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    message_line("rank %d: %s; the launcher did not end the job, so this process ends itself",
                 engine_state.rendezvous.rank, text);
    kill(getpid(), SIGKILL);
    _exit(DDPRUN_EXIT_FAILURE);
}

static void __attribute__((noreturn)) stop(enum rank_follows follows, const char *text)
{
    tell(follows, text);
    for (unsigned ms = 0; ms < SAYS_MS && !atomic_load(&is_said); ++ms) /* another thread writes at this moment */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!atomic_exchange(&stopping, true))
        rendezvous_abort(&engine_state.rendezvous);
    wait_for_the_end(text);
}

/* Of ASSERT, in any thread and with any lock: nothing here takes one that its callers may hold. */
static void
stop_by_assertion(const char *line)
{
    stop(RANK_FOLLOWS_NOBODY, line);
}

void
stop_open(const char *(*name_of)(CUfunction function))
{
    kernel_name = name_of;
    assertion_handle(stop_by_assertion);
}

/* Appends the name of the last kernel launched, if there is one, to what a failed kernel is reported by. */
static void
append_last_kernel(char *text, size_t bytes)
{
    CUfunction last = __atomic_load_n(&engine_state.services->launches->last, __ATOMIC_RELAXED);
    const char *name = last != NULL ? kernel_name(last) : NULL;
    if (name != NULL)
        printable_append(text, bytes, "; last kernel launched: `%.128s`", name);
}

void
stop_job_by(enum comm_cause cause, const char *format, ...)
{
    static const enum rank_follows follows[] = {[COMM_UNCLEAR] = RANK_MAY_FOLLOW,
                                                [COMM_OWN] = RANK_FOLLOWS_NOBODY,
                                                [COMM_OTHERS] = RANK_FOLLOWS,
                                                [COMM_LEFT] = RANK_FOLLOWS,
                                                [COMM_FAULT] = RANK_MAY_FOLLOW};
    char text[sizeof(engine_state.status->failure)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (cause == COMM_FAULT)
        append_last_kernel(text, sizeof(text));
    stop(follows[cause], text);
}

void
stop_orphan(void)
{
    message_line("rank %d: the launcher is gone; this process ends too", engine_state.rendezvous.rank);
    kill(getpid(), SIGKILL);
    _exit(DDPRUN_EXIT_FAILURE);
}

/* With soon_lock held: the first of all that are found is kept. */
static void
note_wrong(uint64_t step)
{
    _Atomic uint64_t *first = &engine_state.status->wrong_step;
    uint64_t known = atomic_load(first);
    if (known == 0 || step < known)
        atomic_store(first, step);
}

void
stop_job_soon_by(enum rank_follows says, uint64_t wrong_step, const char *format, ...)
{
    char text[sizeof(soon_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (engine_state.observer != NULL && engine_state.observer->takes_alarm(text))
        return;
    pthread_mutex_lock(&soon_lock);
    note_wrong(wrong_step);
    if (!atomic_load(&soon_asked)) {
        memcpy(soon_text, text, sizeof(soon_text));
        tell(says, soon_text); /* now: the program may leave by _exit() before another thread looks */
        atomic_store(&soon_asked, true);
    }
    pthread_mutex_unlock(&soon_lock);
}

void
stop_if_asked(void)
{
    if (atomic_load(&soon_asked))
        stop_job("%s", soon_text);
}

void
stop_by_driver(CUresult result, const char *what)
{
    const char *name = driver_result_name(&engine_state.driver, result);
    if (!driver_result_is_fault(result))
        stop_job("%s failed: %s%s", what, name, driver_result_advice(result));
    char text[sizeof(engine_state.status->failure)];
    driver_describe_fault(&engine_state.driver, result, what, text, sizeof(text));
    if (!driver_result_is_of_hardware(result))
        append_last_kernel(text, sizeof(text));
    stop(RANK_FOLLOWS_NOBODY, text);
}
