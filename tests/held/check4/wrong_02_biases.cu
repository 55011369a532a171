// Two-layer MLP classifier, softmax cross entropy, Adam, clipping by the global norm. One GPU.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#define CUDA(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)
#define BLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "%s:%d: cublas\n", __FILE__, __LINE__); exit(1); } } while (0)

const int D = 32, H = 64, C = 8, TRAIN = 4096, VALID = 1024;
const float MAX_NORM = 0.5f;

__global__ void bias_relu(float *x, const float *b, int rows, int cols, bool relu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        float v = x[i] + b[i % cols];
        x[i] = relu && v < 0 ? 0 : v;
    }
}
// one thread per row; dlogits = (softmax - onehot) * scale
__global__ void softmax_xent(const float *z, const int *label, float *dz, float *loss, int *correct, int rows, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float *row = z + r * C;
    int best = 0;
    for (int c = 1; c < C; ++c) if (row[c] > row[best]) best = c;
    float sum = 0;
    for (int c = 0; c < C; ++c) sum += expf(row[c] - row[best]);
    loss[r] = logf(sum) - (row[label[r]] - row[best]);
    correct[r] = best == label[r];
    for (int c = 0; c < C; ++c)
        dz[r * C + c] = (expf(row[c] - row[best]) / sum - (c == label[r])) * scale;
}
__global__ void relu_backward(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] <= 0) dh[i] = 0;
}
__global__ void column_sum(const float *x, float *out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += x[r * cols + c];
    out[c] = s;
}
__global__ void sum_squares(const float *g, int n, float *total)
{
    __shared__ float part[256];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total += part[0]; // one block, one stream: in order
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, const float *total, float max_norm, float rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float norm = sqrtf(*total), clip = norm > max_norm ? max_norm / norm : 1.0f;
    float x = g[i] * clip;
    m[i] = 0.9f * m[i] + 0.1f * x;
    v[i] = 0.999f * v[i] + 0.001f * x * x;
    w[i] -= rate * (m[i] / (1 - powf(0.9f, t))) / (sqrtf(v[i] / (1 - powf(0.999f, t))) + 1e-8f);
}

