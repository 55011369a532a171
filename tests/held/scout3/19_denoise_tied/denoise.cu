// Denoising autoencoder with tied weights.  Column-major throughout, one
// example per column, as cuBLAS likes it:  H = s(W X~ + b),  R = s(W' H + c).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

typedef unsigned int uint;

struct Matrix {
    int rows, cols;
    float *d;
    Matrix(int r, int c) : rows(r), cols(c)
    {
        cudaMalloc((void **)&d, size() * sizeof(float));
        cudaMemset(d, 0, size() * sizeof(float));
    }
    int size() const { return rows * cols; }
    void set(const std::vector<float> &h) { cudaMemcpy(d, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice); }
    void release() { cudaFree(d); d = nullptr; }
};

__host__ __device__ inline uint mix(uint x)
{
    x ^= x >> 16; x *= 0x7feb352du;
    x ^= x >> 15; x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

__global__ void corrupt(const float *x, float *xn, int n, uint seed, float p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) xn[i] = (mix(seed ^ mix(i)) >> 8) * (1.f / 16777216.f) < p ? 0.f : x[i];
}

__global__ void addBiasSigmoid(float *a, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 1.f / (1.f + expf(-(a[i] + b[i % rows])));
}

__global__ void reconstructionDelta(const float *r, const float *x, float *delta, float *ce, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    delta[i] = (r[i] - x[i]) * scale;
    ce[i] = -(x[i] * logf(r[i] + 1e-7f) + (1.f - x[i]) * logf(1.f - r[i] + 1e-7f));
}

__global__ void sigmoidDelta(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= h[i] * (1.f - h[i]);
}

__global__ void rowSum(const float *m, float *out, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f;
    for (int c = 0; c < cols; c++) s += m[c * rows + r];
    out[r] = s;
}

__global__ void adamStep(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i];
    m[i] = 0.9f * m[i] + 0.1f * gi;
    v[i] = 0.999f * v[i] + 0.001f * gi * gi;
    w[i] -= lr * m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f);
}

struct Variable {
    Matrix value, grad, m, v;
    Variable(int r, int c) : value(r, c), grad(r, c), m(r, c), v(r, c) {}
    void adam(float lr, int t)
    {
        int n = value.size();
        adamStep<<<(n + 255) / 256, 256>>>(value.d, grad.d, m.d, v.d, n, lr, 1.f - powf(0.9f, t), 1.f - powf(0.999f, t));
    }
    void release() { value.release(); grad.release(); m.release(); v.release(); }
};

#define LAUNCH(k, n) k<<<((n) + 255) / 256, 256>>>

int main()
{
    const int visible = 49, hidden = 20, examples = 960, steps = 15;
    const int columns = 192;     // examples per step

    std::vector<float> h(visible * examples);
    for (int e = 0; e < examples; e++) {
        uint s = mix(e + 1);
        int cx = s % 5 + 1, cy = (s >> 8) % 5 + 1, rad = 1 + (s >> 16) % 2;
        for (int p = 0; p < visible; p++)
            h[e * visible + p] = abs(p % 7 - cx) + abs(p / 7 - cy) <= rad ? 1.f : 0.f;
    }
    Matrix X(visible, examples), Xn(visible, columns), H(hidden, columns), R(visible, columns);
    Matrix dR(visible, columns), dH(hidden, columns), ce(visible, columns);
    X.set(h);
    Variable W(hidden, visible), b(hidden, 1), c(visible, 1);
    std::vector<float> w(hidden * visible);
    for (size_t i = 0; i < w.size(); i++) w[i] = 0.6f * ((mix(i + 7777) >> 8) / 16777216.f - 0.5f);
    W.value.set(w);

    cublasHandle_t blas;
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) return 1;
    const float one = 1.f, zero = 0.f;

    for (int t = 1; t <= steps; t++) {
        const float *x = X.d + (size_t)((t - 1) % (examples / columns)) * columns * visible;
        LAUNCH(corrupt, Xn.size())(x, Xn.d, Xn.size(), 1000u + t, 0.25f);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, hidden, columns, visible, &one, W.value.d, hidden, Xn.d, visible, &zero, H.d, hidden);
        LAUNCH(addBiasSigmoid, H.size())(H.d, b.value.d, hidden, H.size());
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, visible, columns, hidden, &one, W.value.d, hidden, H.d, hidden, &zero, R.d, visible);
        LAUNCH(addBiasSigmoid, R.size())(R.d, c.value.d, visible, R.size());

        LAUNCH(reconstructionDelta, R.size())(R.d, x, dR.d, ce.d, R.size(), 1.f / columns);
        LAUNCH(rowSum, visible)(dR.d, c.grad.d, visible, columns);
        // decoder half of dW
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, hidden, visible, columns, &one, H.d, hidden, dR.d, visible, &zero, W.grad.d, hidden);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, hidden, columns, visible, &one, W.value.d, hidden, dR.d, visible, &zero, dH.d, hidden);
        LAUNCH(sigmoidDelta, dH.size())(dH.d, H.d, dH.size());
        LAUNCH(rowSum, hidden)(dH.d, b.grad.d, hidden, columns);
        // encoder half
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, hidden, visible, columns, &one, dH.d, hidden, Xn.d, visible, &one, W.grad.d, hidden);

        W.adam(0.02f, t);
        b.adam(0.02f, t);
        c.adam(0.02f, t);

        float sum = 0.f;
        cublasSasum(blas, ce.size(), ce.d, 1, &sum);
        printf("step %2d  cross entropy %.5f\n", t, sum / columns);
    }
    cublasDestroy(blas);
    W.release(); b.release(); c.release();
    for (Matrix *m : {&X, &Xn, &H, &R, &dR, &dH, &ce}) m->release();
    return 0;
}
