/*
 * guarded.cu - two layers of one table: in the loop of backward each layer's gradient is set to zeros if the batch's
 * loss is wild, which it never is. A line of that loop runs before the other layer's gradient is there. A batch begins
 * with a counter on the device, which all ranks have to move on.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 16, WIDTH = 8, LAYERS = 2, BATCHES = 40, SIZE = BATCH * WIDTH };

#define CHECK(call)                                         \
    do {                                                    \
        if ((call) != cudaSuccess) {                        \
            fprintf(stderr, "%s:%d\n", __FILE__, __LINE__); \
            exit(1);                                        \
        }                                                   \
    } while (0)

struct layer {
    float *y, *dy, *w, *dw;
};

__global__ void
forward(float *y, const float *x, const float *w)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = x[at] * w[at % WIDTH];
}

__global__ void
loss_of(float *loss, float *dy, const float *y)
{
    *loss = 0;
    for (int i = 0; i < SIZE; ++i) {
        dy[i] = (y[i] - 0.5f) / SIZE;
        *loss += dy[i] * dy[i];
    }
}

__global__ void
backward(float *dx, float *dw, const float *dy, const float *x, const float *w)
{
    int at = threadIdx.x;
    dw[at] = 0;
    for (int r = 0; r < BATCH; ++r) {
        dw[at] += dy[r * WIDTH + at] * x[r * WIDTH + at];
        dx[r * WIDTH + at] = dy[r * WIDTH + at] * w[at];
    }
}

__global__ void
guard(float *dw, const float *loss)
{
    if (!(*loss < 1000))
        dw[threadIdx.x] = 0;
}

/* A counter of batches, by which inputs are scaled. */
__global__ void
count_up(int *batches)
{
    ++*batches;
}

__global__ void
scale_inputs(float *scaled, const float *x, const int *batches)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    scaled[at] = x[at] * (1 + (float)(*batches % 3));
}

__global__ void
update(float *w, const float *dw)
{
    w[threadIdx.x] -= 0.5f * dw[threadIdx.x];
}

static float *
floats(size_t count, float first)
{
    float host[SIZE], *memory;
    for (size_t i = 0; i < count; ++i)
        host[i] = first * (float)(1 + i % 5) / 5;
    CHECK(cudaMalloc((void **)&memory, count * sizeof(float)));
    CHECK(cudaMemcpy(memory, host, count * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

int
main(void)
{
    struct layer table[LAYERS];
    float *x = floats(SIZE, 0), *dx = floats(SIZE, 0), *loss = floats(1, 0), host[SIZE];
    float *scaled = floats(SIZE, 0);
    int *batches;
    CHECK(cudaMalloc((void **)&batches, sizeof(int)));
    CHECK(cudaMemset(batches, 0, sizeof(int)));
    for (struct layer &one : table)
        one = {floats(SIZE, 0), floats(SIZE, 0), floats(WIDTH, 0.7f), floats(WIDTH, 0)};
    for (int batch = 0; batch < BATCHES; ++batch) {
        for (int i = 0; i < SIZE; ++i)
            host[i] = (float)((batch * 31 + i * 7) % 19) / 19;
        CHECK(cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice));
        count_up<<<1, 1>>>(batches);
        scale_inputs<<<BATCH, WIDTH>>>(scaled, x, batches);
        for (int i = 0; i < LAYERS; ++i)
            forward<<<BATCH, WIDTH>>>(table[i].y, i > 0 ? table[i - 1].y : scaled, table[i].w);
        loss_of<<<1, 1>>>(loss, table[LAYERS - 1].dy, table[LAYERS - 1].y);
        for (int i = LAYERS - 1; i >= 0; --i) {
            backward<<<1, WIDTH>>>(i > 0 ? table[i - 1].dy : dx, table[i].dw, table[i].dy,
                                   i > 0 ? table[i - 1].y : scaled, table[i].w);
            guard<<<1, WIDTH>>>(table[i].dw, loss);
        }
        for (int i = 0; i < LAYERS; ++i)
            update<<<1, WIDTH>>>(table[i].w, table[i].dw);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
