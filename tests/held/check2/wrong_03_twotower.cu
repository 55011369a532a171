// Two towers, user and item, matched against each other: each user's own item must score highest among
// the items of the batch. Linear towers, cuBLAS throughout (column-major: a row-major n x d matrix is d x n).
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int D = 10;      // raw features
static const int E = 6;       // dimensions of the common space
static const int B = 24;      // pairs in a batch
static const int PAIRS = 120; // pairs in the data
static const float INVERSE_TEMPERATURE = 3.0f;

#define CHECK(x)                                                                   \
    if (int err_ = (int)(x)) {                                                     \
        fprintf(stderr, "line %d: %s failed: %d\n", __LINE__, #x, err_);           \
        exit(1);                                                                   \
    }

struct Tower {
    float *w, *dw, *in, *out, *dout;

    void make(float scale, unsigned seed)
    {
        float host[D * E];
        for (int i = 0; i < D * E; ++i) {
            seed = seed * 747796405u + 2891336453u;
            host[i] = scale * ((float)(seed >> 9) / 8388608.0f - 0.5f);
        }
        CHECK(cudaMalloc(&w, sizeof(host)));
        CHECK(cudaMalloc(&dw, sizeof(host)));
        CHECK(cudaMalloc(&in, B * D * sizeof(float)));
        CHECK(cudaMalloc(&out, B * E * sizeof(float)));
        CHECK(cudaMalloc(&dout, B * E * sizeof(float)));
        CHECK(cudaMemcpy(w, host, sizeof(host), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, D * E, DDP_FLOAT32);
        DDP_GRADIENT(dw, D * E, DDP_FLOAT32);
    }
    void forward(cublasHandle_t blas, int n)
    {
        const float one = 1.0f, zero = 0.0f;
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, E, n, D, &one, w, E, in, D, &zero, out, E));
    }
    void backward(cublasHandle_t blas, int n)
    {
        const float one = 1.0f, zero = 0.0f;
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, E, D, n, &one, dout, E, in, D, &zero, dw, E));
    }
};

// A thread for each user. `scores` has n rows of n items; it becomes the gradient of the scores.
__global__ void match_loss(float *scores, float *loss, int n, float inv_temp)
{
    int u = threadIdx.x;
    if (u >= n)
        return;
    float *row = scores + u * n, top = row[0], sum = 0.0f;
    for (int i = 1; i < n; ++i)
        top = fmaxf(top, row[i]);
    for (int i = 0; i < n; ++i)
        sum += expf((row[i] - top) * inv_temp);
    loss[u] = logf(sum) - (row[u] - top) * inv_temp;
    for (int i = 0; i < n; ++i)
        row[i] = (expf((row[i] - top) * inv_temp) / sum - (i == u ? 1.0f : 0.0f)) * inv_temp / n;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 12;
    static float users[PAIRS * D], items[PAIRS * D];
    unsigned s = 4711;
    for (int i = 0; i < PAIRS * D; ++i) {
        s = s * 1103515245u + 12345u;
        users[i] = (float)(s >> 10 & 0xffff) / 65536.0f - 0.5f;
        s = s * 1103515245u + 12345u;
        items[i] = 0.9f * users[i] + 0.2f * ((float)(s >> 10 & 0xffff) / 65536.0f - 0.5f);
    }

    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    Tower user, item;
    user.make(1.0f, 1u);
    item.make(1.0f, 2u);
    float *scores, *loss;
    CHECK(cudaMalloc(&scores, B * B * sizeof(float)));
    CHECK(cudaMalloc(&loss, B * sizeof(float)));

    size_t first, count;
    DDP_SHARD(B, &first, &count);
    const int n = (int)count;
    for (int step = 0; step < steps; ++step) {
        size_t pair = (size_t)(step * B) % PAIRS + first;
        CHECK(cudaMemcpy(user.in, users + pair * D, count * D * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(item.in, items + pair * D, count * D * sizeof(float), cudaMemcpyHostToDevice));
        const float one = 1.0f, zero = 0.0f;
        user.forward(blas, n);
        item.forward(blas, n);
        CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, E, &one, item.out, E, user.out, E, &zero, scores, n));
        match_loss<<<1, 32>>>(scores, loss, n, INVERSE_TEMPERATURE);
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, E, n, n, &one, item.out, E, scores, n, &zero, user.dout, E));
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, E, n, n, &one, user.out, E, scores, n, &zero, item.dout, E));
        user.backward(blas, n);
        item.backward(blas, n);
        DDP_STEP(0);
        const float minus_rate = -0.4f;
        CHECK(cublasSaxpy(blas, D * E, &minus_rate, user.dw, 1, user.w, 1));
        CHECK(cublasSaxpy(blas, D * E, &minus_rate, item.dw, 1, item.w, 1));

        float mean;
        CHECK(cublasSasum(blas, n, loss, 1, &mean));
        mean /= (float)n;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            printf("step %2d  loss %.4f\n", step + 1, mean);
    }
    CHECK(cublasDestroy(blas));
    return 0;
}
