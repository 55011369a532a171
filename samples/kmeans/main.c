/*
 * Finds clusters among points. This program exists twice: main_plain.c is written for one GPU, as people write them;
 * main.c has the few lines more that let `ddprun` run it on several. Nothing is trained: what all ranks need of each
 * other are sums over the points.
 */
#include "lloyd.h"
#include "options.h"
#include "points.h"

#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    if (DDP_RANK() != 0)
        options.quiet = true;
    float *data = points_make(options.points);
    size_t first, count;
    DDP_SHARD(options.points, &first, &count);
    struct lloyd lloyd;
    lloyd_create(&lloyd, data, first, count);
    free(data);

    for (size_t i = 1; i <= options.iterations; ++i) {
        lloyd_assign(&lloyd);
        DDP_REDUCE(lloyd.sums, CLUSTERS * DIMENSIONS, DDP_FLOAT32, DDP_OP_SUM, 0);
        DDP_REDUCE(lloyd.counts, CLUSTERS, DDP_INT32, DDP_OP_SUM, 0);
        lloyd_move(&lloyd);
        if (i == 1 || i % 5 == 0 || i == options.iterations) {
            double distance = lloyd_distance(&lloyd);
            DDP_REDUCE(&distance, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
            if (!options.quiet)
                printf("iteration %zu: mean squared distance %.6g\n", i, distance / (double)options.points);
        }
    }

    int counts[CLUSTERS];
    float centroids[CLUSTERS * DIMENSIONS];
    lloyd_result(&lloyd, centroids, counts);
    if (options.save != NULL && DDP_RANK() == 0)
        points_save(options.save, centroids, counts);
    lloyd_destroy(&lloyd);
    return 0;
}
