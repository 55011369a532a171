// Linear softmax model with Adam. The second moment is updated right behind the
// gradient kernel, the first moment and the weights in the optimizer kernel.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ddprun.h>

typedef float real;
enum { IN = 15, OUT = 3, MINI = 30, ALL = 300, P = IN * OUT };

__global__ void loss_kernel(const real *x, const int *y, const real *w, real *d, real *l, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    real p[OUT], z = 0;
    for (int c = 0; c < OUT; c++) {
        real a = 0;
        for (int i = 0; i < IN; i++) a += x[r * IN + i] * w[i * OUT + c];
        z += p[c] = expf(a);
    }
    for (int c = 0; c < OUT; c++) d[r * OUT + c] = (p[c] / z - (y[r] == c)) / n;
    l[r] = -logf(p[y[r]] / z);
}
__global__ void gradient_kernel(const real *x, const real *d, real *g, int n)
{
    int t = threadIdx.x;
    real s = 0;
    for (int r = 0; r < n; r++) s += x[r * IN + t / OUT] * d[r * OUT + t % OUT];
    g[t] = s;
}
__global__ void second_moment(real *v, const real *g) { int t = threadIdx.x; v[t] = 0.95f * v[t] + 0.05f * g[t] * g[t]; }
__global__ void adam_kernel(real *w, real *m, const real *v, const real *g, real lr, real c1, real c2)
{
    int t = threadIdx.x;
    m[t] = 0.9f * m[t] + 0.1f * g[t];
    w[t] -= lr * (m[t] / c1) / (sqrtf(v[t] / c2) + 1e-6f);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50;
    real *x, *w, *g, *m, *v, *d, *l, *hx = (real *)malloc(ALL * IN * sizeof(real));
    int *y, hy[ALL];
    srand(19);
    for (int i = 0; i < ALL; i++) {
        hy[i] = rand() % OUT;
        for (int k = 0; k < IN; k++) hx[i * IN + k] = (rand() % 2000 - 1000) / 500.0f + (k % OUT == hy[i]);
    }
    cudaMalloc(&x, ALL * IN * sizeof(real)); cudaMalloc(&y, sizeof hy); cudaMalloc(&w, P * sizeof(real));
    cudaMalloc(&g, P * sizeof(real)); cudaMalloc(&m, P * sizeof(real)); cudaMalloc(&v, P * sizeof(real));
    cudaMalloc(&d, MINI * OUT * sizeof(real)); cudaMalloc(&l, MINI * sizeof(real));
    cudaMemcpy(x, hx, ALL * IN * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, P * sizeof(real)); cudaMemset(m, 0, P * sizeof(real)); cudaMemset(v, 0, P * sizeof(real));
    DDP_PARAMETER(w, P, DDP_TYPE_OF(w));
    DDP_GRADIENT(g, P, DDP_TYPE_OF(g));
    real c1 = 1, c2 = 1;
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(MINI, &first, &count);
        size_t at = s * MINI % ALL + first;
        loss_kernel<<<1, MINI>>>(x + at * IN, y + at, w, d, l, count);
        gradient_kernel<<<1, P>>>(x + at * IN, d, g, count);
        second_moment<<<1, P>>>(v, g);
        DDP_STEP(0);
        c1 *= 0.9f;
        c2 *= 0.95f;
        adam_kernel<<<1, P>>>(w, m, v, g, 0.05f, 1 - c1, 1 - c2);
        if (s % 10 == 0 || s + 1 == steps) {
            real h[MINI], a = 0;
            cudaMemcpy(h, l, count * sizeof(real), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; i++) a += h[i] / count;
            DDP_MEAN(&a);
            if (DDP_RANK() == 0) printf("step %d  ce %.4f\n", s, a);
        }
    }
    free(hx);
    return 0;
}
