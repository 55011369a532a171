// Poisson regression on quadratic features, in double precision.
// Plain gradient descent on mini-batches; the gradient is the sum over the batch.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <cublas_v2.h>

static const int RAW = 6;
static const int FEAT = 1 + RAW + RAW * (RAW + 1) / 2;  // constant, linear, quadratic
static const int N = 3000;
static const int BLOCK = 75;   // observations in a mini-batch
static const int SWEEPS = 12;

template <class T>
T *device_new(size_t n)
{
    T *p = nullptr;
    cudaError_t e = cudaMalloc((void **)&p, n * sizeof(T));
    if (e != cudaSuccess) {
        printf("cudaMalloc: %s\n", cudaGetErrorString(e));
        exit(1);
    }
    return p;
}

template <class T>
void to_device(T *d, const T *h, size_t n) { cudaMemcpy(d, h, n * sizeof(T), cudaMemcpyHostToDevice); }
template <class T>
void to_host(T *h, const T *d, size_t n) { cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost); }

// raw variables -> feature row
__global__ void expand(const double *raw, double *phi, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const double *x = raw + r * RAW;
    double *f = phi + r * FEAT;
    *f++ = 1.0;
    for (int i = 0; i < RAW; i++) *f++ = x[i];
    for (int i = 0; i < RAW; i++)
        for (int j = i; j < RAW; j++) *f++ = x[i] * x[j];
}

// residual = mu - count, and the negative log likelihood without its constant
__global__ void residual(const double *eta, const double *count, double *res, double *nll, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    double e = fmin(eta[r], 8.0), mu = exp(e);
    res[r] = mu - count[r];
    nll[r] = mu - count[r] * e;
}

__global__ void descend(double *theta, const double *g, double rate, double ridge, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) theta[i] -= rate * (g[i] + ridge * theta[i]);
}

int main()
{
    std::mt19937_64 gen(17);
    std::uniform_real_distribution<double> u(-1, 1);
    std::vector<double> raw(N * RAW), count(N), truth(FEAT, 0.0);
    truth[0] = 0.5; truth[1] = 0.8; truth[2] = -0.6; truth[4] = 0.4; truth[8] = 0.7; truth[12] = -0.5;
    for (double &v : raw) v = u(gen);
    for (int i = 0; i < N; i++) {
        const double *x = &raw[i * RAW];
        double eta = truth[0];
        int k = 1;
        for (int a = 0; a < RAW; a++) eta += truth[k++] * x[a];
        for (int a = 0; a < RAW; a++)
            for (int b = a; b < RAW; b++) eta += truth[k++] * x[a] * x[b];
        std::poisson_distribution<int> pd(std::exp(eta));
        count[i] = pd(gen);
    }

    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 1;

    double *d_raw = device_new<double>(BLOCK * RAW);
    double *d_count = device_new<double>(BLOCK);
    double *d_phi = device_new<double>(BLOCK * FEAT);
    double *d_eta = device_new<double>(BLOCK);
    double *d_res = device_new<double>(BLOCK);
    double *d_nll = device_new<double>(BLOCK);
    double *d_theta = device_new<double>(FEAT);
    double *d_grad = device_new<double>(FEAT);
    cudaMemset(d_theta, 0, FEAT * sizeof(double));

    const double one = 1, zero = 0;
    for (int sweep = 1; sweep <= SWEEPS; sweep++) {
        double total = 0;
        double rate = 0.002 / (1 + 0.1 * sweep);
        for (int start = 0; start < N; start += BLOCK) {
            to_device(d_raw, &raw[start * RAW], BLOCK * RAW);
            to_device(d_count, &count[start], BLOCK);
            expand<<<(BLOCK + 63) / 64, 64>>>(d_raw, d_phi, BLOCK);
            // phi is FEAT x BLOCK to cuBLAS
            cublasDgemv(handle, CUBLAS_OP_T, FEAT, BLOCK, &one, d_phi, FEAT, d_theta, 1, &zero, d_eta, 1);
            residual<<<(BLOCK + 63) / 64, 64>>>(d_eta, d_count, d_res, d_nll, BLOCK);
            cublasDgemv(handle, CUBLAS_OP_N, FEAT, BLOCK, &one, d_phi, FEAT, d_res, 1, &zero, d_grad, 1);
            descend<<<1, 32>>>(d_theta, d_grad, rate, 1e-3, FEAT);

            std::vector<double> nll(BLOCK);
            to_host(nll.data(), d_nll, BLOCK);
            for (double v : nll) total += v;
        }
        printf("sweep %2d: negative log likelihood %.8f\n", sweep, total / N);
    }

    std::vector<double> theta(FEAT);
    to_host(theta.data(), d_theta, FEAT);
    printf("coefficient   fitted     true\n");
    for (int i = 0; i < FEAT; i++)
        if (truth[i] != 0) printf("%11d %8.4f %8.4f\n", i, theta[i], truth[i]);

    for (double *p : {d_raw, d_count, d_phi, d_eta, d_res, d_nll, d_theta, d_grad}) cudaFree(p);
    cublasDestroy(handle);
    return 0;
}
