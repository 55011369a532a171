/* Fit of a two-dimensional potential by Gaussians (position, width, height of each) to noisy measurements.
 * Full-batch: the GPU computes residuals and the derivatives, the host does the optimisation. */
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int n_gauss = 80;          // Gaussians
const int n_par = 4 * n_gauss;   // x0, y0, log(s), h
const int n_points = 1500;       // measurements
const int threads = 64;

struct Point { double x, y, v; };

// every block handles a slice of the points and adds its derivative to grad
__global__ void chi2_and_derivatives(const Point *pts, int n, const double *par, double *grad, double *chi2)
{
    __shared__ double p[n_par];
    for (int i = threadIdx.x; i < n_par; i += blockDim.x)
        p[i] = par[i];
    __syncthreads();
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n)
        return;
    double model = 0;
    for (int g = 0; g < n_gauss; g++) {
        double dx = pts[k].x - p[4 * g], dy = pts[k].y - p[4 * g + 1], s = exp(-2 * p[4 * g + 2]);
        model += p[4 * g + 3] * exp(-0.5 * (dx * dx + dy * dy) * s);
    }
    double r = model - pts[k].v;
    atomicAdd(chi2, r * r);
    for (int g = 0; g < n_gauss; g++) {
        double dx = pts[k].x - p[4 * g], dy = pts[k].y - p[4 * g + 1], s = exp(-2 * p[4 * g + 2]);
        double q = (dx * dx + dy * dy) * s, e = exp(-0.5 * q), h = p[4 * g + 3];
        atomicAdd(&grad[4 * g], 2 * r * h * e * dx * s);
        atomicAdd(&grad[4 * g + 1], 2 * r * h * e * dy * s);
        atomicAdd(&grad[4 * g + 2], 2 * r * h * e * q);
        atomicAdd(&grad[4 * g + 3], 2 * r * e);
    }
}

double uniform() { return rand() / (RAND_MAX + 1.0); }

int main()
{
    srand(12);
    std::vector<Point> pts(n_points);
    for (Point &p : pts) {
        p.x = 4 * uniform() - 2;
        p.y = 4 * uniform() - 2;
        p.v = sin(2 * p.x) * cos(1.5 * p.y) + 0.3 * p.x * p.y + 0.02 * (uniform() - 0.5);
    }
    double par[n_par], grad[n_par], m[n_par] = {0}, v[n_par] = {0};
    for (int g = 0; g < n_gauss; g++) {
        par[4 * g] = 4 * uniform() - 2;
        par[4 * g + 1] = 4 * uniform() - 2;
        par[4 * g + 2] = log(0.5);
        par[4 * g + 3] = 0.2 * (uniform() - 0.5);
    }

    Point *d_pts;
    double *d_par, *d_grad, *d_chi2;
    cudaMalloc(&d_pts, n_points * sizeof(Point));
    cudaMalloc(&d_par, sizeof par);
    cudaMalloc(&d_grad, sizeof grad);
    cudaMalloc(&d_chi2, sizeof(double));
    cudaMemcpy(d_pts, pts.data(), n_points * sizeof(Point), cudaMemcpyHostToDevice);

    for (int it = 1; it <= 60; it++) {
        double chi2;
        cudaMemcpy(d_par, par, sizeof par, cudaMemcpyHostToDevice);
        cudaMemset(d_grad, 0, sizeof grad);
        cudaMemset(d_chi2, 0, sizeof(double));
        chi2_and_derivatives<<<(n_points + threads - 1) / threads, threads>>>(d_pts, n_points, d_par, d_grad, d_chi2);
        cudaMemcpy(grad, d_grad, sizeof grad, cudaMemcpyDeviceToHost);
        cudaMemcpy(&chi2, d_chi2, sizeof chi2, cudaMemcpyDeviceToHost);
        if (it % 10 == 1 || it == 60)
            printf("iteration %d: loss %.6f per point\n", it, chi2 / n_points);

        for (int i = 0; i < n_par; i++) {
            double g = grad[i] / n_points;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.99 * v[i] + 0.01 * g * g;
            par[i] -= 0.05 * (m[i] / (1 - pow(0.9, it))) / (sqrt(v[i] / (1 - pow(0.99, it))) + 1e-9);
        }
    }
    cudaFree(d_pts);
    cudaFree(d_par);
    cudaFree(d_grad);
    cudaFree(d_chi2);
    return 0;
}