static int blocks(int n) { return (n + 255) / 256; }
template <typename T> static T *device(size_t n)
{
    T *p;
    CUDA(cudaMalloc(&p, n * sizeof(T)));
    CUDA(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}
struct Tensor { float *w, *g, *m, *v; int n; };

static void generate(std::mt19937 &rng, int n, const std::vector<float> &teacher, std::vector<float> &x, std::vector<int> &y)
{
    std::normal_distribution<float> normal;
    x.resize((size_t)n * D);
    y.resize(n);
    for (float &value : x) value = normal(rng);
    for (int i = 0; i < n; ++i) {
        float best = -1e30f;
        for (int c = 0; c < C; ++c) {
            float s = 0;
            for (int d = 0; d < D; ++d) s += std::fabs(x[(size_t)i * D + d] + 0.3f) * teacher[c * D + d];
            if (s > best) best = s, y[i] = c;
        }
    }
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : 10, batch = argc > 2 ? atoi(argv[2]) : 128;
    float rate = 3e-3f;
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    std::vector<float> teacher(C * D), x, vx;
    std::vector<int> y, vy;
    for (float &value : teacher) value = normal(rng);
    generate(rng, TRAIN, teacher, x, y);
    generate(rng, VALID, teacher, vx, vy);

    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));
    BLAS(cublasSetStream(blas, stream));

    Tensor t[4]; // W1 [H][D], b1, W2 [C][H], b2, row-major
    const int sizes[4] = {H * D, H, C * H, C};
    for (int k = 0; k < 4; ++k) {
        t[k] = {device<float>(sizes[k]), device<float>(sizes[k]), device<float>(sizes[k]), device<float>(sizes[k]), sizes[k]};
        if (k % 2 == 0) {
            std::vector<float> init(sizes[k]);
            for (float &value : init) value = normal(rng) * sqrtf(2.0f / (k == 0 ? D : H));
            CUDA(cudaMemcpy(t[k].w, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
        }
        if (k % 2 == 0) {
        DDP_PARAMETER(t[k].w, t[k].n, DDP_FLOAT32);
        DDP_GRADIENT(t[k].g, t[k].n, DDP_FLOAT32);
        }
    }
    int rows_max = batch > VALID ? batch : VALID;
    float *dx = device<float>(rows_max * D), *h = device<float>(rows_max * H), *dh = device<float>(rows_max * H);
    float *z = device<float>(rows_max * C), *dz = device<float>(rows_max * C), *loss = device<float>(rows_max), *total = device<float>(1);
    int *label = device<int>(rows_max), *correct = device<int>(rows_max);

    const float one = 1, zero = 0;
    auto forward = [&](const float *hx, const int *hy, int rows, float scale) {
        CUDA(cudaMemcpyAsync(dx, hx, rows * D * sizeof(float), cudaMemcpyHostToDevice, stream));
        CUDA(cudaMemcpyAsync(label, hy, rows * sizeof(int), cudaMemcpyHostToDevice, stream));
        BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, rows, D, &one, t[0].w, D, dx, D, &zero, h, H));
        bias_relu<<<blocks(rows * H), 256, 0, stream>>>(h, t[1].w, rows, H, true);
        BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, C, rows, H, &one, t[2].w, H, h, H, &zero, z, C));
        bias_relu<<<blocks(rows * C), 256, 0, stream>>>(z, t[3].w, rows, C, false);
        softmax_xent<<<blocks(rows), 256, 0, stream>>>(z, label, dz, loss, correct, rows, scale);
    };
    auto backward = [&](int rows) {
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, C, rows, &one, h, H, dz, C, &zero, t[2].g, H));
        column_sum<<<1, C, 0, stream>>>(dz, t[3].g, rows, C);
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, rows, C, &one, t[2].w, H, dz, C, &zero, dh, H));
        relu_backward<<<blocks(rows * H), 256, 0, stream>>>(dh, h, rows * H);
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, D, H, rows, &one, dx, D, dh, H, &zero, t[0].g, D));
        column_sum<<<1, H, 0, stream>>>(dh, t[1].g, rows, H);
    };
    auto mean_loss = [&](int rows, float *accuracy) {
        std::vector<float> l(rows);
        std::vector<int> c(rows);
        CUDA(cudaMemcpyAsync(l.data(), loss, rows * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CUDA(cudaMemcpyAsync(c.data(), correct, rows * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        *accuracy = std::accumulate(c.begin(), c.end(), 0.0f) / rows;
        return std::accumulate(l.begin(), l.end(), 0.0f) / rows;
    };

    std::vector<int> order(TRAIN);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> bx((size_t)batch * D);
    std::vector<int> by(batch);
    int step = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        for (int i = TRAIN - 1; i > 0; --i) std::swap(order[i], order[rng() % (i + 1)]);
        float accuracy, last = 0;
        for (int start = 0; start + batch <= TRAIN; start += batch) {
            size_t first, count;
            DDP_SHARD(batch, &first, &count);
            for (size_t i = 0; i < count; ++i) {
                int item = order[start + first + i];
                std::copy(&x[(size_t)item * D], &x[(size_t)item * D] + D, &bx[(size_t)i * D]);
                by[i] = y[item];
            }
            forward(bx.data(), by.data(), count, 1.0f / count);
            backward(count);
            DDP_STEP(stream);
            CUDA(cudaMemsetAsync(total, 0, sizeof(float), stream));
            for (Tensor &k : t) sum_squares<<<1, 256, 0, stream>>>(k.g, k.n, total);
            ++step;
            for (Tensor &k : t) adam<<<blocks(k.n), 256, 0, stream>>>(k.w, k.g, k.m, k.v, k.n, total, MAX_NORM, rate, step);
            last = mean_loss(count, &accuracy);
        }
        forward(vx.data(), vy.data(), VALID, 1.0f / VALID);
        float valid = mean_loss(VALID, &accuracy);
        DDP_MEAN_AS("loss", &last);
        if (DDP_RANK() == 0)
            printf("epoch %d step %d loss %.4f valid %.4f accuracy %.3f\n", epoch + 1, step, last, valid, accuracy);
    }
    return 0;
}
