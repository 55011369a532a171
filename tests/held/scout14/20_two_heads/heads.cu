// Two tasks on one trunk: a price (regression) and a kind (four classes). A step gathers the gradients of three small
// batches, limits their norm, and goes by RMSProp.
#include "linear.cuh"

#include <tuple>

static const int kRows = 960, kInputs = 10, kMicro = 16, kPasses = 3, kKinds = 4, kSteps = 110;

// loss[0]: price, loss[1]: kind; both are scaled, and so are the gradients
__global__ void priceLoss(const float *y, const float *want, float *d, float *loss, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] - want[i];
    atomicAdd(loss, e * e * scale);
    d[i] = 2.f * e * scale;
}

__global__ void kindLoss(const float *z, const int *kind, float *d, float *loss, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.f;
    for (int c = 0; c < kKinds; ++c) s += expf(z[i * kKinds + c]);
    for (int c = 0; c < kKinds; ++c) d[i * kKinds + c] = scale * (expf(z[i * kKinds + c]) / s - (c == kind[i] ? 1.f : 0.f));
    atomicAdd(loss + 1, scale * (logf(s) - z[i * kKinds + kind[i]]));
}

__global__ void addSquares(const float *g, int n, float *sum)
{
    __shared__ float part[64];
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += 64) s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int h = 32; h > 0; h /= 2) {
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0) *sum += part[0];
}

__global__ void rmsprop(Slice s, float rate, float shrink)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.n) return;
    float g = s.g[i] * shrink;
    s.cache[i] = 0.95f * s.cache[i] + 0.05f * g * g;
    s.w[i] -= rate * g / (sqrtf(s.cache[i]) + 1e-4f);
}

int main()
{
    std::mt19937 rng(33);
    std::normal_distribution<float> normal;
    std::vector<float> x(kRows * kInputs), price(kRows), a(kInputs), b(kInputs * kKinds);
    std::vector<int> kind(kRows);
    for (float &v : x) v = normal(rng);
    for (float &v : a) v = 0.4f * normal(rng);
    for (float &v : b) v = normal(rng);
    for (int r = 0; r < kRows; ++r) {
        float p = 0.f, best = -1e9f;
        for (int k = 0; k < kInputs; ++k) p += a[k] * x[r * kInputs + k];
        for (int c = 0; c < kKinds; ++c) {
            float s = 0.f;
            for (int k = 0; k < kInputs; ++k) s += b[c * kInputs + k] * x[r * kInputs + k];
            if (s > best) best = s, kind[r] = c;
        }
        price[r] = std::sin(p) + 0.3f * kind[r];
    }

    Linear<kInputs, 32, Elu> in(kMicro, rng);
    Linear<32, 20, Elu> mid(kMicro, rng);
    Linear<20, 1, Identity> priceHead(kMicro, rng);
    Linear<20, kKinds, Identity> kindHead(kMicro, rng);
    std::vector<Slice> all;
    std::apply([&](auto &...layer) { (layer.collect(all), ...); }, std::tie(in, mid, priceHead, kindHead));

    float *dx, *dprice, *loss, *norm;
    int *dkind;
    cudaTry(cudaMalloc(&dx, x.size() * sizeof(float)));
    cudaTry(cudaMalloc(&dprice, kRows * sizeof(float)));
    cudaTry(cudaMalloc(&dkind, kRows * sizeof(int)));
    cudaTry(cudaMalloc(&loss, 2 * sizeof(float)));
    cudaTry(cudaMalloc(&norm, sizeof(float)));
    cudaTry(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaTry(cudaMemcpy(dprice, price.data(), kRows * sizeof(float), cudaMemcpyHostToDevice));
    cudaTry(cudaMemcpy(dkind, kind.data(), kRows * sizeof(int), cudaMemcpyHostToDevice));

    int row = 0;
    for (int step = 1; step <= kSteps; ++step) {
        for (const Slice &s : all) cudaTry(cudaMemset(s.g, 0, s.n * sizeof(float)));
        cudaTry(cudaMemset(loss, 0, 2 * sizeof(float)));
        cudaTry(cudaMemset(norm, 0, sizeof(float)));

        const float scale = 1.f / (kMicro * kPasses);
        for (int pass = 0; pass < kPasses; ++pass) {
            const float *rows = dx + row * kInputs;
            in.forward(rows, kMicro);
            mid.forward(in.y, kMicro);
            priceHead.forward(mid.y, kMicro);
            kindHead.forward(mid.y, kMicro);
            priceLoss<<<1, 32>>>(priceHead.y, dprice + row, priceHead.d, loss, kMicro, scale);
            kindLoss<<<1, 32>>>(kindHead.y, dkind + row, kindHead.d, loss, kMicro, scale);
            priceHead.backward(mid.y, mid.d, kMicro);
            kindHead.backward(mid.y, mid.d, kMicro, true);
            mid.backward(in.y, in.d, kMicro);
            in.backward(rows, nullptr, kMicro);
            row += kMicro;
            if (row + kMicro > kRows) row = 0;
        }

        float squares, h[2];
        for (const Slice &s : all) addSquares<<<1, 64>>>(s.g, s.n, norm);
        cudaTry(cudaMemcpy(&squares, norm, sizeof squares, cudaMemcpyDeviceToHost));
        const float length = std::sqrt(squares), shrink = length > 0.8f ? 0.8f / length : 1.f;
        for (const Slice &s : all) rmsprop<<<(s.n + 63) / 64, 64>>>(s, step <= 70 ? 0.004f : 0.001f, shrink);

        if (step % 10 == 0) {
            cudaTry(cudaMemcpy(h, loss, sizeof h, cudaMemcpyDeviceToHost));
            std::printf("step %3d  price %.4f  kind %.4f  norm %.3f\n", step, h[0], h[1], length);
        }
    }
    return 0;
}
