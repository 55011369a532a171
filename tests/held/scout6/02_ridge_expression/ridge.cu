/* Ridge regression by minibatch gradient descent: predict a phenotype from gene expression. */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define N_SAMPLES 1024
#define N_GENES   300
#define BATCH     128
#define THREADS   128

static unsigned long long rng_state = 88172645463325252ULL;
static float uniform()
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (float)((rng_state >> 40) / 16777216.0);
}
static float gauss()
{
    float u = uniform() + 1e-7f, v = uniform();
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}

/* one block per sample: residual = x.w + b - y */
__global__ void residuals(const float *X, const float *y, const float *w, const float *b, float *r, int d)
{
    __shared__ float part[THREADS];
    const float *x = X + (size_t)blockIdx.x * d;
    float s = 0;
    for (int j = threadIdx.x; j < d; j += blockDim.x)
        s += x[j] * w[j];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h >>= 1) {
        if (threadIdx.x < h)
            part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        r[blockIdx.x] = part[0] + b[0] - y[blockIdx.x];
}

/* gw[j] = sum over the samples of r * x_j; the thread behind the last gene does the intercept */
__global__ void gradient(const float *X, const float *r, float *gw, float *gb, int n, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) {
        float s = 0;
        for (int i = 0; i < n; i++)
            s += r[i] * X[(size_t)i * d + j];
        gw[j] = s;
    } else if (j == d) {
        float s = 0;
        for (int i = 0; i < n; i++)
            s += r[i];
        *gb = s;
    }
}

__global__ void descend(float *w, const float *gw, float *b, const float *gb, float rate, float lambda, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d)
        w[j] -= rate * (gw[j] / BATCH + lambda * w[j]);
    if (j == 0)
        b[0] -= rate * gb[0] / BATCH;
}

int main()
{
    float *hX = new float[N_SAMPLES * N_GENES], *hy = new float[N_SAMPLES], *truth = new float[N_GENES];
    for (int j = 0; j < N_GENES; j++)
        truth[j] = j % 7 == 0 ? gauss() * 0.4f : 0.0f;
    for (int i = 0; i < N_SAMPLES; i++) {
        float s = 1.5f;
        for (int j = 0; j < N_GENES; j++) {
            hX[i * N_GENES + j] = gauss();
            s += truth[j] * hX[i * N_GENES + j];
        }
        hy[i] = s + 0.1f * gauss();
    }

    float *dX, *dy, *w, *b, *gw, *gb, *r;
    cudaMalloc(&dX, N_SAMPLES * N_GENES * sizeof(float));
    cudaMalloc(&dy, N_SAMPLES * sizeof(float));
    cudaMalloc(&w, N_GENES * sizeof(float));
    cudaMalloc(&b, sizeof(float));
    cudaMalloc(&gw, N_GENES * sizeof(float));
    cudaMalloc(&gb, sizeof(float));
    cudaMalloc(&r, BATCH * sizeof(float));
    cudaMemcpy(dX, hX, N_SAMPLES * N_GENES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, hy, N_SAMPLES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(w, 0, N_GENES * sizeof(float));
    cudaMemset(b, 0, sizeof(float));

    const int blocks = (N_GENES + THREADS) / THREADS;
    float *hr = new float[BATCH];
    for (int epoch = 0; epoch < 12; epoch++) {
        double sse = 0;
        float rate = 0.15f / (1.0f + 0.1f * epoch);
        for (int first = 0; first < N_SAMPLES; first += BATCH) {
            residuals<<<BATCH, THREADS>>>(dX + first * N_GENES, dy + first, w, b, r, N_GENES);
            gradient<<<blocks, THREADS>>>(dX + first * N_GENES, r, gw, gb, BATCH, N_GENES);
            descend<<<blocks, THREADS>>>(w, gw, b, gb, rate, 1e-4f, N_GENES);
            cudaMemcpy(hr, r, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < BATCH; i++)
                sse += hr[i] * hr[i];
        }
        printf("epoch %2d  rate %.4f  mse %.5f\n", epoch, rate, sse / N_SAMPLES);
    }

    float *hw = new float[N_GENES];
    cudaMemcpy(hw, w, N_GENES * sizeof(float), cudaMemcpyDeviceToHost);
    double dist = 0;
    for (int j = 0; j < N_GENES; j++)
        dist += (hw[j] - truth[j]) * (hw[j] - truth[j]);
    printf("distance to the true coefficients: %.4f\n", sqrt(dist));
    return 0;
}
