// A net typed by its sizes: Layer<In, Out, Activation> and train<Batch>(); Nesterov momentum.
// Classifies points of two rings; the whole set is on the device.
#include <cuda_runtime.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

struct Identity { static __device__ float f(float x) { return x; } static __device__ float d(float) { return 1; } };
struct Softplus {
    static __device__ float f(float x) { return log1pf(expf(x)); }
    static __device__ float d(float y) { return 1 - expf(-y); }          // by the output
};

template <typename T, int In, int Out> struct Affine { T w[Out][In]; T b[Out]; };

template <typename T, int In, int Out, class Act>
__global__ void apply(const Affine<T, In, Out> *a, const T (*x)[In], T (*y)[Out])
{
    T s = a->b[threadIdx.x];
    for (int k = 0; k < In; ++k) s += a->w[threadIdx.x][k] * x[blockIdx.x][k];
    y[blockIdx.x][threadIdx.x] = Act::f(s);
}

template <typename T, int In, int Out, class Act, int N>
__global__ void pullback(const T (*x)[In], const T (*y)[Out], const T (*dy)[Out], Affine<T, In, Out> *g)
{
    T s = 0;
    for (int i = 0; i < N; ++i) s += dy[i][blockIdx.x] * Act::d(y[i][blockIdx.x]) * (threadIdx.x < In ? x[i][threadIdx.x] : T(1));
    (threadIdx.x < In ? g->w[blockIdx.x][threadIdx.x] : g->b[blockIdx.x]) = s;
}

template <typename T, int In, int Out, class Act>
__global__ void pullback_input(const Affine<T, In, Out> *a, const T (*y)[Out], const T (*dy)[Out], T (*dx)[In])
{
    T s = 0;
    for (int o = 0; o < Out; ++o) s += dy[blockIdx.x][o] * Act::d(y[blockIdx.x][o]) * a->w[o][threadIdx.x];
    dx[blockIdx.x][threadIdx.x] = s;
}

template <typename T, int N> __global__ void hinge(const T (*z)[1], const T *side, T (*dz)[1], T *loss)
{
    int i = threadIdx.x;
    T m = 1 - side[i] * z[i][0];
    loss[i] = m > 0 ? m * m : 0;                                          // squared hinge
    dz[i][0] = m > 0 ? -2 * m * side[i] / N : 0;
}

template <typename T> __global__ void nesterov(T *p, T *v, const T *g, T rate, T mu, int n)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= n) return;
    T old = v[q];
    v[q] = mu * v[q] - rate * g[q];
    p[q] += (1 + mu) * v[q] - mu * old;
}

template <typename T> T *device_array(size_t n = 1)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess || cudaMemset(p, 0, n * sizeof(T)) != cudaSuccess) std::abort();
    return p;
}

template <typename T, int In, int Out, class Act, int N> class Layer {
    using Params = Affine<T, In, Out>;
    static constexpr int count = sizeof(Params) / sizeof(T);
    Params *params = device_array<Params>(), *grad = device_array<Params>(), *velocity = device_array<Params>();
    const T (*x)[In] = nullptr;
public:
    T (*y)[Out] = device_array<T[Out]>(N);
    T (*dx)[In] = device_array<T[In]>(N);
    explicit Layer(std::mt19937 &rng)
    {
        Params h{};
        for (auto &row : h.w)
            for (T &v : row) v = T(rng() % 2001) / 1000 - 1;
        cudaMemcpy(params, &h, sizeof h, cudaMemcpyHostToDevice);
    }
    void forward(const T (*in)[In]) { apply<T, In, Out, Act><<<N, Out>>>(params, x = in, y); }
    void backward(const T (*dy)[Out])
    {
        pullback<T, In, Out, Act, N><<<Out, In + 1>>>(x, y, dy, grad);
        pullback_input<T, In, Out, Act><<<N, In>>>(params, y, dy, dx);
    }
    void update(T rate) { nesterov<T><<<(count + 31) / 32, 32>>>((T *)params, (T *)velocity, (const T *)grad, rate, T(0.8), count); }
    ~Layer() { for (void *p : std::array<void *, 5>{params, grad, velocity, y, dx}) cudaFree(p); }
};

template <int Batch, typename T = float> void train(const T (*points)[2], const T *sides, int total, int steps)
{
    std::mt19937 rng(6);
    Layer<T, 2, 8, Softplus, Batch> first(rng);
    Layer<T, 8, 1, Identity, Batch> second(rng);
    T (*dz)[1] = device_array<T[1]>(Batch), *loss = device_array<T>(Batch);
    for (int step = 0; step < steps; ++step) {
        const int at = step * Batch % total;
        first.forward(points + at);
        second.forward(first.y);
        hinge<T, Batch><<<1, Batch>>>(second.y, sides + at, dz, loss);
        second.backward(dz);
        first.backward(second.dx);
        second.update(T(0.08));
        first.update(T(0.08));
        std::array<T, Batch> l;
        cudaMemcpy(l.data(), loss, sizeof l, cudaMemcpyDeviceToHost);
        T sum = 0;
        for (T v : l) sum += v;
        if (step % 4 == 0 || step == steps - 1) std::printf("step %d: squared hinge %.4f\n", step, double(sum / Batch));
    }
    cudaFree(dz);
    cudaFree(loss);
}

int main()
{
    constexpr int total = 256;
    std::mt19937 rng(1);
    std::vector<std::array<float, 2>> points(total);
    std::vector<float> sides(total);
    for (int i = 0; i < total; ++i) {
        float angle = rng() % 6283 / 1000.0f, radius = (rng() % 2 ? 0.5f : 1.5f) + rng() % 400 / 1000.0f;
        points[i] = {radius * std::cos(angle), radius * std::sin(angle)};
        sides[i] = radius < 1.2f ? 1.0f : -1.0f;
    }
    auto *p = device_array<float[2]>(total);
    auto *s = device_array<float>(total);
    cudaMemcpy(p, points.data(), total * 2 * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(s, sides.data(), total * sizeof(float), cudaMemcpyHostToDevice);
    train<32>(p, s, total, 20);
    cudaFree(p);
    cudaFree(s);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
