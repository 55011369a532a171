/*
 * test_process.c - the stand-in over a process's whole life: exit with work in flight, late calls, fork, idling,
 * devices by environment, programs built by nvcc.
 *
 * Each test runs this program again as a child with the name of a scene, and looks at how it ended and what it said on
 * stderr. A child that does not end within its deadline is killed and fails the test.
 */
#include "kernels.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *tid, void *bid, dim3 *block, dim3 *grid, int *warp_size);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream);

extern char **environ;

static const dim3 one = {1, 1, 1};

/* ---- scenes: return the child's exit code ---- */

static atomic_int never;

static void
start_endless_work(void)
{
    use_device();
    CUfunction gate = load_function(&gate_image);
    for (int i = 0; i < 4; ++i) {
        CUstream stream;
        (void)!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        launch_one(gate, stream, &never);
        launch_one(gate, stream, &never);
    }
}

static int
scene_exit_in_flight(void)
{
    start_endless_work();
    return 0;
}

/* Once exit() has begun, what was still waiting in a stream does not start: its memory may be gone. */
static atomic_int exit_open, exit_calls;

static void
let_work_go_on(void)
{
    atomic_store(&exit_open, 1);
    /* Time for a driver that does go on to be caught; it cannot make this fail. */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (atomic_load(&exit_calls) != 0)
        _exit(7);
}

static int
scene_exit_stops_streams(void)
{
    atexit(let_work_go_on); /* before the driver's own handler, so it runs after that */
    use_device();
    launch_one(load_function(&gate_image), NULL, &exit_open);
    launch_one(load_function(&whole_image), NULL, &exit_calls);
    return 0;
}

static void *late_memory;

static void
free_late(void)
{
    cudaError_t error = cudaFree(late_memory);
    if (error != cudaSuccess && error != cudaErrorCudartUnloading)
        _exit(3);
    if (cudaDeviceSynchronize() == cudaSuccess && error == cudaErrorCudartUnloading)
        _exit(4);
}

/* A static object's destructor, registered before CUDA was first used, runs after the driver's own handler. */
static int
scene_late_free(void)
{
    atexit(free_late);
    if (cudaMalloc(&late_memory, 100) != cudaSuccess)
        return 2;
    start_endless_work();
    return 0;
}

static int
scene_fork(void)
{
    void *memory;
    start_endless_work();
    if (cudaMalloc(&memory, 100) != cudaSuccess)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        /* As on a GPU: nothing works, and nothing hangs, exit() included. */
        int bad = cudaFree(memory) != cudaErrorInitializationError ||
                  cudaDeviceSynchronize() != cudaErrorInitializationError ||
                  cudaMalloc(&memory, 1) != cudaErrorInitializationError;
        exit(bad ? 5 : 0);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

/* A child forked before the first use may use the device. */
static int
scene_fork_first(void)
{
    pid_t child = fork();
    int count = 0;
    if (child == 0)
        exit(cudaGetDeviceCount(&count) == cudaSuccess && count == 1 && cudaDeviceSynchronize() == cudaSuccess ? 0 : 5);
    int status;
    bool fine = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return fine && cudaDeviceSynchronize() == cudaSuccess ? 0 : 6;
}

static int64_t
cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

/* Streams without work, a stream that waits for an event, and a host thread that waits for a stream: none of them
 * spins. */
static void *
wait_for_stream(void *stream)
{
    use_device();
    (void)!cuStreamSynchronize(stream);
    return NULL;
}

static void
hold(void *unused)
{
    (void)unused;
    pause();
}

static int
scene_idle(void)
{
    use_device();
    CUstream held, waiting, idle[8];
    CUevent event;
    pthread_t thread;
    CUfunction whole = load_function(&whole_image);
    atomic_int calls = 0;
    (void)!cuStreamCreate(&held, CU_STREAM_NON_BLOCKING);
    (void)!cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING);
    (void)!cuEventCreate(&event, 0);
    (void)!cuLaunchHostFunc(held, hold, NULL);
    (void)!cuEventRecord(event, held);
    (void)!cuStreamWaitEvent(waiting, event, 0);
    pthread_create(&thread, NULL, wait_for_stream, held);
    pthread_detach(thread);
    for (int i = 0; i < 8; ++i) {
        (void)!cuStreamCreate(&idle[i], CU_STREAM_NON_BLOCKING);
        launch_one(whole, idle[i], &calls);
        (void)!cuStreamSynchronize(idle[i]);
    }
    int64_t before = cpu_us();
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    int64_t used = cpu_us() - before;
    if (used > 10000)
        fprintf(stderr, "used %lld us of CPU in an idle second\n", (long long)used);
    return used > 10000;
}

