// Fits the force constants of a damped double well oscillator and a correction force, given by radial
// basis functions, to simulated trajectories: least squares on the accelerations between neighbouring points.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define NBASIS 256                 // radial basis functions of the correction force
#define NTRAJ 64                   // trajectories for each step of the optimizer
#define NT 8                       // stored time points of a trajectory
#define DT 0.05

struct Theta {
    double k, c, a, pad;           // linear force, damping, cubic force
    double rbf[NBASIS];
};

struct Sample {
    double x0, v0;
    double x[NT];
};

__host__ __device__ inline double basis(int j, double x)
{
    double d = (x + 2.0 - 4.0 * j / (NBASIS - 1)) * 8.0;
    return d * d > 40 ? 0.0 : exp(-0.5 * d * d);
}

static void simulate(Sample &s)
{
    double x = s.x0, v = s.v0;
    for (int t = 0; t < NT; t++) {
        double f = 1.3 * x - 0.8 * x * x * x - 0.4 * v + 0.5 * sin(3.0 * x);
        v += DT * f;
        x += DT * v;
        s.x[t] = x;
    }
}

// residuals of the one-step accelerations along the measured trajectory
__global__ void residual(const Sample *samples, int n, const Theta *th, double *res, double *chi2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * NT) return;
    const Sample *s = &samples[i / NT];
    int t = i % NT;
    double xm = t > 0 ? s->x[t - 1] : s->x0;
    double vm = t > 1 ? (s->x[t - 1] - s->x[t - 2]) / DT : t == 1 ? (s->x[0] - s->x0) / DT : s->v0;
    double vp = (s->x[t] - xm) / DT;
    double f = th->k * xm - th->a * xm * xm * xm - th->c * vm;
    for (int j = 0; j < NBASIS; j++) f += th->rbf[j] * basis(j, xm);
    double r = f - (vp - vm) / DT;
    res[i] = r;
    atomicAdd(chi2, r * r);
}

// one block for each component of theta
__global__ void gradient(const Sample *samples, int n, const double *res, Theta *grad)
{
    __shared__ double part[64];
    int comp = blockIdx.x;
    double g = 0;
    for (int i = threadIdx.x; i < n * NT; i += blockDim.x) {
        const Sample *s = &samples[i / NT];
        int t = i % NT;
        double xm = t > 0 ? s->x[t - 1] : s->x0;
        double vm = t > 1 ? (s->x[t - 1] - s->x[t - 2]) / DT : t == 1 ? (s->x[0] - s->x0) / DT : s->v0;
        double d = comp == 0 ? xm : comp == 1 ? -vm : comp == 2 ? -xm * xm * xm : comp == 3 ? 0.0 : basis(comp - 4, xm);
        g += res[i] * d;
    }
    part[threadIdx.x] = g;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < blockDim.x; k++) g += part[k];
        ((double *)grad)[comp] = g;
    }
}

int main()
{
    srand48(12);
    const int NPAR = sizeof(Theta) / sizeof(double);
    Theta *theta, *grad;           // theta is updated on the host
    Sample *samples, *d_samples;
    double *d_res, *chi2, *cache;
    cudaMallocManaged(&theta, sizeof(Theta));
    cudaMallocManaged(&grad, sizeof(Theta));
    cudaMallocManaged(&chi2, sizeof(double));
    cudaMalloc(&d_samples, NTRAJ * sizeof(Sample));
    cudaMalloc(&d_res, NTRAJ * NT * sizeof(double));
    samples = (Sample *)malloc(NTRAJ * sizeof(Sample));
    cache = (double *)calloc(NPAR, sizeof(double));
    for (int j = 0; j < NPAR; j++) ((double *)theta)[j] = 0;

    for (int iter = 0; iter < 120; iter++) {
        for (int i = 0; i < NTRAJ; i++) {
            samples[i].x0 = 3.0 * drand48() - 1.5;
            samples[i].v0 = 2.0 * drand48() - 1.0;
            simulate(samples[i]);
        }
        cudaMemcpy(d_samples, samples, NTRAJ * sizeof(Sample), cudaMemcpyHostToDevice);
        *chi2 = 0;
        residual<<<(NTRAJ * NT + 63) / 64, 64>>>(d_samples, NTRAJ, theta, d_res, chi2);
        gradient<<<NPAR, 64>>>(d_samples, NTRAJ, d_res, grad);
        cudaDeviceSynchronize();

        // RMSprop
        double *p = (double *)theta, *g = (double *)grad;
        double rate = 0.02 / (1.0 + iter / 40.0);
        for (int j = 0; j < NPAR; j++) {
            double m = g[j] / (NTRAJ * NT);
            cache[j] = 0.9 * cache[j] + 0.1 * m * m;
            p[j] -= rate * m / (sqrt(cache[j]) + 1e-8);
        }
        if (iter % 12 == 0 || iter == 119)
            printf("%4d  chi2/n %.6f   k %.4f  c %.4f  a %.4f\n", iter, *chi2 / (NTRAJ * NT), theta->k, theta->c, theta->a);
    }
    cudaFree(theta); cudaFree(grad); cudaFree(chi2); cudaFree(d_samples); cudaFree(d_res);
    free(samples); free(cache);
    return 0;
}
