/*
 * lloyd.h - one iteration of Lloyd's algorithm on the device (S. Lloyd, "Least squares quantization in PCM", IEEE
 * Transactions on Information Theory 28(2), 1982): each point counts for the nearest centroid, and each centroid moves
 * to the mean of its points. The loop is the main programs'.
 *
 * Coordinates are multiples of 1/64 and below 16: the sums of as many as 16384 points are exact in a float, in
 * whatever order they are added.
 */
#ifndef KMEANS_LLOYD_H
#define KMEANS_LLOYD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DIMENSIONS = 8, CLUSTERS = 32 };

/* Device memory, but for `count`. */
struct lloyd {
    size_t count;     /* points */
    float *points;    /* [count][DIMENSIONS] */
    float *centroids; /* [CLUSTERS][DIMENSIONS] */
    float *sums;      /* [CLUSTERS][DIMENSIONS]: of the points that are nearest to each centroid */
    int *counts;      /* [CLUSTERS]: how many these are */
    double *distance; /* of all points to their centroids, squared and summed up */
};

/* Points first .. first + count of the data; centroids begin as the data's first points. Ends the program when
 * something fails, like all functions here. */
void lloyd_create(struct lloyd *lloyd, const float *data, size_t first, size_t count);

/* Fills sums, counts and distance from these points and the centroids. */
void lloyd_assign(struct lloyd *lloyd);

/* Moves each centroid to the mean of the points that counts and sums say. */
void lloyd_move(struct lloyd *lloyd);

/* Copies to the host; waits for the device. */
double lloyd_distance(const struct lloyd *lloyd);
void lloyd_result(const struct lloyd *lloyd, float centroids[CLUSTERS * DIMENSIONS], int counts[CLUSTERS]);

void lloyd_destroy(struct lloyd *lloyd);

#ifdef __cplusplus
}
#endif
#endif