static int
scene_no_device(void)
{
    int count = 7;
    return cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 && cudaDeviceSynchronize() == cudaErrorNoDevice
               ? 0
               : 1;
}

/* SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,1 */
static int
scene_visible_devices(void)
{
    int count = 0;
    char first[32], second[32];
    struct cudaPointerAttributes attributes;
    void *memory;
    bool fine = cudaGetDeviceCount(&count) == cudaSuccess && count == 2 &&
                cudaDeviceGetPCIBusId(first, sizeof first, 0) == cudaSuccess &&
                cudaDeviceGetPCIBusId(second, sizeof second, 1) == cudaSuccess && strcmp(first, "0000:03:00.0") == 0 &&
                strcmp(second, "0000:02:00.0") == 0 && cudaSetDevice(1) == cudaSuccess &&
                cudaMalloc(&memory, 10) == cudaSuccess &&
                cudaPointerGetAttributes(&attributes, memory) == cudaSuccess && attributes.device == 1 &&
                cudaSetDevice(2) == cudaErrorInvalidDevice;
    return fine ? 0 : 1;
}

static int
scene_nvcc(void)
{
    static char stub, other_stub;
    void **handle = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(handle, &stub, NULL, "_Z5trainPf", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &other_stub, NULL, "_Z4evalPf", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    void *memory;
    if (cudaMalloc(&memory, 100) != cudaSuccess)
        return 2;
    fputs("loaded\n", stderr);
    cudaKernel_t kernel;
    (void)__cudaGetKernel(&kernel, &stub);
    for (int i = 0; i < 3; ++i) {
        if (__cudaLaunchKernel(kernel, one, one, NULL, 0, 0) != cudaErrorNoKernelImageForDevice)
            return 3;
    }
    return cudaLaunchKernel(&other_stub, one, one, NULL, 0, 0) == cudaErrorNoKernelImageForDevice ? 0 : 4;
}

/* A thread ends with work in its own default stream. */
static atomic_int thread_open, thread_calls;

static void *
use_own_stream(void *unused)
{
    (void)unused;
    use_device();
    launch_one(load_function(&gate_image), CU_STREAM_PER_THREAD, &thread_open);
    launch_one(load_function(&whole_image), CU_STREAM_PER_THREAD, &thread_calls);
    return NULL;
}

static int
scene_threads_end(void)
{
    use_device();
    for (int i = 0; i < 20; ++i) {
        pthread_t thread;
        pthread_create(&thread, NULL, use_own_stream, NULL);
        pthread_join(thread, NULL);
    }
    atomic_store(&thread_open, 1);
    return cuCtxSynchronize() == CUDA_SUCCESS && atomic_load(&thread_calls) == 20 ? 0 : 1;
}

static const struct scene {
    const char *name;
    int (*run)(void);
} scenes[] = {
    {"exit_in_flight", scene_exit_in_flight},
    {"late_free", scene_late_free},
    {"fork", scene_fork},
    {"exit_stops_streams", scene_exit_stops_streams},
    {"fork_first", scene_fork_first},
    {"idle", scene_idle},
    {"no_device", scene_no_device},
    {"visible_devices", scene_visible_devices},
    {"nvcc", scene_nvcc},
    {"threads_end", scene_threads_end},
};

/* ---- running one ---- */

enum { OUTPUT_BYTES = 4096, DEADLINE_S = 60 };

/* Reads the child's stderr to its end; false if the deadline passed first. */
static bool
read_all(int from, char *output)
{
    struct timespec start, now;
    size_t used = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int left_ms = (int)(DEADLINE_S - (now.tv_sec - start.tv_sec)) * 1000;
        struct pollfd poll_fd = {.fd = from, .events = POLLIN};
        if (left_ms <= 0 || poll(&poll_fd, 1, left_ms) <= 0)
            return false;
        ssize_t n = read(from, output + used, OUTPUT_BYTES - 1 - used);
        if (n <= 0 || used + (size_t)n == OUTPUT_BYTES - 1) {
            output[used + (n > 0 ? (size_t)n : 0)] = '\0';
            return true;
        }
        used += (size_t)n;
    }
}

