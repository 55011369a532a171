/*
 * Finds clusters among points. This program exists twice: main_plain.c is written for one GPU, as people write them;
 * main.c has the few lines more that let `ddprun` run it on several. Nothing is trained: what all ranks need of each
 * other are sums over the points.
 */
#include "lloyd.h"
#include "options.h"
#include "points.h"

#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    float *data = points_make(options.points);
    size_t first = 0, count = options.points;
    struct lloyd lloyd;
    lloyd_create(&lloyd, data, first, count);
    free(data);

    for (size_t i = 1; i <= options.iterations; ++i) {
        lloyd_assign(&lloyd);
        lloyd_move(&lloyd);
        if (i == 1 || i % 5 == 0 || i == options.iterations) {
            double distance = lloyd_distance(&lloyd);
            if (!options.quiet)
                printf("iteration %zu: mean squared distance %.6g\n", i, distance / (double)options.points);
        }
    }

    int counts[CLUSTERS];
    float centroids[CLUSTERS * DIMENSIONS];
    lloyd_result(&lloyd, centroids, counts);
    if (options.save != NULL)
        points_save(options.save, centroids, counts);
    lloyd_destroy(&lloyd);
    return 0;
}
