// MLP 2-32-3 on a three-arm spiral, SGD with momentum; whole data set on the device, RAII matrices.
// Truth: gradients (truth_step over dW1, db1, dW2, db2 in front of the momentum kernel).
// Batches: 60 (15 epochs of 4 batches of 64 points).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#define CUDA_OK(call)                                                                  \
    do {                                                                               \
        cudaError_t e_ = (call);                                                       \
        if (e_ != cudaSuccess) {                                                       \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

class Matrix
{
  public:
    Matrix(int r, int c) : rows(r), cols(c), ptr(nullptr)
    {
        CUDA_OK(cudaMalloc(&ptr, bytes()));
        CUDA_OK(cudaMemset(ptr, 0, bytes()));
    }
    ~Matrix()
    {
        cudaFree(ptr);
    }
    Matrix(const Matrix &) = delete;
    Matrix &operator=(const Matrix &) = delete;
    size_t count() const
    {
        return size_t(rows) * cols;
    }
    size_t bytes() const
    {
        return count() * sizeof(float);
    }
    void upload(const std::vector<float> &v)
    {
        if (v.size() != count())
            throw std::runtime_error("size mismatch");
        CUDA_OK(cudaMemcpy(ptr, v.data(), bytes(), cudaMemcpyHostToDevice));
    }
    std::vector<float> download() const
    {
        std::vector<float> v(count());
        CUDA_OK(cudaMemcpy(v.data(), ptr, bytes(), cudaMemcpyDeviceToHost));
        return v;
    }
    const int rows, cols;
    float *ptr;
};

// C[m,n] = op(A) * op(B)  (A is MxK or KxM, B is KxN or NxK)
template <bool TA, bool TB>
__global__ void
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N)
        return;
    float acc = 0.f;
    for (int k = 0; k < K; ++k)
        acc += (TA ? A[k * M + m] : A[m * K + k]) * (TB ? B[n * K + k] : B[k * N + n]);
    C[m * N + n] = acc;
}
__global__ void
addBiasAct(float *X, const float *b, int M, int N, bool act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N)
        return;
    float v = X[i] + b[i % N];
    X[i] = act ? tanhf(v) : v;
}
__global__ void
softmaxXent(const float *logits, const int *y, float *dlogits, float *loss, int M, int N)
{
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= M)
        return;
    const float *l = logits + m * N;
    float mx = l[0], s = 0.f;
    for (int j = 1; j < N; ++j)
        mx = fmaxf(mx, l[j]);
    for (int j = 0; j < N; ++j)
        s += expf(l[j] - mx);
    for (int j = 0; j < N; ++j)
        dlogits[m * N + j] = (expf(l[j] - mx) / s - (j == y[m] ? 1.f : 0.f)) / M;
    loss[m] = logf(s) - (l[y[m]] - mx);
}
__global__ void
tanhBackward(float *dH, const float *H, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dH[i] *= 1.f - H[i] * H[i];
}
__global__ void
columnSum(const float *X, float *out, int M, int N)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N)
        return;
    float s = 0.f;
    for (int m = 0; m < M; ++m)
        s += X[m * N + n];
    out[n] = s;
}
__global__ void
momentumStep(float *w, float *v, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    v[i] = mu * v[i] - lr * g[i];
    w[i] += v[i];
}

template <bool TA, bool TB>
static void
mul(const float *A, const float *B, float *C, int M, int N, int K)
{
    dim3 t(16, 16), g((N + 15) / 16, (M + 15) / 16);
    gemm<TA, TB><<<g, t>>>(A, B, C, M, N, K);
}
static unsigned seed = 12345u;
static float
rnd()
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.f;
}
static void
step(Matrix &w, Matrix &v, Matrix &g, float lr)
{
    momentumStep<<<(w.count() + 127) / 128, 128>>>(w.ptr, v.ptr, g.ptr, lr, 0.9f, (int)w.count());
}

