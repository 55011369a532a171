// Autoencoder 10 -> 4 -> 10 made of classes: constructors allocate, destructors free.
// The data set is on the device as a whole; batches are offsets into it.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

static float *allocate(size_t n)
{
    float *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) || cudaMemset(p, 0, n * sizeof(float))) {
        std::fprintf(stderr, "out of device memory\n");
        std::exit(1);
    }
    return p;
}

__global__ void dense_fwd(const float *x, const float *w, const float *b, float *y, int in, bool squash)
{
    int i = blockIdx.x, o = threadIdx.x, out = blockDim.x;
    float s = b[o];
    for (int k = 0; k < in; ++k) s += w[o * in + k] * x[i * in + k];
    y[i * out + o] = squash ? tanhf(s) : s;
}

__global__ void dense_wgrad(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int o = blockIdx.x, k = threadIdx.x;
    float s = 0, t = 0;
    for (int i = 0; i < n; ++i) {
        s += dy[i * out + o] * x[i * in + k];
        t += dy[i * out + o];
    }
    dw[o * in + k] = s;
    if (k == 0) db[o] = t;
}

__global__ void dense_xgrad(const float *dy, const float *w, const float *x, float *dx, int out)
{
    int i = blockIdx.x, k = threadIdx.x, in = blockDim.x;
    float s = 0;
    for (int o = 0; o < out; ++o) s += dy[i * out + o] * w[o * in + k];
    dx[i * in + k] = s * (1 - x[i * in + k] * x[i * in + k]);        // x is the tanh of the layer below
}

__global__ void mse(const float *y, const float *x, float *dy, float *loss, float scale)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    float e = y[q] - x[q];
    dy[q] = 2 * e * scale;
    atomicAdd(loss, e * e * scale);
}

__global__ void adam_update(float *w, const float *g, float *m, float *v, float rate, int n)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= n) return;
    m[q] = 0.9f * m[q] + 0.1f * g[q];
    v[q] = 0.99f * v[q] + 0.01f * g[q] * g[q];
    w[q] -= rate * m[q] / (sqrtf(v[q]) + 1e-6f);
}

class Adam {
    struct Slot { float *w, *g, *m, *v; int n; };
    std::vector<Slot> slots;
    int t = 0;
    float rate;
public:
    explicit Adam(float learning_rate) : rate(learning_rate) {}
    ~Adam() { for (Slot &s : slots) { cudaFree(s.m); cudaFree(s.v); } }
    void watch(float *w, float *g, int n) { slots.push_back({w, g, allocate(n), allocate(n), n}); }
    void step()
    {
        ++t;
        float corrected = rate * std::sqrt(1 - std::pow(0.99f, t)) / (1 - std::pow(0.9f, t));
        for (Slot &s : slots) adam_update<<<(s.n + 63) / 64, 64>>>(s.w, s.g, s.m, s.v, corrected, s.n);
    }
};

class Dense {
    int in, out, items;
    bool squash;
    float *weight, *bias, *weight_grad, *bias_grad;
    const float *input = nullptr;
public:
    float *output, *input_grad;
    Dense(int in_, int out_, int items_, bool squash_, Adam &adam)
        : in(in_), out(out_), items(items_), squash(squash_), weight(allocate(in_ * out_)), bias(allocate(out_)),
          weight_grad(allocate(in_ * out_)), bias_grad(allocate(out_)), output(allocate(items_ * out_)), input_grad(allocate(items_ * in_))
    {
        std::vector<float> h(in * out);
        for (float &x : h) x = (std::rand() % 2001 - 1000) * 0.0005f;
        cudaMemcpy(weight, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        adam.watch(weight, weight_grad, in * out);
        adam.watch(bias, bias_grad, out);
    }
    Dense(const Dense &) = delete;
    ~Dense() { for (float *p : {weight, bias, weight_grad, bias_grad, output, input_grad}) cudaFree(p); }
    const float *forward(const float *x)
    {
        input = x;
        dense_fwd<<<items, out>>>(x, weight, bias, output, in, squash);
        return output;
    }
    const float *backward(const float *dy, bool further)
    {
        dense_wgrad<<<out, in>>>(input, dy, weight_grad, bias_grad, items, in, out);
        if (further) dense_xgrad<<<items, in>>>(dy, weight, input, input_grad, out);
        return input_grad;
    }
};

int main()
{
    const int dim = 10, code = 4, samples = 192, batch_size = 16;
    std::srand(3);
    std::vector<float> host(samples * dim);
    for (int i = 0; i < samples; ++i) {
        float a = (std::rand() % 2001 - 1000) * 0.001f, b = (std::rand() % 2001 - 1000) * 0.001f;
        for (int j = 0; j < dim; ++j) host[i * dim + j] = a * std::sin(j + 1.0f) + b * std::cos(2.0f * j);
    }
    float *data = allocate(host.size()), *loss = allocate(1), *dy = allocate(batch_size * dim);
    cudaMemcpy(data, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);

    Adam adam(0.03f);
    Dense encoder(dim, code, batch_size, true, adam), decoder(code, dim, batch_size, false, adam);
    for (int step = 0, offset = 0; step < 18; ++step, offset = (offset + batch_size) % samples) {
        const float *x = data + offset * dim;
        const float *y = decoder.forward(encoder.forward(x));
        cudaMemset(loss, 0, sizeof(float));
        mse<<<batch_size, dim>>>(y, x, dy, loss, 1.0f / (batch_size * dim));
        encoder.backward(decoder.backward(dy, true), false);
        adam.step();
        float l;
        if (cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost)) return 1;
        if (step % 6 == 0 || step == 17) std::printf("step %2d  reconstruction %.5f\n", step, l);
    }
    for (float *p : {data, loss, dy}) cudaFree(p);
    return 0;
}
