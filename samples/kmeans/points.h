/*
 * points.h - the sample's data, and what becomes of it: points that the program makes itself, the same in every run,
 * and the file with the clusters.
 */
#ifndef KMEANS_POINTS_H
#define KMEANS_POINTS_H

#include "lloyd.h"

/* points[count][DIMENSIONS]: around as many places as there are clusters, with coordinates as lloyd.h wants them.
 * malloc'ed; ends the program when memory runs out. */
float *points_make(size_t count);

/* A line for each cluster: its count and its centroid, to all their digits. Ends the program when that fails. */
void points_save(const char *path, const float centroids[CLUSTERS * DIMENSIONS], const int counts[CLUSTERS]);

#endif
