// Coordinate network: learns an image as a function of (u, v) with random Fourier features.
// Pixels are drawn on the device, so that nothing is copied during training.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>
#include <cuda_runtime.h>

namespace cfg {
constexpr int side = 64;
constexpr int freqs = 16;            // sine and cosine of each
constexpr int hidden = 48;
constexpr int batch = 256;
constexpr int steps = 150;
constexpr float lr = 4e-3f;
}

template <typename T> struct CudaDelete {
    void operator()(T *p) const { cudaFree(p); }
};
template <typename T> using gpu_ptr = std::unique_ptr<T[], CudaDelete<T>>;

template <typename T> gpu_ptr<T> gpu_alloc(size_t n)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) std::abort();
    cudaMemset(p, 0, n * sizeof(T));
    return gpu_ptr<T>(p);
}

__device__ inline unsigned pcg_hash(unsigned v)
{
    unsigned s = v * 747796405u + 2891336453u;
    unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}

// draws pixels and encodes their coordinates
__global__ void draw(const float3 *image, const float *B, float *enc, float3 *target, unsigned seed, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned pixel = pcg_hash(seed * 9781u + i) % (cfg::side * cfg::side);
    float u = (pixel % cfg::side) / (float)cfg::side, v = (pixel / cfg::side) / (float)cfg::side;
    target[i] = image[pixel];
    for (int f = 0; f < cfg::freqs; ++f) {
        float a = 6.2831853f * (B[2 * f] * u + B[2 * f + 1] * v);
        enc[i * 2 * cfg::freqs + 2 * f] = sinf(a);
        enc[i * 2 * cfg::freqs + 2 * f + 1] = cosf(a);
    }
}

__global__ void dense(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool relu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = b[i % out];
    const float *xr = x + i / out * in;
    for (int k = 0; k < in; ++k) s += xr[k] * w[k * out + i % out];
    y[i] = relu ? fmaxf(s, 0.f) : s;
}

// L2 loss; the image has three channels
__global__ void l2(const float *y, const float3 *target, float *dy, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e[3] = {y[3 * i] - target[i].x, y[3 * i + 1] - target[i].y, y[3 * i + 2] - target[i].z};
    float s = 0;
    for (int c = 0; c < 3; ++c) {
        dy[3 * i + c] = 2.f * e[c] / (3 * n);
        s += e[c] * e[c];
    }
    atomicAdd(loss, s / (3 * n));
}

// threads (k, c) with k == in for the bias; blockIdx.y is a slice of the batch
__global__ void dense_grad(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, c = i % out;
    int per = (n + gridDim.y - 1) / gridDim.y, from = blockIdx.y * per, to = min(n, from + per);
    float s = 0;
    for (int r = from; r < to; ++r) s += (k < in ? x[r * in + k] : 1.f) * dy[r * out + c];
    atomicAdd(k < in ? &gw[i] : &gb[c], s);
}

__global__ void dense_back(const float *dy, const float *w, const float *x, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[i / in * out + c] * w[i % in * out + c];
    dx[i] = x[i] > 0 ? s : 0;
}

__global__ void adam(float *w, float *g, float2 *mv, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    mv[i].x = 0.9f * mv[i].x + 0.1f * g[i];
    mv[i].y = 0.99f * mv[i].y + 0.01f * g[i] * g[i];
    w[i] -= rate * mv[i].x / (sqrtf(mv[i].y) + 1e-10f);
    g[i] = 0;
}

struct Dense {
    int in, out, count;
    gpu_ptr<float> theta, grad;      // weights, then biases
    gpu_ptr<float2> moments;
    gpu_ptr<float> y, dy;

