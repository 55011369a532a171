// The learning rate is halved when the loss of an epoch does not improve. The loss
// is the mean of all processes, so all of them take the same decision.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

template <int D> struct Problem {
    std::vector<double> x, y;
    explicit Problem(int n) : x(n * D), y(n)
    {
        std::mt19937 g(15);
        std::normal_distribution<double> nd;
        for (int i = 0; i < n; ++i) {
            for (int d = 0; d < D; ++d) y[i] += (x[i * D + d] = nd(g)) / (d + 1);
            y[i] += 0.3 * nd(g);
        }
    }
};

template <int D> __global__ void fit(const double *x, const double *y, const double *w, double *g, double *loss, int n)
{
    double s = 0, l = 0;
    for (int r = 0; r < n; ++r) {
        double e = -y[r];
        for (int d = 0; d < D; ++d) e += w[d] * x[r * D + d];
        s += e * x[r * D + threadIdx.x];
        l += e * e;
    }
    g[threadIdx.x] = 2 * s / n;
    if (threadIdx.x == 0) *loss = l / n;
}

__global__ void descend(double *w, const double *g, double lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    constexpr int D = 9, B = 16, N = 96;
    int steps = argc > 1 ? atoi(argv[1]) : 90;
    Problem<D> p(N);
    double *x, *y, *w, *g, *loss;
    cudaMalloc(&x, N * D * 8); cudaMalloc(&y, N * 8); cudaMalloc(&w, D * 8); cudaMalloc(&g, D * 8); cudaMalloc(&loss, 8);
    cudaMemcpy(x, p.x.data(), N * D * 8, cudaMemcpyHostToDevice);
    cudaMemcpy(y, p.y.data(), N * 8, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 8);
    DDP_PARAMETER(w, D, DDP_FLOAT64);
    DDP_GRADIENT(g, D, DDP_FLOAT64);
    double lr = 0.2, best = 1e9, epoch = 0;
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        fit<D><<<1, D>>>(x + at * D, y + at, w, g, loss, (int)n);
        DDP_STEP(0);
        descend<<<1, D>>>(w, g, lr);
        double l;
        cudaMemcpy(&l, loss, 8, cudaMemcpyDeviceToHost);
        epoch += l * B / N;
        if ((s + 1) % (N / B) == 0) {
            DDP_MEAN(&epoch);
            if (epoch > best * 0.99) lr *= 0.5;
            if (epoch < best) best = epoch;
            if (DDP_RANK() == 0) printf("epoch %d loss %.5f lr %g\n", s * B / N, epoch, lr);
            epoch = 0;
        }
    }
    return 0;
}
