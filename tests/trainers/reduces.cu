/*
 * reduces.cu - a program that calls DDP_REDUCE, knows what every element must become, and has exit code 0 only if it
 * does. Modes:
 *   types: every type with every operation that it has, in device memory; integers that no float holds
 *   order: kernels before and after it, on several streams; the host does not wait
 *   host: pageable, pinned and managed memory, that another stream writes; more than is staged at once
 *   training: reductions of a loss amid backward, of device and of host memory, while buckets leave early; the last
 *     rank's steps are not as those before now and then
 *   steady: many calls of a few kinds, for runs that are looked at from outside
 *   centres: a parameter that the program changes by reductions alone, without a DDP_STEP
 *   zero: counts of 0, with a null pointer
 * Modes that end the job: mean-of-integers, no-type, no-operation, byte, null, beyond, gradient, captured, not-ours,
 * and those of wrong_calls[]; centres-differ: as centres, and the last rank adds to its parameter at the end; and by
 * ranks that differ: count, kind, place, swapped, at-steps, one-knows, fewer, other-call
 */
#include "common.h"
#include "kernels.h"

#include <atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <type_traits>
#include <unistd.h>

enum { COUNT = 1000, THREADS = 50, BLOCKS = COUNT / THREADS, LAYERS = 4, STEPS = 24 };

static int rank, ranks;

static bool
is_last(void)
{
    return ranks > 1 && rank == ranks - 1;
}

/* ---- types ---- */

/* What a rank holds. Whole numbers beyond what a float of the same size holds, of both signs where there are two;
 * floating types get numbers from 1 to 63, which are exact in all of these, and so is a quarter of them. */
template <typename T, typename Wide>
static T
value_of(int r, size_t i)
{
    if (std::is_same<Wide, float>::value)
        return (T)(float)(1 + (int)((i + 5 * (size_t)r) % 12));
    uint64_t value = (UINT64_C(1) << (8 * sizeof(T) - 6)) + 3 * i + 7 * (size_t)r;
    return (T)(Wide)(i % 3 == 1 ? 0 - value : value);
}

template <typename T, typename Wide>
static T
expected_of(int op, size_t i)
{
    T result = value_of<T, Wide>(0, i);
    for (int r = 1; r < ranks; ++r) {
        T next = value_of<T, Wide>(r, i);
        if (op == DDP_OP_SUM || op == DDP_OP_MEAN)
            result = (T)((Wide)result + (Wide)next);
        else if (((Wide)next < (Wide)result) == (op == DDP_OP_MIN))
            result = next;
    }
    return op == DDP_OP_MEAN ? (T)((Wide)result / (Wide)ranks) : result;
}

/* Wide: what is computed with: a float, or the type itself, of which there is no mean. */
template <typename T, typename Wide>
static void
check_type(const char *name, int type)
{
    T mine[COUNT], found[COUNT];
    for (size_t i = 0; i < COUNT; ++i)
        mine[i] = value_of<T, Wide>(rank, i);
    for (int op = DDP_OP_SUM; op <= DDP_OP_MAX; ++op) {
        if (op == DDP_OP_MEAN && !std::is_same<Wide, float>::value)
            continue;
        T *memory = device_copy(mine, COUNT);
        DDP_REDUCE(memory, COUNT, type, op, 0);
        CHECK(cudaMemcpy(found, memory, sizeof(found), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < COUNT; ++i) {
            T wanted = expected_of<T, Wide>(op, i);
            if (memcmp(&found[i], &wanted, sizeof(T)) == 0)
                continue;
            fprintf(stderr, "reduces: %s, operation %d: element %zu is wrong on rank %d\n", name, op, i, rank);
            exit(1);
        }
        CHECK(cudaFree(memory));
    }
}

MODE("types", reduce_types, int)
{
    check_type<int32_t, int32_t>("int32", DDP_INT32);
    check_type<int64_t, int64_t>("int64", DDP_INT64);
    check_type<uint32_t, uint32_t>("uint32", DDP_UINT32);
    check_type<uint64_t, uint64_t>("uint64", DDP_UINT64);
    check_type<float, float>("float32", DDP_FLOAT32);
    check_type<double, float>("float64", DDP_FLOAT64);
    check_type<__half, float>("float16", DDP_FLOAT16);
    check_type<__nv_bfloat16, float>("bfloat16", DDP_BFLOAT16);
}

/* ---- in the order of a stream ---- */

static std::atomic<int> let_go;

static void
hold(void *unused)
{
    (void)unused;
    while (!let_go.load())
        usleep(100);
}

static float
sum_of_ranks(float first, float each)
{
    return (float)ranks * first + each * (float)(ranks * (ranks - 1)) / 2.0f;
}

static void
require_floats(const char *what, const float *found, size_t count, float wanted)
{
    for (size_t i = 0; i < count; ++i) {
        if (found[i] == wanted)
            continue;
        fprintf(stderr, "reduces: %s: element %zu is %g, not %g, on rank %d\n", what, i, (double)found[i],
                (double)wanted, rank);
        exit(1);
    }
}

static void
require_device_floats(const char *what, const float *memory, float wanted)
{
    float found[COUNT];
    CHECK(cudaMemcpy(found, memory, sizeof(found), cudaMemcpyDeviceToHost));
    require_floats(what, found, COUNT, wanted);
}

MODE("order", reduce_in_order, int)
{
    cudaStream_t streams[2] = {stream_create(), stream_create()};
    cudaEvent_t event = event_create();
    float *memory = device_floats(COUNT), *copy = device_floats(COUNT);
    for (int turn = 0; turn < 20; ++turn) {
        cudaStream_t stream = streams[turn % 2];
        let_go =
            turn == 0; /* the first call is compared: the host waits for the other ranks, whatever the stream does */
        CHECK(cudaLaunchHostFunc(stream, hold, NULL));
        CHECK(cudaMemsetAsync(memory, 0, COUNT * sizeof(float), stream));
        add<<<BLOCKS, THREADS, 0, stream>>>(memory, (float)(turn + rank));
        DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, stream);
        add<<<BLOCKS, THREADS, 0, stream>>>(memory, 1.0f);
        let_go = 1; /* had the host waited for the stream, it would not come here */
        CHECK(cudaMemcpyAsync(copy, memory, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, stream));
        stream_follow(stream, streams[(turn + 1) % 2], event);
        CHECK(cudaStreamSynchronize(streams[(turn + 1) % 2]));
        require_device_floats("in the order of the stream", copy, sum_of_ranks((float)turn, 1.0f) + 1.0f);
    }
}

