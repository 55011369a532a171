/* The density of points in the plane: a mixture of round Gaussians, by expectation maximisation in doubles. */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A number in [0, 1) that depends on its two arguments only. */
static __host__ __device__ inline float
uniform(unsigned seed, unsigned i)
{
    unsigned x = seed * 0x9e3779b9u + i * 0x85ebca6bu + 0x7f4a7c15u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (x >> 8) * (1.0f / 16777216.0f);
}

static float *
zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc((void **)&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

template <typename T> static T *
upload(const std::vector<T> &values)
{
    T *p;
    CHECK(cudaMalloc((void **)&p, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static inline int
blocks(size_t n)
{
    return (int)((n + 63) / 64);
}

enum { POINTS = 480, PARTS = 5, ITERATIONS = 40, SUMS = 4 * PARTS + 1 };

/* For each point and part: share, share x, share y, share (x^2 + y^2); then the log likelihood. One thread a point. */
__global__ void
expectation(double *rows, const double *points, const double *parts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = points[2 * i], y = points[2 * i + 1], density[PARTS], sum = 0.0, *row = rows + i * SUMS;
    for (int k = 0; k < PARTS; ++k) {
        const double *p = parts + 4 * k; /* weight, x, y, variance */
        double square = (x - p[1]) * (x - p[1]) + (y - p[2]) * (y - p[2]);
        density[k] = p[0] / p[3] * exp(-0.5 * square / p[3]) + 1e-300;
        sum += density[k];
    }
    for (int k = 0; k < PARTS; ++k) {
        double share = density[k] / sum;
        row[4 * k] = share;
        row[4 * k + 1] = share * x;
        row[4 * k + 2] = share * y;
        row[4 * k + 3] = share * (x * x + y * y);
    }
    row[SUMS - 1] = log(sum / 6.283185307179586);
}

__global__ void
column_sums(double *sums, const double *rows, int n)
{
    int j = threadIdx.x;
    if (j >= SUMS)
        return;
    double sum = 0.0;
    for (int i = 0; i < n; ++i)
        sum += rows[i * SUMS + j];
    sums[j] = sum;
}

/* On the host: there are five parts only. */
static void
maximisation(std::vector<double> &parts, const std::vector<double> &sums, int points)
{
    for (int k = 0; k < PARTS; ++k) {
        const double *s = &sums[4 * k];
        double *p = &parts[4 * k], weight = s[0] + 1e-9;
        p[0] = weight / points;
        p[1] = s[1] / weight;
        p[2] = s[2] / weight;
        p[3] = fmax(0.5 * (s[3] / weight - p[1] * p[1] - p[2] * p[2]), 1e-3);
    }
}

int
main()
{
    std::vector<double> cloud(2 * POINTS), parts(4 * PARTS), sums(SUMS);
    for (int i = 0; i < POINTS; ++i) {
        int k = (int)(PARTS * uniform(1, i));
        double radius = (0.3 + 0.1 * k) * sqrt(-2.0 * log(1.0 - (double)uniform(2, i))), turn = 6.283185307 * uniform(3, i);
        cloud[2 * i] = 2.0 * cos(1.2566 * k) + radius * cos(turn);
        cloud[2 * i + 1] = 2.0 * sin(1.2566 * k) + radius * sin(turn);
    }
    for (int k = 0; k < PARTS; ++k) { /* begin at points that all ranks know */
        parts[4 * k] = 1.0 / PARTS;
        parts[4 * k + 1] = cloud[2 * (k * 97 + 11)];
        parts[4 * k + 2] = cloud[2 * (k * 97 + 11) + 1];
        parts[4 * k + 3] = 1.0;
    }

    size_t first, count;
    DDP_SHARD(POINTS, &first, &count);
    double *points = upload(cloud), *dparts = upload(parts), *dsums = upload(sums), *rows;
    CHECK(cudaMalloc((void **)&rows, count * SUMS * sizeof(double)));
    DDP_PARAMETER(dparts, 4 * PARTS, DDP_FLOAT64);

    for (int iteration = 0; iteration < ITERATIONS; ++iteration) {
        expectation<<<blocks(count), 64>>>(rows, points + 2 * first, dparts, (int)count);
        column_sums<<<1, 64>>>(dsums, rows, (int)count);
        CHECK(cudaMemcpy(sums.data(), dsums, SUMS * sizeof(double), cudaMemcpyDeviceToHost));
        DDP_REDUCE(sums.data(), SUMS, DDP_FLOAT64, DDP_OP_SUM, 0);
        maximisation(parts, sums, POINTS);
        CHECK(cudaMemcpy(dparts, parts.data(), 4 * PARTS * sizeof(double), cudaMemcpyHostToDevice));
        if (iteration % 10 == 9 && DDP_RANK() == 0)
            printf("iteration %d loss %.5f\n", iteration + 1, -sums[SUMS - 1] / POINTS);
    }
    return 0;
}