int
main()
{
    const int N = 256, B = 64, H = 32, C = 3, EPOCHS = 15;
    std::vector<float> hx(N * 2);
    std::vector<int> hy(N);
    for (int i = 0; i < N; ++i) {
        int c = i % C;
        float r = 0.05f + rnd() * 0.95f, a = r * 3.0f + c * 2.0943951f + 0.1f * (rnd() - 0.5f);
        hx[2 * i] = 2.f * r * cosf(a);
        hx[2 * i + 1] = 2.f * r * sinf(a);
        hy[i] = c;
    }
    Matrix X(N, 2), W1(2, H), b1(1, H), W2(H, C), b2(1, C);
    Matrix dW1(2, H), db1(1, H), dW2(H, C), db2(1, C), vW1(2, H), vb1(1, H), vW2(H, C), vb2(1, C);
    Matrix A1(B, H), Z(B, C), dZ(B, C), dA1(B, H), loss(1, B);
    int *y;
    CUDA_OK(cudaMalloc(&y, N * sizeof(int)));
    CUDA_OK(cudaMemcpy(y, hy.data(), N * sizeof(int), cudaMemcpyHostToDevice));
    X.upload(hx);
    std::vector<float> w(2 * H);
    for (auto &e : w)
        e = (rnd() - 0.5f) * 2.f;
    W1.upload(w);
    w.assign(H * C, 0.f);
    for (auto &e : w)
        e = (rnd() - 0.5f) * 0.6f;
    W2.upload(w);

    int correct = 0;
    for (int epoch = 0; epoch <= EPOCHS; ++epoch) { // the last round is the test pass
        const bool training = epoch < EPOCHS;
        float sum = 0.f;
        for (int o = 0; o < N; o += B) {
            const float *x = X.ptr + o * 2;
            mul<false, false>(x, W1.ptr, A1.ptr, B, H, 2);
            addBiasAct<<<(B * H + 127) / 128, 128>>>(A1.ptr, b1.ptr, B, H, true);
            mul<false, false>(A1.ptr, W2.ptr, Z.ptr, B, C, H);
            addBiasAct<<<(B * C + 127) / 128, 128>>>(Z.ptr, b2.ptr, B, C, false);
            softmaxXent<<<1, B>>>(Z.ptr, y + o, dZ.ptr, loss.ptr, B, C);
            for (float l : loss.download())
                sum += l / N;
            if (!training) {
                std::vector<float> z = Z.download();
                for (int m = 0; m < B; ++m) {
                    int best = 0;
                    for (int j = 1; j < C; ++j)
                        if (z[m * C + j] > z[m * C + best])
                            best = j;
                    correct += best == hy[o + m];
                }
                continue;
            }
            mul<true, false>(A1.ptr, dZ.ptr, dW2.ptr, H, C, B);
            columnSum<<<1, 32>>>(dZ.ptr, db2.ptr, B, C);
            mul<false, true>(dZ.ptr, W2.ptr, dA1.ptr, B, H, C);
            tanhBackward<<<(B * H + 127) / 128, 128>>>(dA1.ptr, A1.ptr, B * H);
            mul<true, false>(x, dA1.ptr, dW1.ptr, 2, H, B);
            columnSum<<<1, 32>>>(dA1.ptr, db1.ptr, B, H);
            CUDA_OK(cudaGetLastError());
            if (truth_step(
                    {{dW1.ptr, dW1.count()}, {db1.ptr, db1.count()}, {dW2.ptr, dW2.count()}, {db2.ptr, db2.count()}})) {
                step(W1, vW1, dW1, 0.15f);
                step(b1, vb1, db1, 0.15f);
                step(W2, vW2, dW2, 0.15f);
                step(b2, vb2, db2, 0.15f);
            }
        }
        if (training)
            printf("epoch %2d  loss %.5f\n", epoch + 1, sum);
        else
            printf("final loss %.5f  accuracy %.2f%%\n", sum, 100.f * correct / N);
    }
    truth_dump({{W1.ptr, W1.count()}, {b1.ptr, b1.count()}, {W2.ptr, W2.count()}, {b2.ptr, b2.count()}});
    cudaFree(y);
    return 0;
}
