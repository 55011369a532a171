/*
 * clips.cu - trainers some of whose steps do more or less than others. Gradients are sums of whole numbers; the host
 * makes the same sums for all ranks, and the program's exit code is 0 only if each weight is right after each step.
 *
 *     clips MODE [STEPS]
 *
 * What differs stands between DDP_STEP and the update, and the steps overlap: scale: every third step scales the
 * gradients; late: only from step 20 on; norm: each step reads them, every second one scales them; kernel: as scale,
 * and a kernel fills in the zeros; state: as kernel, and updates go through a state; copy: a copy does; start: zeros
 * come at the step's start; gemm: a product with beta = 0 writes them, cuBLAS scales them; device: the same with alpha
 * and beta in device memory; side: scaling and zeros on a stream of their own; passes: three passes accumulate; groups:
 * two groups in one buffer, which one memset clears; graph: zeros and backward are a CUDA graph; logs: rank 0 copies
 * gradients to the host now and then.
 *
 * What differs is the rest of the step, and such steps do not overlap: twice: zeros are filled in twice, now and then;
 * missing: not at all; part: in two parts; again: every third step makes backward, zeros, backward; before: gradients
 * are scaled in front of DDP_STEP in every second step; skip: every fourth step makes no update, and later some of
 * these have two passes; branch: every third step has one more kernel in backward, in front of the last, and later
 * after it; both: later steps read the gradients in front of the update, and have one more kernel at the end.
 *
 * Misuse: behind: the kernel that scales in front of the update comes after backward in step 30; filled: as again, but
 * only in step 30.
 */
#include "common.h"
#include "kernels.h"

#include <cublas_v2.h>

enum {
    GRADIENTS = 4,
    COUNT = 1024,
    THREADS = 128,
    BLOCKS = COUNT / THREADS,
    STEPS = 48,
    LEARNED = 20,
    RANKS_AT_MOST = 8
};

static float *weight[GRADIENTS], *gradient[GRADIENTS], *zeros, *values, *sum, *scalars, *state; /* on the device */
static double right_weight[GRADIENTS], right_gradient[GRADIENTS][RANKS_AT_MOST];
static cudaStream_t stream, side;
static cudaEvent_t event;
static cublasHandle_t blas;

ELEMENTWISE_OF_ALL(scale, (float *values, float factor), values[i] *= factor)
ELEMENTWISE_OF_ALL(add_more, (float *values, float summand), values[i] += summand)
ELEMENTWISE_OF_ALL(clear, (float *values), values[i] = 0.0f)
ELEMENTWISE_OF_ALL(hold, (float *state, const float *values), state[i] = values[i])

ELEMENTWISE(read_first, (float *sum, const float *values), 1, *sum = values[i])

/* ---- what a step consists of: on the device, and on the host for all ranks ---- */

static void
scale_all(int first, int end)
{
    const float half = 0.5f;
    cudaStream_t on = is_mode("side") ? side : stream;
    if (on == side)
        stream_follow(stream, side, event);
    for (int k = first; k < end; ++k) {
        if (is_mode("gemm"))
            CHECK(cublasSscal(blas, COUNT, &half, gradient[k], 1));
        else if (is_mode("device"))
            CHECK(cublasSscal(blas, COUNT, &scalars[2], gradient[k], 1));
        else
            scale<<<BLOCKS, THREADS, 0, on>>>(gradient[k], half);
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            right_gradient[k][r] *= half;
    }
    if (on == side)
        stream_follow(side, stream, event);
}

static void
read_all(void)
{
    for (int k = 0; k < GRADIENTS; ++k)
        read_first<<<1, 1, 0, stream>>>(sum, gradient[k]);
}

static void
note_zeros(void)
{
    memset(right_gradient, 0, sizeof(right_gradient));
}

