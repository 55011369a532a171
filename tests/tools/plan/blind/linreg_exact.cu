// Linear regression in double: steepest descent with the closed (exact) step length per batch; stops as soon as the
// loss is small. Truth: state (the weight vector, double, around each batch; truth_double is set). Batches: at most 64
// of 40 rows; the bare program stops by its loss after some 25 of them.
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef double real;
#define NFEAT  7
#define ROWS   40
#define MAXB   64
#define THRESH 4e-3

#define CUDA(x)                                                                          \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_) {                                                                        \
            fprintf(stderr, "CUDA %d in %s: %s\n", (int)e_, #x, cudaGetErrorString(e_)); \
            exit(-1);                                                                    \
        }                                                                                \
    } while (0)

// r = X w - y
__global__ void
residuals(const real *X, const real *y, const real *w, real *r)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ROWS) {
        real s = w[NFEAT] - y[i];
        for (int j = 0; j < NFEAT; j++)
            s += X[i * NFEAT + j] * w[j];
        r[i] = s;
    }
}
// one block: gradient, exact step length and update
__global__ void
descend(const real *X, const real *r, real *w, real *info)
{
    __shared__ real g[NFEAT + 1], xg2[ROWS], rr[ROWS];
    int t = threadIdx.x;
    if (t <= NFEAT) {
        real s = 0;
        for (int i = 0; i < ROWS; i++)
            s += r[i] * (t < NFEAT ? X[i * NFEAT + t] : 1.0);
        g[t] = s / ROWS;
    }
    __syncthreads();
    if (t < ROWS) {
        real s = g[NFEAT];
        for (int j = 0; j < NFEAT; j++)
            s += X[t * NFEAT + j] * g[j];
        xg2[t] = s * s;
        rr[t] = r[t] * r[t];
    }
    __syncthreads();
    if (t == 0) {
        real gg = 0, den = 0, l = 0;
        for (int j = 0; j <= NFEAT; j++)
            gg += g[j] * g[j];
        for (int i = 0; i < ROWS; i++) {
            den += xg2[i];
            l += rr[i];
        }
        info[0] = l / ROWS;
        info[1] = den > 0 ? gg * ROWS / den : 0;
    }
    __syncthreads();
    if (t <= NFEAT)
        w[t] -= info[1] * g[t];
}

class Random
{
    unsigned long long s;

  public:
    explicit Random(unsigned long long seed) : s(seed)
    {
    }
    double operator()()
    {
        s ^= s >> 12;
        s ^= s << 25;
        s ^= s >> 27;
        return (double)((s * 2685821657736338717ULL) >> 11) / 9007199254740992.0 * 2 - 1;
    }
};

static void
fill(Random &rnd, const real *w, real *X, real *y)
{
    for (int i = 0; i < ROWS; i++) {
        y[i] = w[NFEAT];
        for (int j = 0; j < NFEAT; j++) {
            X[i * NFEAT + j] = rnd() * (1.0 - 0.11 * j) + (j ? 0.3 * X[i * NFEAT + j - 1] : 0);
            y[i] += X[i * NFEAT + j] * w[j];
        }
        y[i] += 0.01 * rnd();
    }
}

int
main()
{
    truth_double = true;
    Random rnd(88172645463325252ULL);
    real wt[NFEAT + 1], w[NFEAT + 1], info[2];
    for (real &v : wt)
        v = 4 * rnd();
    std::vector<real> X(ROWS * NFEAT), y(ROWS);
    real *dX, *dy, *dw, *dr, *di;
    CUDA(cudaMalloc((void **)&dX, X.size() * sizeof(real)));
    CUDA(cudaMalloc((void **)&dy, ROWS * sizeof(real)));
    CUDA(cudaMalloc((void **)&dw, sizeof w));
    CUDA(cudaMalloc((void **)&dr, ROWS * sizeof(real)));
    CUDA(cudaMalloc((void **)&di, sizeof info));
    CUDA(cudaMemset(dw, 0, sizeof w));

    truth_by_state truth;
    int b = 0;
    do {
        fill(rnd, wt, X.data(), y.data());
        CUDA(cudaMemcpy(dX, X.data(), X.size() * sizeof(real), cudaMemcpyHostToDevice));
        CUDA(cudaMemcpy(dy, y.data(), ROWS * sizeof(real), cudaMemcpyHostToDevice));
        truth.begin({{dw, NFEAT + 1}});
        residuals<<<(ROWS + 31) / 32, 32>>>(dX, dy, dw, dr);
        descend<<<1, 64>>>(dX, dr, dw, di);
        CUDA(cudaGetLastError());
        truth.end();
        CUDA(cudaMemcpy(info, di, sizeof info, cudaMemcpyDeviceToHost));
        printf("%02d  loss %.10f  step length %.6f\n", b, info[0], info[1]);
        b++;
    } while (b < MAXB && info[0] > THRESH);
    truth.close();

    fill(rnd, wt, X.data(), y.data()); // fresh rows
    CUDA(cudaMemcpy(dX, X.data(), X.size() * sizeof(real), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(dy, y.data(), ROWS * sizeof(real), cudaMemcpyHostToDevice));
    residuals<<<(ROWS + 31) / 32, 32>>>(dX, dy, dw, dr);
    std::vector<real> r(ROWS);
    CUDA(cudaMemcpy(r.data(), dr, ROWS * sizeof(real), cudaMemcpyDeviceToHost));
    real s = 0;
    for (real v : r)
        s += v * v / ROWS;
    CUDA(cudaMemcpy(w, dw, sizeof w, cudaMemcpyDeviceToHost));
    printf("stopped after %d batches, test loss %.10f\n", b, s);
    for (int j = 0; j <= NFEAT; j++)
        printf("w[%d] = %.8f (true %.8f)\n", j, w[j], wt[j]);
    truth_dump_double({{dw, NFEAT + 1}});
    CUDA(cudaFree(dX));
    CUDA(cudaFree(dy));
    CUDA(cudaFree(dw));
    CUDA(cudaFree(dr));
    CUDA(cudaFree(di));
    return 0;
}
