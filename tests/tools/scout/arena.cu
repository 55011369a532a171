/*
 * arena.cu MIB TOWERS STEPS FILE [HABIT] - a program that cuts all of its memory from one allocation of MIB mebibytes,
 * far apart: TOWERS small nets with a launch each for forward pass, error, gradient and update, and a launch that
 * clears all gradients. Annotated as it has to be. FILE: where the weights are written at the end. Habits:
 *
 *   together   one launch updates the first weights, and one all others: the second differs in its count only
 *   captured   as without a habit, and a second stream is captured into a graph that no one launches, while towers
 * train
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { BATCH = 8, INPUTS = 24, OUTPUTS = 8, WEIGHTS = INPUTS * OUTPUTS, BLOCK = 64, GRID = 4 };

static float *arena;
static size_t tensor_words; /* from one tensor to the next */
static int towers;

enum kind { X, WANTED, Y, DELTA, KINDS };

/* Weights of all towers side by side, then their gradients, then what each works on. */
static float *
weights(int tower)
{
    return arena + tower * tensor_words;
}

static float *
gradient(int tower)
{
    return arena + (towers + tower) * tensor_words;
}

static float *
activation(int tower, enum kind kind)
{
    return arena + (2 * towers + KINDS * tower + kind) * tensor_words;
}

#define EACH(i, count) for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += gridDim.x * blockDim.x)

__global__ void
forward(float *y, const float *x, const float *w)
{
    EACH(i, BATCH * OUTPUTS)
    {
        float sum = 0;
        for (int k = 0; k < INPUTS; ++k)
            sum += x[i / OUTPUTS * INPUTS + k] * w[k * OUTPUTS + i % OUTPUTS];
        y[i] = sum;
    }
}

ELEMENTWISE_BY_STRIDES(subtract, (float *delta, const float *y, const float *wanted), (BATCH * OUTPUTS),
                       delta[i] = y[i] - wanted[i])

__global__ void
add_gradient(float *g, const float *x, const float *delta)
{
    EACH(i, WEIGHTS)
    {
        float sum = 0;
        for (int row = 0; row < BATCH; ++row)
            sum += x[row * INPUTS + i / OUTPUTS] * delta[row * OUTPUTS + i % OUTPUTS] / BATCH;
        g[i] += sum;
    }
}

/* Of `count` tensors, from the first one on. */
ELEMENTWISE_BY_STRIDES(descend, (float *w, const float *g, float rate, int count, size_t stride), (count * WEIGHTS),
                       w[i / WEIGHTS * stride + i % WEIGHTS] -= rate * g[i / WEIGHTS * stride + i % WEIGHTS])
ELEMENTWISE_BY_STRIDES(clear, (float *g, int count, size_t stride), (count * WEIGHTS),
                       g[i / WEIGHTS * stride + i % WEIGHTS] = 0)

static void
create(void)
{
    float host[WEIGHTS];
    for (int t = 0; t < towers; ++t) {
        for (float &value : host)
            value = random_number() - 0.5f;
        CHECK(cudaMemcpy(weights(t), host, sizeof(host), cudaMemcpyHostToDevice));
        DDP_PARAMETER(weights(t), WEIGHTS, DDP_FLOAT32);
        DDP_GRADIENT(gradient(t), WEIGHTS, DDP_FLOAT32);
    }
}

static void
load(int tower)
{
    float x[BATCH * INPUTS], wanted[BATCH * OUTPUTS];
    for (float &value : x)
        value = random_number() - 0.5f;
    for (float &value : wanted)
        value = random_number() - 0.5f;
    CHECK(cudaMemcpy(activation(tower, X), x, sizeof(x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(activation(tower, WANTED), wanted, sizeof(wanted), cudaMemcpyHostToDevice));
}

/* The second tower's forward pass once more, captured: its graph is never launched. */
static void
capture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (*graph == NULL) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        forward<<<GRID, BLOCK, 0, stream>>>(activation(1, Y), activation(1, X), weights(1));
        *graph = (cudaGraph_t)1;
    } else {
        CHECK(cudaStreamEndCapture(stream, graph));
        CHECK(cudaGraphDestroy(*graph));
        *graph = NULL;
    }
}

static void
save(const char *path)
{
    float host[WEIGHTS];
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    for (int t = 0; t < towers; ++t) {
        CHECK(cudaMemcpy(host, weights(t), sizeof(host), cudaMemcpyDeviceToHost));
        REQUIRE(fwrite(host, sizeof(host), 1, file) == 1);
    }
    CHECK(fclose(file));
}

int
main(int argc, char **argv)
{
    REQUIRE(argc >= 5);
    size_t bytes = strtoull(argv[1], NULL, 10) << 20;
    towers = atoi(argv[2]);
    bool together = argc > 5 && strcmp(argv[5], "together") == 0,
         captures = argc > 5 && strcmp(argv[5], "captured") == 0;
    cudaStream_t side, trains;
    cudaGraph_t graph = NULL;
    CHECK(cudaMalloc(&arena, bytes));
    CHECK(cudaMemset(arena, 0, bytes));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&trains, cudaStreamNonBlocking));
    tensor_words = bytes / sizeof(float) / ((2 + KINDS) * towers) / 64 * 64;
    create();
    for (int step = 0; step < atoi(argv[3]); ++step) {
        for (int t = 0; t < towers; ++t)
            load(t);
        clear<<<GRID, BLOCK, 0, trains>>>(gradient(0), towers, tensor_words);
        for (int t = 0; t < towers; ++t) {
            if (captures && t < 2)
                capture(side, &graph);
            forward<<<GRID, BLOCK, 0, trains>>>(activation(t, Y), activation(t, X), weights(t));
            subtract<<<GRID, BLOCK, 0, trains>>>(activation(t, DELTA), activation(t, Y), activation(t, WANTED));
            add_gradient<<<GRID, BLOCK, 0, trains>>>(gradient(t), activation(t, X), activation(t, DELTA));
        }
        DDP_STEP(trains);
        for (int t = 0, count = 1; t < towers; t += count, count = together ? towers - t : 1)
            descend<<<GRID, BLOCK, 0, trains>>>(weights(t), gradient(t), 0.1f, count, tensor_words);
        CHECK(cudaStreamSynchronize(trains));
    }
    save(argv[4]);
    return 0;
}
