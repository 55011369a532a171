/*
 * fused.cu - trainers that update their parameters inside backward, without gradient buffers, and average them by
 * DDP_STEP_PARAMETERS. A network of LAYERS square layers with tanh learns a fixed function; SGD.
 *
 *     fused MODE [--steps N] [--save FILE] [--every K] [--sync 1] [--forget 1] [--leave 1|2]
 *
 * gemm: updates are gemms with beta = 1 into the weights; kernels: kernels of its own; updated: as gemm, but each
 * layer's input gradient is computed after its weights have changed; momentum: kernels that update velocities
 * (DDP_STATE) and count their calls (a DDP_STATE of integers); mixed: weights have gradients and DDP_STEP, biases are
 * updated inside backward and are group 1; graph: forward and backward are a CUDA graph; weighted: DDP_WEIGHT, for
 * ranks that do not divide the batch; streams: kernels, and biases are updated on a stream of their own, which
 * DDP_STEP_PARAMETERS does not name; evaluates: a forward pass before every third step; whole: as kernels, and one
 * kernel updates a layer's weights and computes the gradient of its input
 * local: weights have gradients, which are not annotated. --every K: averages after every K-th step only; --sync 1:
 * also at the end. --forget 1: momentum's velocities are not annotated. --leave 1: parameters are forgotten at the end;
 * 2: after rank 1 has changed one. Misuse: step: DDP_STEP; gradients: both for
 * group 0, which has gradients; both: DDP_STEP after DDP_STEP_PARAMETERS; empty: of a group without parameters;
 * forgotten: biases are a group that is never stepped; captured: in a capture; unstepped: rank 1 leaves out a step;
 * no-sync: between DDP_NO_SYNC_BEGIN and its end
 */
#include "../lib/trainer_net.h"
#include "../lib/trainer_options.h"
#include "../lib/trainer_save.h"
#include "common.h"

enum { LAYERS = 4, WIDTH = 32, SQUARE = WIDTH * WIDTH, BATCH = 24, STEPS = 100 };

static const float rate = 0.5f;
static float *weight[LAYERS], *bias[LAYERS], *velocity[LAYERS], *gradient[LAYERS];
static float *values[LAYERS + 1], *deltas[LAYERS + 1], *target; /* [WIDTH * BATCH] */
static int *calls;
static cublasHandle_t blas;
static cudaStream_t stream, side;
static cudaEvent_t event;
static size_t first, count; /* this rank's items */
static int steps = STEPS, every = 1, syncs, forgets, leaves;

/* ---- kernels ---- */

__global__ void
update_with_momentum(float *w, float *v, const float *delta, const float *x, float rate, int items)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int b = 0; b < items; ++b)
        sum += delta[b * WIDTH + i / WIDTH] * x[b * WIDTH + i % WIDTH];
    v[i] = 0.5f * v[i] - rate * sum;
    w[i] += v[i];
}

/* One block. What it passes has gone through the tanh of the layer below, whose output is x. */
__global__ void
update_and_pass(float *w, float *passed, const float *delta, const float *x, float rate, int items)
{
    for (int i = (int)threadIdx.x; i < items * WIDTH; i += (int)blockDim.x) {
        float sum = 0;
        for (int j = 0; j < WIDTH; ++j)
            sum += w[j * WIDTH + i % WIDTH] * delta[i / WIDTH * WIDTH + j];
        passed[i] = sum * (1 - x[i] * x[i]);
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < SQUARE; k += (int)blockDim.x) {
        for (int i = 0; i < items; ++i)
            w[k] -= rate * delta[i * WIDTH + k / WIDTH] * x[i * WIDTH + k % WIDTH];
    }
}

__global__ void
count_calls(int *calls)
{
    *calls += 1;
}

/* ---- a step ---- */

static int
uses_gemm(void)
{
    return !is_mode("kernels") && !is_mode("momentum") && !is_mode("streams") && !is_mode("whole");
}