static void
clear_one(int k, cudaStream_t on)
{
    if (is_mode("kernel") || is_mode("state"))
        clear<<<BLOCKS, THREADS, 0, on>>>(gradient[k]);
    else if (is_mode("copy"))
        CHECK(cudaMemcpyAsync(gradient[k], zeros, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, on));
    else
        CHECK(cudaMemsetAsync(gradient[k], 0, COUNT * sizeof(float), on));
}

static void
clear_all(void)
{
    cudaStream_t on = is_mode("side") ? side : stream;
    note_zeros();
    if (is_mode("gemm") || is_mode("device")) /* backward does */
        return;
    if (on == side)
        stream_follow(stream, side, event);
    if (is_mode("groups"))
        CHECK(cudaMemsetAsync(gradient[0], 0, GRADIENTS * COUNT * sizeof(float), on));
    for (int k = 0; k < GRADIENTS && !is_mode("groups"); ++k)
        clear_one(k, on);
    if (on == side)
        stream_follow(side, stream, event);
}

static void
clear_parts(void)
{
    for (int k = 0; k < GRADIENTS; ++k) {
        CHECK(cudaMemsetAsync(gradient[k], 0, COUNT * sizeof(float) / 2, stream));
        CHECK(cudaMemsetAsync(gradient[k] + COUNT / 2, 0, COUNT * sizeof(float) / 2, stream));
    }
    note_zeros();
}

/* Each gradient gets what is `mine()` times its number. */
static void
backward_one(int k)
{
    const float one = mine() * (float)(k + 1), zero = 0.0f;
    if (is_mode("gemm"))
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, COUNT, 1, 1, &one, values, COUNT, values, 1, &zero,
                          gradient[k], COUNT));
    else if (is_mode("device"))
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, COUNT, 1, 1, &scalars[3 + k], values, COUNT, values, 1,
                          &scalars[0], gradient[k], COUNT));
    else
        add<<<BLOCKS, THREADS, 0, stream>>>(gradient[k], one);
}

static void
note_backward(double factor)
{
    for (int k = 0; k < GRADIENTS; ++k) {
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            right_gradient[k][r] += factor * (1.0 + r) * (k + 1);
    }
}

static void
backward(void)
{
    for (int k = GRADIENTS - 1; k >= 0; --k)
        backward_one(k);
    note_backward(1.0);
}

static void
backward_more(void)
{
    for (int k = GRADIENTS - 1; k >= 0; --k)
        add_more<<<BLOCKS, THREADS, 0, stream>>>(gradient[k], 2.0f * mine() * (float)(k + 1));
    note_backward(2.0);
}

static void
average(int first, int end)
{
    DDP_STEP_GROUP(first > 0, stream);
    for (int k = first; k < end; ++k) {
        double mean = 0.0;
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            mean += right_gradient[k][r] / DDP_WORLD_SIZE();
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            right_gradient[k][r] = mean;
    }
}

static void
update_all(void)
{
    for (int k = 0; k < GRADIENTS; ++k) {
        if (is_mode("state"))
            hold<<<BLOCKS, THREADS, 0, stream>>>(state, gradient[k]);
        update<<<BLOCKS, THREADS, 0, stream>>>(weight[k], is_mode("state") ? state : gradient[k]);
        right_weight[k] -= 0.5 * right_gradient[k][DDP_RANK()];
    }
}