/* ---- memory that the host reads ---- */

static void
reduce_here(const char *what, float *memory, size_t count)
{
    static float *source;
    static cudaStream_t other;
    if (source == NULL) {
        source = device_floats(COUNT);
        other = stream_create();
    }
    for (int turn = 0; turn < 5; ++turn) {
        for (size_t i = 0; i < count; ++i)
            memory[i] = (float)(turn + rank);
        CHECK(cudaMemsetAsync(source, 0, COUNT * sizeof(float), other));
        for (int k = 0; k < 10; ++k)
            add<<<BLOCKS, THREADS, 0, other>>>(source, (float)rank);
        CHECK(cudaMemcpyAsync(memory, source, COUNT * sizeof(float), cudaMemcpyDefault, other));
        DDP_REDUCE(memory, count, DDP_FLOAT32, DDP_OP_SUM, 0);
        if (ranks == 1)
            CHECK(cudaDeviceSynchronize()); /* nothing is waited for there */
        require_floats(what, memory, COUNT, sum_of_ranks(0.0f, 10.0f));
        require_floats(what, memory + COUNT, count - COUNT, sum_of_ranks((float)turn, 1.0f));
    }
}

MODE("host", reduce_of_the_host, int)
{
    enum { LARGE = (20 << 20) / sizeof(float) + 7 };
    float *pageable = (float *)malloc(LARGE * sizeof(float)), *pinned, *managed;
    int64_t total = (int64_t)1 << 54 | (rank + 1); /* which no double holds with its last bit */
    int64_t sum = 0;
    for (int r = 0; r < ranks; ++r)
        sum += (int64_t)1 << 54 | (r + 1);
    DDP_REDUCE(&total, 1, DDP_INT64, DDP_OP_SUM, 0); /* before all device memory */
    REQUIRE(total == sum);
    CHECK(cudaMallocHost((void **)&pinned, 2 * COUNT * sizeof(float)));
    CHECK(cudaMallocManaged((void **)&managed, 2 * COUNT * sizeof(float)));
    reduce_here("pageable memory", pageable, LARGE);
    reduce_here("pinned memory", pinned, 2 * COUNT);
    reduce_here("managed memory", managed, 2 * COUNT);
    free(pageable);
}

/* ---- beside a training ---- */

