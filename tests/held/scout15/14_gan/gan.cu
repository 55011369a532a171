// A generative adversarial network on points of a ring. Two small MLPs, each with its own Adam.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

const int kNoise = 4, kBatch = 34, kSteps = 48;

__global__ void dense(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int act) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = b[i % out];
    for (int k = 0; k < in; k++) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = act ? (s > 0 ? s : 0.2f * s) : s;
}
__global__ void dense_dw(const float *x, const float *dy, float *dw, float *db, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in * out)
        for (int r = 0; r < n; r++) dw[i] += x[r * in + i / out] * dy[r * out + i % out];
    if (i < out)
        for (int r = 0; r < n; r++) db[i] += dy[r * out + i];
}
// gradient of the input; y is that input if it is the output of a leaky unit
__global__ void dense_dx(const float *dy, const float *w, const float *y, float *dx, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0;
    for (int k = 0; k < out; k++) s += dy[i / in * out + k] * w[i % in * out + k];
    dx[i] = y && y[i] < 0 ? 0.2f * s : s;
}
__global__ void bce_logits(const float *z, float *dz, float *loss, float label, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = 1.0f / (1.0f + expf(-z[i]));
    dz[i] = (p - label) / n;
    atomicAdd(loss, -(label * logf(p + 1e-7f) + (1 - label) * logf(1 - p + 1e-7f)) / n);
}
__global__ void adam_step(float *w, const float *g, float *m, float *v, int n, float lr, float bc1, float bc2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.5f * m[i] + 0.5f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= lr * (m[i] * bc1) / (sqrtf(v[i] * bc2) + 1e-6f);
}

static int nblocks(int n) { return (n + 95) / 96; }

class Net {
public:
    Net(int in, int hidden, int out, std::mt19937 &rng) : in_(in), hid_(hidden), out_(out) {
        size_[0] = in * hidden, size_[1] = hidden, size_[2] = hidden * out, size_[3] = out;
        for (int i = 0; i < 4; i++) {
            for (float **p : {&w_[i], &g_[i], &m_[i], &v_[i]}) {
                cudaMalloc(p, size_[i] * sizeof(float));
                cudaMemset(*p, 0, size_[i] * sizeof(float));
            }
            if (i % 2) continue;
            std::normal_distribution<float> d(0.0f, std::sqrt(2.0f / (i ? hidden : in)));
            std::vector<float> h(size_[i]);
            for (auto &e : h) e = d(rng);
            cudaMemcpy(w_[i], h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        }
        cudaMalloc(&h_, kBatch * hidden * sizeof(float));
        cudaMalloc(&dh_, kBatch * hidden * sizeof(float));
        cudaMalloc(&y_, kBatch * out * sizeof(float));
        cudaMalloc(&dx_, kBatch * in * sizeof(float));
    }
    ~Net() {
        for (int i = 0; i < 4; i++) cudaFree(w_[i]), cudaFree(g_[i]), cudaFree(m_[i]), cudaFree(v_[i]);
        cudaFree(h_), cudaFree(dh_), cudaFree(y_), cudaFree(dx_);
    }
    float *forward(const float *x, int n) {
        x_ = x;
        dense<<<nblocks(n * hid_), 96>>>(x, w_[0], w_[1], h_, n, in_, hid_, 1);
        dense<<<nblocks(n * out_), 96>>>(h_, w_[2], w_[3], y_, n, hid_, out_, 0);
        return y_;
    }
    float *backward(const float *dy, int n) {
        dense_dw<<<nblocks(size_[2]), 96>>>(h_, dy, g_[2], g_[3], n, hid_, out_);
        dense_dx<<<nblocks(n * hid_), 96>>>(dy, w_[2], h_, dh_, n, hid_, out_);
        dense_dw<<<nblocks(size_[0]), 96>>>(x_, dh_, g_[0], g_[1], n, in_, hid_);
        dense_dx<<<nblocks(n * in_), 96>>>(dh_, w_[0], nullptr, dx_, n, in_, hid_);
        return dx_;
    }
    void zero_grad() {
        for (int i = 0; i < 4; i++) cudaMemset(g_[i], 0, size_[i] * sizeof(float));
    }
    void step(float lr) {
        t_++;
        float bc1 = 1.0f / (1.0f - std::pow(0.5f, t_)), bc2 = 1.0f / (1.0f - std::pow(0.99f, t_));
        for (int i = 0; i < 4; i++) adam_step<<<nblocks(size_[i]), 96>>>(w_[i], g_[i], m_[i], v_[i], size_[i], lr, bc1, bc2);
    }

private:
    int in_, hid_, out_, t_ = 0, size_[4];
    float *w_[4], *g_[4], *m_[4], *v_[4];
    float *h_, *dh_, *y_, *dx_;
    const float *x_ = nullptr;
};

int main() {
    std::mt19937 rng(77);
    std::normal_distribution<float> normal;
    Net gen(kNoise, 16, 2, rng), disc(2, 24, 1, rng);
    float *real, *noise, *dz, *loss;
    cudaMalloc(&real, kBatch * 2 * sizeof(float));
    cudaMalloc(&noise, kBatch * kNoise * sizeof(float));
    cudaMalloc(&dz, kBatch * sizeof(float));
    cudaMalloc(&loss, 2 * sizeof(float));
    std::vector<float> hr(kBatch * 2), hn(kBatch * kNoise);

    for (int step = 0; step < kSteps; step++) {
        for (int i = 0; i < kBatch; i++) {
            float a = 6.2831853f * (rng() % 1000) / 1000;
            hr[2 * i] = std::cos(a) + 0.05f * normal(rng);
            hr[2 * i + 1] = std::sin(a) + 0.05f * normal(rng);
        }
        for (auto &z : hn) z = normal(rng);
        cudaMemcpy(real, hr.data(), hr.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(noise, hn.data(), hn.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, 2 * sizeof(float));

        // discriminator: real points up, generated points down
        float *fake = gen.forward(noise, kBatch);
        disc.zero_grad();
        bce_logits<<<1, 64>>>(disc.forward(real, kBatch), dz, loss, 1.0f, kBatch);
        disc.backward(dz, kBatch);
        bce_logits<<<1, 64>>>(disc.forward(fake, kBatch), dz, loss, 0.0f, kBatch);
        disc.backward(dz, kBatch);
        disc.step(0.01f);

        // generator: through the updated discriminator
        gen.zero_grad();
        bce_logits<<<1, 64>>>(disc.forward(fake, kBatch), dz, loss + 1, 1.0f, kBatch);
        gen.backward(disc.backward(dz, kBatch), kBatch);
        gen.step(0.01f);

        float l[2];
        cudaMemcpy(l, loss, sizeof(l), cudaMemcpyDeviceToHost);
        if (step % 6 == 5) printf("[%d/%d] loss_d %.4f loss_g %.4f\n", step + 1, kSteps, l[0], l[1]);
    }
    cudaFree(real), cudaFree(noise), cudaFree(dz), cudaFree(loss);
}