/* `settings` are NAME=value, set for the child only. */
static int
run_scene(const char *name, const char *const settings[], char *output)
{
    int pipes[2], status = -1;
    pid_t child;
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    size_t count = 0, extra = 0;
    while (environ[count] != NULL)
        ++count;
    char **variables = calloc(count + 8, sizeof *variables);
    for (; settings != NULL && settings[extra] != NULL; ++extra)
        variables[extra] = (char *)settings[extra];
    memcpy(variables + extra, environ, count * sizeof *variables);
    char *arguments[] = {"test_softgpu_process", (char *)name, NULL};
    ck_assert_int_eq(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, variables), 0);
    close(pipes[1]);
    bool ended = read_all(pipes[0], output);
    close(pipes[0]);
    if (!ended)
        kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    posix_spawn_file_actions_destroy(&actions);
    free(variables);
    ck_assert_msg(ended, "%s did not end within %d s", name, DEADLINE_S);
    return status;
}

static void
expect_fine(const char *name, const char *const settings[])
{
    char output[OUTPUT_BYTES];
    int status = run_scene(name, settings, output);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x: %s", name, status, output);
    /* A sanitizer may have its own remarks on a forked child; the stand-in has none. */
    ck_assert_msg(strstr(output, "softgpu: ") == NULL, "%s said: %s", name, output);
}

START_TEST(exit_does_not_wait_for_the_device)
{
    expect_fine("exit_in_flight", NULL);
    expect_fine("exit_stops_streams", NULL);
}
END_TEST

START_TEST(late_calls_get_an_error_at_most)
{
    expect_fine("late_free", NULL);
}
END_TEST

START_TEST(forked_children_get_errors_and_end)
{
    expect_fine("fork", NULL);
    expect_fine("fork_first", NULL);
}
END_TEST

START_TEST(nothing_spins)
{
    expect_fine("idle", NULL);
}
END_TEST

START_TEST(devices_follow_the_environment)
{
    expect_fine("no_device", (const char *const[]){"SOFTGPU_DEVICES=0", NULL});
    expect_fine("no_device", (const char *const[]){"CUDA_VISIBLE_DEVICES=", NULL});
    expect_fine("no_device", (const char *const[]){"CUDA_VISIBLE_DEVICES=-1", NULL});
    expect_fine("visible_devices", (const char *const[]){"SOFTGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=2,1", NULL});
    expect_fine("visible_devices", (const char *const[]){"SOFTGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=2,1,9,0", NULL});
    expect_fine("visible_devices",
                (const char *const[]){"SOFTGPU_DEVICES=4",
                                      "CUDA_VISIBLE_DEVICES=GPU-736f6674-6770-7500-0000-000000000002,1", NULL});
}
END_TEST

START_TEST(code_from_nvcc_is_explained_once_at_its_first_launch)
{
    char output[OUTPUT_BYTES];
    int status = run_scene("nvcc", NULL, output);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x: %s", status, output);
    const char *first_line = strchr(output, '\n');
    ck_assert_ptr_nonnull(first_line);
    ck_assert_int_eq(strncmp(output, "loaded\n", 7), 0);
    ck_assert_ptr_nonnull(strstr(output, "_Z5trainPf"));
    ck_assert_ptr_nonnull(strstr(output, "softgpu-cc"));
    ck_assert_ptr_eq(strchr(first_line + 1, '\n') + 1, output + strlen(output)); /* one line */
}
END_TEST

START_TEST(work_outlives_the_thread_that_enqueued_it)
{
    expect_fine("threads_end", NULL);
}
END_TEST

int
main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof scenes[0]; ++i) {
        if (strcmp(argv[1], scenes[i].name) == 0)
            return scenes[i].run();
    }
    Suite *suite = suite_create("process");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, exit_does_not_wait_for_the_device);
    tcase_add_test(all, late_calls_get_an_error_at_most);
    tcase_add_test(all, forked_children_get_errors_and_end);
    tcase_add_test(all, nothing_spins);
    tcase_add_test(all, devices_follow_the_environment);
    tcase_add_test(all, code_from_nvcc_is_explained_once_at_its_first_launch);
    tcase_add_test(all, work_outlives_the_thread_that_enqueued_it);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
