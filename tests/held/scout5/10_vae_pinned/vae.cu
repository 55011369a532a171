// Variational autoencoder, Gaussian latent, Bernoulli output. cuBLAS for the products; one stream; data and noise come
// through pinned staging buffers.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>
#include <algorithm>

#define CK(x) do { auto rc_ = (x); if ((int)rc_ != 0) { fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, (int)rc_); exit(1); } } while (0)

constexpr int PIX = 49, HID = 40, LAT = 4;
constexpr int BS = 64;
constexpr int NSAMPLES = 1280;
constexpr int EPOCHS = 7;

static cublasHandle_t blas;
static cudaStream_t stream;

inline int nb(int n) { return (n + 127) / 128; }

// ----- kernels, all arrays are row major: batch x features -----
__global__ void bias_act(float *y, const float *b, int n, int cols, bool relu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = y[i] + b[i % cols];
        y[i] = relu && v < 0 ? 0 : v;
    }
}
__global__ void relu_mask(float *d, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0)
        d[i] = 0;
}
__global__ void reparam(const float *stats, const float *eps, float *z, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch * LAT) {
        int s = i / LAT, l = i % LAT;
        z[i] = stats[s * 2 * LAT + l] + expf(0.5f * stats[s * 2 * LAT + LAT + l]) * eps[i];
    }
}
__global__ void bce(const float *logit, const float *x, float *d, float *loss, int n, float inv_batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float p = 1.0f / (1.0f + expf(-logit[i]));
        d[i] = (p - x[i]) * inv_batch;
        float l = fmaxf(logit[i], 0.f) - logit[i] * x[i] + log1pf(expf(-fabsf(logit[i])));
        atomicAdd(loss, l * inv_batch);
    }
}
__global__ void latent_grad(const float *stats, const float *eps, const float *dz, float *dstats, float *loss, int batch, float inv_batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch * LAT) {
        int s = i / LAT, l = i % LAT;
        float mu = stats[s * 2 * LAT + l], lv = stats[s * 2 * LAT + LAT + l], e = expf(lv);
        dstats[s * 2 * LAT + l] = dz[i] + mu * inv_batch;
        dstats[s * 2 * LAT + LAT + l] = dz[i] * eps[i] * 0.5f * sqrtf(e) + 0.5f * (e - 1) * inv_batch;
        atomicAdd(loss, 0.5f * (mu * mu + e - 1 - lv) * inv_batch);
    }
}
__global__ void colsum(const float *d, float *out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        float s = 0;
        for (int r = 0; r < rows; ++r)
            s += d[r * cols + c];
        out[c] = s;
    }
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr_t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.001f * (g[i] * g[i] - v[i]);
        w[i] -= lr_t * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

float *dalloc(int n)
{
    float *p;
    CK(cudaMalloc(&p, n * sizeof(float)));
    CK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

struct Linear {
    int in, out;
    bool relu;
    float *w, *b, *gw, *gb, *mw, *vw, *mb, *vb, *y, *dy;
    Linear(int i, int o, bool r, std::mt19937 &rng) : in(i), out(o), relu(r)
    {
        std::normal_distribution<float> nd(0, std::sqrt(1.5f / in));
        std::vector<float> h(in * out);
        std::generate(h.begin(), h.end(), [&] { return nd(rng); });
        w = dalloc(in * out); gw = dalloc(in * out); mw = dalloc(in * out); vw = dalloc(in * out);
        b = dalloc(out); gb = dalloc(out); mb = dalloc(out); vb = dalloc(out);
        y = dalloc(BS * out); dy = dalloc(BS * out);
        CK(cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    // y = x w + b with row major matrices
    float *forward(const float *x)
    {
        const float one = 1, zero = 0;
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, out, BS, in, &one, w, out, x, in, &zero, y, out));
        bias_act<<<nb(BS * out), 128, 0, stream>>>(y, b, BS * out, out, relu);
        return y;
    }
    void backward(const float *x, float *dx)
    {
        const float one = 1, zero = 0;
        if (relu)
            relu_mask<<<nb(BS * out), 128, 0, stream>>>(dy, y, BS * out);
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, BS, &one, dy, out, x, in, &zero, gw, out));
        colsum<<<nb(out), 128, 0, stream>>>(dy, gb, BS, out);
        if (dx)
            CK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, in, BS, out, &one, w, out, dy, out, &zero, dx, in));
    }
    void update(float lr_t)
    {
        adam<<<nb(in * out), 128, 0, stream>>>(w, gw, mw, vw, in * out, lr_t);
        adam<<<nb(out), 128, 0, stream>>>(b, gb, mb, vb, out, lr_t);
    }
    void free()
    {
        for (float *p : {w, b, gw, gb, mw, vw, mb, vb, y, dy})
            cudaFree(p);
    }
};