MODE("training", reduce_in_training, int)
{
    float *weights[LAYERS], *gradients[LAYERS], *loss = device_floats(COUNT), host_loss;
    cudaStream_t stream = stream_create();
    float expected = 0;
    for (int l = 0; l < LAYERS; ++l) {
        weights[l] = device_floats(COUNT);
        gradients[l] = device_floats(COUNT);
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    }
    for (int step = 0; step < STEPS; ++step) {
        for (int l = LAYERS - 1; l >= 0; --l) {
            if (l == LAYERS - 1 && !(step > 10 && step % 4 == 0 && is_last())) /* a touch less: not as learned */
                add<<<BLOCKS, THREADS, 0, stream>>>(gradients[0], 0.0f);
            add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], (float)(2 + 4 * rank));
            if (l == LAYERS / 2) {
                CHECK(cudaMemsetAsync(loss, 0, COUNT * sizeof(float), stream));
                add<<<BLOCKS, THREADS, 0, stream>>>(loss, (float)(step + rank));
                DDP_REDUCE(loss, COUNT, DDP_FLOAT32, DDP_OP_SUM, stream);
            }
        }
        host_loss = (float)(step + rank);
        if (step % 3 == 0)
            DDP_REDUCE(&host_loss, 1, DDP_FLOAT32, DDP_OP_MAX, stream);
        DDP_STEP(stream);
        for (int l = 0; l < LAYERS; ++l) {
            update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
            CHECK(cudaMemsetAsync(gradients[l], 0, COUNT * sizeof(float), stream));
        }
        CHECK(cudaStreamSynchronize(stream));
        require_device_floats("amid backward", loss, sum_of_ranks((float)step, 1.0f));
        require_floats("the host's amid training", &host_loss, 1, (float)(step + (step % 3 == 0 ? ranks - 1 : rank)));
        expected -= 0.5f * sum_of_ranks(2.0f, 4.0f) / (float)ranks;
    }
    for (int l = 0; l < LAYERS; ++l)
        require_device_floats("weights", weights[l], expected);
}

/* Alternate calls of a loop with few of them, which the last rank makes in another order from number 4 on; the training
 * goes on until it is ended. */
MODE("at-steps", reduce_between_steps, int)
{
    float *memory[] = {device_floats(COUNT), device_floats(COUNT), device_floats(COUNT)};
    DDP_PARAMETER(memory[0], COUNT, DDP_FLOAT32);
    DDP_GRADIENT(memory[1], COUNT, DDP_FLOAT32);
    for (int step = 0; step < 12; ++step) {
        add<<<BLOCKS, THREADS>>>(memory[1], 1.0f);
        if (step % 2 == (step >= 3 && is_last()))
            DDP_REDUCE(memory[2], COUNT, DDP_FLOAT32, DDP_OP_SUM, 0);
        else
            DDP_REDUCE(memory[2], COUNT, DDP_FLOAT32, DDP_OP_SUM, 0); /* at another place */
        DDP_STEP(0);
        update<<<BLOCKS, THREADS>>>(memory[0], memory[1]);
    }
    for (;;)
        pause();
}

/* ---- without a training ---- */

MODE("steady", reduce_steadily, int calls)
{
    float *memory = device_floats(COUNT);
    for (int call = 0; call < calls; ++call) {
        CHECK(cudaMemset(memory, 0, COUNT * sizeof(float)));
        add<<<BLOCKS, THREADS>>>(memory, (float)(call % 100 + rank));
        DDP_REDUCE(memory, COUNT, call % 2 == 0 ? DDP_FLOAT32 : DDP_INT32, call % 2 == 0 ? DDP_OP_SUM : DDP_OP_MAX, 0);
    }
    if (calls % 2 == 1)
        require_device_floats("many calls", memory, sum_of_ranks((float)((calls - 1) % 100), 1.0f));
}

MODE("centres", move_centres, int)
{
    float *centres = device_floats(COUNT);
    DDP_PARAMETER(centres, COUNT, DDP_FLOAT32);
    for (int turn = 1; turn <= 40; ++turn) {
        add<<<BLOCKS, THREADS>>>(centres, (float)(1 + rank));
        DDP_REDUCE(centres, COUNT, DDP_FLOAT32, DDP_OP_MEAN, 0);
    }
    require_device_floats("centres", centres, 40.0f * sum_of_ranks(1.0f, 1.0f) / (float)ranks);
    if (is_mode("centres-differ") && is_last())
        add<<<BLOCKS, THREADS>>>(centres, 1.0f);
}

static const mode_of<void(int)> centres_differ("centres-differ", move_centres);

MODE("zero", reduce_nothing, int)
{
    for (int i = 0; i < 3; ++i)
        DDP_REDUCE(NULL, 0, DDP_FLOAT32, DDP_OP_SUM, 0);
    float *memory = device_floats(COUNT);
    DDP_REDUCE(memory, 0, DDP_INT32, DDP_OP_MAX, 0);
    add<<<BLOCKS, THREADS>>>(memory, 1.0f);
    DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, 0);
    require_device_floats("after counts of 0", memory, (float)ranks);
}

/* ---- what ends the job ---- */

MODE("captured", reduce_captured, float *memory)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, stream);
}

MODE("gradient", reduce_in_gradient, float *memory)
{
    DDP_GRADIENT(memory, COUNT, DDP_FLOAT32);
    DDP_REDUCE(memory + 3, 4, DDP_FLOAT32, DDP_OP_SUM, 0);
}

