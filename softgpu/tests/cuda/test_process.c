/*
 * test_process.c - the stand-in over a process's whole life: exit with work in flight, late calls, fork, idling,
 * devices by environment, programs built by nvcc.
 *
 * Each test runs this program again as a child with the name of a scene (scenes.h).
 */
#include "kernels.h"
#include "scenes.h"

#include "tests/lib/test.h"

#include <cuda_runtime_api.h>
#include <sys/resource.h>

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *tid, void *bid, dim3 *block, dim3 *grid, int *warp_size);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream);

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

SCENE(exit_in_flight)
{
    start_endless_work();
    return 0;
}

/* Once exit() has begun, what was still waiting in a stream does not start: its memory may be gone. */
static atomic_int exit_open, exit_calls;

static void
let_work_continue(void)
{
    atomic_store(&exit_open, 1);
    /* Time for a driver that does continue to be caught; it cannot make this fail. */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (atomic_load(&exit_calls) != 0)
        _exit(7);
}

SCENE(exit_stops_streams)
{
    atexit(let_work_continue); /* before the driver's own handler, so it runs after that */
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
SCENE(late_free)
{
    atexit(free_late);
    if (cudaMalloc(&late_memory, 100) != cudaSuccess)
        return 2;
    start_endless_work();
    return 0;
}

SCENE(fork)
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
SCENE(fork_first)
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

SCENE(idle)
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

SCENE(no_device)
{
    int count = 7;
    return cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 && cudaDeviceSynchronize() == cudaErrorNoDevice
               ? 0
               : 1;
}

/* SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,1 */
SCENE(visible_devices)
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

/* Prints what programs look at; the caller knows what to expect. */
SCENE(profile)
{
    struct cudaDeviceProp seen;
    int major, ptx, blocks;
    use_device();
    CUfunction whole = load_function(&whole_image);
    if (cudaGetDeviceProperties(&seen, 0) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
        cuFuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, whole) != CUDA_SUCCESS ||
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, whole, 32, 40 << 10) != CUDA_SUCCESS)
        return 1;
    int most = (int)seen.sharedMemPerBlockOptin;
    bool limited = cuFuncSetAttribute(whole, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most) == CUDA_SUCCESS &&
                   cuFuncSetAttribute(whole, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1) ==
                       CUDA_ERROR_INVALID_VALUE;
    fprintf(stderr, "%s: %d.%d (%d, %d), %d multiprocessors, %d KiB opt-in, %d blocks of 40 KiB\n", seen.name,
            seen.major, seen.minor, major, ptx, seen.multiProcessorCount, most >> 10, blocks);
    return limited ? 0 : 2;
}

SCENE(nvcc)
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

SCENE(threads_end)
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

/* CUDA_LAUNCH_BLOCKING=1: a kernel has ended when its launch returns, and its error is that of the launch. */
SCENE(launches_block)
{
    use_device();
    CUfunction span = load_function(&span_image), fail = load_function(&fail_image);
    for (int i = 0; i < 100; ++i) {
        static struct span seen[100];
        launch_one(span, i % 2 == 0 ? NULL : CU_STREAM_PER_THREAD, &seen[i]);
        if (atomic_load(&seen[i].end) == 0)
            return 2;
    }
    return cuLaunchKernel(fail, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS ? 0 : 3;
}

/* ---- tests ---- */

TEST_GROUP(all, .timeout_s = 300);

static const struct scene_row rows[] = {
    {"exit_in_flight", {NULL}, FINE, {NULL}},
    {"exit_stops_streams", {NULL}, FINE, {NULL}},
    {"late_free", {NULL}, FINE, {NULL}},
    {"threads_end", {NULL}, FINE, {NULL}},
    {"idle", {NULL}, FINE, {NULL}},
    /* AddressSanitizer's search for leaks waits for ever for locks that other threads held at the fork. */
    {"fork", {"ASAN_OPTIONS=detect_leaks=0"}, FINE, {NULL}},
    {"fork_first", {NULL}, FINE, {NULL}},

    {"launches_block", {"CUDA_LAUNCH_BLOCKING=1"}, SAYS, {NULL}},
    {"launches_block", {NULL}, FAILS, {NULL}},

    {"no_device", {"SOFTGPU_DEVICES=0"}, FINE, {NULL}},
    {"no_device", {"CUDA_VISIBLE_DEVICES="}, FINE, {NULL}},
    {"no_device", {"CUDA_VISIBLE_DEVICES=-1"}, FINE, {NULL}},
    {"visible_devices", {"SOFTGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=2,1"}, FINE, {NULL}},
    {"visible_devices", {"SOFTGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=2,1,9,0"}, FINE, {NULL}},
    {"visible_devices",
     {"SOFTGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=GPU-736f6674-6770-7500-0000-000000000002,1"},
     FINE,
     {NULL}},

    {"profile",
     {"SOFTGPU_DEVICE=h100"},
     SAYS,
     {"an H100): 9.0 (9, 90), 132 multiprocessors, 227 KiB opt-in, 5 blocks"}},
    {"profile", {"SOFTGPU_DEVICE="}, SAYS, {"an H100): 9.0"}},
    {"profile",
     {"SOFTGPU_DEVICE=a100"},
     SAYS,
     {"an A100): 8.0 (8, 80), 108 multiprocessors, 163 KiB opt-in, 4 blocks"}},
    {"profile", {"SOFTGPU_DEVICE=v100"}, SAYS, {"a V100): 7.0 (7, 70), 80 multiprocessors, 96 KiB opt-in, 2 blocks"}},
    {"profile", {"SOFTGPU_DEVICE=k80"}, SAYS, {"SOFTGPU_DEVICE=k80: there are h100, a100 and v100; using h100"}},
};

TABLE_TEST(processes_end_as_they_should, rows)
{
    expect_scene(&rows[_i]);
}

TEST(code_from_nvcc_is_explained_once_at_its_first_launch)
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

int
main(int argc, char **argv)
{
    if (argc > 1)
        return play_scene(argv[1]);
    return tests_run();
}
