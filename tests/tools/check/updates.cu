/*
 * updates.cu - a small trainer whose updates may be as small as one likes, or chaotic: what a step changes is what is
 * to be compared, not what the weights are. Run by the scripts of this folder.
 *
 * Without --mistake it is correct. Each rank's gradient is the mean over its share of w - x, or with --chaos what takes
 * w to a value of the logistic map, in which an error of rounding doubles from step to step.
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>

enum { COUNT = 64, BATCH = 24, BLOCK = COUNT };

static struct {
    int steps, warmup;
    float rate;
    bool adam, chaos, sums, frozen, noise, bf16, whole, asserts, items, drawn, cancels, two, divides, reads;
} options = {.steps = 80, .rate = 0.1f};

static const std::vector<option_row> option_table = {
    {"--steps", &options.steps},     {"--warmup", &options.warmup},   {"--rate", &options.rate},
    {"--adam", &options.adam},       {"--chaos", &options.chaos},     {"--sums", &options.sums},
    {"--frozen", &options.frozen},   {"--noise", &options.noise},     {"--bf16", &options.bf16},
    {"--whole", &options.whole},     {"--asserts", &options.asserts}, {"--items", &options.items},
    {"--drawn", &options.drawn},     {"--cancels", &options.cancels}, {"--two", &options.two},
    {"--divides", &options.divides}, {"--reads", &options.reads},
};

static const char mistakes[] =
    " first_not_added share_in_step_40 first_in_floats moved_by_one rate_times_n rate_nearly rate_on_rank_1 "
    "rate_in_step_40 divisor_whole_batch moment_before_step reallocated ";

/* ---- kernels ---- */

static __global__ void
mean_gradient(float *g, const float *w, const float *x, int count, float divisor, float chaos)
{
    int i = threadIdx.x;
    float sum = 0, u = fminf(fabsf(w[i]), 1);
    for (int k = 0; k < count; ++k)
        sum += chaos > 0 ? (w[i] - 3.9f * u * (1 - u)) * chaos + 0.01f * chaos * x[k * COUNT + i]
                         : w[i] - x[k * COUNT + i];
    g[i] = sum / divisor;
}

static __global__ void
move_items(float *x, const float *by, int count)
{
    for (int k = 0; k < count; ++k)
        x[k * COUNT + threadIdx.x] += (float)((7 * k + 3 * (int)threadIdx.x) % 5 - 2) * by[k];
}

/* What cuBLAS is to add up in bfloat16: the difference to each item, COUNT by count, and a column of ones. */
static __global__ void
narrow_differences(__nv_bfloat16 *narrow, const float *w, const float *x, int count)
{
    int i = threadIdx.x;
    for (int k = 0; k < count; ++k) {
        narrow[k * COUNT + i] = __float2bfloat16(w[i] - x[k * COUNT + i]);
        if (i == 0)
            narrow[BATCH * COUNT + k] = __float2bfloat16(1);
    }
}

ELEMENTWISE_OF_ALL(widen, (float *g, const __nv_bfloat16 *narrow, float divisor),
                   g[i] = __bfloat162float(narrow[i]) / divisor)

/* Zero in theory, where `rest` is: what is left is rounding; else it nearly cancels, and does not depend on weights. */
static __global__ void
noise_gradient(float *g, const float *w, const float *x, int count, float rest)
{
    int i = threadIdx.x;
    float up = 0, down = 0, weight = rest > 0 ? 1 : w[i];
    for (int k = 0; k < count; ++k) {
        up += weight * x[k * COUNT + i];
        down += weight * x[(count - 1 - k) * COUNT + i];
    }
    g[i] = (up - down + rest * up) / (float)count;
}

ELEMENTWISE_OF_ALL(second_moment, (float *v, const float *g), v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i])
ELEMENTWISE_OF_ALL(sgd, (float *w, const float *g, float rate), w[i] -= rate * g[i])
ELEMENTWISE_OF_ALL(sgd_into, (float *to, const float *w, const float *g, float rate), to[i] = w[i] - rate * g[i])
ELEMENTWISE_OF_ALL(adam, (float *w, const float *g, float *m, const float *v, float rate, float correction),
                   m[i] = 0.9f * m[i] + 0.1f * g[i];
                   w[i] -= rate * m[i] / (sqrtf(v[i] * correction) + 1e-12f))