static void
require_equal(const float *device, double right)
{
    static float found[COUNT];
    CHECK(cudaMemcpyAsync(found, device, sizeof(found), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < COUNT; ++i)
        REQUIRE(found[i] == (float)right);
}

/* ---- steps ---- */

static bool
is_now_and_then(int step)
{
    return step > LEARNED && step % 5 == 0;
}

/* Zeros and backward, launched as a graph. */
static void
launch_graph(void)
{
    static cudaGraphExec_t graph;
    if (graph == NULL)
        graph = graph_make(stream, [] {
            clear_all();
            for (int k = GRADIENTS - 1; k >= 0; --k)
                backward_one(k);
        });
    CHECK(cudaGraphLaunch(graph, stream));
    note_zeros();
    note_backward(1.0);
}

/* From where gradients are averages to where the next backward pass begins. */
static void
run_update(int step)
{
    bool now_and_then = is_now_and_then(step);
    bool skips = is_mode("skip") && step % 4 == 3;
    if (is_mode("norm") || (is_mode("both") && now_and_then))
        read_all();
    if (is_mode("logs") && DDP_RANK() == 0 && step % 5 == 4)
        require_equal(gradient[0], right_gradient[0][0]);
    if (step % (is_mode("norm") ? 2 : 3) == 0 && (step > LEARNED || !is_mode("late")) &&
        is_one_of({"scale", "late", "norm", "kernel", "state", "copy", "start", "gemm", "device", "side", "passes",
                   "groups", "graph", "behind"}))
        scale_all(0, is_mode("groups") ? GRADIENTS / 2 : GRADIENTS);
    if (!skips)
        update_all();
    if (is_mode("graph") || is_mode("start") || (is_mode("missing") && now_and_then))
        return;
    if (is_mode("part") && now_and_then)
        clear_parts();
    else
        clear_all();
    if (is_mode("twice") && now_and_then)
        clear_all();
}

static void
run_backward(int step)
{
    bool again = is_mode("again") ? step % 3 == 1 : is_mode("filled") && step == 30;
    bool branches = is_mode("branch") && step % 3 == 1, behind = step > LEARNED;
    bool reads = is_mode("both") && is_now_and_then(step - 1);
    if (is_mode("graph")) {
        launch_graph();
        return;
    }
    if (is_mode("start") || step == 0)
        clear_all();
    if (branches && !behind)
        backward_more();
    for (int pass = 0; pass < (is_mode("passes") ? 3 : 1); ++pass)
        backward();
    if (again)
        clear_all();
    if (again || (is_mode("skip") && step > LEARNED && step % 8 == 4))
        backward();
    if ((branches && behind) || reads)
        backward_more();
    if ((is_mode("before") && step % 2 == 0) || (is_mode("behind") && step == 30))
        scale_all(0, GRADIENTS);
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "scale";
    int steps = argc > 2 ? atoi(argv[2]) : STEPS;
    float numbers[3 + GRADIENTS] = {0.0f, 1.0f, 0.5f}, ones[COUNT], *all;
    stream = stream_create();
    side = stream_create();
    event = event_create();
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    CHECK(cublasSetPointerMode(blas, is_mode("device") ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    all = device_floats((2 * GRADIENTS + 5) * COUNT);
    for (int i = 0; i < COUNT; ++i)
        ones[i] = 1.0f;
    for (int k = 0; k < GRADIENTS; ++k) {
        gradient[k] = all + k * COUNT;
        weight[k] = all + (GRADIENTS + k) * COUNT;
        numbers[3 + k] = mine() * (float)(k + 1);
        DDP_PARAMETER(weight[k], COUNT, DDP_FLOAT32);
        DDP_GRADIENT_GROUP(is_mode("groups") && k >= GRADIENTS / 2);
        DDP_GRADIENT(gradient[k], COUNT, DDP_FLOAT32);
    }
    zeros = all + 2 * GRADIENTS * COUNT;
    values = zeros + COUNT;
    sum = values + COUNT;
    scalars = sum + COUNT;
    state = scalars + COUNT;
    if (is_mode("state"))
        DDP_STATE(state, COUNT, DDP_FLOAT32);
    CHECK(cudaMemcpy(values, ones, sizeof(ones), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(scalars, numbers, sizeof(numbers), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());

    for (int step = 0; step < steps; ++step) {
        run_backward(step);
        average(0, is_mode("groups") ? GRADIENTS / 2 : GRADIENTS);
        if (is_mode("groups"))
            average(GRADIENTS / 2, GRADIENTS);
        run_update(step);
        for (int k = 0; k < GRADIENTS; ++k)
            require_equal(weight[k], right_weight[k]);
    }
    return 0;
}
