/* Where is the hand of an arm with four joints? Two layers by cuBLAS that are updated inside backward. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A number in [0, 1) that depends on its two arguments only. */
static __host__ __device__ inline float
uniform(unsigned seed, unsigned i)
{
    unsigned x = seed * 0x9e3779b9u + i * 0x85ebca6bu + 0x7f4a7c15u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (x >> 8) * (1.0f / 16777216.0f);
}

static float *
zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc((void **)&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

template <typename T> static T *
upload(const std::vector<T> &values)
{
    T *p;
    CHECK(cudaMalloc((void **)&p, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static inline int
blocks(size_t n)
{
    return (int)((n + 63) / 64);
}

#define CHECK_BLAS(call)                                                 \
    do {                                                                 \
        if ((call) != CUBLAS_STATUS_SUCCESS) {                           \
            fprintf(stderr, "%s:%d: cuBLAS failed\n", __FILE__, __LINE__); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

enum { JOINTS = 4, HIDDEN = 20, PLACE = 2, POSES = 480, BATCH = 48, STEPS = 80 };

__global__ void
tanh_forward(float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        h[i] = tanhf(h[i]);
}

__global__ void
tanh_backward(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dh[i] *= 1.0f - h[i] * h[i];
}

__global__ void
subtract(float *error, const float *target, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        error[i] -= target[i];
}

int
main()
{
    std::vector<float> angles(POSES * JOINTS), hands(POSES * PLACE), a0(HIDDEN * JOINTS), b0(PLACE * HIDDEN);
    for (int p = 0; p < POSES; ++p) {
        float turn = 0.0f;
        for (int j = 0; j < JOINTS; ++j) {
            angles[p * JOINTS + j] = 1.6f * (uniform(1, p * JOINTS + j) - 0.5f);
            turn += angles[p * JOINTS + j];
            hands[p * PLACE] += 0.4f * sinf(turn);
            hands[p * PLACE + 1] += 0.15f * (4 - j) * sinf(1.5f * turn);
        }
    }
    for (size_t i = 0; i < a0.size(); ++i)
        a0[i] = 1.2f * (uniform(2, i) - 0.5f);
    for (size_t i = 0; i < b0.size(); ++i)
        b0[i] = 0.4f * (uniform(3, i) - 0.5f);

    /* Columns are poses: hidden = tanh(a x), hand = b hidden. */
    float *x_all = upload(angles), *target_all = upload(hands), *a = upload(a0), *b = upload(b0);
    float *hidden = zeros(HIDDEN * BATCH), *dhidden = zeros(HIDDEN * BATCH), *error = zeros(PLACE * BATCH);
    cublasHandle_t blas;
    CHECK_BLAS(cublasCreate(&blas));
    DDP_PARAMETER(a, HIDDEN * JOINTS, DDP_FLOAT32);
    DDP_PARAMETER(b, PLACE * HIDDEN, DDP_FLOAT32);

    const float one = 1.0f, zero = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % POSES + first;
        const float *x = x_all + begin * JOINTS, *target = target_all + begin * PLACE;
        const int n = (int)count;
        const float rate = 0.5f * (1.0f - 0.5f * step / STEPS), alpha = -rate / n;
        CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, HIDDEN, n, JOINTS, &one, a, HIDDEN, x, JOINTS, &zero, hidden, HIDDEN));
        tanh_forward<<<blocks(HIDDEN * n), 64>>>(hidden, HIDDEN * n);
        CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, PLACE, n, HIDDEN, &one, b, PLACE, hidden, HIDDEN, &zero, error, PLACE));
        subtract<<<blocks(PLACE * n), 64>>>(error, target, PLACE * n);

        /* The gradient of the hidden layer first, with the weights before their update. */
        CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, HIDDEN, n, PLACE, &one, b, PLACE, error, PLACE, &zero, dhidden, HIDDEN));
        tanh_backward<<<blocks(HIDDEN * n), 64>>>(dhidden, hidden, HIDDEN * n);
        CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, PLACE, HIDDEN, n, &alpha, error, PLACE, hidden, HIDDEN, &one, b, PLACE));
        CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, HIDDEN, JOINTS, n, &alpha, dhidden, HIDDEN, x, JOINTS, &one, a, HIDDEN));
        DDP_STEP_PARAMETERS(0);
        if (step % 20 == 19) {
            std::vector<float> host(PLACE * n);
            CHECK(cudaMemcpy(host.data(), error, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float e : host)
                loss += e * e / n;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.5f\n", step + 1, loss);
        }
    }
    CHECK_BLAS(cublasDestroy(blas));
    return 0;
}
