/*
 * spin.c - threads of a kernel that wait in a loop for memory to change.
 *
 * Threads of a block run one after another, and one that spins would keep those from running for which it waits. A
 * watcher looks at launches that take long: it interrupts their OS thread every TICK_MS, and the handler compares the
 * CPU's registers with those of earlier ticks. Code that computes has others each time; code whose registers come again
 * and again does nothing but wait. Such a thread makes way for the others of its block; where that does not end it, a
 * line says so, once in a launch.
 *
 * No launch is slower by it: it counts launches of its OS thread, and wakes the watcher where that sleeps.
 */
#include "block.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    TICK_MS = 10,
    LONG_MS = 300,          /* launches that take less are left alone */
    LEAST_RUN_NS = 1000000, /* of CPU between two looks: else the system did not let the thread run */
    STILL_LOOKS = 100,      /* without it: the thread sleeps, perhaps for ever (fault.c of the driver) */
    IDLE_TICKS = 10,
    YIELD_TICKS = 20, /* the first time in a launch; then each tick */
    SAY_TICKS = 300,
    STATE_COUNT = 1 << 14,
};

/* Of an OS thread that runs kernels. */
struct watched {
    struct watched *next;
    pthread_t thread;
    _Atomic unsigned launch;      /* grows by one at the begin of a launch and by one at its end: odd in a launch */
    _Atomic unsigned left_alone;  /* a launch that is not looked at any more */
    unsigned seen_launch, ticks;  /* the watcher's: for how many ticks it has been the same */
    atomic_bool is_asked;         /* the signal is on its way */
    unsigned known_launch, known; /* the handler's: how many looks in a row showed nothing new */
    unsigned still;
    bool has_yielded, has_said;
    uint64_t cpu_ns;
    uint64_t *states; /* STATE_COUNT, by their lowest bits */
};

static __thread struct watched *own SOFTGPU_INITIAL_EXEC;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watched *all; /* guarded by lock */
static atomic_bool sleeps;
static sem_t wakes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int
tick_signal(void)
{
    return SIGRTMAX - 3;
}

/* ---- the handler ---- */

