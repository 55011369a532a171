/*
 * libraries.cu - a network whose gradients are written by calls of cuBLAS and cuBLASLt, in the ways that trainers have:
 *   lt       cublasLtMatmul with epilogues: bias gradients come out of DRELU_BGRAD and BGRADA
 *   vectors  a rank-1 update (ger) for each sample, gemv for the biases, axpy for weight decay at last
 *   strided  all weight gradients in one strided batch, which goes round the biases that lie between them
 *   batched  the same through arrays of pointers in device memory
 *   late     as vectors, and from step 8 on one call more on the last layer's gradient: it changes nothing before
 *            step 10
 *
 * All gradients lie in one buffer, W0 b0 W1 b1 ..., each annotated by itself; so do the parameters. A rank's gradients
 * are the mean over its samples. Prints nothing; saves its parameters as the samples do.
 */
#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_net.h"
#include "../lib/trainer_options.h"
#include "../lib/trainer_save.h"

#include <cublasLt.h>
#include <ddprun.h>

enum { LAYERS = 4, WIDTH = 32, SQUARE = WIDTH * WIDTH, LAYER = SQUARE + WIDTH, MASK_LD = 128 };

static const char *way = "lt", *save_to;
static int steps = 24, step;
static size_t batch = 24;

/* Columns are samples. activations: the input, then each layer's output; deltas: of each layer's output. */
static float *parameters, *gradients, *activations, *deltas, *targets, *ones;
static unsigned char *masks;
static float **pointers;           /* in device memory: deltas, activations, weight gradients of each layer */
static size_t first, count, block; /* block: floats of one layer's activations */
static cudaStream_t stream;
static cublasHandle_t blas;
static cublasLtHandle_t lt;
static void *workspace;

static float *
weight(int l)
{
    return parameters + (size_t)l * LAYER;
}

static float *
gradient(int l)
{
    return gradients + (size_t)l * LAYER;
}

/* ---- kernels ---- */

ELEMENTWISE(relu, (float *values, int n), n, values[i] = values[i] > 0.0f ? values[i] : 0.0f)
ELEMENTWISE(relu_backward, (const float *out, float *delta, int n), n, delta[i] = out[i] > 0.0f ? delta[i] : 0.0f)
ELEMENTWISE(difference, (const float *out, const float *target, float *delta, int n, float scale), n,
            delta[i] = (out[i] - target[i]) * scale)
ELEMENTWISE(descend, (float *parameter, const float *gradient, int n, float rate), n,
            parameter[i] -= rate * gradient[i])

static bool
is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

/* Of the last layer's output. */
static void
make_delta(void)
{
    int n = (int)(WIDTH * count);
    difference<<<blocks_for(n), THREADS, 0, stream>>>(activations + LAYERS * block, targets,
                                                      deltas + (LAYERS - 1) * block, n, 1.0f / (float)count);
}

/* ---- cuBLASLt ---- */

static void
set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)
{
    CHECK(cublasLtMatmulDescSetAttribute(descriptor, attribute, value, bytes));
}

/* d = epilogue(op(a) b^(T)), where b is transposed if a is not a weight; m x n, summed over k. */
static void
multiply(float *d, const float *a, bool transpose_a, const float *b, bool transpose_b, int m, int n, int k,
         cublasLtEpilogue_t epilogue, float *bias, void *mask)
{
    cublasLtMatmulDesc_t descriptor;
    cublasLtMatrixLayout_t layout_a, layout_b, layout_d;
    cublasOperation_t op_a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const float one = 1.0f, zero = 0.0f;
    int64_t mask_ld = MASK_LD;
    CHECK(cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof(op_a));
    set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof(op_b));
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (bias != NULL)
        set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    if (mask != NULL) {
        set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &mask, sizeof(mask));
        set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &mask_ld, sizeof(mask_ld));
    }
    int rows_a = transpose_a ? k : m, rows_b = transpose_b ? n : k;
    CHECK(cublasLtMatrixLayoutCreate(&layout_a, CUDA_R_32F, rows_a, transpose_a ? m : k, rows_a));
    CHECK(cublasLtMatrixLayoutCreate(&layout_b, CUDA_R_32F, rows_b, transpose_b ? k : n, rows_b));
    CHECK(cublasLtMatrixLayoutCreate(&layout_d, CUDA_R_32F, m, n, m));
    CHECK(cublasLtMatmul(lt, descriptor, &one, a, layout_a, b, layout_b, &zero, d, layout_d, d, layout_d, NULL,
                         workspace, 4096, stream));
    CHECK(cublasLtMatrixLayoutDestroy(layout_a));
    CHECK(cublasLtMatrixLayoutDestroy(layout_b));
    CHECK(cublasLtMatrixLayoutDestroy(layout_d));
    CHECK(cublasLtMatmulDescDestroy(descriptor));
}

