/*
 * spin.c - threads that spin: that wait in a loop for a value which another thread of the block is to write.
 *
 * Threads of a block take turns on one OS thread, and such a thread would keep its turn for ever. So a timer of the OS
 * thread's CPU time ticks while kernels run. A thread that keeps its turn for SPIN_TICKS gives it to the others, as a
 * GPU's scheduler does; from then on threads of that kernel do so at each tick. A thread that works is interrupted,
 * too, and continues later. It is interrupted in its program's own code only: elsewhere, in the C library or in here,
 * it may hold a lock or have a table half written.
 *
 * A kernel that runs for LONG_TICKS in one block, or in its loops, is named once. It is not ended, for it may have much
 * to do.
 */
#include "block.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { TICK_MS = 10, SPIN_TICKS = 50, LONG_TICKS = 1000, KERNEL_NAME_SHOWN = 300 };

__thread struct spin_watch spin_watch SOFTGPU_INITIAL_EXEC;

/* Of this OS thread. */
static __thread struct {
    timer_t timer;
    bool is_made;
    unsigned kept;                 /* ticks in the turn that `number`, `turns` and `begun` tell from others */
    unsigned number, turns, begun; /* the thread; turns and threads that the block had begun */
    const char *spinner, *said;    /* kernels: the last that had a thread that spins; the last named */
    unsigned protection;           /* the register of protection keys, which a handler gets closed */
} own SOFTGPU_INITIAL_EXEC;

static pthread_key_t timer_key; /* deletes the timer when its OS thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int tick_signal; /* 0: the program has a handler of its own for it */
static bool has_keys;   /* the processor has protection keys (pkeys(7)), with which the driver closes device memory */

static void
set_timer(bool ticks)
{
    const struct timespec tick = {0, ticks ? TICK_MS * 1000000L : 0};
    if (own.is_made)
        timer_settime(own.timer, 0, &(struct itimerspec){tick, tick}, NULL);
    spin_watch.ticks_come = ticks;
}

static const char *
interrupted_at(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (const char *)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (const char *)context->uc_mcontext.pc;
#else
    (void)context;
    return NULL;
#endif
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35) /* has a look-up without a lock, which an older one lacks */
#pragma weak _dl_find_object
static bool
find_object(const void *address, struct dl_find_object *object)
{
    return _dl_find_object != NULL && _dl_find_object((void *)address, object) == 0;
}
#else
struct dl_find_object {
    const void *dlfo_map_start, *dlfo_map_end;
    const struct link_map *dlfo_link_map;
};
static bool
find_object(const void *address, struct dl_find_object *object)
{
    (void)address, (void)object;
    return false;
}
#endif

/* Whether `at` lies in the program, or the library, that the kernel is part of. */
static bool
is_kernels(const struct block *block, const char *at)
{
    struct dl_find_object object;
    return find_object((const void *)(uintptr_t)block->thread, &object) && at >= (const char *)object.dlfo_map_start &&
           at < (const char *)object.dlfo_map_end;
}

static bool
others_can_run(const struct block *block)
{
    return block->ready_count > 0 || block->turn.lanes != 0 || block->next_thread < block->thread_count;
}

static void
name_kernel(const struct block *block, const char *at)
{
    char line[1536], thread[128] = "", place[512] = "";
    const struct softgpu_index b = softgpu_thread.indices_of_fibers.block, t = softgpu_thread.indices_of_fibers.thread;
    struct dl_find_object object;
    if (block != NULL)
        snprintf(thread, sizeof(thread), " block (%u,%u,%u), thread (%u,%u,%u):", b.x, b.y, b.z, t.x, t.y, t.z);
    if (find_object(at, &object))
        snprintf(place, sizeof(place), ", now at %#zx of %s", (size_t)at - object.dlfo_link_map->l_addr,
                 object.dlfo_link_map->l_name[0] != '\0' ? object.dlfo_link_map->l_name : "the program");
    const int length =
        snprintf(line, sizeof(line),
                 "softgpu: kernel %.*s:%s it has run for %d s%s (addr2line names the line). It may wait for a value "
                 "that no thread writes. It goes on; SOFTGPU_TIMEOUT_S=SECONDS ends such programs\n",
                 KERNEL_NAME_SHOWN, kernel_here, thread, LONG_TICKS * TICK_MS / 1000, place);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}

static void
open_memory(void)
{
#if defined(__x86_64__)
    if (has_keys)
        __asm__ volatile("wrpkru" : : "a"(own.protection), "c"(0), "d"(0) : "memory");
#endif
}

static void
on_tick(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    const int saved = errno;
    struct block *block = block_here;
    const char *at = interrupted_at(context);
    if (kernel_here == NULL) {
        set_timer(false);
    } else if (++spin_watch.ticks == LONG_TICKS && own.said != kernel_here) {
        own.said = kernel_here;
        name_kernel(block, at);
    }
    if (kernel_here != NULL && block != NULL) {
        const bool keeps =
            own.number == softgpu_thread.number && own.turns == block->first_ready && own.begun == block->next_thread;
        own.kept = keeps ? own.kept + 1 : 0;
        own.number = softgpu_thread.number;
        own.turns = block->first_ready;
        own.begun = block->next_thread;
        const bool in_group = block->launch->group[0] != 0;
        if (own.kept >= (own.spinner == kernel_here ? 1 : SPIN_TICKS) && !fiber_is_watched &&
            (in_group || others_can_run(block)) && is_kernels(block, at)) {
            own.spinner = kernel_here;
            block->leaves = in_group;
            open_memory();
            block->yield(); /* returns when its turn comes again; the signal's frame waits on the fiber's stack */
        }
    }
    errno = saved;
}

static void
delete_timer(void *unused)
{
    (void)unused;
    if (own.is_made)
        timer_delete(own.timer);
    own.is_made = false;
}

static void
install(void)
{
    struct sigaction old;
    const int free_one = SIGRTMAX - 3;
    /* On the fiber's own stack, and not blocked in the fibers that run meanwhile. */
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (pthread_key_create(&timer_key, delete_timer) != 0 || sigaction(free_one, NULL, &old) != 0 ||
        old.sa_handler != SIG_DFL || sigaction(free_one, &action, NULL) != 0)
        return;
    tick_signal = free_one;
#if defined(__x86_64__)
    unsigned a = 7, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    has_keys = (c >> 4 & 1) != 0; /* OSPKE: "Intel 64 and IA-32 Architectures Software Developer's Manual", CPUID */
#endif
}

void
spin_watch_begin(void)
{
    pthread_once(&once, install);
    if (!own.is_made && tick_signal != 0) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = tick_signal};
        sigset_t ours;
        event._sigev_un._tid = gettid();
        sigemptyset(&ours);
        sigaddset(&ours, tick_signal);
        own.is_made = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &own.timer) == 0 &&
                      pthread_setspecific(timer_key, &own) == 0 && pthread_sigmask(SIG_UNBLOCK, &ours, NULL) == 0;
    }
#if defined(__x86_64__)
    unsigned high;
    if (has_keys)
        __asm__ volatile("rdpkru" : "=a"(own.protection), "=d"(high) : "c"(0));
#endif
    set_timer(true);
}
