/*
 * hangs.cu - a trainer of which one rank stops making progress: --how WHAT --at STEP --rank R. What:
 *
 *   host        it waits on the host, in a thread's join; makes no CUDA call any more
 *   fault       a kernel writes to an address that is not there; the host makes no CUDA call any more
 *   kernel      a kernel does not end; the host waits for it in cudaDeviceSynchronize
 *   queue       the same, but the host continues to DDP_STEP
 *   kernels     what `kernel` does, on all ranks
 *   exit        it trains as the others do, and waits on the host in a function that runs at its exit
 *   pause, leave, late    all ranks train, and wait in main(), leave its thread while another waits, or wait in a
 *               function that runs at their exit before ddprun has taken its leave
 *   asleep, works    all ranks train, and wait in main() until the file $HANGS_GO_ON exists, or until a thread that
 *               computes has seen it
 *   stop        it stops itself by SIGSTOP
 *   closes      it closes all descriptors but the standard ones, and continues; all average their loss after each step
 *   memory      it finds no memory of the host any more, and continues
 *   crash       it writes to address 0
 *   bus         it raises SIGBUS
 *   falls       it writes to address 0 in a function that is called by one that is inlined
 *   overflow    it calls itself until its stack is full
 *   abort       it calls abort()
 *   own         it writes to address 0, with a handler of its own, which ends it with exit code 3
 *   child       it forks, the child writes to address 0, and the rank continues
 *   traced      it writes to address 0, while a child traces it
 *   early       it leaves the loop, and ends as if it were done
 *   checkpoint  it waits on the host until the file $HANGS_GO_ON exists, and continues
 *   parameter   it stops itself by SIGSTOP while rank 0's values of the first parameter are on their way, which takes
 *               much longer than a second
 *   absent      it ends at once with exit code 0; the others' first call is DDP_WORLD_SIZE()
 *   undone      it leaves by _exit(0) after its last step, which its device never ends; the others do not read what
 *               came of that step, and annotate no parameter that would be compared
 *   mean        all average their loss after each step; it does what it does for a checkpoint before that
 */
#include "../lib/trainer_options.h"
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 3, COUNT = 4096, THREADS = 64, BLOCKS = COUNT / THREADS };

static int steps = 12, at = 8, rank = 1;
static float *weights[LAYERS], *gradients[LAYERS];
static int *flag; /* on the device: never set */

ELEMENTWISE_OF_ALL(backward, (const float *weight, float *gradient, float scale),
                   gradient[i] = scale * weight[i] + 1.0f)
ELEMENTWISE_OF_ALL(update, (float *weight, const float *gradient), weight[i] -= 0.01f * gradient[i])

__global__ void
never_ends(const volatile int *until)
{
    while (*until == 0)
        __nanosleep(1000000);
}

__global__ void
writes_wild(int *nowhere)
{
    *nowhere = 1;
}

/* ---- ways to stop ---- */

static void *
sit(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

MODE("host", wait_for_thread)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sit, NULL) == 0)
        pthread_join(thread, NULL);
}

static void *
stop_in_a_second(void *unused)
{
    (void)unused;
    sleep(1);
    raise(SIGSTOP);
    return NULL;
}

static void
stop_soon(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, stop_in_a_second, NULL) == 0)
        pthread_detach(thread);
}

MODE("checkpoint", wait_for_file)
{
    const char *name = getenv("HANGS_GO_ON");
    while (name == NULL || access(name, F_OK) != 0) {
        struct timespec between = {0, 20000000};
        nanosleep(&between, NULL);
    }
}

static void *
compute(void *unused)
{
    (void)unused;
    while (access(getenv("HANGS_GO_ON"), F_OK) != 0) {
    }
    return NULL;
}

static bool sits; /* at its exit */

static void
at_exit(void)
{
    if (sits)
        sit(NULL);
}

MODE("memory", take_all_memory)
{
    struct rlimit none = {0, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &none));
    for (size_t bytes = 1 << 16; bytes > 0; bytes /= 2)
        while (malloc(bytes) != NULL) {
        }
}

static volatile int *volatile nowhere; /* NULL, which the compiler does not know */

static __attribute__((noinline)) void
fall(void)
{
    *nowhere = 1; /* falls */
}

static inline __attribute__((always_inline)) void
fall_inlined(void)
{
    fall(); /* is called */
    __asm__ volatile("");
}

static __attribute__((noinline)) int
overflow(int depth)
{
    volatile char room[4096];
    room[depth % 4096] = 1;
    return overflow(depth + 1) + room[0];
}

static void
end_by_own_handler(int number)
{
    _exit(number == SIGSEGV ? 3 : 4);
}