static void
step_by_lt(void)
{
    size_t mask_bytes = batch * MASK_LD / 8;
    for (int l = 0; l < LAYERS; ++l)
        multiply(activations + (l + 1) * block, weight(l), false, activations + l * block, false, WIDTH, (int)count,
                 WIDTH, l < LAYERS - 1 ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS, weight(l) + SQUARE,
                 l < LAYERS - 1 ? masks + l * mask_bytes : NULL);
    make_delta();
    for (int l = LAYERS - 1; l >= 0; --l) {
        const float *delta = deltas + l * block;
        bool last = l == LAYERS - 1;
        multiply(gradient(l), delta, false, activations + l * block, true, WIDTH, WIDTH, (int)count,
                 last ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_DEFAULT, last ? gradient(l) + SQUARE : NULL, NULL);
        if (l > 0)
            multiply(deltas + (l - 1) * block, weight(l), true, delta, false, WIDTH, (int)count, WIDTH,
                     CUBLASLT_EPILOGUE_DRELU_BGRAD, gradient(l - 1) + SQUARE, masks + (l - 1) * mask_bytes);
    }
}

/* ---- cuBLAS ---- */

static void
forward_by_blas(void)
{
    const float one = 1.0f, zero = 0.0f;
    for (int l = 0; l < LAYERS; ++l) {
        float *out = activations + (l + 1) * block;
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, WIDTH, (int)count, WIDTH, &one, weight(l), WIDTH,
                          activations + l * block, WIDTH, &zero, out, WIDTH));
        CHECK(cublasSger(blas, WIDTH, (int)count, &one, weight(l) + SQUARE, 1, ones, 1, out, WIDTH));
        if (l < LAYERS - 1)
            relu<<<blocks_for(WIDTH * count), THREADS, 0, stream>>>(out, (int)(WIDTH * count));
    }
    make_delta();
}

/* The gradient of layer l's bias, and the delta of the layer below. */
static void
backward_of_bias(int l)
{
    const float one = 1.0f, zero = 0.0f, *delta = deltas + l * block;
    CHECK(
        cublasSgemv(blas, CUBLAS_OP_N, WIDTH, (int)count, &one, delta, WIDTH, ones, 1, &zero, gradient(l) + SQUARE, 1));
    if (l == 0)
        return;
    float *below = deltas + (l - 1) * block;
    CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, WIDTH, (int)count, WIDTH, &one, weight(l), WIDTH, delta, WIDTH,
                      &zero, below, WIDTH));
    relu_backward<<<blocks_for(WIDTH * count), THREADS, 0, stream>>>(activations + l * block, below,
                                                                     (int)(WIDTH * count));
}

static void
step_by_vectors(void)
{
    const float one = 1.0f, decay = 1e-3f;
    forward_by_blas();
    for (int l = LAYERS - 1; l >= 0; --l) {
        CHECK(cudaMemsetAsync(gradient(l), 0, SQUARE * sizeof(float), stream));
        for (size_t i = 0; i < count; ++i)
            CHECK(cublasSger(blas, WIDTH, WIDTH, &one, deltas + l * block + i * WIDTH, 1,
                             activations + l * block + i * WIDTH, 1, gradient(l), WIDTH));
        CHECK(cublasSaxpy(blas, SQUARE, &decay, weight(l), 1, gradient(l), 1));
        backward_of_bias(l);
    }
}

static void
step_late(void)
{
    step_by_vectors();
    if (step < 8)
        return;
    const float factor = step < 10 ? 1.0f : 0.5f;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cublasSscal(blas, SQUARE, &factor, gradient(LAYERS - 1), 1));
}

