// Predicts the energy of a chain of particles from its distances. The GPU computes the gradient, the host keeps the
// weights' step sizes and updates them with Rprop.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

static const int IN = 10, HID = 20, ROWS = 320, BATCH = 80;
static const int OFF_B1 = IN * HID, OFF_W2 = OFF_B1 + HID, OFF_B2 = OFF_W2 + HID, COUNT = OFF_B2 + 1;

#define DO(x)                                                          \
    do {                                                               \
        cudaError_t r = (x);                                           \
        if (r != cudaSuccess) {                                        \
            fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(r));    \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static unsigned lfsr = 0xace1u;
static float next_float()
{
    for (int i = 0; i < 20; ++i)
        lfsr = (lfsr >> 1) ^ (-(lfsr & 1u) & 0xd0000001u);
    return (lfsr & 0xffffff) / 16777216.0f;
}

__global__ void predict(const float *x, const float *y, const float *w, float *hid, float *diff, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float out = w[OFF_B2];
    for (int j = 0; j < HID; ++j) {
        float s = w[OFF_B1 + j];
        for (int k = 0; k < IN; ++k)
            s += x[i * IN + k] * w[k * HID + j];
        s = s / (1 + expf(-s)); // swish
        hid[i * HID + j] = s;
        out += s * w[OFF_W2 + j];
    }
    diff[i] = out - y[i];
}

__global__ void gradient(const float *x, const float *w, const float *hid, const float *diff, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= COUNT)
        return;
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        float d = diff[i];
        if (t >= OFF_B2) {
            sum += d;
        } else if (t >= OFF_W2) {
            sum += d * hid[i * HID + t - OFF_W2];
        } else {
            int j = t >= OFF_B1 ? t - OFF_B1 : t % HID;
            float z = w[OFF_B1 + j];
            for (int k = 0; k < IN; ++k)
                z += x[i * IN + k] * w[k * HID + j];
            float sg = 1 / (1 + expf(-z));
            d *= w[OFF_W2 + j] * (sg + z * sg * (1 - sg));
            sum += t >= OFF_B1 ? d : d * x[i * IN + t / HID];
        }
    }
    g[t] = 2 * sum / n;
}

// Resilient propagation: signs of the gradient only.
class Rprop {
public:
    explicit Rprop(size_t n) : size_(n, 0.01f), before_(n, 0.0f) {}
    void update(std::vector<float> &w, const std::vector<float> &g)
    {
        for (size_t i = 0; i < w.size(); ++i) {
            float now = g[i];
            if (now * before_[i] > 0) {
                size_[i] = fminf(size_[i] * 1.2f, 0.1f);
            } else if (now * before_[i] < 0) {
                size_[i] = fmaxf(size_[i] * 0.5f, 1e-5f);
                now = 0;
            }
            before_[i] = now;
            w[i] -= now > 0 ? size_[i] : now < 0 ? -size_[i] : 0;
        }
    }

private:
    std::vector<float> size_, before_;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> hx(ROWS * IN), hy(ROWS), hw(COUNT), hg(COUNT);
    for (int i = 0; i < ROWS; ++i) {
        float e = 0;
        for (int k = 0; k < IN; ++k) {
            float d = 0.8f + 0.8f * next_float(), m = 1 - expf(-1.5f * (d - 1));
            hx[i * IN + k] = 2 * (d - 1.2f);
            e += m * m;
        }
        hy[i] = e - 1.5f;
    }
    for (int i = 0; i < COUNT; ++i)
        hw[i] = 0.6f * (next_float() - 0.5f);

    float *x, *y, *w, *g, *hid, *diff;
    DO(cudaMalloc(&x, hx.size() * sizeof(float)));
    DO(cudaMalloc(&y, hy.size() * sizeof(float)));
    DO(cudaMalloc(&w, COUNT * sizeof(float)));
    DO(cudaMalloc(&g, COUNT * sizeof(float)));
    DO(cudaMalloc(&hid, BATCH * HID * sizeof(float)));
    DO(cudaMalloc(&diff, BATCH * sizeof(float)));
    DO(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
    DO(cudaMemcpy(y, hy.data(), hy.size() * sizeof(float), cudaMemcpyHostToDevice));
    DO(cudaMemcpy(w, hw.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(g, COUNT, DDP_FLOAT32);

    Rprop rprop(COUNT);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t at = (size_t)step * BATCH % ROWS + first;

        predict<<<(n + 31) / 32, 32>>>(x + at * IN, y + at, w, hid, diff, n);
        gradient<<<(COUNT + 31) / 32, 32>>>(x + at * IN, w, hid, diff, g, n);
        DO(cudaMemcpy(hg.data(), g, COUNT * sizeof(float), cudaMemcpyDeviceToHost));

        DDP_STEP(0);
        rprop.update(hw, hg);
        DO(cudaMemcpy(w, hw.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> d(n);
            DO(cudaMemcpy(d.data(), diff, n * sizeof(float), cudaMemcpyDeviceToHost));
            double loss = 0;
            for (float v : d)
                loss += v * v / n;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("step %d: loss %.5f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        DO(cudaMemcpy(hw.data(), w, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(hw.data(), sizeof(float), COUNT, f);
        fclose(f);
    }
    return 0;
}