static uint64_t
mix(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t
state_of(const ucontext_t *context, void **at_p)
{
#if defined(__x86_64__)
    const mcontext_t *machine = &context->uc_mcontext;
    *at_p = (void *)machine->gregs[REG_RIP];
    const uint64_t hash = mix(1, machine->gregs, (REG_RIP + 1) * sizeof(machine->gregs[0]));
    return machine->fpregs != NULL ? mix(hash, machine->fpregs->_xmm, sizeof(machine->fpregs->_xmm)) : hash;
#elif defined(__aarch64__)
    *at_p = (void *)context->uc_mcontext.pc;
    return mix(mix(1, context->uc_mcontext.regs, sizeof(context->uc_mcontext.regs)), &context->uc_mcontext.sp, 16);
#else
    (void)context;
    *at_p = NULL;
    return (uint64_t)clock();
#endif
}

/* Whether both addresses are of one program or library. */
static bool
in_one_object(const void *at, const void *other)
{
    Dl_info a, b;
    return dladdr(at, &a) != 0 && dladdr(other, &b) != 0 && a.dli_fbase == b.dli_fbase;
}

/* In the program's own code no lock of a library is held, and no state of block.c is half changed. */
static bool
is_kernel_code(const void *at, const struct block *block)
{
    softgpu_thread_fn thread = block->thread;
    const void *code;
    memcpy(&code, &thread, sizeof(code));
    return in_one_object(at, code);
}

static void
say_spins(void)
{
    const struct softgpu_index b = softgpu_thread.indices_of_fibers.block, t = softgpu_thread.indices_of_fibers.thread;
    char line[512];
    int length;
    if (block_here != NULL)
        length =
            snprintf(line, sizeof(line),
                     "softgpu: kernel %s: block (%u,%u,%u), thread (%u,%u,%u) waits in a loop for memory to change, "
                     "and no other thread of the block changes it\n",
                     kernel_here, b.x, b.y, b.z, t.x, t.y, t.z);
    else
        length = snprintf(line, sizeof(line),
                          "softgpu: kernel %s: one of its threads waits in a loop for memory to change; threads of a "
                          "kernel without barriers run one after another, with __nanosleep() in the loop in turns\n",
                          kernel_here);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}

static uint64_t
cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void
look(struct watched *me, const ucontext_t *context)
{
    const unsigned launch = atomic_load(&me->launch);
    const uint64_t now = cpu_ns();
    void *at;
    me->still = now - me->cpu_ns < LEAST_RUN_NS ? me->still + 1 : 0;
    if (me->still >= STILL_LOOKS)
        atomic_store(&me->left_alone, launch);
    if (kernel_here == NULL || me->still > 0)
        return;
    me->cpu_ns = now;
    if (me->known_launch != launch) {
        me->known_launch = launch;
        me->known = 0;
        me->has_yielded = me->has_said = false;
    }
    const uint64_t state = state_of(context, &at);
    uint64_t *place = &me->states[state % STATE_COUNT];
    /* This library's own registers tell nothing of the kernel: it is here as one that spins with __nanosleep() is. */
    if (*place == state || in_one_object(at, &all))
        ++me->known;
    else
        me->known = 0;
    *place = state;
    if (me->known >= SAY_TICKS && !me->has_said) {
        me->has_said = true;
        say_spins();
    }
#ifndef FIBER_UCONTEXT
    struct block *block = block_here;
    if (block != NULL && !fiber_is_watched && me->known >= (me->has_yielded ? 1 : YIELD_TICKS) &&
        is_kernel_code(at, block)) {
        me->has_yielded = true;
        block_yield();
    }
#else
    (void)is_kernel_code;
#endif
}

/* On the stack of the thread that is interrupted, which continues in it when its turn comes. */
static void
on_tick(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    (void)number, (void)info;
    if (own != NULL) {
        atomic_store(&own->is_asked, false);
        look(own, context);
    }
    errno = saved;
}

struct fiber *
block_yield_step(void **frame)
{
    struct block *block = block_here;
    block_make_thread_ready(block, softgpu_thread.number);
    return block_return_later(block, frame, frame);
}

void
softgpu_yield(void)
{
    if (block_here != NULL)
        block_yield();
}

/* ---- the watcher ---- */

/* Whether any launch runs. */
static bool
ask_long_launches(void)
{
    bool runs = false;
    pthread_mutex_lock(&lock);
    for (struct watched *w = all; w != NULL; w = w->next) {
        const unsigned launch = atomic_load(&w->launch);
        if (launch == atomic_load(&w->left_alone))
            continue;
        w->ticks = launch == w->seen_launch ? w->ticks + 1 : 0;
        runs = runs || launch % 2 != 0 || launch != w->seen_launch;
        w->seen_launch = launch;
        if (launch % 2 != 0 && w->ticks >= LONG_MS / TICK_MS && !atomic_exchange(&w->is_asked, true))
            pthread_kill(w->thread, tick_signal());
    }
    pthread_mutex_unlock(&lock);
    return runs;
}

static void *
watch(void *unused)
{
    unsigned idle = 0;
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
        idle = ask_long_launches() ? 0 : idle + 1;
        if (idle < IDLE_TICKS)
            continue;
        atomic_store(&sleeps, true);
        if (!ask_long_launches()) {
            while (sem_wait(&wakes) != 0)
                ;
        }
        atomic_store(&sleeps, false);
        idle = 0;
    }
    return NULL;
}

static void
start(void)
{
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigset_t every, old;
    pthread_t thread;
    sigemptyset(&action.sa_mask);
    sem_init(&wakes, 0, 0);
    if (sigaction(tick_signal(), &action, NULL) != 0)
        return;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);
    if (pthread_create(&thread, NULL, watch, NULL) == 0) {
        pthread_setname_np(thread, "softgpu-spin");
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the OS threads that run kernels ---- */

void
spin_watch(void)
{
    const size_t bytes = sizeof(struct watched) + STATE_COUNT * sizeof(uint64_t);
    struct watched *made =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    sigset_t tick;
    if (made == MAP_FAILED)
        return;
    made->thread = pthread_self();
    made->states = (uint64_t *)(made + 1);
    own = made;
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    made->next = all;
    all = made;
    pthread_mutex_unlock(&lock);
    sigemptyset(&tick);
    sigaddset(&tick, tick_signal());
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
}

void
spin_forget(void)
{
    struct watched *me = own;
    if (me == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (struct watched **link = &all; *link != NULL; link = &(*link)->next) {
        if (*link == me) {
            *link = me->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    own = NULL;
    munmap(me, sizeof(*me) + STATE_COUNT * sizeof(uint64_t));
}

void
spin_launch(bool begins)
{
    if (own == NULL)
        return;
    const unsigned launch = atomic_load_explicit(&own->launch, memory_order_relaxed);
    atomic_store(&own->launch, (launch + 1) | (begins ? 1 : 0));
    if (begins && atomic_load(&sleeps) && atomic_exchange(&sleeps, false))
        sem_post(&wakes);
}
