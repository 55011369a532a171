/*
 * Bayesian logistic regression by backpropagation: each weight has a normal distribution (mu, softplus(rho)), one
 * sample of the weights is drawn for each step, and the loss is the negative log-likelihood plus the divergence from
 * the prior N(0, 1), spread over the minibatches of an epoch.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

enum { INPUTS = 14, N_TRAIN = 256, N_BATCH = 64, N_STEPS = 16 };

typedef struct {
    float mu[INPUTS], rho[INPUTS];
} Posterior;

static void die_if(cudaError_t e, int line)
{
    if (e) { fprintf(stderr, "variational.cu:%d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define OK(x) die_if((x), __LINE__)

__host__ __device__ static inline unsigned mix(unsigned h)
{
    h ^= h >> 16; h *= 0x7feb352du;
    h ^= h >> 15; h *= 0x846ca68bu;
    return h ^ (h >> 16);
}

/* Standard normal numbers, the same for the same (step, weight): Box and Muller. */
__global__ void draw(float *sample, float *eps, const Posterior *q, unsigned step)
{
    int j = threadIdx.x;
    float u = (mix(step * 64u + (unsigned)j * 2u + 1u) >> 8) / 16777216.0f + 1e-7f;
    float v = (mix(step * 64u + (unsigned)j * 2u + 2u) >> 8) / 16777216.0f;
    eps[j] = sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
    sample[j] = q->mu[j] + log1pf(expf(q->rho[j])) * eps[j];
}

__global__ void nll_backward(const float *x, const int *y, const float *sample, float *d_sample, float *nll, int n)
{
    __shared__ float delta[N_BATCH];
    int i = threadIdx.x;
    float z = 0.0f;
    if (i < n) {
        for (int j = 0; j < INPUTS; ++j)
            z += x[i * INPUTS + j] * sample[j];
        delta[i] = 1.0f / (1.0f + expf(-z)) - (float)y[i];
        nll[i] = log1pf(expf(y[i] ? -z : z));
    }
    __syncthreads();
    if (i < INPUTS) {
        float s = 0.0f;
        for (int k = 0; k < n; ++k)
            s += delta[k] * x[k * INPUTS + i];
        d_sample[i] = s / n;
    }
}

__global__ void posterior_backward(Posterior *d, const Posterior *q, const float *d_sample, const float *eps)
{
    int j = threadIdx.x;
    d->mu[j] = d_sample[j];
    d->rho[j] = d_sample[j] * eps[j] / (1.0f + expf(-q->rho[j]));
}

__global__ void prior_backward(Posterior *d, const Posterior *q, float weight)
{
    int j = threadIdx.x;
    float sigma = log1pf(expf(q->rho[j]));
    d->mu[j] += weight * q->mu[j];
    d->rho[j] += weight * (sigma - 1.0f / sigma) / (1.0f + expf(-q->rho[j]));
}

__global__ void step_down(float *p, float *m, float *v, const float *g, int t)
{
    int k = threadIdx.x;
    m[k] = 0.9f * m[k] + 0.1f * g[k];
    v[k] = 0.99f * v[k] + 0.01f * g[k] * g[k];
    p[k] -= 0.1f * (m[k] / (1.0f - powf(0.9f, t))) / (sqrtf(v[k] / (1.0f - powf(0.99f, t))) + 1e-4f);
}

int main(void)
{
    static float features[N_TRAIN * INPUTS], nll[N_BATCH];
    static int answers[N_TRAIN];
    for (int i = 0; i < N_TRAIN; ++i) {
        float z = 0.0f;
        for (int j = 0; j < INPUTS; ++j) {
            features[i * INPUTS + j] = (float)(mix((unsigned)(i * INPUTS + j)) >> 16) / 32768.0f - 1.0f;
            z += features[i * INPUTS + j] * (j % 3 - 1) * 2.0f;
        }
        answers[i] = z > 0.0f;
    }
    Posterior start;
    for (int j = 0; j < INPUTS; ++j) { start.mu[j] = 0.0f; start.rho[j] = -2.0f; }

    enum { P = 2 * INPUTS };
    Posterior *q, *dq;
    float *x, *sample, *eps, *d_sample, *d_nll, *m, *v;
    int *y;
    OK(cudaMalloc((void **)&q, sizeof *q));
    OK(cudaMalloc((void **)&dq, sizeof *dq));
    OK(cudaMalloc((void **)&x, sizeof(float) * N_BATCH * INPUTS));
    OK(cudaMalloc((void **)&y, sizeof(int) * N_BATCH));
    OK(cudaMalloc((void **)&d_nll, sizeof nll));
    OK(cudaMalloc((void **)&sample, sizeof(float) * INPUTS));
    OK(cudaMalloc((void **)&eps, sizeof(float) * INPUTS));
    OK(cudaMalloc((void **)&d_sample, sizeof(float) * INPUTS));
    OK(cudaMalloc((void **)&m, sizeof(float) * P));
    OK(cudaMalloc((void **)&v, sizeof(float) * P));
    OK(cudaMemset(m, 0, sizeof(float) * P));
    OK(cudaMemset(v, 0, sizeof(float) * P));
    OK(cudaMemcpy(q, &start, sizeof start, cudaMemcpyHostToDevice));
    DDP_PARAMETER(q, P, DDP_FLOAT32);
    DDP_GRADIENT(dq, P, DDP_FLOAT32);

    for (int step = 1; step <= N_STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(N_BATCH, &first, &count);
        size_t row = (size_t)((step - 1) * N_BATCH % N_TRAIN) + first;
        int batches = N_TRAIN / (int)count; /* in an epoch */
        OK(cudaMemcpy(x, features + row * INPUTS, sizeof(float) * count * INPUTS, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(y, answers + row, sizeof(int) * count, cudaMemcpyHostToDevice));
        draw<<<1, INPUTS>>>(sample, eps, q, (unsigned)step);
        nll_backward<<<1, N_BATCH>>>(x, y, sample, d_sample, d_nll, (int)count);
        posterior_backward<<<1, INPUTS>>>(dq, q, d_sample, eps);
        prior_backward<<<1, INPUTS>>>(dq, q, 0.1f / (float)batches);
        DDP_STEP(0);
        step_down<<<1, P>>>((float *)q, m, v, (const float *)dq, step);

        float mean = 0.0f;
        OK(cudaMemcpy(nll, d_nll, sizeof(float) * count, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; ++i) mean += nll[i];
        mean /= (float)count;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0 && step % 3 == 1) printf("step %d: nll %.4f\n", step, mean);
    }
    return 0;
}
