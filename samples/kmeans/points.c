/*
 * points.c - see points.h.
 */
#include "points.h"

#include "common/random.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A multiple of 1/64 that is at least -limit and less than it. */
static float
coordinate(struct random *random, int limit)
{
    return (float)((int)random_below(random, (size_t)(128 * limit)) - 64 * limit) / 64.0f;
}

float *
points_make(size_t count)
{
    struct random random = random_seeded(1);
    float middles[CLUSTERS][DIMENSIONS];
    float *points = malloc(count * DIMENSIONS * sizeof(float));
    if (points == NULL) {
        fprintf(stderr, "kmeans: out of host memory\n");
        exit(1);
    }
    for (int k = 0; k < CLUSTERS; ++k) {
        for (int d = 0; d < DIMENSIONS; ++d)
            middles[k][d] = coordinate(&random, 8);
    }
    for (size_t i = 0; i < count; ++i) {
        const float *middle = middles[random_below(&random, CLUSTERS)];
        for (int d = 0; d < DIMENSIONS; ++d) /* two summands: more points near the middle */
            points[i * DIMENSIONS + (size_t)d] = middle[d] + coordinate(&random, 3) + coordinate(&random, 3);
    }
    return points;
}

void
points_save(const char *path, const float centroids[CLUSTERS * DIMENSIONS], const int counts[CLUSTERS])
{
    FILE *file = fopen(path, "w");
    for (int k = 0; file != NULL && k < CLUSTERS; ++k) {
        fprintf(file, "%d", counts[k]);
        for (int d = 0; d < DIMENSIONS; ++d)
            fprintf(file, " %.9g", (double)centroids[k * DIMENSIONS + d]);
        fputc('\n', file);
    }
    int failed = file == NULL || ferror(file) != 0;
    if (file != NULL && fclose(file) != 0)
        failed = 1;
    if (failed) {
        fprintf(stderr, "kmeans: cannot write %s\n", path);
        exit(1);
    }
}