static void
forward(void)
{
    int items = (int)count, n = WIDTH * items;
    if (is_mode("streams"))
        stream_follow(side, stream, event);
    for (int l = 0; l < LAYERS; ++l) {
        if (uses_gemm()) {
            blas_forward(blas, values[l + 1], values[l], weight[l], WIDTH, WIDTH, items);
            add_bias_tanh<<<blocks_for(n), THREADS, 0, stream>>>(values[l + 1], bias[l], WIDTH, items);
        } else {
            dense_forward<<<blocks_for(n), THREADS, 0, stream>>>(values[l + 1], values[l], weight[l], bias[l], WIDTH,
                                                                 WIDTH, items);
        }
    }
}

static void
compute_input_gradient(int l)
{
    int items = (int)count, n = WIDTH * items;
    if (uses_gemm()) {
        blas_input_delta(blas, deltas[l], weight[l], deltas[l + 1], WIDTH, WIDTH, items);
        through_tanh<<<blocks_for(n), THREADS, 0, stream>>>(deltas[l], values[l], n);
    } else {
        input_delta<<<blocks_for(n), THREADS, 0, stream>>>(deltas[l], weight[l], deltas[l + 1], values[l], WIDTH, WIDTH,
                                                           items);
    }
}

static void
update(int l)
{
    const float *delta = deltas[l + 1], *x = values[l];
    int items = (int)count;
    if (uses_gemm() && gradient[l] != NULL)
        blas_weight_gradient(blas, gradient[l], delta, x, WIDTH, WIDTH, items, 0.0f, 1.0f);
    else if (uses_gemm())
        blas_weight_gradient(blas, weight[l], delta, x, WIDTH, WIDTH, items, 1.0f, -rate);
    else if (is_mode("momentum"))
        update_with_momentum<<<SQUARE / THREADS, THREADS, 0, stream>>>(weight[l], velocity[l], delta, x, rate, items);
    else if (is_mode("whole"))
        update_and_pass<<<1, 8, 0, stream>>>(weight[l], deltas[l], delta, x, rate, items);
    else
        weight_gradient<<<SQUARE / THREADS, THREADS, 0, stream>>>(weight[l], delta, x, WIDTH, WIDTH, items, 1.0f,
                                                                  -rate);
    if (is_mode("streams"))
        stream_follow(stream, side, event);
    bias_gradient<<<1, THREADS, 0, is_mode("streams") ? side : stream>>>(bias[l], delta, WIDTH, items, 1.0f, -rate);
}

static void
backward(void)
{
    int n = WIDTH * (int)count;
    loss_delta<<<blocks_for(n), THREADS, 0, stream>>>(deltas[LAYERS], values[LAYERS], target, WIDTH, (int)count);
    for (int l = LAYERS - 1; l >= 0; --l) {
        if (is_mode("updated"))
            update(l);
        if (l > 0 && !is_mode("whole"))
            compute_input_gradient(l);
        if (!is_mode("updated"))
            update(l);
    }
    if (calls != NULL)
        count_calls<<<1, 1, 0, stream>>>(calls);
}

