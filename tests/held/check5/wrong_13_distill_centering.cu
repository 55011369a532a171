// Distillation without labels: the student matches a fixed teacher, whose outputs are centred by a running mean.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define MUST(call) do { if ((call) != 0) { fprintf(stderr, "line %d failed\n", __LINE__); exit(1); } } while (0)

constexpr int kIn = 12, kOut = 8, kBatch = 32, kData = 320, kSteps = 120;
constexpr float kSharp = 0.4f, kKeep = 0.9f;

struct Matrix {
    float *p = nullptr;
    int rows = 0, cols = 0;
    Matrix(int r, int c) : rows(r), cols(c)
    {
        MUST(cudaMalloc(&p, size() * sizeof(float)));
        MUST(cudaMemset(p, 0, size() * sizeof(float)));
    }
    size_t size() const { return (size_t)rows * cols; }
    void fill(float scale, float offset)
    {
        std::vector<float> host(size());
        for (float &v : host)
            v = offset + scale * (2 * (float)drand48() - 1);
        MUST(cudaMemcpy(p, host.data(), size() * sizeof(float), cudaMemcpyHostToDevice));
    }
};

// row-major: out[n][kOut] = x[n][kIn] w[kIn][kOut]
void project(cublasHandle_t handle, int n, const float *x, const Matrix &w, Matrix &out)
{
    const float one = 1, zero = 0;
    MUST(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kOut, n, kIn, &one, w.p, kOut, x, kIn, &zero, out.p, kOut));
}

// row-major: dw = x' delta
void project_back(cublasHandle_t handle, int n, const float *x, const Matrix &delta, Matrix &dw)
{
    const float one = 1, zero = 0;
    MUST(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, kOut, kIn, n, &one, delta.p, kOut, x, kIn, &zero, dw.p, kOut));
}

__global__ void cross_entropy(const float *student, const float *teacher, const float *center, float *delta, float *loss,
                              int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    float zs = 0, zt = 0, s[kOut], t[kOut];
    for (int k = 0; k < kOut; ++k) {
        zs += s[k] = expf(student[i * kOut + k]);
        zt += t[k] = expf((teacher[i * kOut + k] - center[k]) / kSharp);
    }
    loss[i] = 0;
    for (int k = 0; k < kOut; ++k) {
        loss[i] -= t[k] / zt * logf(s[k] / zs);
        delta[i * kOut + k] = (s[k] / zs - t[k] / zt) / n;
    }
}

__global__ void column_mean(const float *a, float *mean, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += a[i * kOut + threadIdx.x];
    mean[threadIdx.x] = s / n;
}

__global__ void move_center(float *center, const float *mean)
{
    center[threadIdx.x] = kKeep * center[threadIdx.x] + (1 - kKeep) * mean[threadIdx.x];
}

__global__ void sgd(float *w, const float *g, float *m, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    m[i] = .9f * m[i] + g[i];
    w[i] -= rate * m[i];
}

int main()
{
    srand48(3);
    cublasHandle_t handle;
    MUST(cublasCreate(&handle));
    Matrix x(kData, kIn), teacher(kIn, kOut), w(kIn, kOut), g(kIn, kOut), m(kIn, kOut), center(1, kOut), mean(1, kOut);
    Matrix ys(kBatch, kOut), yt(kBatch, kOut), delta(kBatch, kOut), loss(1, kBatch);
    x.fill(1, .3f); // not centred, so neither are the teacher's outputs
    teacher.fill(.6f, 0);
    w.fill(.1f, 0);
    DDP_PARAMETER(w.p, w.size(), DDP_FLOAT32);
    DDP_GRADIENT(g.p, g.size(), DDP_FLOAT32);
    DDP_STATE(m.p, m.size(), DDP_FLOAT32);
    DDP_STATE(center.p, center.size(), DDP_FLOAT32);
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count;
        const float *in = x.p + (step % (kData / kBatch) * kBatch + first) * kIn;
        project(handle, n, in, teacher, yt);
        project(handle, n, in, w, ys);
        cross_entropy<<<1, 32>>>(ys.p, yt.p, center.p, delta.p, loss.p, n);
        column_mean<<<1, kOut>>>(yt.p, mean.p, n);
        DDP_REDUCE(mean.p, kOut, DDP_FLOAT32, DDP_OP_SUM, 0);
        move_center<<<1, kOut>>>(center.p, mean.p);
        project_back(handle, n, in, delta, g);
        DDP_STEP(0);
        sgd<<<kIn, kOut>>>(w.p, g.p, m.p, .05f);
        if (step % 15 == 0 || step == kSteps - 1) {
            std::vector<float> l(n);
            MUST(cudaMemcpy(l.data(), loss.p, n * sizeof(float), cudaMemcpyDeviceToHost));
            float sum = 0;
            for (float v : l)
                sum += v / n;
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0)
                printf("step %3d loss %.7g\n", step, sum);
        }
    }
    return 0;
}
