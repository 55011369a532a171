// GAN that learns a tilted normal distribution in the plane. Generator and discriminator have an optimizer each.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int NOISE = 6;
constexpr int BATCH = 96;
constexpr int ITERATIONS = 150;

#define CUDA(x)                                                                                   \
    do {                                                                                          \
        if ((x) != cudaSuccess) {                                                                 \
            printf("error in line %d: %s\n", __LINE__, cudaGetErrorString(cudaGetLastError()));   \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

// y = act(x w + b); thread per output, block per sample
__global__ void fc(const float *x, const float *w, const float *b, float *y, int in, int out, int relu)
{
    int s = blockIdx.x, o = threadIdx.x;
    float a = b[o];
    for (int i = 0; i < in; i++)
        a += x[s * in + i] * w[i * out + o];
    y[s * out + o] = relu && a < 0 ? 0.2f * a : a;
}

__global__ void fcBackWeights(const float *x, const float *dy, float *dw, float *db, int in, int out, int samples)
{
    int i = blockIdx.x, o = threadIdx.x;
    float a = 0;
    for (int s = 0; s < samples; s++)
        a += (i < in ? x[s * in + i] : 1.0f) * dy[s * out + o];
    if (i < in)
        dw[i * out + o] += a;
    else
        db[o] += a;
}

__global__ void fcBackInput(const float *dy, const float *w, const float *x, float *dx, int in, int out, int relu)
{
    int s = blockIdx.x, i = threadIdx.x;
    float a = 0;
    for (int o = 0; o < out; o++)
        a += dy[s * out + o] * w[i * out + o];
    dx[s * in + i] = relu && x[s * in + i] < 0 ? 0.2f * a : a;
}

// sigmoid cross entropy, averaged over the samples
__global__ void bce(const float *logit, float label, float *dy, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float p = 1 / (1 + expf(-logit[i]));
        dy[i] = (p - label) / n;
        atomicAdd(loss, -(label * logf(p + 1e-7f) + (1 - label) * logf(1 - p + 1e-7f)) / n);
    }
}

__global__ void adamStep(float *w, float *g, float *m, float *v, int n, float lr, float b1t, float b2t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = 0.5f * m[i] + 0.5f * g[i];
        v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
        w[i] -= lr * (m[i] / (1 - b1t)) / (sqrtf(v[i] / (1 - b2t)) + 1e-7f);
        g[i] = 0;
    }
}

struct MLP {
    std::vector<int> dims;
    std::vector<float *> w, b, dw, db, act, grad;   // act[0] is the input
    std::vector<float *> mw, vw, mb, vb;
    float b1t = 1, b2t = 1;

