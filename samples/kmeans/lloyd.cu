/*
 * lloyd.cu - see lloyd.h.
 */
#include "lloyd.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), #call, __LINE__)

enum { THREADS = 128 };

static void
check(cudaError_t error, const char *call, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "kmeans: lloyd.cu:%d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(1);
}

/* ---- kernels ---- */

/* A thread for each point. */
__global__ void
assign(const float *points, size_t count, const float *centroids, float *sums, int *counts, double *distance)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const float *point = points + i * DIMENSIONS;
    int nearest = 0;
    float least = 0;
    for (int k = 0; k < CLUSTERS; ++k) {
        float squared = 0;
        for (int d = 0; d < DIMENSIONS; ++d) {
            float difference = point[d] - centroids[k * DIMENSIONS + d];
            squared += difference * difference;
        }
        if (k == 0 || squared < least) {
            nearest = k;
            least = squared;
        }
    }
    for (int d = 0; d < DIMENSIONS; ++d)
        atomicAdd(&sums[nearest * DIMENSIONS + d], point[d]);
    atomicAdd(&counts[nearest], 1);
    atomicAdd(distance, (double)least);
}

/* A thread for each coordinate of each centroid. One without points stays where it is. */
__global__ void
move(float *centroids, const float *sums, const int *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, cluster = i / DIMENSIONS;
    if (i < CLUSTERS * DIMENSIONS && counts[cluster] > 0)
        centroids[i] = sums[i] / (float)counts[cluster];
}

/* ---- the device's memory ---- */

void
lloyd_create(struct lloyd *lloyd, const float *data, size_t first, size_t count)
{
    size_t point = DIMENSIONS * sizeof(float);
    lloyd->count = count;
    CHECK(cudaMalloc((void **)&lloyd->points, (count > 0 ? count : 1) * point));
    CHECK(cudaMalloc((void **)&lloyd->centroids, CLUSTERS * point));
    CHECK(cudaMalloc((void **)&lloyd->sums, CLUSTERS * point));
    CHECK(cudaMalloc((void **)&lloyd->counts, CLUSTERS * sizeof(int)));
    CHECK(cudaMalloc((void **)&lloyd->distance, sizeof(double)));
    CHECK(cudaMemcpy(lloyd->points, data + first * DIMENSIONS, count * point, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(lloyd->centroids, data, CLUSTERS * point, cudaMemcpyHostToDevice));
}

void
lloyd_assign(struct lloyd *lloyd)
{
    unsigned blocks = (unsigned)((lloyd->count + THREADS - 1) / THREADS);
    CHECK(cudaMemsetAsync(lloyd->sums, 0, CLUSTERS * DIMENSIONS * sizeof(float), 0));
    CHECK(cudaMemsetAsync(lloyd->counts, 0, CLUSTERS * sizeof(int), 0));
    CHECK(cudaMemsetAsync(lloyd->distance, 0, sizeof(double), 0));
    if (blocks > 0)
        assign<<<blocks, THREADS>>>(lloyd->points, lloyd->count, lloyd->centroids, lloyd->sums, lloyd->counts,
                                    lloyd->distance);
    CHECK(cudaGetLastError());
}

void
lloyd_move(struct lloyd *lloyd)
{
    move<<<CLUSTERS * DIMENSIONS / THREADS, THREADS>>>(lloyd->centroids, lloyd->sums, lloyd->counts);
    CHECK(cudaGetLastError());
}

double
lloyd_distance(const struct lloyd *lloyd)
{
    double distance;
    CHECK(cudaMemcpy(&distance, lloyd->distance, sizeof(distance), cudaMemcpyDeviceToHost));
    return distance;
}

void
lloyd_result(const struct lloyd *lloyd, float centroids[CLUSTERS * DIMENSIONS], int counts[CLUSTERS])
{
    CHECK(cudaMemcpy(centroids, lloyd->centroids, CLUSTERS * DIMENSIONS * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(counts, lloyd->counts, CLUSTERS * sizeof(int), cudaMemcpyDeviceToHost));
}

void
lloyd_destroy(struct lloyd *lloyd)
{
    CHECK(cudaFree(lloyd->points));
    CHECK(cudaFree(lloyd->centroids));
    CHECK(cudaFree(lloyd->sums));
    CHECK(cudaFree(lloyd->counts));
    CHECK(cudaFree(lloyd->distance));
}
