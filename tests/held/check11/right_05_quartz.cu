// A deep linear autoencoder without gradient buffers: each gemm of the backward pass adds straight into a momentum
// array, and a second one moves the weights.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define DO(x)                                                                  \
    do {                                                                       \
        int rc = (int)(x);                                                     \
        if (rc) {                                                              \
            fprintf(stderr, "%s = %d at line %d\n", #x, rc, __LINE__);         \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

const int kLayers = 3;
const int kWidth[kLayers + 1] = {24, 12, 12, 24};
const int kBatch = 36, kRows = 360;

static unsigned long long pcg = 0x853c49e6748fea9bull;
static float uniform()
{
    unsigned long long old = pcg;
    pcg = old * 6364136223846793005ull + 0xda3e39cb94b95bdbull;
    unsigned x = (unsigned)(((old >> 18) ^ old) >> 27), rot = (unsigned)(old >> 59);
    x = x >> rot | x << (-rot & 31);
    return x / 2147483648.0f - 1.0f;
}

__global__ void difference(const float *a, const float *b, float *d, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        d[t] = a[t] - b[t];
}

class Chain {
public:
    Chain(float rate, float momentum) : rate_(rate), momentum_(momentum)
    {
        DO(cublasCreate(&blas_));
        DO(cudaStreamCreate(&stream_));
        DO(cublasSetStream(blas_, stream_));
        for (int l = 0; l < kLayers; ++l) {
            int n = kWidth[l] * kWidth[l + 1];
            std::vector<float> v(n);
            for (int i = 0; i < n; ++i)
                v[i] = 0.25f * uniform();
            DO(cudaMalloc(&w_[l], n * sizeof(float)));
            DO(cudaMalloc(&m_[l], n * sizeof(float)));
            DO(cudaMemset(m_[l], 0, n * sizeof(float)));
            DO(cudaMemcpy(w_[l], v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
            DO(cudaMalloc(&a_[l], kBatch * kWidth[l + 1] * sizeof(float)));
            DO(cudaMalloc(&d_[l], kBatch * kWidth[l + 1] * sizeof(float)));
            DDP_PARAMETER(w_[l], n, DDP_FLOAT32);
            DDP_STATE(m_[l], n, DDP_FLOAT32);
        }
    }
    // Columns of x are examples.
    void train(const float *x, int n)
    {
        const float one = 1, zero = 0, minusRate = -rate_, perRow = 1.0f / n;
        const float *in = x;
        for (int l = 0; l < kLayers; ++l) {
            DO(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, kWidth[l + 1], n, kWidth[l], &one, w_[l], kWidth[l + 1], in,
                           kWidth[l], &zero, a_[l], kWidth[l + 1]));
            in = a_[l];
        }
        int size = n * kWidth[kLayers];
        difference<<<(size + 127) / 128, 128, 0, stream_>>>(in, x, d_[kLayers - 1], size);
        for (int l = kLayers - 1; l >= 0; --l) {
            if (l > 0)
                DO(cublasSgemm(blas_, CUBLAS_OP_T, CUBLAS_OP_N, kWidth[l], n, kWidth[l + 1], &one, w_[l], kWidth[l + 1],
                               d_[l], kWidth[l + 1], &zero, d_[l - 1], kWidth[l]));
            DO(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, kWidth[l + 1], kWidth[l], n, &perRow, d_[l], kWidth[l + 1],
                           l > 0 ? a_[l - 1] : x, kWidth[l], &momentum_, m_[l], kWidth[l + 1]));
            DO(cublasSaxpy(blas_, kWidth[l] * kWidth[l + 1], &minusRate, m_[l], 1, w_[l], 1));
        }
        DDP_STEP_PARAMETERS(stream_);
    }
    float error(int n)
    {
        float norm;
        DO(cublasSnrm2(blas_, n * kWidth[kLayers], d_[kLayers - 1], 1, &norm));
        return 0.5f * norm * norm / n;
    }
    void save(const char *path)
    {
        FILE *f = fopen(path, "wb");
        DO(cudaStreamSynchronize(stream_));
        for (int l = 0; l < kLayers; ++l) {
            std::vector<float> v(kWidth[l] * kWidth[l + 1]);
            DO(cudaMemcpy(v.data(), w_[l], v.size() * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), v.size(), f);
        }
        fclose(f);
    }
    ~Chain()
    {
        cudaStreamSynchronize(stream_);
        cublasDestroy(blas_);
    }

private:
    cublasHandle_t blas_;
    cudaStream_t stream_;
    float rate_, momentum_;
    float *w_[kLayers], *m_[kLayers], *a_[kLayers], *d_[kLayers];
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    const int latent = 5, width = kWidth[0];
    std::vector<float> basis(latent * width), data(kRows * width);
    for (float &b : basis)
        b = uniform();
    for (int i = 0; i < kRows; ++i) {
        float z[latent];
        for (float &v : z)
            v = uniform();
        for (int k = 0; k < width; ++k) {
            float s = 0.05f * uniform();
            for (int q = 0; q < latent; ++q)
                s += z[q] * basis[q * width + k];
            data[i * width + k] = s;
        }
    }
    float *x;
    DO(cudaMalloc(&x, data.size() * sizeof(float)));
    DO(cudaMemcpy(x, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));

    Chain chain(0.08f, 0.8f);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        chain.train(x + ((size_t)step * kBatch % kRows + first) * width, (int)count);
        if (step % 10 == 0 || step == steps - 1) {
            float loss = chain.error((int)count);
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("step %d, loss %.5f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0)
        chain.save(argv[1]);
    return 0;
}