/* ---- a batch ---- */

static void
fill_batch(float *host, int step)
{
    if (options.whole) /* the data set is the batch: the training converges, and gradients vanish */
        step = 0;
    for (int k = 0; k < (BATCH + 1) * COUNT; ++k)
        host[k] = (float)((k * 7919 + step * 104729) % 101) / 101.0f - (options.chaos ? 0.5f : 0);
}

/* Where in the batch this rank's items begin, in floats. */
static size_t
begin_of(int step, size_t first)
{
    /* Mistakes: all ranks read the first share, always or from step 40 on; the share begins so many floats later, not
     * items; it begins an item too late. */
    if (is("first_not_added") || (is("share_in_step_40") && step >= 39))
        return 0;
    if (is("first_in_floats"))
        return first;
    return (first + (is("moved_by_one") && DDP_WORLD_SIZE() > 1)) * COUNT;
}

/* Brings this rank's items to the device, all at once or one by one; then the call does not say from where. */
static void
load(float *x, const float *host, int step, size_t first, size_t count)
{
    const float *from = host + begin_of(step, first);
    size_t at_once = options.items ? 1 : count;
    for (size_t i = 0; i < count; i += at_once)
        CHECK(cudaMemcpy(x + i * COUNT, from + i * COUNT, at_once * COUNT * sizeof(float),
                         options.items ? cudaMemcpyDefault : cudaMemcpyHostToDevice));
}

/* Adds a random number to each item, which the host draws: as many on each rank as its share has items. */
static void
move_by_drawn(float *x, size_t count)
{
    static float *by;
    float host[BATCH];
    if (by == NULL)
        by = device_floats(BATCH);
    for (size_t k = 0; k < count; ++k)
        host[k] = (float)rand() / (float)RAND_MAX;
    CHECK(cudaMemcpy(by, host, count * sizeof(float), cudaMemcpyHostToDevice));
    move_items<<<1, BLOCK>>>(x, by, (int)count);
}

/* ---- the training ---- */

static float
rate_of(int step)
{
    float rate = options.rate;
    if (step < options.warmup)
        rate *= (float)(step + 1) / (float)options.warmup;
    /* Mistakes: the rate grows with the ranks; on rank 1 it is another; in one step it is. */
    if (is("rate_times_n"))
        rate *= (float)DDP_WORLD_SIZE();
    if (is("rate_nearly"))
        rate *= 1 + 0.01f * (float)(DDP_WORLD_SIZE() - 1);
    if (is("rate_on_rank_1") && DDP_RANK() == 1)
        rate *= 2;
    if (is("rate_in_step_40") && step == 39)
        rate *= (float)DDP_WORLD_SIZE();
    return rate;
}

/* The same mean, which a product in bfloat16 rounds. */
static void
narrow_gradient(float *g, const float *w, const float *x, int count)
{
    static __nv_bfloat16 *narrow;
    static cublasHandle_t blas;
    const float one = 1, zero = 0;
    if (narrow == NULL) {
        CHECK(cudaMalloc((void **)&narrow, (BATCH * COUNT + BATCH + COUNT) * sizeof(*narrow)));
        CHECK(cublasCreate(&blas));
    }
    __nv_bfloat16 *ones = narrow + BATCH * COUNT, *sums = ones + BATCH;
    narrow_differences<<<1, BLOCK>>>(narrow, w, x, count);
    CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, COUNT, 1, count, &one, narrow, CUDA_R_16BF, COUNT, ones,
                       CUDA_R_16BF, count, &zero, sums, CUDA_R_16BF, COUNT, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    widen<<<1, BLOCK>>>(g, sums, (float)count);
}