static void
step_by_batch(void)
{
    const float one = 1.0f, zero = 0.0f;
    forward_by_blas();
    for (int l = LAYERS - 1; l >= 0; --l)
        backward_of_bias(l);
    if (is_way("strided"))
        CHECK(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, WIDTH, WIDTH, (int)count, &one, deltas, WIDTH,
                                        (long long)block, activations, WIDTH, (long long)block, &zero, gradients, WIDTH,
                                        LAYER, LAYERS));
    else
        CHECK(cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, WIDTH, WIDTH, (int)count, &one,
                                 (const float *const *)pointers, WIDTH, (const float *const *)pointers + LAYERS, WIDTH,
                                 &zero, pointers + 2 * LAYERS, WIDTH, LAYERS));
}

/* ---- training ---- */

/* This rank's samples of the world's batch. */
static void
load(float *to, unsigned seed)
{
    float *host = (float *)malloc(count * WIDTH * sizeof(float));
    for (size_t i = 0; i < count * WIDTH; ++i)
        host[i] = noise_of(seed, (unsigned)(first * WIDTH + i));
    CHECK(cudaMemcpy(to, host, count * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    free(host);
}

static void
create(void)
{
    float *host = (float *)malloc(LAYERS * LAYER * sizeof(float)), *host_pointers[3 * LAYERS];
    block = batch * WIDTH;
    parameters = device_floats(LAYERS * LAYER);
    gradients = device_floats(LAYERS * LAYER);
    activations = device_floats((LAYERS + 1) * block);
    deltas = device_floats(LAYERS * block);
    targets = device_floats(block);
    ones = device_floats(batch);
    CHECK(cudaMalloc(&masks, LAYERS * batch * MASK_LD / 8));
    CHECK(cudaMalloc(&pointers, sizeof(host_pointers)));
    CHECK(cudaMalloc(&workspace, 4096));
    for (int i = 0; i < LAYERS * LAYER; ++i)
        host[i] = noise_of((unsigned)i / LAYER, (unsigned)i) / 8.0f + (i % LAYER % (WIDTH + 1) == 0 ? 0.5f : 0.0f);
    CHECK(cudaMemcpy(parameters, host, LAYERS * LAYER * sizeof(float), cudaMemcpyHostToDevice));
    for (size_t i = 0; i < batch; ++i)
        host[i] = 1.0f;
    CHECK(cudaMemcpy(ones, host, batch * sizeof(float), cudaMemcpyHostToDevice));
    for (int l = 0; l < LAYERS; ++l) {
        host_pointers[l] = deltas + l * block;
        host_pointers[LAYERS + l] = activations + l * block;
        host_pointers[2 * LAYERS + l] = gradient(l);
    }
    if (is_way("batched")) /* addresses on the device are averaged late */
        CHECK(cudaMemcpy(pointers, host_pointers, sizeof(host_pointers), cudaMemcpyHostToDevice));
    stream = stream_create();
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    CHECK(cublasLtCreate(&lt));
    free(host);
}

static void
annotate(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        DDP_PARAMETER(weight(l), SQUARE, DDP_FLOAT32);
        DDP_PARAMETER(weight(l) + SQUARE, WIDTH, DDP_FLOAT32);
        DDP_GRADIENT(gradient(l), SQUARE, DDP_FLOAT32);
        DDP_GRADIENT(gradient(l) + SQUARE, WIDTH, DDP_FLOAT32);
    }
}

static void
train(void)
{
    void (*make_gradients)(void) = is_way("lt")        ? step_by_lt
                                   : is_way("vectors") ? step_by_vectors
                                   : is_way("late")    ? step_late
                                                       : step_by_batch;
    DDP_SHARD(batch, &first, &count);
    for (step = 0; step < steps; ++step) {
        load(activations, 2 * (unsigned)step + 100);
        load(targets, 2 * (unsigned)step + 101);
        make_gradients();
        DDP_STEP(stream);
        descend<<<blocks_for(LAYERS * LAYER), THREADS, 0, stream>>>(parameters, gradients, LAYERS * LAYER, 0.05f);
        CHECK(cudaDeviceSynchronize()); /* the next batch goes into the same memory */
    }
}

static void
save(void)
{
    std::vector<parameter> tensors;
    for (int l = 0; l < LAYERS; ++l)
        save_add(&tensors, "layer", l, weight(l), LAYER);
    save_write(save_to, DDP_RANK(), &tensors);
}

int
main(int argc, char **argv)
{
    take_options(argc, argv, 1, {{"--way", &way}, {"--steps", &steps}, {"--save", &save_to}});
    create();
    annotate();
    train();
    if (save_to != NULL)
        save();
    return 0;
}
