// Decomposition of a measured spectrum into 120 Gaussian lines by stochastic gradient descent (double precision).
//
//   f(x) = sum_k A_k exp(-(x - mu_k)^2 / (2 s_k^2)),  chi2 = 1/n sum_i (f(x_i) - y_i)^2
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define NLINES   120
#define NPOINTS  4096
#define NBATCH   256
#define NITER    160
#define THREADS  64

#define GPU(call) if (cudaError_t e_ = (call)) { fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(e_), __LINE__); exit(2); }

struct Lines {          // parameters, structure of arrays
    double amp[NLINES];
    double mu[NLINES];
    double logs[NLINES];
};

__global__ void residuals(const Lines *p, const double *x, const double *y, const int *idx, double *res, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double xi = x[idx[i]], f = 0;
    for (int k = 0; k < NLINES; k++) {
        double u = (xi - p->mu[k]) * exp(-p->logs[k]);
        f += p->amp[k] * exp(-0.5 * u * u);
    }
    res[i] = f - y[idx[i]];
}

// one block for each line
__global__ void gradient(const Lines *p, const double *x, const int *idx, const double *res, Lines *g, int n)
{
    __shared__ double sa[THREADS], sm[THREADS], ss[THREADS];
    int k = blockIdx.x, t = threadIdx.x;
    double a = 0, m = 0, s = 0, inv = exp(-p->logs[k]);
    for (int i = t; i < n; i += THREADS) {
        double u = (x[idx[i]] - p->mu[k]) * inv;
        double e = exp(-0.5 * u * u) * res[i];
        a += e;
        m += e * p->amp[k] * u * inv;
        s += e * p->amp[k] * u * u;
    }
    sa[t] = a; sm[t] = m; ss[t] = s;
    __syncthreads();
    for (int h = THREADS / 2; h > 0; h /= 2) {
        if (t < h) { sa[t] += sa[t + h]; sm[t] += sm[t + h]; ss[t] += ss[t + h]; }
        __syncthreads();
    }
    if (t == 0) {
        g->amp[k] = 2.0 * sa[0] / n;
        g->mu[k] = 2.0 * sm[0] / n;
        g->logs[k] = 2.0 * ss[0] / n;
    }
}

__global__ void adam(Lines *p, const Lines *g, Lines *m, Lines *v, double lr, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)(sizeof(Lines) / sizeof(double))) return;
    double *pp = (double *)p, *mm = (double *)m, *vv = (double *)v;
    double gg = ((const double *)g)[i];
    mm[i] = 0.9 * mm[i] + 0.1 * gg;
    vv[i] = 0.99 * vv[i] + 0.01 * gg * gg;
    pp[i] -= lr * (mm[i] / (1 - pow(0.9, t))) / (sqrt(vv[i] / (1 - pow(0.99, t))) + 1e-10);
}

static double chi2(const double *d_res, int n)
{
    std::vector<double> h(n);
    GPU(cudaMemcpy(h.data(), d_res, n * sizeof(double), cudaMemcpyDeviceToHost));
    double s = 0;
    for (double r : h) s += r * r;
    return s / n;
}

int main()
{
    std::mt19937 rng(1969);
    std::uniform_real_distribution<double> u(0, 1);
    std::normal_distribution<double> gauss;

    // the measurement
    std::vector<double> x(NPOINTS), y(NPOINTS);
    Lines truth, start;
    for (int k = 0; k < NLINES; k++) {
        truth.mu[k] = (k + 0.5) / 4 + 0.06 * gauss(rng);
        truth.amp[k] = 0.3 + u(rng);
        truth.logs[k] = log(0.12) + 0.2 * gauss(rng);
        start.mu[k] = (k + 0.5) / 4;
        start.amp[k] = 0.5;
        start.logs[k] = log(0.12);
    }
    for (int i = 0; i < NPOINTS; i++) {
        x[i] = NLINES / 4.0 * i / NPOINTS;
        y[i] = 0.01 * gauss(rng);
        for (int k = 0; k < NLINES; k++) {
            double w = (x[i] - truth.mu[k]) / exp(truth.logs[k]);
            y[i] += truth.amp[k] * exp(-0.5 * w * w);
        }
    }

    double *d_x, *d_y, *d_res;
    int *d_idx;
    Lines *d_p, *d_g, *d_m, *d_v;
    GPU(cudaMalloc(&d_x, NPOINTS * sizeof(double)));
    GPU(cudaMalloc(&d_y, NPOINTS * sizeof(double)));
    GPU(cudaMalloc(&d_res, NPOINTS * sizeof(double)));
    GPU(cudaMalloc(&d_idx, NBATCH * sizeof(int)));
    GPU(cudaMalloc(&d_p, sizeof(Lines)));
    GPU(cudaMalloc(&d_g, sizeof(Lines)));
    GPU(cudaMalloc(&d_m, sizeof(Lines)));
    GPU(cudaMalloc(&d_v, sizeof(Lines)));
    GPU(cudaMemcpy(d_x, x.data(), NPOINTS * sizeof(double), cudaMemcpyHostToDevice));
    GPU(cudaMemcpy(d_y, y.data(), NPOINTS * sizeof(double), cudaMemcpyHostToDevice));
    GPU(cudaMemcpy(d_p, &start, sizeof(Lines), cudaMemcpyHostToDevice));
    GPU(cudaMemset(d_m, 0, sizeof(Lines)));
    GPU(cudaMemset(d_v, 0, sizeof(Lines)));

    std::vector<int> order(NPOINTS);
    for (int i = 0; i < NPOINTS; i++) order[i] = i;
    int pos = NPOINTS;
    double avg = 0;
    for (int it = 1; it <= NITER; it++) {
        if (pos + NBATCH > NPOINTS) {
            std::shuffle(order.begin(), order.end(), rng);
            pos = 0;
        }
        GPU(cudaMemcpy(d_idx, &order[pos], NBATCH * sizeof(int), cudaMemcpyHostToDevice));
        pos += NBATCH;

        residuals<<<(NBATCH + THREADS - 1) / THREADS, THREADS>>>(d_p, d_x, d_y, d_idx, d_res, NBATCH);
        gradient<<<NLINES, THREADS>>>(d_p, d_x, d_idx, d_res, d_g, NBATCH);
        double lr = 0.03 / (1 + 0.02 * it);
        adam<<<(3 * NLINES + THREADS - 1) / THREADS, THREADS>>>(d_p, d_g, d_m, d_v, lr, it);
        avg += chi2(d_res, NBATCH);
        if (it % 16 == 0) {
            printf("iteration %4d  chi2 %.6f\n", it, avg / 16);
            avg = 0;
        }
    }

    Lines fit;
    GPU(cudaMemcpy(&fit, d_p, sizeof(Lines), cudaMemcpyDeviceToHost));
    double err = 0;
    for (int k = 0; k < NLINES; k++) err += fabs(fit.mu[k] - truth.mu[k]) / NLINES;
    printf("mean error of the line positions: %.4f\n", err);
    return 0;
}
