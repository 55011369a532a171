// Kernel-feature regression in double precision with Polyak's step length: loss over squared gradient norm.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

class Fatal {
  public:
    Fatal &operator=(cudaError_t e) { if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } return *this; }
    Fatal &operator=(cublasStatus_t s) { if (s != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas %d\n", (int)s); exit(1); } return *this; }
};
static Fatal rc;

static const int D = 40, BATCH = 20, ROWS = 400;

// random cosine features of a point of the plane
__global__ void features(const double *pt, const double *freq, double *phi, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * D) return;
    int s = i / D, k = i % D;
    phi[i] = cos(freq[3 * k] * pt[2 * s] + freq[3 * k + 1] * pt[2 * s + 1] + freq[3 * k + 2]);
}

__global__ void residual(double *r, const double *target, int n)
{
    int i = threadIdx.x;
    if (i < n) r[i] -= target[i];
}

class Model {
  public:
    Model() : w_(nullptr), g_(nullptr)
    {
        rc = cublasCreate(&blas_);
        rc = cudaMalloc(&w_, D * sizeof(double));
        rc = cudaMalloc(&g_, D * sizeof(double));
        rc = cudaMalloc(&r_, BATCH * sizeof(double));
        rc = cudaMemset(w_, 0, D * sizeof(double));
        DDP_PARAMETER(w_, D, DDP_TYPE_OF(w_));
        DDP_GRADIENT(g_, D, DDP_TYPE_OF(g_));
    }
    // mean of half the squared residuals; leaves the derivative in g
    double evaluate(const double *phi, const double *target, int n)
    {
        const double one = 1, zero = 0, inv = 1.0 / n;
        double norm = 0;
        rc = cublasDgemv(blas_, CUBLAS_OP_T, D, n, &one, phi, D, w_, 1, &zero, r_, 1);
        residual<<<1, BATCH>>>(r_, target, n);
        rc = cublasDgemv(blas_, CUBLAS_OP_N, D, n, &inv, phi, D, r_, 1, &zero, g_, 1);
        rc = cublasDnrm2(blas_, n, r_, 1, &norm);
        return 0.5 * norm * norm / n;
    }
    void descend(double loss, double cap)
    {
        double norm = 0;
        rc = cublasDnrm2(blas_, D, g_, 1, &norm);
        double rate = fmin(cap, loss / (norm * norm + 1e-9));
        double minus = -rate;
        rc = cublasDaxpy(blas_, D, &minus, g_, 1, w_, 1);
    }
    std::vector<double> weights() const
    {
        std::vector<double> h(D);
        rc = cudaMemcpy(h.data(), w_, D * sizeof(double), cudaMemcpyDeviceToHost);
        return h;
    }
    ~Model()
    {
        cublasDestroy(blas_);
        cudaFree(w_);
        cudaFree(g_);
        cudaFree(r_);
    }
  private:
    cublasHandle_t blas_;
    double *w_, *g_, *r_;
};

int main(int argc, char **argv)
{
    unsigned long long s = 1;
    auto rnd = [&s]() { s = s * 6364136223846793005ull + 99991; return (double)(s >> 33) / 2147483648.0; };
    std::vector<double> pt(2 * ROWS), target(ROWS), freq(3 * D);
    for (double &f : freq) f = 4 * rnd() - 2;
    for (int i = 0; i < ROWS; ++i) {
        double a = 2 * rnd() - 1, b = 2 * rnd() - 1;
        pt[2 * i] = a;
        pt[2 * i + 1] = b;
        target[i] = sin(2 * a) * b + 0.5 * a * a + 0.2 * (rnd() - 0.5);
    }
    double *dpt, *dtarget, *dfreq, *phi;
    rc = cudaMalloc(&dpt, pt.size() * sizeof(double));
    rc = cudaMalloc(&dtarget, target.size() * sizeof(double));
    rc = cudaMalloc(&dfreq, freq.size() * sizeof(double));
    rc = cudaMalloc(&phi, BATCH * D * sizeof(double));
    rc = cudaMemcpy(dpt, pt.data(), pt.size() * sizeof(double), cudaMemcpyHostToDevice);
    rc = cudaMemcpy(dtarget, target.data(), target.size() * sizeof(double), cudaMemcpyHostToDevice);
    rc = cudaMemcpy(dfreq, freq.data(), freq.size() * sizeof(double), cudaMemcpyHostToDevice);
    Model model;

    double smooth = 0;
    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)it * BATCH % ROWS + first;
        int n = (int)count;
        features<<<(n * D + 63) / 64, 64>>>(dpt + 2 * at, dfreq, phi, n);
        double loss = model.evaluate(phi, dtarget + at, n);
        DDP_STEP(0);
        model.descend(loss, 0.2);
        double shown = loss;
        DDP_MEAN(&shown);
        smooth = it == 0 ? shown : 0.8 * smooth + 0.2 * shown;
        if (DDP_RANK() == 0 && (it % 12 == 0 || it == 59)) printf("%2d  loss %.5f  smoothed %.5f\n", it, shown, smooth);
    }
    std::vector<double> w = model.weights();
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (double v : w) { float q = (float)v; fwrite(&q, sizeof q, 1, f); }
        fclose(f);
    }
    return 0;
}