    static float *zeros(int n)
    {
        float *p;
        CUDA(cudaMalloc(&p, n * sizeof(float)));
        CUDA(cudaMemset(p, 0, n * sizeof(float)));
        return p;
    }
    MLP(std::vector<int> d, int samples, std::mt19937 &rng) : dims(d)
    {
        for (size_t l = 0; l < dims.size(); l++) {
            act.push_back(zeros(samples * dims[l]));
            grad.push_back(zeros(samples * dims[l]));
        }
        for (size_t l = 0; l + 1 < dims.size(); l++) {
            int n = dims[l] * dims[l + 1];
            std::normal_distribution<float> nd(0, std::sqrt(1.5f / dims[l]));
            std::vector<float> h(n);
            for (float &x : h)
                x = nd(rng);
            w.push_back(zeros(n)); dw.push_back(zeros(n)); mw.push_back(zeros(n)); vw.push_back(zeros(n));
            b.push_back(zeros(dims[l + 1])); db.push_back(zeros(dims[l + 1]));
            mb.push_back(zeros(dims[l + 1])); vb.push_back(zeros(dims[l + 1]));
            CUDA(cudaMemcpy(w[l], h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        }
    }
    int layers() const { return (int)w.size(); }
    float *output() { return act.back(); }
    void forward(const float *input, int samples)
    {
        CUDA(cudaMemcpy(act[0], input, samples * dims[0] * sizeof(float), cudaMemcpyDefault));
        for (int l = 0; l < layers(); l++)
            fc<<<samples, dims[l + 1]>>>(act[l], w[l], b[l], act[l + 1], dims[l], dims[l + 1], l + 1 < layers());
    }
    // grad.back() holds the derivative of the output
    void backward(int samples, bool weights)
    {
        for (int l = layers() - 1; l >= 0; l--) {
            if (weights)
                fcBackWeights<<<dims[l] + 1, dims[l + 1]>>>(act[l], grad[l + 1], dw[l], db[l], dims[l], dims[l + 1], samples);
            fcBackInput<<<samples, dims[l]>>>(grad[l + 1], w[l], act[l], grad[l], dims[l], dims[l + 1], l > 0);
        }
    }
    void update(float lr)
    {
        b1t *= 0.5f;
        b2t *= 0.99f;
        for (int l = 0; l < layers(); l++) {
            int n = dims[l] * dims[l + 1];
            adamStep<<<(n + 127) / 128, 128>>>(w[l], dw[l], mw[l], vw[l], n, lr, b1t, b2t);
            adamStep<<<1, 128>>>(b[l], db[l], mb[l], vb[l], dims[l + 1], lr, b1t, b2t);
        }
    }
};

int main()
{
    std::mt19937 rng(4242);
    MLP G({NOISE, 32, 32, 2}, BATCH, rng);
    MLP D({2, 40, 40, 1}, BATCH, rng);
    float *loss;
    CUDA(cudaMalloc(&loss, 2 * sizeof(float)));

    std::normal_distribution<float> nd(0, 1);
    std::vector<float> real(BATCH * 2), noise(BATCH * NOISE), fake(BATCH * 2);
    const int grid = (BATCH + 63) / 64;

    for (int it = 0; it < ITERATIONS; it++) {
        for (int i = 0; i < BATCH; i++) {
            float a = nd(rng), b = nd(rng);
            real[2 * i] = 2.0f + 0.6f * a;
            real[2 * i + 1] = -1.0f + 0.4f * a + 0.3f * b;
        }
        for (float &x : noise)
            x = nd(rng);
        CUDA(cudaMemset(loss, 0, 2 * sizeof(float)));

        // discriminator: real samples, then generated ones
        D.forward(real.data(), BATCH);
        bce<<<grid, 64>>>(D.output(), 1.0f, D.grad.back(), &loss[0], BATCH);
        D.backward(BATCH, true);
        G.forward(noise.data(), BATCH);
        D.forward(G.output(), BATCH);
        bce<<<grid, 64>>>(D.output(), 0.0f, D.grad.back(), &loss[0], BATCH);
        D.backward(BATCH, true);
        D.update(0.002f);

        // generator, through the new discriminator
        D.forward(G.output(), BATCH);
        bce<<<grid, 64>>>(D.output(), 1.0f, D.grad.back(), &loss[1], BATCH);
        D.backward(BATCH, false);
        CUDA(cudaMemcpy(G.grad.back(), D.grad[0], BATCH * 2 * sizeof(float), cudaMemcpyDeviceToDevice));
        G.backward(BATCH, true);
        G.update(0.002f);

        if (it % 15 == 0 || it == ITERATIONS - 1) {
            float h[2];
            CUDA(cudaMemcpy(h, loss, sizeof(h), cudaMemcpyDeviceToHost));
            CUDA(cudaMemcpy(fake.data(), G.output(), fake.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float mx = 0, my = 0;
            for (int i = 0; i < BATCH; i++) {
                mx += fake[2 * i] / BATCH;
                my += fake[2 * i + 1] / BATCH;
            }
            printf("%4d  D loss %.4f  G loss %.4f  distance of the means %.4f\n", it, h[0], h[1], std::hypot(mx - 2, my + 1));
        }
    }
    return 0;
}
