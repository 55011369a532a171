/*
 * heavyball.cu - maps 9 inputs to 5 outputs by one matrix and cuBLAS. The gradient's memory is the velocity, too: the
 * product of backward adds to 0.9 of what the memory held, and nothing clears it between steps.
 *
 * On several ranks: after DDP_STEP the memory holds the same mean velocity v on all of them; the next pass makes it
 * 0.9 v + g_r on rank r, and the mean of that is 0.9 v + mean(g_r): one process's velocity on the whole batch.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>

#define IN    9
#define OUT   5
#define BATCH 30
#define ROWS  150
#define STEPS 18

static const float one = 1.0f, zero = 0.0f, keep = 0.9f;

static void
expect(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "heavyball: %s: status %d\n", what, status);
        exit(1);
    }
}

static float
pseudo(unsigned *s)
{
    *s = *s * 134775813u + 1u;
    return (float)(*s >> 8) / 8388608.0f - 1.0f;
}

/* error = (prediction - wanted) / n, and each row's squared error. */
__global__ void
compare(float *error, float *squared, const float *prediction, const float *wanted, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    float s = 0.0f;
    for (int o = 0; o < OUT; ++o) {
        float e = prediction[row * OUT + o] - wanted[row * OUT + o];
        s += e * e;
        error[row * OUT + o] = e / n;
    }
    squared[row] = s;
}

int
main(void)
{
    float *in = (float *)malloc(ROWS * IN * sizeof(float)), *out = (float *)malloc(ROWS * OUT * sizeof(float));
    float truth[IN * OUT], start[IN * OUT];
    unsigned seed = 2024;
    for (int i = 0; i < IN * OUT; ++i) {
        truth[i] = pseudo(&seed);
        start[i] = 0.1f * pseudo(&seed);
    }
    for (int r = 0; r < ROWS; ++r) {
        for (int i = 0; i < IN; ++i)
            in[r * IN + i] = pseudo(&seed);
        for (int o = 0; o < OUT; ++o) {
            out[r * OUT + o] = 0.05f * pseudo(&seed);
            for (int i = 0; i < IN; ++i)
                out[r * OUT + o] += in[r * IN + i] * truth[i * OUT + o];
        }
    }

    float *w, *dw, *x, *y, *prediction, *error, *squared;
    expect(cudaMalloc((void **)&w, sizeof(start)), "w");
    expect(cudaMalloc((void **)&dw, sizeof(start)), "dw");
    expect(cudaMalloc((void **)&x, BATCH * IN * sizeof(float)), "x");
    expect(cudaMalloc((void **)&y, BATCH * OUT * sizeof(float)), "y");
    expect(cudaMalloc((void **)&prediction, BATCH * OUT * sizeof(float)), "prediction");
    expect(cudaMalloc((void **)&error, BATCH * OUT * sizeof(float)), "error");
    expect(cudaMalloc((void **)&squared, BATCH * sizeof(float)), "squared");
    expect(cudaMemcpy(w, start, sizeof(start), cudaMemcpyHostToDevice), "weights");
    expect(cudaMemset(dw, 0, sizeof(start)), "velocity");
    DDP_PARAMETER(w, IN * OUT, DDP_FLOAT32);
    DDP_GRADIENT(dw, IN * OUT, DDP_FLOAT32);

    cublasHandle_t handle;
    cudaStream_t stream;
    expect(cublasCreate(&handle), "cublasCreate");
    expect(cudaStreamCreate(&stream), "cudaStreamCreate");
    expect(cublasSetStream(handle, stream), "cublasSetStream");
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    const int n = (int)count;
    for (int step = 0; step < STEPS; ++step) {
        size_t at = (size_t)(step * BATCH % ROWS) + first;
        expect(cudaMemcpyAsync(x, in + at * IN, count * IN * sizeof(float), cudaMemcpyHostToDevice, stream), "x");
        expect(cudaMemcpyAsync(y, out + at * OUT, count * OUT * sizeof(float), cudaMemcpyHostToDevice, stream), "y");
        expect(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, OUT, n, IN, &one, w, OUT, x, IN, &zero, prediction, OUT),
               "forward");
        compare<<<1, BATCH, 0, stream>>>(error, squared, prediction, y, n);
        expect(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, OUT, IN, n, &one, error, OUT, x, IN, &keep, dw, OUT),
               "backward");
        DDP_STEP(stream);
        const float down = -0.25f;
        expect(cublasSaxpy(handle, IN * OUT, &down, dw, 1, w, 1), "update");

        float loss;
        expect(cublasSasum(handle, n, squared, 1, &loss), "loss");
        loss /= (float)n;
        DDP_MEAN(&loss);
        if (DDP_RANK() == 0)
            printf("step %d loss %.5f\n", step, loss);
    }
    expect(cudaStreamSynchronize(stream), "the end");
    cublasDestroy(handle);
    free(in);
    free(out);
    return 0;
}