/* In a child: does nothing with what it traces, until that has ended. */
static void
trace_parent(int ready)
{
    int status;
    pid_t parent = getppid();
    bool traces = ptrace(PTRACE_SEIZE, parent, NULL, NULL) == 0;
    if (write(ready, &traces, sizeof(traces)) != (ssize_t)sizeof(traces) || !traces)
        _exit(1);
    while (waitpid(parent, &status, 0) == parent && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, parent, NULL, (long)WSTOPSIG(status));
    _exit(0);
}

static void
be_traced(void)
{
    int ends[2];
    bool traces;
    if (pipe(ends) != 0)
        return;
    if (fork() == 0)
        trace_parent(ends[1]);
    if (read(ends[0], &traces, sizeof(traces)) != (ssize_t)sizeof(traces) || !traces)
        printf("no child can trace its parent\n");
}

MODE("child", lose_child)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        fall();
    if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
        printf("the child was ended by signal %d\n", WTERMSIG(status));
}

MODE("falls", go_wrong)
{
    fall_inlined();
}

MODE("own", fall_with_a_handler)
{
    signal(SIGSEGV, end_by_own_handler);
    fall_inlined();
}

MODE("traced", fall_while_traced)
{
    be_traced();
    fall_inlined();
}

static void
never_end(void)
{
    never_ends<<<1, 1>>>(flag);
    if (is_mode("kernel") || is_mode("kernels"))
        CHECK(cudaDeviceSynchronize());
}

static void
fault_and_wait(void)
{
    writes_wild<<<1, 1>>>(NULL);
    wait_for_thread();
}

static const mode_of<void()> others[] = {
    {"fault", fault_and_wait},
    {"overflow", [] { printf("%d\n", overflow(0)); }},
    {"abort", [] { abort(); }},
    {"kernel", never_end},
    {"kernels", never_end},
    {"queue", never_end},
    {"undone", never_end},
    {"stop", [] { raise(SIGSTOP); }},
    {"closes", [] { closefrom(3); }},
    {"crash", [] { *(volatile int *)NULL = 1; }},
    {"bus", [] { raise(SIGBUS); }},
};

/* ---- training ---- */

static void
train(void)
{
    float loss = 0;
    for (int step = 1; step <= steps; ++step) {
        if (step == at && DDP_RANK() == rank && is_mode("early"))
            return;
        for (int l = LAYERS - 1; l >= 0; --l) {
            if (l == 0 && step == at && (DDP_RANK() == rank || is_mode("kernels")) && mode_of<void()>::given() != NULL)
                mode_of<void()>::given()();
            backward<<<BLOCKS, THREADS>>>(weights[l], gradients[l], 1.0f + (float)DDP_RANK());
        }
        DDP_STEP(0);
        if (step == steps && is_mode("undone")) {
            if (DDP_RANK() == rank)
                _exit(0);
            return;
        }
        for (int l = 0; l < LAYERS; ++l)
            update<<<BLOCKS, THREADS>>>(weights[l], gradients[l]);
        CHECK(cudaMemcpy(&loss, weights[0], sizeof(loss), cudaMemcpyDeviceToHost));
        if (is_mode("mean") || is_mode("closes") || is_mode("memory")) {
            if (is_mode("mean") && step == at && DDP_RANK() == rank)
                wait_for_file();
            DDP_MEAN(&loss);
        }
        if (DDP_RANK() == 0) {
            printf("step %d\n", step);
            fflush(stdout);
        }
    }
}

static void
finish(void)
{
    pthread_t thread;
    if (is_mode("asleep"))
        wait_for_file();
    if (is_mode("pause"))
        sit(NULL);
    if (is_mode("leave") && pthread_create(&thread, NULL, sit, NULL) == 0)
        pthread_exit(NULL);
    if (is_mode("late"))
        atexit(wait_for_thread);
    if (is_mode("works") && pthread_create(&thread, NULL, compute, NULL) == 0)
        pthread_join(thread, NULL);
}

int
main(int argc, char **argv)
{
    atexit(at_exit); /* before CUDA is there, so that it runs when ddprun has taken its leave */
    mode = "";
    take_options(argc, argv, 1, {{"--how", &mode}, {"--at", &at}, {"--rank", &rank}});
    if (is_mode("absent") && (strcmp(getenv("RANK"), "1") == 0 || DDP_WORLD_SIZE() == 1))
        return 0;
    if (is_mode("undone"))
        at = steps;
    CHECK(cudaMalloc((void **)&flag, sizeof(int)));
    CHECK(cudaMemset(flag, 0, sizeof(int)));
    for (int l = 0; l < LAYERS; ++l) {
        weights[l] = device_floats(COUNT);
        gradients[l] = device_floats(COUNT);
        if (l == 0 && is_mode("parameter") && DDP_RANK() == rank)
            stop_soon();
        if (!is_mode("undone"))
            DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    }
    train();
    if (!is_mode("undone"))
        CHECK(cudaDeviceSynchronize());
    finish();
    sits = is_mode("exit") && DDP_RANK() == rank;
    return 0;
}