MODE("kind", reduce_of_a_kind, float *memory)
{
    DDP_REDUCE(memory, COUNT, is_last() ? DDP_INT32 : DDP_FLOAT32, is_last() ? DDP_OP_MAX : DDP_OP_SUM, 0);
}

MODE("other-call", reduce_or_mean, float *memory)
{
    float value = 1;
    if (is_last())
        DDP_MEAN(&value);
    else
        DDP_REDUCE(memory, 4, DDP_FLOAT32, DDP_OP_SUM, 0);
}

MODE("any-or-mean", any_or_mean, float *)
{
    float value = 1;
    int flag = 0;
    if (is_last())
        DDP_MEAN(&value);
    else
        DDP_ANY(&flag);
}

MODE("any-in-part", any_in_part, float *)
{
    int flag = 0;
    if (!is_last())
        DDP_ANY(&flag);
}

MODE("any-or-step", any_or_step, float *memory)
{
    int flag = 0;
    DDP_PARAMETER(memory, COUNT / 2, DDP_FLOAT32);
    DDP_GRADIENT(memory + COUNT / 2, COUNT / 2, DDP_FLOAT32);
    if (is_last())
        DDP_STEP(0);
    else
        DDP_ANY(&flag);
}

/* Both kinds are known to all ranks, when the last one makes its calls in another order: from number 21 on. */
MODE("swapped", reduce_swapped, float *memory)
{
    for (int call = 0; call < 40; ++call) {
        bool first = call % 2 == (call >= 20 && is_last());
        if (first)
            DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, 0);
        else
            DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, 0); /* at another place */
    }
}

/* A rank compares a call, and the other makes one that was compared long ago. */
MODE("one-knows", reduce_alone, float *memory)
{
    for (int call = 0; call < 10; ++call)
        DDP_REDUCE(memory, call == 7 && rank == 0 ? COUNT - 1 : COUNT, DDP_FLOAT32, DDP_OP_SUM, 0);
    CHECK(cudaDeviceSynchronize());
}

MODE("fewer", reduce_one_by_one, float *memory) /* fewer: all the same, but not as many */
{
    int calls = is_last() ? 7 : 9;
    for (int call = 0; call < calls; ++call)
        DDP_REDUCE(memory, COUNT, DDP_FLOAT32, DDP_OP_SUM, 0);
}

static const uintptr_t nowhere = 0x10000;
static const float constants[4] = {1, 2, 3, 4};
static float here[4], *nothing;
static size_t *no_sizes;
static int *no_flag;

static const mode_of<void(float *)> wrong_calls[] = {
    {"mean-of-integers", [](float *memory) { DDP_REDUCE(memory, COUNT, DDP_INT32, DDP_OP_MEAN, 0); }},
    {"no-type", [](float *memory) { DDP_REDUCE(memory, COUNT, 77, DDP_OP_SUM, 0); }},
    {"no-operation", [](float *memory) { DDP_REDUCE(memory, COUNT, DDP_FLOAT32, 5, 0); }},
    {"byte", [](float *memory) { DDP_REDUCE(memory, COUNT, DDP_UINT8, DDP_OP_SUM, 0); }},
    {"null", [](float *) { DDP_REDUCE(nothing, COUNT, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    {"beyond", [](float *memory) { DDP_REDUCE(memory, 2 * COUNT, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    {"not-ours", [](float *) { DDP_REDUCE((void *)(uintptr_t)0x10, 4, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    {"count", [](float *memory) { DDP_REDUCE(memory, is_last() ? COUNT - 1 : COUNT, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    {"place", [](float *memory) { DDP_REDUCE(is_last() ? here : memory, 4, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    /* Addresses that lead nowhere, and memory that cannot be written. */
    {"read-only", [](float *) { DDP_REDUCE(constants, 4, DDP_FLOAT32, DDP_OP_SUM, 0); }},
    {"wild-mean", [](float *) { DDP_MEAN((float *)nowhere); }},
    {"read-only-mean", [](float *) { DDP_MEAN((float *)constants); }},
    {"wild-label", [](float *) { DDP_MEAN_AS((const char *)nowhere, &here[0]); }},
    {"null-any", [](float *) { DDP_ANY(no_flag); }},
    {"any-on-device", [](float *memory) { DDP_ANY((int *)memory); }},
    {"wild-any", [](float *) { DDP_ANY((int *)nowhere); }},
    {"null-shard", [](float *) { DDP_SHARD(8, no_sizes, no_sizes); }},
};

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "types";
    rank = DDP_RANK();
    ranks = DDP_WORLD_SIZE();
    CHECK(cudaFree(0));
    if (mode_of<void(int)>::given() != NULL)
        mode_of<void(int)>::given()(argc > 2 ? atoi(argv[2]) : 100);
    if (mode_of<void(float *)>::given() != NULL)
        mode_of<void(float *)>::given()(device_floats(COUNT));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
