// Two tasks on one trunk: a regression and a classification. All weights are in one flat buffer, as are the gradients.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

namespace {

constexpr int X = 8, H = 10, BATCH = 32, DATA = 320, STEPS = 140;

struct Layout { // offsets into the flat buffers
    static constexpr int trunk = 0, regression = trunk + X * H, classes = regression + H, total = classes + H + 1;
};

__global__ void forward_backward(const float *x, const float *y, const float *label, const float *w, float *rows,
                                 float *losses, float scale)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    const float *in = x + n * X;
    float *g = rows + n * Layout::total, h[H], r = 0, c = w[Layout::classes + H];
    for (int j = 0; j < H; ++j) {
        h[j] = 0;
        for (int i = 0; i < X; ++i)
            h[j] += in[i] * w[Layout::trunk + i * H + j];
        h[j] = tanhf(h[j]);
        r += h[j] * w[Layout::regression + j];
        c += h[j] * w[Layout::classes + j];
    }
    float p = 1 / (1 + expf(-c)), dr = 2 * (r - y[n]) * scale, dc = (p - label[n]) * scale;
    losses[n] = (r - y[n]) * (r - y[n]) - (label[n] > 0 ? logf(p) : logf(1 - p));
    g[Layout::classes + H] = dc;
    for (int j = 0; j < H; ++j) {
        g[Layout::regression + j] = dr * h[j];
        g[Layout::classes + j] = dc * h[j];
        float da = (dr * w[Layout::regression + j] + dc * w[Layout::classes + j]) * (1 - h[j] * h[j]);
        for (int i = 0; i < X; ++i)
            g[Layout::trunk + i * H + j] = da * in[i];
    }
}

__global__ void fold(const float *rows, float *g, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Layout::total)
        return;
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += rows[n * Layout::total + i];
    g[i] = s;
}

__global__ void adamw(float *w, const float *g, float *m, float *v, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Layout::total)
        return;
    m[i] += .1f * (g[i] - m[i]);
    v[i] += .02f * (g[i] * g[i] - v[i]);
    w[i] -= rate * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-6f) + .01f * w[i]);
}

float *zeros(size_t n)
{
    float *p = nullptr;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

float *copy_of(const std::vector<float> &v)
{
    float *p = zeros(v.size());
    cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

float unit() { return (float)(drand48() * 2 - 1); }

} // namespace

int main()
{
    srand48(2024);
    std::vector<float> hx(DATA * X), hy(DATA), hl(DATA), hw(Layout::total);
    for (int n = 0; n < DATA; ++n) {
        for (int i = 0; i < X; ++i)
            hx[n * X + i] = unit();
        hy[n] = hx[n * X] - .5f * hx[n * X + 1] + .3f * std::cos(3 * hx[n * X + 2]);
        hl[n] = hx[n * X + 3] + hx[n * X + 4] + .3f * unit() > 0;
    }
    for (auto &v : hw)
        v = .4f * unit();
    float *x = copy_of(hx), *y = copy_of(hy), *label = copy_of(hl), *weights = copy_of(hw);
    float *gradients = zeros(Layout::total), *m = zeros(Layout::total), *v = zeros(Layout::total);
    float *rows = zeros(BATCH * Layout::total), *losses = zeros(BATCH);
    DDP_PARAMETER(weights, Layout::total, DDP_FLOAT32);
    DDP_GRADIENT(gradients, Layout::classes, DDP_FLOAT32);
    for (int step = 1; step <= STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (step - 1) * BATCH % DATA + first;
        forward_backward<<<1, count>>>(x + at * X, y + at, label + at, weights, rows, losses, 1.f / count);
        fold<<<4, 32>>>(rows, gradients, count);
        DDP_STEP(0);
        adamw<<<4, 32>>>(weights, gradients, m, v, .01f, 1 - powf(.9f, step), 1 - powf(.98f, step));
        if (step % 20 == 0) {
            std::vector<float> l(count);
            cudaMemcpy(l.data(), losses, count * sizeof(float), cudaMemcpyDeviceToHost);
            double mean = 0;
            for (float value : l)
                mean += value / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                std::printf("step %d: %.7g\n", step, mean);
        }
    }
}
