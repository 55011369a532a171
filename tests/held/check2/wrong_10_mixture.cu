// A mixture of round Gaussians fitted to points in the plane by expectation maximisation. Nothing is trained by
// gradients: each iteration sums responsibilities over the points and moves the components.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

enum { K = 4, POINTS = 240, ITERATIONS = 14, THREADS = 64 };

struct component { float x, y, variance, share; };
struct moment { float mass, x, y, square; };

static void
check(cudaError_t status, int line)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "mixture.cu:%d: %s\n", line, cudaGetErrorString(status));
    exit(1);
}
#define CHECK(call) check(call, __LINE__)

/* Responsibilities of the components for each point, and the log of its density. */
__global__ void
expect(const float2 *point, int points, const component *c, float *responsibility, double *log_density)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points)
        return;
    float density[K], sum = 1e-30f;
    for (int k = 0; k < K; ++k) {
        float dx = point[i].x - c[k].x, dy = point[i].y - c[k].y;
        density[k] = c[k].share / (6.2831853f * c[k].variance) * expf(-0.5f * (dx * dx + dy * dy) / c[k].variance);
        sum += density[k];
    }
    for (int k = 0; k < K; ++k)
        responsibility[i * K + k] = density[k] / sum;
    log_density[i] = (double)logf(sum);
}

/* A block for each component. */
__global__ void
gather(const float2 *point, int points, const float *responsibility, moment *m)
{
    __shared__ moment part[THREADS];
    int k = blockIdx.x, t = threadIdx.x;
    moment s = {0, 0, 0, 0};
    for (int i = t; i < points; i += THREADS) {
        float r = responsibility[i * K + k];
        s.mass += r;
        s.x += r * point[i].x;
        s.y += r * point[i].y;
        s.square += r * (point[i].x * point[i].x + point[i].y * point[i].y);
    }
    part[t] = s;
    __syncthreads();
    if (t == 0) {
        for (int j = 1; j < THREADS; ++j) {
            s.mass += part[j].mass;
            s.x += part[j].x;
            s.y += part[j].y;
            s.square += part[j].square;
        }
        m[k] = s;
    }
}

__global__ void
maximise(component *c, const moment *m, int points)
{
    int k = threadIdx.x;
    float mass = m[k].mass + 1e-6f;
    c[k].x = m[k].x / mass;
    c[k].y = m[k].y / mass;
    c[k].variance = fmaxf(0.5f * (m[k].square / mass - c[k].x * c[k].x - c[k].y * c[k].y), 1e-3f);
    c[k].share = mass / points;
}

/* Components begin at the first points, wide and equally heavy. */
__global__ void
begin(component *c, const float2 *point)
{
    int k = threadIdx.x;
    c[k].x = point[k].x;
    c[k].y = point[k].y;
    c[k].variance = 1.0f;
    c[k].share = 1.0f / K;
}

int
main(void)
{
    static float2 all[POINTS];
    unsigned s = 20240229u;
    for (int i = 0; i < POINTS; ++i) {
        float a[6];
        for (int j = 0; j < 6; ++j) {
            s = s * 1664525u + 1013904223u;
            a[j] = (float)(s >> 8) / 16777216.0f - 0.5f;
        }
        int k = (i * 7 + (i >> 5)) % K;
        all[i].x = 2.0f * (float)(k % 2) + 0.6f * (a[0] + a[1] + a[2]);
        all[i].y = 2.5f * (float)(k / 2) + (0.3f + 0.2f * (float)k) * (a[3] + a[4] + a[5]);
    }

    size_t first, count;
    DDP_SHARD(POINTS, &first, &count);
    const int n = (int)count;
    float2 *point;
    component *c;
    moment *m;
    float *responsibility;
    double *log_density, host[POINTS];
    CHECK(cudaMalloc((void **)&point, count * sizeof(float2)));
    CHECK(cudaMalloc((void **)&responsibility, count * K * sizeof(float)));
    CHECK(cudaMalloc((void **)&log_density, count * sizeof(double)));
    CHECK(cudaMalloc((void **)&c, K * sizeof(component)));
    CHECK(cudaMalloc((void **)&m, K * sizeof(moment)));
    CHECK(cudaMemcpy(point, all + first, count * sizeof(float2), cudaMemcpyHostToDevice));
    begin<<<1, K>>>(c, point);

    for (int iteration = 1; iteration <= ITERATIONS; ++iteration) {
        expect<<<(n + THREADS - 1) / THREADS, THREADS>>>(point, n, c, responsibility, log_density);
        gather<<<K, THREADS>>>(point, n, responsibility, m);
        DDP_REDUCE(m, K * 4, DDP_FLOAT32, DDP_OP_SUM, 0);
        maximise<<<1, K>>>(c, m, POINTS);

        double total = 0;
        CHECK(cudaMemcpy(host, log_density, count * sizeof(double), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; ++i)
            total -= host[i];
        DDP_REDUCE(&total, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0)
            printf("iteration %d: %.5f nats a point\n", iteration, total / POINTS);
    }
    return 0;
}
