/*
 * thread.c - the driver's own threads: streams, workers and those that rescue them.
 *
 * Called by: queue.c, workers.c. Must never: join a thread.
 */
#include "driver.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREAD_STACK_BYTES = 16 << 20, HANDLER_STACK_BYTES = 128 << 10 };

/* Set in the driver's own threads: a host function or callback must not call CUDA, where it might wait for itself. */
static _Thread_local bool is_driver_thread;

bool
driver_is_thread(void)
{
    return is_driver_thread;
}

/* An alternate stack for signal handlers: a fault can then be reported even if the thread's stack has overflowed.
 * NULL: the thread has one already, or there is no memory. */
static void *
make_handler_stack(void)
{
    stack_t old;
    if (sigaltstack(NULL, &old) != 0 || (old.ss_flags & SS_DISABLE) == 0) {
        return NULL;
    }
    void *memory = mmap(NULL, HANDLER_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = HANDLER_STACK_BYTES}, NULL) != 0) {
        munmap(memory, HANDLER_STACK_BYTES);
        return NULL;
    }
    return memory;
}

static void
end_handler_stack(void *memory)
{
    if (memory != NULL) {
        (void)sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
        munmap(memory, HANDLER_STACK_BYTES);
    }
}

struct start {
    void *(*run)(void *);
    void *argument;
    const char *name;
};

static void *
run_thread(void *memory)
{
    struct start start = *(struct start *)memory;
    free(memory);
    is_driver_thread = true;
    pthread_setname_np(pthread_self(), start.name);
    void *stack = make_handler_stack();
    void *result = start.run(start.argument);
    end_handler_stack(stack);
    return result;
}

static int
create_thread(struct start *start)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked, old;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) {
        sigdelset(&blocked, faults[i]);
    }
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    error = pthread_create(&thread, &attributes, run_thread, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

bool
driver_thread(void *(*run)(void *), void *argument, const char *name)
{
    struct start *start = malloc(sizeof *start);
    int error = ENOMEM;
    if (start != NULL) {
        *start = (struct start){run, argument, name};
        error = create_thread(start);
    }
    if (error != 0) {
        free(start);
        say("no thread for %s: %s; fewer streams, or a higher limit on threads, would help", name, strerror(error));
    }
    return error == 0;
}
