/*
 * rows_kmeans.h - a loop of rows.cu that is no training: Lloyd's clusters, whose sums over the points come from all
 * ranks by DDP_REDUCE. No DDP_STEP, and nothing is annotated.
 */
#ifndef TESTS_TOOLS_CHECK_ROWS_KMEANS_H
#define TESTS_TOOLS_CHECK_ROWS_KMEANS_H

#include "rows_model.h"

enum { POINTS = 240, CLUSTERS = 6 };

static __global__ void
assign(int *nearest, const float *points, const float *centres, int count)
{
    int i = thread_number();
    if (i >= count)
        return;
    float least = 1e30f;
    for (int c = 0; c < CLUSTERS; ++c) {
        float x = points[2 * i] - centres[2 * c], y = points[2 * i + 1] - centres[2 * c + 1], far = x * x + y * y;
        if (far < least) {
            least = far;
            nearest[i] = c;
        }
    }
}

static __global__ void
sum_clusters(float *sums, int *counts, const float *points, const int *nearest, int count)
{
    int c = thread_number();
    if (c >= CLUSTERS)
        return;
    float x = 0, y = 0;
    int own = 0;
    for (int i = 0; i < count; ++i)
        if (nearest[i] == c) {
            x += points[2 * i];
            y += points[2 * i + 1];
            ++own;
        }
    sums[2 * c] = x;
    sums[2 * c + 1] = y;
    counts[c] = own;
}

static __global__ void
move_centres(float *centres, const float *sums, const int *counts)
{
    int c = thread_number();
    if (c >= CLUSTERS || counts[c] == 0)
        return;
    centres[2 * c] = sums[2 * c] / (float)counts[c];
    centres[2 * c + 1] = sums[2 * c + 1] / (float)counts[c];
}

static void
find_clusters(void)
{
    static float host[2 * POINTS];
    size_t first, count;
    DDP_SHARD(POINTS, &first, &count);
    for (unsigned i = 0; i < 2 * POINTS; ++i)
        host[i] = noise(20, i) + (float)(i / 2 % 3);
    float *points = device_floats(2 * POINTS), *centres = device_floats(2 * CLUSTERS),
          *sums = device_floats(2 * CLUSTERS);
    int *nearest = (int *)device_memory(POINTS * sizeof(int)), *counts = (int *)device_memory(CLUSTERS * sizeof(int));
    CHECK(cudaMemcpy(points, host + 2 * first, 2 * count * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(centres, host, 2 * CLUSTERS * sizeof(float), cudaMemcpyHostToDevice));
    for (int step = 0; step < options.steps; ++step) {
        LAUNCH(assign, (int)count)(nearest, points, centres, (int)count);
        LAUNCH(sum_clusters, CLUSTERS)(sums, counts, points, nearest, (int)count);
        /* Mistakes: the mean of the sums; counts are the rank's own. */
        DDP_REDUCE(sums, 2 * CLUSTERS, DDP_FLOAT32, is("reduce_mean") ? DDP_OP_MEAN : DDP_OP_SUM, stream);
        if (!is("second_reduce"))
            DDP_REDUCE(counts, CLUSTERS, DDP_INT32, DDP_OP_SUM, stream);
        LAUNCH(move_centres, CLUSTERS)(centres, sums, counts);
    }
}

#endif
