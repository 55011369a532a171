// Fit of a potential surface by a sum of gaussians: V(x,y) = sum_k a_k exp(-s_k^2 ((x-cx_k)^2 + (y-cy_k)^2)).
// chi2 and its gradient on the GPU, the minimiser (Adam) on the CPU.
#include "adam.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct Point { double x, y, v, sigma; };

static const int NG = 64;            // gaussians
static const int NPAR = 4 * NG;      // a, cx, cy, s
static const int NPOINT = 4000;
static const int NBATCH = 200;
static const int NITER = 160;

__constant__ double c_par[NPAR];

// residual of each point, weighted
__global__ void residuals(const Point *p, int n, double *r, double *chi2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = 0;
    for (int k = 0; k < NG; ++k) {
        const double *q = c_par + 4 * k;
        double dx = p[i].x - q[1], dy = p[i].y - q[2];
        v += q[0] * exp(-q[3] * q[3] * (dx * dx + dy * dy));
    }
    double w = 1 / p[i].sigma, d = (v - p[i].v) * w;
    r[i] = 2 * d * w;
    chi2[i] = d * d;
}

// one block per gaussian, threads stride over points
__global__ void gradient(const Point *p, int n, const double *r, double *g)
{
    __shared__ double s[4][32];
    const double *q = c_par + 4 * blockIdx.x;
    double t[4] = { 0, 0, 0, 0 };
    for (int i = threadIdx.x; i < n; i += 32) {
        double dx = p[i].x - q[1], dy = p[i].y - q[2], d2 = dx * dx + dy * dy;
        double e = exp(-q[3] * q[3] * d2);
        t[0] += r[i] * e;
        t[1] += r[i] * q[0] * e * 2 * q[3] * q[3] * dx;
        t[2] += r[i] * q[0] * e * 2 * q[3] * q[3] * dy;
        t[3] -= r[i] * q[0] * e * 2 * q[3] * d2;
    }
    for (int j = 0; j < 4; ++j) s[j][threadIdx.x] = t[j];
    __syncthreads();
    if (threadIdx.x < 4) {
        double sum = 0;
        for (int i = 0; i < 32; ++i) sum += s[threadIdx.x][i];
        g[4 * blockIdx.x + threadIdx.x] = sum;
    }
}

static double surface(double x, double y)
{
    return sin(2.5 * x) * cos(2 * y) + 0.5 * exp(-4 * ((x - 0.3) * (x - 0.3) + y * y));
}

int main()
{
    srand(4);
    std::vector<Point> pts(NPOINT);
    for (auto &p : pts) {
        p.x = 2.0 * rand() / RAND_MAX - 1;
        p.y = 2.0 * rand() / RAND_MAX - 1;
        p.sigma = 0.05 + 0.05 * rand() / RAND_MAX;
        p.v = surface(p.x, p.y) + p.sigma * (2.0 * rand() / RAND_MAX - 1);
    }
    Point *d_pts;
    double *d_r, *d_chi2, *d_g;
    cudaMalloc(&d_pts, NPOINT * sizeof(Point));
    cudaMalloc(&d_r, NBATCH * sizeof(double));
    cudaMalloc(&d_chi2, NBATCH * sizeof(double));
    cudaMalloc(&d_g, NPAR * sizeof(double));
    cudaMemcpy(d_pts, pts.data(), NPOINT * sizeof(Point), cudaMemcpyHostToDevice);

    std::vector<double> par(NPAR), grad(NPAR), chi(NBATCH);
    for (int k = 0; k < NG; ++k) {
        par[4 * k] = 0.02 * ((k * 7) % 11 - 5);
        par[4 * k + 1] = -1 + 2.0 * (k % 8) / 7;
        par[4 * k + 2] = -1 + 2.0 * (k / 8) / 7;
        par[4 * k + 3] = 3.0;
    }
    HostAdam adam(NPAR, 0.02);
    for (int it = 0; it < NITER; ++it) {
        const Point *batch = d_pts + (it * NBATCH) % NPOINT;
        cudaMemcpyToSymbol(c_par, par.data(), NPAR * sizeof(double));
        residuals<<<(NBATCH + 63) / 64, 64>>>(batch, NBATCH, d_r, d_chi2);
        gradient<<<NG, 32>>>(batch, NBATCH, d_r, d_g);
        cudaMemcpy(grad.data(), d_g, NPAR * sizeof(double), cudaMemcpyDeviceToHost);
        for (auto &g : grad) g /= NBATCH;
        adam.step(par, grad);
        if (it % 20 == 0 || it == NITER - 1) {
            cudaMemcpy(chi.data(), d_chi2, NBATCH * sizeof(double), cudaMemcpyDeviceToHost);
            double c = 0;
            for (double x : chi) c += x;
            printf("%4d  chi2/n %.5f\n", it, c / NBATCH);
        }
    }
    cudaFree(d_pts); cudaFree(d_r); cudaFree(d_chi2); cudaFree(d_g);
    return 0;
}
