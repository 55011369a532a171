// Focal loss on unbalanced classes. A class has a weight; the loss is the weighted mean over the batch.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <ddprun.h>

const int DIM = 9, CLASSES = 3, BATCH = 40, DATA = 400, STEPS = 150, N = (DIM + 1) * CLASSES;
const float GAMMA = 2;
__constant__ float class_weight[CLASSES];

static unsigned long long rs = 1234567;
static float rnd()
{
    rs ^= rs >> 12, rs ^= rs << 25, rs ^= rs >> 27;
    return (float)((rs * 2685821657736338717ull) >> 40) / (1 << 24);
}

__global__ void probabilities(const float *x, const float *w, float *p)
{
    int n = blockIdx.x;
    float z = 0, e[CLASSES];
    for (int c = 0; c < CLASSES; ++c) {
        float s = w[DIM * CLASSES + c];
        for (int d = 0; d < DIM; ++d)
            s += x[n * DIM + d] * w[d * CLASSES + c];
        z += e[c] = expf(s);
    }
    for (int c = 0; c < CLASSES; ++c)
        p[n * CLASSES + c] = e[c] / z;
}

__global__ void total_weight(const int *y, int count, float *total)
{
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += class_weight[y[n]];
    *total = s;
}

__global__ void focal(const float *p, const int *y, const float *total, float *delta, float *loss)
{
    int n = blockIdx.x;
    float pt = p[n * CLASSES + y[n]], q = 1 - pt, a = class_weight[y[n]] / *total;
    loss[n] = -a * powf(q, GAMMA) * logf(pt);
    // dL/dpt * pt, then through the softmax
    float d = a * (GAMMA * powf(q, GAMMA - 1) * logf(pt) * pt - powf(q, GAMMA));
    for (int c = 0; c < CLASSES; ++c)
        delta[n * CLASSES + c] = d * ((c == y[n]) - p[n * CLASSES + c]);
}

__global__ void gradient(const float *x, const float *delta, int count, float *g)
{
    int d = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += (d < DIM ? x[n * DIM + d] : 1) * delta[n * CLASSES + c];
    g[d * CLASSES + c] = s;
}

__global__ void momentum(float *w, const float *g, float *m)
{
    int i = blockIdx.x * CLASSES + threadIdx.x;
    m[i] = 0.9f * m[i] - 0.2f * g[i];
    w[i] += m[i];
}

static float hx[DATA * DIM], hw[N], hl[BATCH];
static int hy[DATA];

static void make_data()
{
    for (int n = 0; n < DATA; ++n) {
        float u = rnd();
        hy[n] = u < .78f ? 0 : u < .93f ? 1 : 2;
        for (int d = 0; d < DIM; ++d)
            hx[n * DIM + d] = 2 * rnd() - 1 + (d % CLASSES == hy[n] ? .6f : 0);
    }
    for (float &v : hw)
        v = .2f * (rnd() - .5f);
}

int main()
{
    make_data();
    float *x, *w, *g, *m, *p, *delta, *total, *loss;
    int *y;
    const float weights[CLASSES] = {0.4f, 2.2f, 4.5f};
    cudaMemcpyToSymbol(class_weight, weights, sizeof weights);
    cudaMalloc(&x, sizeof hx);
    cudaMalloc(&y, sizeof hy);
    cudaMalloc(&w, sizeof hw);
    cudaMalloc(&g, sizeof hw);
    cudaMalloc(&m, sizeof hw);
    cudaMalloc(&p, BATCH * CLASSES * sizeof(float));
    cudaMalloc(&delta, BATCH * CLASSES * sizeof(float));
    cudaMalloc(&total, sizeof(float));
    cudaMalloc(&loss, sizeof hl);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw, sizeof hw, cudaMemcpyHostToDevice);
    cudaMemset(m, 0, sizeof hw);

    DDP_PARAMETER(w, N, DDP_FLOAT32);
    DDP_STATE(m, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const size_t row = step % (DATA / BATCH) * BATCH + first;
        probabilities<<<count, 1>>>(x + row * DIM, w, p);
        total_weight<<<1, 1>>>(y + row, count, total);
        focal<<<count, 1>>>(p, y + row, total, delta, loss);
        gradient<<<DIM + 1, CLASSES>>>(x + row * DIM, delta, count, g);
        DDP_STEP(0);
        momentum<<<DIM + 1, CLASSES>>>(w, g, m);
        if (step % 30 == 0 || step == STEPS - 1) {
            cudaMemcpy(hl, loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            float sum = 0;
            for (size_t i = 0; i < count; ++i)
                sum += hl[i];
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0)
                printf("step %3d focal loss %.7g\n", step, sum);
        }
    }
    return 0;
}