    Dense(int in_, int out_, std::mt19937 &rng)
        : in(in_), out(out_), count((in_ + 1) * out_), theta(gpu_alloc<float>(count)), grad(gpu_alloc<float>(count)),
          moments(gpu_alloc<float2>(count)), y(gpu_alloc<float>(cfg::batch * out_)),
          dy(gpu_alloc<float>(cfg::batch * out_))
    {
        std::normal_distribution<float> d(0, sqrtf(2.f / in));
        std::vector<float> h(in * out);
        for (float &v : h) v = d(rng);
        cudaMemcpy(theta.get(), h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    float *w() const { return theta.get(); }
    float *b() const { return theta.get() + in * out; }
    const float *forward(const float *x, bool relu)
    {
        dense<<<(cfg::batch * out + 127) / 128, 128>>>(x, w(), b(), y.get(), cfg::batch, in, out, relu);
        return y.get();
    }
    void backward(const float *x, float *dx)
    {
        dim3 grid((count + 127) / 128, 4);
        dense_grad<<<grid, 128>>>(x, dy.get(), grad.get(), grad.get() + in * out, cfg::batch, in, out);
        if (dx) dense_back<<<(cfg::batch * in + 127) / 128, 128>>>(dy.get(), w(), x, dx, cfg::batch, in, out);
    }
};

int main()
{
    std::mt19937 rng(55);
    std::normal_distribution<float> normal(0, 1.2f);

    std::vector<float3> pixels(cfg::side * cfg::side);
    for (int y = 0; y < cfg::side; ++y)
        for (int x = 0; x < cfg::side; ++x) {
            float u = x / (float)cfg::side, v = y / (float)cfg::side, r = hypotf(u - .5f, v - .4f);
            pixels[y * cfg::side + x] =
                make_float3(.5f + .5f * sinf(12 * u), r < .25f ? .9f : .1f + .5f * v, .5f + .5f * cosf(9 * v + 4 * u));
        }
    auto image = gpu_alloc<float3>(pixels.size());
    cudaMemcpy(image.get(), pixels.data(), pixels.size() * sizeof(float3), cudaMemcpyHostToDevice);
    std::vector<float> hB(2 * cfg::freqs);
    for (float &f : hB) f = normal(rng);
    auto B = gpu_alloc<float>(hB.size());
    cudaMemcpy(B.get(), hB.data(), hB.size() * sizeof(float), cudaMemcpyHostToDevice);

    std::vector<Dense> net;
    net.emplace_back(2 * cfg::freqs, cfg::hidden, rng);
    net.emplace_back(cfg::hidden, cfg::hidden, rng);
    net.emplace_back(cfg::hidden, 3, rng);

    auto enc = gpu_alloc<float>(cfg::batch * 2 * cfg::freqs);
    auto target = gpu_alloc<float3>(cfg::batch);
    auto loss = gpu_alloc<float>(1);

    for (int step = 1; step <= cfg::steps; ++step) {
        draw<<<(cfg::batch + 63) / 64, 64>>>(image.get(), B.get(), enc.get(), target.get(), step, cfg::batch);
        const float *x = enc.get();
        for (size_t l = 0; l < net.size(); ++l) x = net[l].forward(x, l + 1 < net.size());
        l2<<<(cfg::batch + 63) / 64, 64>>>(x, target.get(), net.back().dy.get(), loss.get(), cfg::batch);
        for (int l = (int)net.size() - 1; l >= 0; --l)
            net[l].backward(l ? net[l - 1].y.get() : enc.get(), l ? net[l - 1].dy.get() : nullptr);
        float rate = cfg::lr * sqrtf(1 - powf(.99f, step)) / (1 - powf(.9f, step));
        for (Dense &d : net) adam<<<(d.count + 127) / 128, 128>>>(d.theta.get(), d.grad.get(), d.moments.get(), rate, d.count);

        if (step % 15 == 0) {
            float h;
            cudaMemcpy(&h, loss.get(), sizeof h, cudaMemcpyDeviceToHost);
            cudaMemset(loss.get(), 0, sizeof h);
            printf("step %3d  loss %.5f  psnr %.2f dB\n", step, h / 15, -10 * log10f(h / 15));
        }
    }
    return cudaGetLastError() != cudaSuccess;
}
