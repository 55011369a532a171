// Multinomial logistic regression with Adagrad; everything lives in managed memory.
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>

struct Problem {
    int n, d, k;
    float *x;
    int *y;
};

struct Params {
    float *w, *b;
    float *gw, *gb;
    float *hw, *hb;
};

static unsigned state = 12345;
static float u01()
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (state & 0xffffff) / 16777216.f;
}
static float gauss()
{
    float s = 0;
    for (int i = 0; i < 12; i++) s += u01();
    return s - 6.f;
}

template <class T>
T *managed(size_t n)
{
    T *p;
    cudaMallocManaged(&p, n * sizeof(T));
    for (size_t i = 0; i < n; i++) p[i] = T(0);
    return p;
}

// one block per example: scores, softmax, loss and residual
__global__ void residuals(const float *x, const int *y, const float *w, const float *b,
                          float *res, float *loss, int d, int k, int count)
{
    extern __shared__ float score[];
    int i = blockIdx.x, c = threadIdx.x;
    float s = b[c];
    for (int j = 0; j < d; j++) s += x[i * d + j] * w[j * k + c];
    score[c] = s;
    __syncthreads();
    float mx = score[0], sum = 0;
    for (int q = 1; q < k; q++) mx = fmaxf(mx, score[q]);
    for (int q = 0; q < k; q++) sum += expf(score[q] - mx);
    res[i * k + c] = expf(s - mx) / sum - (c == y[i]);
    if (c == y[i]) atomicAdd(loss, (logf(sum) + mx - s) / count);
}

__global__ void gradient(const float *x, const float *res, const float *w, float *gw, float *gb,
                         int d, int k, int count, float l2)
{
    int j = blockIdx.x, c = threadIdx.x;
    float s = 0;
    if (j < d) {
        for (int i = 0; i < count; i++) s += x[i * d + j] * res[i * k + c];
        gw[j * k + c] = s / count + l2 * w[j * k + c];
    } else {
        for (int i = 0; i < count; i++) s += res[i * k + c];
        gb[c] = s / count;
    }
}

__global__ void adagrad(float *p, const float *g, float *h, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] += g[i] * g[i];
    p[i] -= lr * g[i] / (sqrtf(h[i]) + 1e-7f);
}

int main()
{
    Problem pr = {1600, 10, 5, nullptr, nullptr};
    pr.x = managed<float>(pr.n * pr.d);
    pr.y = managed<int>(pr.n);
    float centre[5][10];
    for (auto &c : centre) for (float &v : c) v = 1.2f * gauss();
    for (int i = 0; i < pr.n; i++) {
        pr.y[i] = i % pr.k;
        for (int j = 0; j < pr.d; j++) pr.x[i * pr.d + j] = centre[pr.y[i]][j] + 1.5f * gauss();
    }

    Params p;
    p.w = managed<float>(pr.d * pr.k);  p.b = managed<float>(pr.k);
    p.gw = managed<float>(pr.d * pr.k); p.gb = managed<float>(pr.k);
    p.hw = managed<float>(pr.d * pr.k); p.hb = managed<float>(pr.k);
    for (int i = 0; i < pr.d * pr.k; i++) p.w[i] = 0.1f * gauss();

    const int chunk = 80;
    float *res = managed<float>(chunk * pr.k), *loss = managed<float>(1);

    for (int it = 0; it < 120; it++) {
        int start = (it * chunk) % pr.n;
        *loss = 0.f;
        residuals<<<chunk, pr.k, pr.k * sizeof(float)>>>(pr.x + start * pr.d, pr.y + start, p.w, p.b, res, loss,
                                                         pr.d, pr.k, chunk);
        gradient<<<pr.d + 1, pr.k>>>(pr.x + start * pr.d, res, p.w, p.gw, p.gb, pr.d, pr.k, chunk, 1e-3f);
        adagrad<<<1, 64>>>(p.w, p.gw, p.hw, pr.d * pr.k, 0.1f);
        adagrad<<<1, 64>>>(p.b, p.gb, p.hb, pr.k, 0.1f);
        cudaDeviceSynchronize();
        if (it % 20 == 0 || it == 119) printf("iter %3d  loss %.6f\n", it, *loss);
    }

    int right = 0;
    for (int i = 0; i < pr.n; i++) {
        int best = 0;
        float top = -INFINITY;
        for (int c = 0; c < pr.k; c++) {
            float s = p.b[c];
            for (int j = 0; j < pr.d; j++) s += pr.x[i * pr.d + j] * p.w[j * pr.k + c];
            if (s > top) { top = s; best = c; }
        }
        right += best == pr.y[i];
    }
    printf("training accuracy %.4f\n", right / (float)pr.n);
    float *all[] = {p.w, p.b, p.gw, p.gb, p.hw, p.hb, res, loss, pr.x};
    for (float *q : all) cudaFree(q);
    cudaFree(pr.y);
    return 0;
}
