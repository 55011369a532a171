// Mean teacher: the student is pulled to the labels and to the output of a teacher,
// which is a moving average of the student.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <cuda_runtime.h>
#include <ddprun.h>

#define D 12
#define B 24
#define N 240
#define check(x) if ((x) != cudaSuccess) { puts(#x " failed"); exit(2); }

__global__ void predict_both(const float *x, const float *y, const float *ws, const float *wt, float *err, float *loss, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = 0, t = 0;
    for (int d = 0; d < D; d++) { s += ws[d] * x[r * D + d]; t += wt[d] * x[r * D + d]; }
    err[r] = (s - y[r]) + 0.5f * (s - t);
    loss[r] = (s - y[r]) * (s - y[r]) + 0.5f * (s - t) * (s - t);
}

__global__ void student_grad(const float *x, const float *err, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += err[r] * x[r * D + threadIdx.x];
    g[threadIdx.x] = 2 * s / n;
}

__global__ void sgd(float *w, const float *g) { w[threadIdx.x] -= 0.05f * g[threadIdx.x]; }
__global__ void ema(float *t, const float *s) { t[threadIdx.x] = 0.9f * t[threadIdx.x] + 0.1f * s[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 data(40), init(500 + DDP_RANK()); // the weights of rank 0 are taken anyway
    std::normal_distribution<float> nd;
    static float hx[N * D], hy[N], hw[D];
    for (int i = 0; i < N; i++) {
        hy[i] = 0.1f * nd(data);
        for (int d = 0; d < D; d++) hy[i] += (d % 5 - 2) * (hx[i * D + d] = nd(data));
    }
    for (float &v : hw) v = nd(init);
    float *x, *y, *student, *teacher, *g, *err, *loss;
    check(cudaMalloc(&x, sizeof hx)); check(cudaMalloc(&y, sizeof hy)); check(cudaMalloc(&g, sizeof hw));
    check(cudaMalloc(&student, sizeof hw)); check(cudaMalloc(&teacher, sizeof hw));
    check(cudaMalloc(&err, B * 4)); check(cudaMalloc(&loss, B * 4));
    check(cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice));
    check(cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice));
    check(cudaMemcpy(student, hw, sizeof hw, cudaMemcpyHostToDevice));
    check(cudaMemcpy(teacher, student, sizeof hw, cudaMemcpyDeviceToDevice));
    DDP_PARAMETER(student, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        predict_both<<<1, B>>>(x + at * D, y + at, student, teacher, err, loss, (int)n);
        student_grad<<<1, D>>>(x + at * D, err, g, (int)n);
        DDP_STEP(0);
        sgd<<<1, D>>>(student, g);
        ema<<<1, D>>>(teacher, student);
        if (s % 15 == 0 || s == steps - 1) {
            float l[B], m = 0;
            check(cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < n; i++) m += l[i] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%d %.4f\n", s, m);
        }
    }
    return 0;
}
