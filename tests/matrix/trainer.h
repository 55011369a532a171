/*
 * trainer.h - what the trainers of the matrix share: options, device memory, launches, items to train on, and the
 * record of every parameter after every step. Included by each tests/matrix/NAME.cu, which is one training program as
 * users write them.
 *
 * Each program is built three times: with cudart as a shared library, with cudart inside the program, and, with
 * MATRIX_DRIVER, on the driver alone: its own memory, copies, streams and launches are then calls of libcuda, in all
 * the forms that a launch can have.
 *
 * Nothing here waits for the device between the first step and the last, so that the order of the work is only what the
 * program's streams and events say. Every sum is taken in a fixed order: one process gives the same bits every time.
 */
#ifndef TESTS_MATRIX_TRAINER_H
#define TESTS_MATRIX_TRAINER_H

extern "C" {
#include "common/parameter_file.h"
}

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
check(bool well, const char *call, const char *file, int line)
{
    if (!well) {
        fprintf(stderr, "%s:%d: %s failed\n", file, line, call);
        exit(1);
    }
}

/* CUDA's, the driver's and cuBLAS's success are all 0. */
#define CHECK(call) check((int)(call) == 0, #call, __FILE__, __LINE__)

/* ---- options ---- */

struct options {
    int steps;
    int batch; /* items in a step, of all ranks together */
    unsigned seed;
    const char *save; /* or NULL; "%d" becomes the rank */
};

static struct options options = {12, 24, 1, NULL};

static void
options_parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--steps") == 0)
            options.steps = atoi(value);
        else if (strcmp(argv[i], "--batch") == 0)
            options.batch = atoi(value);
        else if (strcmp(argv[i], "--seed") == 0)
            options.seed = (unsigned)atoi(value);
        else if (strcmp(argv[i], "--save") == 0)
            options.save = value;
        else {
            fprintf(stderr, "Usage: %s [--steps N] [--batch N] [--seed N] [--save FILE]\n", argv[0]);
            exit(2);
        }
    }
    if (options.steps < 1 || options.batch < DDP_WORLD_SIZE()) {
        fprintf(stderr, "%s: --steps and --batch must be at least 1, and --batch no less than the ranks\n", argv[0]);
        exit(2);
    }
}

/* ---- device memory, streams, events: the runtime's calls, or the driver's ---- */

#ifdef MATRIX_DRIVER

static CUdeviceptr
device_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static void
device_open(void)
{
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

/* In a thread that device_open() did not run in. */
static inline void
device_enter(void)
{
    device_open();
}

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
static void *
device_allocate(size_t bytes)
{
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, bytes));
    CHECK(cuMemsetD8(memory, 0, bytes));
    CHECK(cuStreamSynchronize(NULL));
    return (void *)(uintptr_t)memory;
}

static void *
pinned_allocate(size_t bytes)
{
    void *memory;
    CHECK(cuMemAllocHost(&memory, bytes));
    return memory;
}

static inline void
device_free(void *memory)
{
    CHECK(cuMemFree(device_address(memory)));
}

static inline void
device_zero(float *memory, size_t count, cudaStream_t stream)
{
    CHECK(cuMemsetD32Async(device_address(memory), 0, count, stream));
}

static inline void
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    CHECK(cuMemcpyHtoDAsync(device_address(memory), host, bytes, stream));
}

static inline void
device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK(cuMemcpyDtoDAsync(device_address(to), device_address(from), bytes, stream));
}

static inline void
device_download(void *host, const void *memory, size_t bytes)
{
    CHECK(cuMemcpyDtoH(host, device_address(memory), bytes));
}

static inline void
device_wait(void)
{
    CHECK(cuCtxSynchronize());
}

static inline cudaStream_t
stream_create(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline cudaEvent_t
event_create(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cuEventRecord(event, first));
    CHECK(cuStreamWaitEvent(second, event, 0));
}

#else

static void
device_open(void)
{
    CHECK(cudaSetDevice(0));
}

/* In a thread that device_open() did not run in. */
static inline void
device_enter(void)
{
    device_open();
}

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
static void *
device_allocate(size_t bytes)
{
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    CHECK(cudaStreamSynchronize(0));
    return memory;
}

