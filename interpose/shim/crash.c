/*
 * crash.c - a rank that is ended by a fault first shows ddprun where.
 *
 * A handler of the signals that mean a fault writes to the status page which one came, waits until the launcher has
 * taken the stacks, restores the default action and sends the signal again, with all that was known of it: signal, exit
 * code and core file are as they would be without it. Only where a signal had its default action: handlers that were
 * there remain, and those that come later replace this one. They see it in place of the default.
 *
 * The rules of this file: what the handler calls is safe in any signal, and it waits for 2 s at most.
 */
#include "interpose/shim/shim.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 2000, STACK_BYTES = 64 << 10 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static _Atomic bool is_watched;

/* ---- the handler ---- */

static void
show_launcher(struct rank_status *status, int number)
{
    int32_t none = 0, me = (int32_t)syscall(SYS_gettid);
    if (!atomic_compare_exchange_strong(&status->crash_thread, &none, me) && none == me)
        return; /* a fault of the handler itself */
    if (none == 0)
        atomic_store(&status->crash, (uint32_t)number);
    for (int waited_ms = 0; atomic_load(&status->crash_seen) == 0 && waited_ms < WAIT_MS; ++waited_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void
on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    struct rank_status *status = atomic_load(&shim.status);
    if (status != NULL && shim.lock_fd >= 0 && atomic_load(&status->pid) == (int32_t)getpid())
        show_launcher(status, number);
    struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &plain, NULL);
    /* It is pending until this handler returns, and then comes where it has come before. */
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
        (void)raise(number);
    errno = saved;
}

/* ---- where it is set ---- */

/* A stack that has overflowed has no room for a handler. Other threads than the first have none, unless from others. */
static void
give_stack(void)
{
    static char memory[STACK_BYTES];
    stack_t old;
    if (syscall(SYS_gettid) == getpid() && sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE) != 0)
        (void)sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = sizeof(memory)}, NULL);
}

void
crash_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    give_stack();
    if (atomic_exchange(&is_watched, true))
        return;
    for (size_t i = 0; i < SIGNALS; ++i) {
        bool is_default = sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL;
        if (is_default)
            (void)sigaction(signals[i], &action, NULL);
    }
}

void
crash_watch_no_more(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL}, old;
    for (size_t i = 0; i < SIGNALS; ++i) {
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_sigaction == on_crash)
            (void)sigaction(signals[i], &plain, NULL);
    }
}
