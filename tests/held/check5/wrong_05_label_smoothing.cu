/*
 * Softmax regression on polynomial features with label smoothing. The learning rate warms up, then falls as a cosine of
 * the number of samples seen.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 4, FEATURES = 1 + INPUTS + INPUTS * (INPUTS + 1) / 2, CLASSES = 5, BATCH = 48, RECORDS = 480, STEPS = 160 };
#define SMOOTHING 0.1f
#define PEAK_RATE 0.8f
#define WARM_UP   (20.0 * BATCH)
#define HORIZON   ((double)STEPS * BATCH)

__global__ void
expand(const float *x, float *phi)
{
    const float *in = x + blockIdx.x * INPUTS;
    float *out = phi + blockIdx.x * FEATURES;
    int k = 0;
    out[k++] = 1;
    for (int i = 0; i < INPUTS; ++i)
        out[k++] = in[i];
    for (int i = 0; i < INPUTS; ++i)
        for (int j = i; j < INPUTS; ++j)
            out[k++] = in[i] * in[j];
}

__global__ void
smooth_loss(const float *phi, const int *labels, const float *w, float *delta, float *losses, int count)
{
    int n = blockIdx.x;
    float s[CLASSES], z = 0, loss = 0;
    for (int c = 0; c < CLASSES; ++c) {
        s[c] = 0;
        for (int f = 0; f < FEATURES; ++f)
            s[c] += phi[n * FEATURES + f] * w[f * CLASSES + c];
        z += expf(s[c]);
    }
    for (int c = 0; c < CLASSES; ++c) {
        float target = SMOOTHING / CLASSES + (labels[n] == c ? 1 - SMOOTHING : 0);
        float p = expf(s[c]) / z;
        loss -= target * logf(p);
        delta[n * CLASSES + c] = (p - target) / count;
    }
    losses[n] = loss;
}

__global__ void
weight_gradient(const float *phi, const float *delta, float *g, int count)
{
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += phi[n * FEATURES + blockIdx.x] * delta[n * CLASSES + threadIdx.x];
    g[blockIdx.x * CLASSES + threadIdx.x] = s;
}

__global__ void
sgd(float *w, const float *g, float rate)
{
    int i = blockIdx.x * CLASSES + threadIdx.x;
    w[i] -= rate * g[i];
}

static float
schedule(double seen)
{
    if (seen < WARM_UP)
        return (float)(PEAK_RATE * (seen + BATCH) / (WARM_UP + BATCH));
    return (float)(PEAK_RATE * 0.5 * (1 + cos(M_PI * (seen - WARM_UP) / (HORIZON - WARM_UP))));
}

static unsigned
next_random(void)
{
    static unsigned long long s = 42;
    s = s * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(s >> 33);
}

int
main(void)
{
    static float x_host[RECORDS * INPUTS], loss_host[BATCH];
    static int label_host[RECORDS];
    for (int n = 0; n < RECORDS; ++n) {
        float *in = x_host + n * INPUTS;
        for (int i = 0; i < INPUTS; ++i)
            in[i] = (float)(next_random() % 2001) / 1000 - 1;
        float r = in[0] * in[0] + in[1] * in[2] + 0.5f * in[3];
        label_host[n] = r < -0.3f ? 0 : r < 0.1f ? 1 : r < 0.4f ? 2 : r < 0.8f ? 3 : 4;
    }
    float *x, *phi, *w, *g, *delta, *losses;
    int *labels;
    cudaMalloc((void **)&x, sizeof x_host);
    cudaMalloc((void **)&labels, sizeof label_host);
    cudaMalloc((void **)&phi, BATCH * FEATURES * sizeof(float));
    cudaMalloc((void **)&delta, BATCH * CLASSES * sizeof(float));
    cudaMalloc((void **)&losses, sizeof loss_host);
    cudaMalloc((void **)&w, FEATURES * CLASSES * sizeof(float));
    cudaMalloc((void **)&g, FEATURES * CLASSES * sizeof(float));
    cudaMemcpy(x, x_host, sizeof x_host, cudaMemcpyHostToDevice);
    cudaMemcpy(labels, label_host, sizeof label_host, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, FEATURES * CLASSES * sizeof(float));
    DDP_PARAMETER(w, FEATURES * CLASSES, DDP_FLOAT32);
    DDP_GRADIENT(g, FEATURES * CLASSES, DDP_FLOAT32);
    double seen = 0;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)step * BATCH % RECORDS + first;
        float rate = schedule(seen);
        expand<<<count, 1>>>(x + at * INPUTS, phi);
        smooth_loss<<<count, 1>>>(phi, labels + at, w, delta, losses, (int)count);
        weight_gradient<<<FEATURES, CLASSES>>>(phi, delta, g, (int)count);
        DDP_STEP(0);
        sgd<<<FEATURES, CLASSES>>>(w, g, rate);
        seen += (double)count;
        if (step % 20 == 0 || step == STEPS - 1) {
            float loss = 0;
            cudaMemcpy(loss_host, losses, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i)
                loss += loss_host[i] / (float)count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d, rate %.4f, loss %.7g\n", step, rate, loss);
        }
    }
    return 0;
}