int main()
{
    std::mt19937 rng(99);
    std::uniform_real_distribution<float> u(0, 1);
    std::normal_distribution<float> nd(0, 1);
    std::vector<float> data(NSAMPLES * PIX);
    for (int s = 0; s < NSAMPLES; ++s) { // a blob somewhere in a 7x7 image
        float cx = 1 + 4 * u(rng), cy = 1 + 4 * u(rng);
        for (int p = 0; p < PIX; ++p) {
            float dx = p % 7 - cx, dy = p / 7 - cy;
            data[s * PIX + p] = std::exp(-(dx * dx + dy * dy) / 2.0f);
        }
    }

    CK(cudaStreamCreate(&stream));
    CK(cublasCreate(&blas));
    CK(cublasSetStream(blas, stream));
    Linear enc1(PIX, HID, true, rng), enc2(HID, 2 * LAT, false, rng), dec1(LAT, HID, true, rng), dec2(HID, PIX, false, rng);
    Linear *layers[] = {&enc1, &enc2, &dec1, &dec2};

    float *hx, *heps, *hloss;
    CK(cudaMallocHost(&hx, BS * PIX * sizeof(float)));
    CK(cudaMallocHost(&heps, BS * LAT * sizeof(float)));
    CK(cudaMallocHost(&hloss, sizeof(float)));
    float *x = dalloc(BS * PIX), *eps = dalloc(BS * LAT), *z = dalloc(BS * LAT), *dz = dalloc(BS * LAT), *loss = dalloc(1);

    std::vector<int> order(NSAMPLES);
    std::iota(order.begin(), order.end(), 0);
    int t = 0;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        float sum = 0;
        for (int start = 0; start < NSAMPLES; start += BS) {
            for (int i = 0; i < BS; ++i)
                std::copy_n(&data[order[start + i] * PIX], PIX, hx + i * PIX);
            for (int i = 0; i < BS * LAT; ++i)
                heps[i] = nd(rng);
            CK(cudaMemcpyAsync(x, hx, BS * PIX * sizeof(float), cudaMemcpyHostToDevice, stream));
            CK(cudaMemcpyAsync(eps, heps, BS * LAT * sizeof(float), cudaMemcpyHostToDevice, stream));
            CK(cudaMemsetAsync(loss, 0, sizeof(float), stream));

            enc2.forward(enc1.forward(x));
            reparam<<<nb(BS * LAT), 128, 0, stream>>>(enc2.y, eps, z, BS);
            dec2.forward(dec1.forward(z));
            bce<<<nb(BS * PIX), 128, 0, stream>>>(dec2.y, x, dec2.dy, loss, BS * PIX, 1.0f / BS);
            dec2.backward(dec1.y, dec1.dy);
            dec1.backward(z, dz);
            latent_grad<<<nb(BS * LAT), 128, 0, stream>>>(enc2.y, eps, dz, enc2.dy, loss, BS, 1.0f / BS);
            enc2.backward(enc1.y, enc1.dy);
            enc1.backward(x, nullptr);

            ++t;
            float lr_t = 0.01f * std::sqrt(1 - std::pow(0.999f, t)) / (1 - std::pow(0.9f, t));
            for (Linear *l : layers)
                l->update(lr_t);
            CK(cudaMemcpyAsync(hloss, loss, sizeof(float), cudaMemcpyDeviceToHost, stream));
            CK(cudaStreamSynchronize(stream));
            sum += *hloss;
        }
        printf("epoch %d  -ELBO (loss): %.4f\n", epoch, sum / (NSAMPLES / BS));
    }
    for (Linear *l : layers)
        l->free();
    for (float *p : {x, eps, z, dz, loss})
        cudaFree(p);
    cudaFreeHost(hx);
    cudaFreeHost(heps);
    cudaFreeHost(hloss);
    cublasDestroy(blas);
    cudaStreamDestroy(stream);
    return 0;
}