static void *
pinned_allocate(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocHost(&memory, bytes));
    return memory;
}

static inline void
device_free(void *memory)
{
    CHECK(cudaFree(memory));
}

static inline void
device_zero(float *memory, size_t count, cudaStream_t stream)
{
    CHECK(cudaMemsetAsync(memory, 0, count * sizeof(float), stream));
}

static inline void
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream));
}

static inline void
device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

static inline void
device_download(void *host, const void *memory, size_t bytes)
{
    CHECK(cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
}

static inline void
device_wait(void)
{
    CHECK(cudaDeviceSynchronize());
}

static inline cudaStream_t
stream_create(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaEvent_t
event_create(void)
{
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
}

#endif

static inline float *
device_floats(size_t count)
{
    return (float *)device_allocate(count * sizeof(float));
}

static inline cublasHandle_t
blas_create(cudaStream_t stream)
{
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    return blas;
}

/* ---- launches: LAUNCH(kernel, count, stream)(arguments...), one thread for each of `count` elements ---- */

enum { THREADS = 64 };

static inline unsigned
blocks_for(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

#ifdef MATRIX_DRIVER

/* One launch; the call is written as a launch is, with the arguments behind it. Its form changes from launch to launch.
 */
template <typename... Parameters> struct driver_launch {
    void (*kernel)(Parameters...);
    unsigned blocks;
    cudaStream_t stream;

    template <typename T> static void pack(char *buffer, size_t *bytes, const T &value)
    {
        *bytes = (*bytes + alignof(T) - 1) / alignof(T) * alignof(T);
        memcpy(buffer + *bytes, &value, sizeof(T));
        *bytes += sizeof(T);
    }

    void operator()(Parameters... values) const
    {
        static __thread unsigned form;
        void *params[] = {&values...};
        CUfunction function;
        CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)kernel));
        switch (++form % 3) {
        case 0:
            CHECK(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
            break;
        case 1: {
            CUlaunchConfig config = {};
            config.gridDimX = blocks;
            config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
            config.blockDimX = THREADS;
            config.hStream = stream;
            CUkernel handle; /* may stand where a CUfunction is wanted */
            CHECK(cudaGetKernel((cudaKernel_t *)&handle, (const void *)kernel));
            CHECK(cuLaunchKernelEx(&config, (CUfunction)handle, params, NULL));
            break;
        }
        default: {
            char buffer[4096];
            size_t bytes = 0;
            int each[] = {(pack(buffer, &bytes, values), 0)...};
            void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                             CU_LAUNCH_PARAM_END};
            (void)each;
            CHECK(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, NULL, extra));
            break;
        }
        }
    }
};

template <typename... Parameters>
static driver_launch<Parameters...>
driver_launcher(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream)
{
    return {kernel, blocks, stream};
}

#define LAUNCH(kernel, count, stream) driver_launcher(kernel, blocks_for(count), stream)

#else

#define LAUNCH(kernel, count, stream) kernel<<<blocks_for(count), THREADS, 0, stream>>>

#endif

/* ---- items to train on: the same numbers for every world, by the item's own number ---- */

/* In [-1, 1). */
static float
noise(unsigned salt, unsigned number)
{
    unsigned x = (options.seed * 31u + salt) * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x & 0xffffu) / 32768.0f - 1.0f;
}

/* Device memory with `count` weights of noise around 0, of a matrix with `inputs` columns: activations keep their size.
 */
static inline float *
weights_create(unsigned salt, size_t count, int inputs)
{
    float *weights = device_floats(count), *host = (float *)malloc(count * sizeof(float));
    for (size_t i = 0; i < count; ++i)
        host[i] = 2.0f * noise(1000 + salt, (unsigned)i) / sqrtf((float)inputs);
    device_upload(weights, host, count * sizeof(float), 0);
    device_wait();
    free(host);
    return weights;
}

/* Every item has a place of its own, on the host and on the device: no copy waits for the use of the one before. */
struct items {
    int inputs, outputs; /* floats of an item */
    float *host_inputs, *host_targets, *device_inputs, *device_targets;
};