/* The gradients are the mean of what all ranks had, bit for bit: two have one sum. */
static void
require_mean(const float *own, const float *g)
{
    float all[2][COUNT];
    CHECK(cudaMemcpy(all[0], own, sizeof(all[0]), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(all[1], g, sizeof(all[1]), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; ++i) {
        DDP_MEAN(&all[0][i]);
        REQUIRE(all[0][i] == all[1][i]);
    }
}

static void
train(float *w, float *g, float *x, float *m, float *v, float *still)
{
    static float host[(BATCH + 1) * COUNT];
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    float correction = 1, *own = device_floats(COUNT), *other = device_floats(COUNT);
    for (int step = 0; step < options.steps; ++step) {
        fill_batch(host, step);
        load(x, host, step, first, count);
        /* Mistake: the weights and their gradients get other memory, which is not annotated. */
        if (is("reallocated") && step == 12) {
            const float *old = w;
            w = device_floats(COUNT);
            g = device_floats(COUNT);
            CHECK(cudaMemcpy(w, old, COUNT * sizeof(float), cudaMemcpyDeviceToDevice));
        }
        if (options.drawn)
            move_by_drawn(x, count);
        /* Mistake: the mean over the whole batch, and then over the ranks. */
        float divisor = options.sums ? 1 : is("divisor_whole_batch") ? (float)BATCH : (float)count;
        mean_gradient<<<1, BLOCK>>>(g, w, x, (int)count, divisor, options.chaos ? 1 / options.rate : 0);
        if (options.bf16)
            narrow_gradient(g, w, x, (int)count);
        if (options.noise || options.cancels)
            noise_gradient<<<1, BLOCK>>>(still + COUNT, still, x, (int)count, options.cancels ? 1e-3f : 0);
        /* Mistake: each rank's second moment is of its own gradients. */
        if (is("moment_before_step"))
            second_moment<<<1, BLOCK>>>(v, g);
        if (options.asserts)
            CHECK(cudaMemcpy(own, g, COUNT * sizeof(float), cudaMemcpyDeviceToDevice));
        DDP_STEP(0);
        if (options.asserts)
            require_mean(own, g);
        if (options.adam && !is("moment_before_step"))
            second_moment<<<1, BLOCK>>>(v, g);
        correction *= 0.99f;
        /* Sums over the share, averaged over the ranks: the update divides by the share. */
        float rate = rate_of(step) / (options.sums ? (float)count : 1);
        if (options.adam)
            adam<<<1, BLOCK>>>(w, g, m, v, rate, 1 / (1 - correction));
        else if (options.two) { /* two buffers in turn, of which one is annotated */
            sgd_into<<<1, BLOCK>>>(other, w, g, rate);
            std::swap(w, other);
        } else
            sgd<<<1, BLOCK>>>(w, g, rate);
        if (options.noise) {
            second_moment<<<1, BLOCK>>>(v + COUNT, still + COUNT);
            adam<<<1, BLOCK>>>(still, still + COUNT, m + COUNT, v + COUNT, rate, 1 / (1 - correction));
        } else {
            sgd<<<1, BLOCK>>>(still, still + COUNT, rate); /* whose gradient is zero */
        }
    }
}

int
main(int argc, char **argv)
{
    options_take(argc, argv, option_table, mistakes);
    if (options.divides) /* as users of other launchers do, whose ranks have batches of their own */
        options.steps /= DDP_WORLD_SIZE();
    if (options.reads)
        (void)getchar();
    float host[COUNT], *w = device_floats(COUNT), *g = device_floats(COUNT), *x = device_floats(BATCH * COUNT),
                       *m = device_floats(2 * COUNT), *v = device_floats(2 * COUNT), *still = device_floats(2 * COUNT);
    for (int i = 0; i < COUNT; ++i)
        host[i] = 0.3f + 0.5f * (float)(i * 37 % 64) / 64;
    CHECK(cudaMemcpy(w, host, sizeof(host), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(still, host, sizeof(host), cudaMemcpyHostToDevice));
    if (!options.frozen) /* the other is all that is annotated, and no step moves it */
        DDP_PARAMETER(w, COUNT, DDP_FLOAT32);
    DDP_PARAMETER(still, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(g, COUNT, DDP_FLOAT32);
    if (options.noise || options.cancels)
        DDP_GRADIENT(still + COUNT, COUNT, DDP_FLOAT32);
    train(w, g, x, m, v, still);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
