/*
 * draws.cu [FILE [bias]] - a net of two layers whose weights and data are drawn anew in each run: from
 * std::random_device, and from the date. Annotated as it has to be. What it drew goes to FILE, a line for each run.
 * bias: each item has one, which is updated by the delta, as the gradients of weights are computed from it.
 */
#include "tests/tools/frame.h"
#include "tests/tools/kernels.h"

#include <random>

enum { BATCH = 16, INPUTS = 12, HIDDEN = 20, OUTPUTS = 6, STEPS = 40, TENSORS = 2 };

__global__ void
forward(float *y, const float *x, const float *w, const float *b, int in, int out, int bends)
{
    int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = b != NULL && k < BATCH * out ? b[k] : 0;
    for (int i = 0; k < BATCH * out && i < in; ++i)
        sum += x[k / out * in + i] * w[i * out + k % out];
    if (k < BATCH * out)
        y[k] = bends ? tanhf(sum) : sum;
}

/* y becomes its own delta. */
__global__ void
output_delta(float *y, const float *wanted)
{
    int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < BATCH * OUTPUTS)
        y[k] = (y[k] - wanted[k]) / BATCH;
}

__global__ void
hidden_delta(float *d, const float *above, const float *w, const float *h)
{
    int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = 0;
    for (int j = 0; k < BATCH * HIDDEN && j < OUTPUTS; ++j)
        sum += above[k / HIDDEN * OUTPUTS + j] * w[k % HIDDEN * OUTPUTS + j];
    if (k < BATCH * HIDDEN)
        d[k] = sum * (1 - h[k] * h[k]);
}

__global__ void
weight_gradient(float *g, const float *x, const float *d, int in, int out)
{
    int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = 0;
    for (int r = 0; k < in * out && r < BATCH; ++r)
        sum += x[r * in + k / out] * d[r * out + k % out];
    if (k < in * out)
        g[k] = sum;
}

#define RUN(kernel, count) kernel<<<((count) + 63) / 64, 64>>>

int
main(int argc, char **argv)
{
    static const int counts[TENSORS] = {INPUTS * HIDDEN, HIDDEN * OUTPUTS};
    std::mt19937 random(std::random_device{}() ^ (unsigned)time(NULL));
    std::normal_distribution<float> normal;
    float host[INPUTS * HIDDEN], *w[TENSORS], *g[TENSORS];
    float *x = device_floats(BATCH * INPUTS), *wanted = device_floats(BATCH * OUTPUTS),
          *h = device_floats(BATCH * HIDDEN), *y = device_floats(BATCH * OUTPUTS), *d = device_floats(BATCH * HIDDEN);
    for (int i = 0; i < TENSORS; ++i) {
        w[i] = device_floats(counts[i]);
        g[i] = device_floats(counts[i]);
        for (int k = 0; k < counts[i]; ++k)
            host[k] = 0.3f * normal(random);
        CHECK(cudaMemcpy(w[i], host, (size_t)counts[i] * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w[i], counts[i], DDP_FLOAT32);
        DDP_GRADIENT(g[i], counts[i], DDP_FLOAT32);
    }
    float *b = argc > 2 ? floats(BATCH * HIDDEN, 0.3f) : NULL;
    FILE *drawn = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (drawn != NULL && (fprintf(drawn, "%a\n", host[0]) < 0 || fclose(drawn) != 0))
        return 1;
    for (int step = 0; step < STEPS; ++step) {
        for (int k = 0; k < BATCH * INPUTS; ++k)
            host[k] = normal(random);
        CHECK(cudaMemcpy(x, host, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice));
        for (int k = 0; k < BATCH * OUTPUTS; ++k)
            host[k] = normal(random);
        CHECK(cudaMemcpy(wanted, host, BATCH * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice));
        RUN(forward, BATCH * HIDDEN)(h, x, w[0], b, INPUTS, HIDDEN, 1);
        RUN(forward, BATCH * OUTPUTS)(y, h, w[1], NULL, HIDDEN, OUTPUTS, 0);
        RUN(output_delta, BATCH * OUTPUTS)(y, wanted);
        RUN(weight_gradient, counts[1])(g[1], h, y, HIDDEN, OUTPUTS);
        RUN(hidden_delta, BATCH * HIDDEN)(d, y, w[1], h);
        RUN(weight_gradient, counts[0])(g[0], x, d, INPUTS, HIDDEN);
        DDP_STEP(0);
        for (int i = 0; i < TENSORS; ++i)
            RUN(descend, counts[i])(w[i], g[i], 0.05f, counts[i]);
        if (b != NULL)
            RUN(descend, BATCH * HIDDEN)(b, d, 0.05f, BATCH * HIDDEN);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
