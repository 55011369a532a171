// Restricted Boltzmann machine 16-10, contrastive divergence CD-1 with momentum fused into the update; random numbers
// by counter hash. Truth: state (weights, biases and their momenta around each batch). Batches: 40 (5 epochs of 8
// batches of 32 patterns).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define VIS       16
#define HIDD      10
#define N         32
#define PER_EPOCH 8

#define SAFE(call)                                                                                                \
    {                                                                                                             \
        const cudaError_t error = call;                                                                           \
        if (error != cudaSuccess) {                                                                               \
            printf("Error: %s:%d, code: %d, reason: %s\n", __FILE__, __LINE__, error, cudaGetErrorString(error)); \
            exit(1);                                                                                              \
        }                                                                                                         \
    }

__device__ __host__ inline unsigned
pcg(unsigned v)
{
    unsigned s = v * 747796405u + 2891336453u;
    unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}
__device__ inline float
u01(unsigned counter, unsigned lane)
{
    return (pcg(pcg(counter) + lane) >> 8) * 5.9604645e-8f;
}

class RBM
{
  public:
    // one allocation: W, vis bias, hid bias, and the same again for the momenta
    static constexpr int size = VIS * HIDD + VIS + HIDD;
    RBM()
    {
        SAFE(cudaMalloc(&data_, 2 * size * sizeof(float)));
        std::vector<float> init(2 * size, 0.f);
        for (int i = 0; i < VIS * HIDD; ++i)
            init[i] = 0.1f * ((pcg(i) & 0xffff) / 32768.f - 1.f);
        SAFE(cudaMemcpy(data_, init.data(), 2 * size * sizeof(float), cudaMemcpyHostToDevice));
        SAFE(cudaMalloc(&pv_, N * VIS * sizeof(float)));
        SAFE(cudaMalloc(&v1_, N * VIS * sizeof(float)));
        SAFE(cudaMalloc(&ph0_, N * HIDD * sizeof(float)));
        SAFE(cudaMalloc(&h0_, N * HIDD * sizeof(float)));
        SAFE(cudaMalloc(&ph1_, N * HIDD * sizeof(float)));
        SAFE(cudaMalloc(&err_, sizeof(float)));
    }
    ~RBM()
    {
        for (float *p : {data_, pv_, v1_, ph0_, h0_, ph1_, err_})
            cudaFree(p);
    }
    void train(const float *v, unsigned step, float lr, float mom);
    float error()
    {
        float e;
        SAFE(cudaMemcpy(&e, err_, sizeof e, cudaMemcpyDeviceToHost));
        return e;
    }
    void reconstruct(const float *v);
    truth_list state()
    {
        return {{data_, 2 * size}};
    }
    truth_list weights()
    {
        return {{data_, size}};
    }

  private:
    float *data_, *pv_, *v1_, *ph0_, *h0_, *ph1_, *err_;
};

