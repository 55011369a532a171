// Fit of a pair potential V(r) = sum_k c_k exp(-(r - r_k)^2 / 2 s_k^2) to energies of small clusters.
// Free parameters: amplitudes c_k, centres r_k and log-widths, K of each, in one parameter vector.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define K 80
#define NPARAM (3 * K)
#define NATOM 6
#define NPAIR (NATOM * (NATOM - 1) / 2)
#define NCONF 3200
#define NBATCH 64
#define NSTEP 150

static void die(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
        exit(1);
    }
}
#define CU(e) die(e, __LINE__)

// One block a configuration, one thread a basis function. res[conf] = E_model - E_ref; jac[conf][p] = dE/dp
__global__ void energy(const double *dist, const double *eref, const double *p, double *res, double *jac)
{
    __shared__ double part[K];
    int conf = blockIdx.x, k = threadIdx.x;
    double c = p[k], r0 = p[K + k], w = exp(-2.0 * p[2 * K + k]);
    double e = 0, dr = 0, dw = 0;
    for (int i = 0; i < NPAIR; i++) {
        double d = dist[conf * NPAIR + i] - r0;
        double g = exp(-0.5 * d * d * w);
        e += g;
        dr += g * d * w;
        dw += g * d * d * w;
    }
    jac[conf * NPARAM + k] = e;
    jac[conf * NPARAM + K + k] = c * dr;
    jac[conf * NPARAM + 2 * K + k] = c * dw;
    part[k] = c * e;
    __syncthreads();
    if (k == 0) {
        double s = 0;
        for (int i = 0; i < K; i++) s += part[i];
        res[conf] = s - eref[conf];
    }
}

// grad = J^T res, chi2 = |res|^2
__global__ void normal(const double *res, const double *jac, double *grad, double *chi2, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < NPARAM) {
        double s = 0;
        for (int i = 0; i < n; i++) s += jac[i * NPARAM + j] * res[i];
        grad[j] = s;
    }
    if (j == 0) {
        double s = 0;
        for (int i = 0; i < n; i++) s += res[i] * res[i];
        *chi2 = s;
    }
}

__global__ void descend(double *p, const double *grad, double *vel, double lr, double friction, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= NPARAM) return;
    vel[j] = friction * vel[j] + grad[j] / n;
    p[j] -= lr * vel[j];
}

static double rnd(void) { return rand() / (RAND_MAX + 1.0); }

int main(void)
{
    srand(77);
    double *dist = (double *)malloc(sizeof(double) * NCONF * NPAIR), *eref = (double *)malloc(sizeof(double) * NCONF);
    for (int c = 0; c < NCONF; c++) {
        double pos[NATOM][3];
        for (int a = 0; a < NATOM; a++)
            for (int x = 0; x < 3; x++) pos[a][x] = 3.0 * rnd();
        int q = 0;
        eref[c] = 0;
        for (int a = 0; a < NATOM; a++)
            for (int b = a + 1; b < NATOM; b++) {
                double r = 0;
                for (int x = 0; x < 3; x++) r += (pos[a][x] - pos[b][x]) * (pos[a][x] - pos[b][x]);
                r = sqrt(r) + 0.4;
                dist[c * NPAIR + q++] = r;
                double m = 1.0 - exp(-1.5 * (r - 1.3)); // Morse
                eref[c] += m * m - 1.0;
            }
    }

    double p0[NPARAM];
    for (int k = 0; k < K; k++) {
        p0[k] = 0.01 * (rnd() - 0.5);
        p0[K + k] = 0.4 + 4.6 * k / K;
        p0[2 * K + k] = log(0.3);
    }

    double *d_dist, *d_eref, *d_p, *d_grad, *d_vel, *d_res, *d_jac, *d_chi2;
    CU(cudaMalloc(&d_dist, sizeof(double) * NCONF * NPAIR));
    CU(cudaMalloc(&d_eref, sizeof(double) * NCONF));
    CU(cudaMalloc(&d_p, sizeof(double) * NPARAM));
    CU(cudaMalloc(&d_grad, sizeof(double) * NPARAM));
    CU(cudaMalloc(&d_vel, sizeof(double) * NPARAM));
    CU(cudaMalloc(&d_res, sizeof(double) * NBATCH));
    CU(cudaMalloc(&d_jac, sizeof(double) * NBATCH * NPARAM));
    CU(cudaMalloc(&d_chi2, sizeof(double)));
    CU(cudaMemcpy(d_dist, dist, sizeof(double) * NCONF * NPAIR, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(d_eref, eref, sizeof(double) * NCONF, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(d_p, p0, sizeof(p0), cudaMemcpyHostToDevice));
    CU(cudaMemset(d_vel, 0, sizeof(double) * NPARAM));

    for (int step = 0; step < NSTEP; step++) {
        int first = (step * NBATCH) % NCONF;
        energy<<<NBATCH, K>>>(d_dist + (long)first * NPAIR, d_eref + first, d_p, d_res, d_jac);
        normal<<<(NPARAM + 63) / 64, 64>>>(d_res, d_jac, d_grad, d_chi2, NBATCH);
        descend<<<(NPARAM + 63) / 64, 64>>>(d_p, d_grad, d_vel, 6e-5, 0.9, NBATCH);
        if (step % 15 == 0 || step + 1 == NSTEP) {
            double chi2;
            CU(cudaMemcpy(&chi2, d_chi2, sizeof(double), cudaMemcpyDeviceToHost));
            printf("%4d  rms energy error %.6f\n", step, sqrt(chi2 / NBATCH));
        }
    }
    CU(cudaMemcpy(p0, d_p, sizeof(p0), cudaMemcpyDeviceToHost));
    printf("first amplitudes: %.4f %.4f %.4f\n", p0[0], p0[1], p0[2]);
    return 0;
}
