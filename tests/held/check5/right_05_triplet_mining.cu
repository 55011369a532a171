// Metric learning: batch-hard triplets. Every rank embeds the whole batch; it is the anchors that are divided.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ddprun.h>

enum { D = 12, E = 6, CLASSES = 8, BATCH = 32, DATA = 256, STEPS = 100, NW = D * E };
#define MARGIN 0.5f

__global__ void embed(const float *x, const float *w, float *e)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int d = 0; d < D; ++d)
        s += x[i * D + d] * w[d * E + j];
    e[i * E + j] = tanhf(s);
}

__device__ float distance2(const float *a, const float *b)
{
    float s = 0;
    for (int j = 0; j < E; ++j)
        s += (a[j] - b[j]) * (a[j] - b[j]);
    return s;
}

// for anchors [first, first + count): the farthest of its class, the nearest of another
__global__ void mine(const float *e, const int *label, int first, int *positive, int *negative, float *loss)
{
    int a = first + threadIdx.x, p = a, n = -1;
    float far = 0, near = 1e30f;
    for (int i = 0; i < BATCH; ++i) {
        float d = distance2(e + a * E, e + i * E);
        if (label[i] == label[a] && d > far) {
            far = d;
            p = i;
        }
        if (label[i] != label[a] && d < near) {
            near = d;
            n = i;
        }
    }
    bool active = p != a && n >= 0 && far - near + MARGIN > 0;
    loss[threadIdx.x] = active ? far - near + MARGIN : 0;
    positive[threadIdx.x] = active ? p : -1;
    negative[threadIdx.x] = active ? n : -1;
}

// derivative with respect to every embedding of the batch; this rank's triplets only
__global__ void triplet_backward(const float *e, const int *positive, const int *negative, int first, int count,
                                 float *de)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0, self = e[i * E + j];
    for (int k = 0; k < count; ++k) {
        if (positive[k] < 0)
            continue;
        float a = e[(first + k) * E + j], p = e[positive[k] * E + j], n = e[negative[k] * E + j];
        if (i == first + k)
            s += 2 * (n - p);
        if (i == positive[k])
            s -= 2 * (a - p);
        if (i == negative[k])
            s += 2 * (a - n);
    }
    de[i * E + j] = s / count * (1 - self * self);
}

__global__ void weight_gradient(const float *x, const float *de, float *g)
{
    int d = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < BATCH; ++i)
        s += x[i * D + d] * de[i * E + j];
    g[d * E + j] = s;
}

__global__ void nesterov(float *w, const float *g, float *m, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    m[i] = .7f * m[i] + g[i];
    w[i] -= rate * (g[i] + .7f * m[i]);
}

static float noise() { return rand() / (float)RAND_MAX * 2 - 1; }

int main()
{
    static float hx[DATA * D], hw[NW], centre[CLASSES][D], hl[BATCH];
    static int hy[DATA];
    srand(21);
    for (auto &c : centre)
        for (float &v : c)
            v = noise();
    for (int i = 0; i < DATA; ++i) {
        hy[i] = rand() % CLASSES;
        for (int d = 0; d < D; ++d)
            hx[i * D + d] = centre[hy[i]][d] + .8f * noise();
    }
    for (float &v : hw)
        v = .5f * noise();
    float *x, *w, *g, *m, *e, *de, *loss;
    int *y, *pos, *neg;
    cudaMalloc(&x, sizeof hx), cudaMalloc(&y, sizeof hy), cudaMalloc(&w, sizeof hw), cudaMalloc(&g, sizeof hw);
    cudaMalloc(&m, sizeof hw), cudaMalloc(&e, BATCH * E * 4), cudaMalloc(&de, BATCH * E * 4);
    cudaMalloc(&loss, sizeof hl), cudaMalloc(&pos, BATCH * 4), cudaMalloc(&neg, BATCH * 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw, sizeof hw, cudaMemcpyHostToDevice);
    cudaMemset(m, 0, sizeof hw);
    DDP_PARAMETER(w, NW, DDP_FLOAT32);
    DDP_GRADIENT(g, NW, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int at = step % (DATA / BATCH) * BATCH;
        embed<<<BATCH, E>>>(x + at * D, w, e);
        mine<<<1, count>>>(e, y + at, first, pos, neg, loss);
        triplet_backward<<<BATCH, E>>>(e, pos, neg, first, count, de);
        weight_gradient<<<D, E>>>(x + at * D, de, g);
        DDP_STEP(0);
        nesterov<<<D, E>>>(w, g, m, .01f);
        if (step % 10 == 0) {
            cudaMemcpy(hl, loss, count * 4, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (size_t i = 0; i < count; ++i)
                mean += hl[i] / count;
            DDP_MEAN_AS("triplet", &mean);
            if (!DDP_RANK())
                printf("%d %.7g\n", step, mean);
        }
    }
}