/* This rank's items of a batch; the same numbers whatever the number of ranks. */
static void
load(int step)
{
    static float x[BATCH * WIDTH], y[BATCH * WIDTH];
    DDP_SHARD(BATCH, &first, &count);
    if (is_mode("weighted"))
        DDP_WEIGHT(count, BATCH);
    for (int i = 0; i < BATCH; ++i) {
        for (int k = 0; k < WIDTH; ++k)
            x[i * WIDTH + k] = noise_of((unsigned)step, (unsigned)(i * WIDTH + k));
        for (int k = 0; k < WIDTH; ++k)
            y[i * WIDTH + k] = 0.7f * sinf(x[i * WIDTH + k] - 2 * x[i * WIDTH + (k + 5) % WIDTH]);
    }
    CHECK(cudaMemcpyAsync(values[0], x + first * WIDTH, count * WIDTH * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(target, y + first * WIDTH, count * WIDTH * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void
end_step(int step)
{
    const float minus = -rate;
    if (is_mode("unstepped") && DDP_RANK() == 1 && step == 20)
        return;
    if (is_mode("evaluates") && step % 3 == 0)
        forward();
    if (is_mode("no-sync"))
        DDP_NO_SYNC_BEGIN();
    if (gradient[0] != NULL && !is_mode("gradients") && !is_mode("local"))
        DDP_STEP(stream);
    for (int l = 0; gradient[l] != NULL && l < LAYERS; ++l)
        CHECK(cublasSaxpy(blas, SQUARE, &minus, gradient[l], 1, weight[l], 1));
    if ((step + 1) % every != 0)
        return;
    if (is_mode("step") || (is_mode("both") && step == 10))
        DDP_STEP(stream);
    else if (is_mode("mixed"))
        DDP_STEP_PARAMETERS_GROUP(1, stream);
    else if (is_mode("empty"))
        DDP_STEP_PARAMETERS_GROUP(3, stream);
    else
        DDP_STEP_PARAMETERS(stream);
}

static void
train(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t launched = NULL;
    load(0);
    if (is_mode("graph") || is_mode("captured")) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        forward();
        backward();
        if (is_mode("captured"))
            DDP_STEP_PARAMETERS(stream);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&launched, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    for (int step = 0; step < steps; ++step) {
        load(step);
        if (launched != NULL) {
            CHECK(cudaGraphLaunch(launched, stream));
        } else {
            forward();
            backward();
        }
        end_step(step);
    }
    if (syncs)
        DDP_STEP_PARAMETERS(stream);
    CHECK(cudaDeviceSynchronize());
    if (launched != NULL)
        CHECK(cudaGraphExecDestroy(launched));
}

/* ---- all of it ---- */

static float *
make(size_t elements, float scale)
{
    std::vector<float> host(elements);
    for (size_t i = 0; i < elements; ++i)
        host[i] = scale * sinf((float)(i * (i + 3) % 1009));
    return device_copy(host.data(), elements);
}

static void
create(void)
{
    stream = stream_create();
    side = stream_create();
    event = event_create();
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    for (int l = 0; l <= LAYERS; ++l) {
        values[l] = device_floats(WIDTH * BATCH);
        deltas[l] = device_floats(WIDTH * BATCH);
    }
    target = device_floats(WIDTH * BATCH);
    for (int l = 0; l < LAYERS; ++l) {
        weight[l] = make(SQUARE, 0.2f);
        bias[l] = make(WIDTH, 0.1f);
        if (is_mode("momentum"))
            velocity[l] = device_floats(SQUARE);
        if (is_one_of({"mixed", "gradients", "local"}))
            gradient[l] = device_floats(SQUARE);
    }
    if (is_mode("momentum"))
        calls = (int *)device_floats(1);
}

static void
annotate(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        DDP_GRADIENT_GROUP(0);
        DDP_PARAMETER(weight[l], SQUARE, DDP_FLOAT32);
        if (gradient[l] != NULL && !is_mode("local"))
            DDP_GRADIENT(gradient[l], SQUARE, DDP_FLOAT32);
        if (velocity[l] != NULL && !forgets)
            DDP_STATE(velocity[l], SQUARE, DDP_FLOAT32);
        DDP_GRADIENT_GROUP(is_mode("mixed") || is_mode("forgotten") ? 1 : 0);
        DDP_PARAMETER(bias[l], WIDTH, DDP_FLOAT32);
    }
    if (calls != NULL)
        DDP_STATE(calls, 1, DDP_INT32);
}

static void
forget(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        DDP_FORGET(weight[l]);
        DDP_FORGET(bias[l]);
    }
}

static void
save(const char *path)
{
    std::vector<parameter> parameters;
    for (int l = 0; l < LAYERS; ++l) {
        save_add(&parameters, "weight", l, weight[l], SQUARE);
        save_add(&parameters, "bias", l, bias[l], WIDTH);
    }
    save_write(path, DDP_RANK(), &parameters);
}

int
main(int argc, char **argv)
{
    const char *path = NULL;
    mode = argc > 1 ? argv[1] : "gemm";
    take_options(argc, argv, 2,
                 {{"--steps", &steps},
                  {"--every", &every},
                  {"--sync", &syncs},
                  {"--forget", &forgets},
                  {"--leave", &leaves},
                  {"--save", &path}});
    create();
    annotate();
    train();
    if (path != NULL)
        save(path);
    if (leaves == 2 && DDP_RANK() == 1)
        CHECK(cudaMemset(bias[0], 0x3f, sizeof(float)));
    if (leaves > 0)
        forget();
    CHECK(cublasDestroy(blas));
    return 0;
}