__global__ void
up(const float *w, const float *v, float *prob, float *sample, unsigned counter)
{
    int n = blockIdx.x, j = threadIdx.x;
    float a = w[VIS * HIDD + VIS + j];
    for (int i = 0; i < VIS; ++i)
        a += v[n * VIS + i] * w[i * HIDD + j];
    a = 1.f / (1.f + expf(-a));
    prob[n * HIDD + j] = a;
    if (sample)
        sample[n * HIDD + j] = u01(counter, n * HIDD + j) < a ? 1.f : 0.f;
}
__global__ void
down(const float *w, const float *h, float *prob, float *sample, unsigned counter)
{
    int n = blockIdx.x, i = threadIdx.x;
    float a = w[VIS * HIDD + i];
    for (int j = 0; j < HIDD; ++j)
        a += h[n * HIDD + j] * w[i * HIDD + j];
    a = 1.f / (1.f + expf(-a));
    prob[n * VIS + i] = a;
    if (sample)
        sample[n * VIS + i] = u01(counter, n * VIS + i) < a ? 1.f : 0.f;
}
__global__ void
squaredError(const float *v, const float *pv, float *err)
{
    __shared__ float s[N];
    float a = 0;
    for (int i = 0; i < VIS; ++i) {
        float d = v[threadIdx.x * VIS + i] - pv[threadIdx.x * VIS + i];
        a += d * d;
    }
    s[threadIdx.x] = a;
    __syncthreads();
    for (int o = N / 2; o > 0; o >>= 1) {
        if (threadIdx.x < o)
            s[threadIdx.x] += s[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *err = s[0] / N;
}
// positive minus negative statistics, momentum and update in one
__global__ void
update(float *w, const float *v0, const float *ph0, const float *v1, const float *ph1, float lr, float mom)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= RBM::size)
        return;
    float d = 0;
    for (int n = 0; n < N; ++n) {
        if (k < VIS * HIDD) {
            int i = k / HIDD, j = k % HIDD;
            d += v0[n * VIS + i] * ph0[n * HIDD + j] - v1[n * VIS + i] * ph1[n * HIDD + j];
        } else if (k < VIS * HIDD + VIS)
            d += v0[n * VIS + k - VIS * HIDD] - v1[n * VIS + k - VIS * HIDD];
        else
            d += ph0[n * HIDD + k - VIS * HIDD - VIS] - ph1[n * HIDD + k - VIS * HIDD - VIS];
    }
    float m = mom * w[RBM::size + k] + lr * d / N;
    w[RBM::size + k] = m;
    w[k] += m;
}

void
RBM::train(const float *v, unsigned step, float lr, float mom)
{
    up<<<N, HIDD>>>(data_, v, ph0_, h0_, 2 * step);
    down<<<N, VIS>>>(data_, h0_, pv_, v1_, 2 * step + 1);
    up<<<N, HIDD>>>(data_, v1_, ph1_, nullptr, 0);
    squaredError<<<1, N>>>(v, pv_, err_);
    update<<<3, 64>>>(data_, v, ph0_, v1_, ph1_, lr, mom);
}
void
RBM::reconstruct(const float *v) // mean field, no sampling
{
    up<<<N, HIDD>>>(data_, v, ph0_, nullptr, 0);
    down<<<N, VIS>>>(data_, ph0_, pv_, nullptr, 0);
    squaredError<<<1, N>>>(v, pv_, err_);
}

int
main()
{
    // bars and stripes 4x4, one pixel in sixteen flipped
    std::vector<float> h((PER_EPOCH + 1) * N * VIS);
    for (int n = 0; n < (PER_EPOCH + 1) * N; ++n) {
        unsigned r = pcg(777 + n), bits = r & 15;
        for (int i = 0; i < VIS; ++i) {
            int on = (bits >> ((r & 16) ? i / 4 : i % 4)) & 1;
            if (pcg(n * 31 + i + 5000) % 32 == 0)
                on ^= 1;
            h[n * VIS + i] = on;
        }
    }
    float *data;
    SAFE(cudaMalloc(&data, h.size() * sizeof(float)));
    SAFE(cudaMemcpy(data, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    {
        RBM rbm;
        truth_by_state truth;
        unsigned step = 0;
        for (int epoch = 0; epoch < 5; ++epoch) {
            float sum = 0;
            for (int b = 0; b < PER_EPOCH; ++b, ++step) {
                truth.begin(rbm.state());
                rbm.train(data + b * N * VIS, step, 0.9f, epoch < 2 ? 0.5f : 0.8f);
                truth.end();
                float e = rbm.error();
                sum += e;
                if (b == 0)
                    printf("epoch %d starts with %.4f, ", epoch, e);
            }
            printf("mean reconstruction error %.4f\n", sum / PER_EPOCH);
        }
        truth.close();
        rbm.reconstruct(data + PER_EPOCH * N * VIS);
        printf("test reconstruction error %.4f\n", rbm.error());
        truth_dump(rbm.weights());
    }
    SAFE(cudaFree(data));
    SAFE(cudaDeviceReset());
    return 0;
}