static inline void
items_create(struct items *items, size_t count, int inputs, int outputs)
{
    items->inputs = inputs;
    items->outputs = outputs;
    items->host_inputs = (float *)pinned_allocate(count * (size_t)inputs * sizeof(float));
    items->host_targets = (float *)pinned_allocate(count * (size_t)outputs * sizeof(float));
    items->device_inputs = device_floats(count * (size_t)inputs);
    items->device_targets = device_floats(count * (size_t)outputs);
}

/* Brings items first to first + count - 1 to the device, in the order of `stream`. */
static inline void
items_load(const struct items *items, size_t first, size_t count, cudaStream_t stream)
{
    size_t inputs = (size_t)items->inputs, outputs = (size_t)items->outputs;
    for (size_t n = first; n < first + count; ++n) {
        float *x = items->host_inputs + n * inputs, *y = items->host_targets + n * outputs;
        for (size_t i = 0; i < inputs; ++i)
            x[i] = noise(1, (unsigned)(n * inputs + i));
        for (size_t i = 0; i < outputs; ++i)
            y[i] = 0.5f * noise(2, (unsigned)i) * x[i % inputs] + 0.25f * x[(i + 1) % inputs];
    }
    device_upload(items->device_inputs + first * inputs, items->host_inputs + first * inputs,
                  count * inputs * sizeof(float), stream);
    device_upload(items->device_targets + first * outputs, items->host_targets + first * outputs,
                  count * outputs * sizeof(float), stream);
}

/* ---- the record: every parameter after every step ---- */

enum { RECORDED_AT_MOST = 64 };

struct recorded {
    char name[16];
    const float *values;
    size_t count;
    float *history; /* device: [steps][count] */
};

static struct recorded record[RECORDED_AT_MOST];
static int record_count;

static inline void
record_add(const char *letter, int number, const float *values, size_t count)
{
    check(record_count < RECORDED_AT_MOST, "record_add", __FILE__, __LINE__);
    struct recorded *one = &record[record_count++];
    snprintf(one->name, sizeof(one->name), "%s%d", letter, number);
    one->values = values;
    one->count = count;
    one->history = device_floats((size_t)options.steps * count);
}

/* All parameters as they are now, in the order of `stream`. */
static inline void
record_step(int step, cudaStream_t stream)
{
    for (int i = 0; i < record_count; ++i)
        device_copy(record[i].history + (size_t)step * record[i].count, record[i].values,
                    record[i].count * sizeof(float), stream);
}

/* A parameter that hardly moves would be equal whatever its gradient is: that proves nothing. */
static inline void
require_movement(const char *name, const float *before, const float *after, size_t count)
{
    float moved = 0.0f, largest = 0.0f;
    for (size_t i = 0; i < count; ++i) {
        moved = fmaxf(moved, fabsf(after[i] - before[i]));
        largest = fmaxf(largest, fabsf(after[i]));
    }
    if (!(moved > 1e-3f * largest)) {
        fprintf(stderr, "parameter %s hardly moves: at most %g from step to step, values up to %g\n", name,
                (double)moved, (double)largest);
        exit(1);
    }
}

/* Waits for the device and writes --save: one tensor NAME@STEP for each parameter and step. */
static inline void
record_save(void)
{
    device_wait();
    if (options.save == NULL)
        return;
    size_t count = (size_t)record_count * (size_t)options.steps;
    struct parameter *all = (struct parameter *)calloc(count, sizeof(*all));
    for (size_t i = 0; i < count; ++i) {
        const struct recorded *one = &record[i % (size_t)record_count];
        size_t step = i / (size_t)record_count;
        snprintf(all[i].name, sizeof(all[i].name), "%s@%d", one->name, (int)step + 1);
        all[i].count = one->count;
        all[i].values = (float *)malloc(one->count * sizeof(float));
        device_download(all[i].values, one->history + step * one->count, one->count * sizeof(float));
        if (step == (size_t)options.steps - 1 && step > 0)
            require_movement(one->name, all[i - (size_t)record_count * step].values, all[i].values, one->count);
    }
    check(parameter_file_write(options.save, DDP_RANK(), all, count) == 0, "saving", __FILE__, __LINE__);
    for (size_t i = 0; i < count; ++i)
        free(all[i].values);
    free(all);
}

#endif
