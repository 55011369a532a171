// Ridge-free least squares with features on very different scales. Each batch is
// prepared on the host: columns are centred and scaled, then uploaded.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

using Row = std::vector<float>;
const int D = 6, BATCH = 32, BATCHES = 12;

struct Lcg { unsigned long long s; float operator()() { s = s * 6364136223846793005ull + 1; return (s >> 33) / 2147483648.0f * 2 - 1; } };

static std::vector<float> prepare(const std::vector<Row> &rows, size_t from, size_t n)
{
    std::vector<float> out(n * D);
    for (int d = 0; d < D; ++d) {
        float mean = 0, var = 0;
        for (size_t i = 0; i < n; ++i) mean += rows[from + i][d] / n;
        for (size_t i = 0; i < n; ++i) var += (rows[from + i][d] - mean) * (rows[from + i][d] - mean) / n;
        for (size_t i = 0; i < n; ++i) out[i * D + d] = (rows[from + i][d] - mean) / std::sqrt(var + 1e-5f);
    }
    return out;
}

__global__ void squared_error(const float *x, const float *y, const float *w, float *g, float *loss, int n)
{
    float s = 0, l = 0;
    for (int r = 0; r < n; ++r) {
        float o = w[D];
        for (int d = 0; d < D; ++d) o += w[d] * x[r * D + d];
        s += 2 * (o - y[r]) * (threadIdx.x < D ? x[r * D + threadIdx.x] : 1.0f);
        l += (o - y[r]) * (o - y[r]);
    }
    g[threadIdx.x] = s / n;
    loss[0] = l / n;
}

__global__ void descend(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    Lcg rnd{55};
    std::vector<Row> rows(BATCH * BATCHES, Row(D));
    std::vector<float> y(rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
        for (int d = 0; d < D; ++d) {
            float v = rnd();
            rows[i][d] = (v + 2) * powf(4, d);
            y[i] += v * (d % 2 ? 1 : -1);
        }
    float *dx, *dy, *w, *g, *loss;
    cudaMalloc(&dx, BATCH * D * 4); cudaMalloc(&dy, BATCH * 4); cudaMalloc(&w, (D + 1) * 4);
    cudaMalloc(&g, (D + 1) * 4); cudaMalloc(&loss, 4);
    cudaMemset(w, 0, (D + 1) * 4);
    DDP_PARAMETER(w, D + 1, DDP_FLOAT32);
    DDP_GRADIENT(g, D + 1, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t from = s % BATCHES * BATCH + first;
        std::vector<float> x = prepare(rows, from, count);
        cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
        cudaMemcpy(dy, &y[from], count * 4, cudaMemcpyHostToDevice);
        squared_error<<<1, D + 1>>>(dx, dy, w, g, loss, (int)count);
        DDP_STEP(0);
        descend<<<1, D + 1>>>(w, g, 0.1f);
        if (s % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("batch %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
