/*
 * annotated.c - every macro of ddprun.h once; prints what the program sees. The engine of the test prints what it
 * gets.
 */
#include "ddprun.h"

#include <signal.h>
#include <stdio.h>

#ifndef ANNOTATED_MAIN
#define ANNOTATED_MAIN main
#endif

int ANNOTATED_MAIN(void);

/* Two regions in a block, of which the first ends before it. */
static void
take_turns(void)
{
    DDP_TURN_BEGIN();
    printf("mine %d, updates %d\n", DDP_TURN_MINE(), DDP_TURN_UPDATES());
    DDP_TURN_END();
    DDP_TURN_BEGIN();
    for (int i = 0; i < 1; ++i) {
        DDP_TURN_BEGIN();
        if (i == 0)
            continue;
        printf("never\n");
    }
    DDP_TURN_OPEN();
    DDP_TURN_END();
}

__attribute__((visibility("default"))) int
ANNOTATED_MAIN(void)
{
    static float weights[8];
    static unsigned short gradients[8];
    static double statistics[2];
    static int counter;
    float loss = 1.5f;
    double score = 0.1;
    int unset = 0, set = 5;
    static volatile sig_atomic_t asked;
    size_t first, count;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("rank %d of %d, local %d\n", DDP_RANK(), DDP_WORLD_SIZE(), DDP_LOCAL_RANK());
    DDP_PARAMETER(weights, 8, DDP_TYPE_OF(weights));
    DDP_STATE(&counter, 1, DDP_INT32);
    DDP_GRADIENT(gradients, 8, DDP_BFLOAT16);
    DDP_SHARD(100, &first, &count);
    printf("share %d + %d\n", (int)first, (int)count);
    DDP_WEIGHT(count, 100);
    DDP_STEP(0);
    DDP_GRADIENT_GROUP(1);
    DDP_STEP_GROUP(1, 0);
    DDP_STEP_PARAMETERS(0);
    DDP_STEP_PARAMETERS_GROUP(2, 0);
    DDP_SYNC(0);
    DDP_BUFFER(statistics, 2, DDP_TYPE_OF(statistics));
    DDP_NO_SYNC_BEGIN();
    DDP_NO_SYNC_END();
    DDP_GRADIENT_READY(gradients, 0);
    DDP_MEAN(&loss);
    DDP_MEAN_AS("loss", &loss);
    DDP_MEAN(&score);
    DDP_MEAN_AS("score", &score);
    printf("loss %g, score %.17g\n", (double)loss, score);
    const int first_any = DDP_ANY(&unset);
    const int second_any = DDP_ANY(&set);
    DDP_ANY(&asked);
    printf("any %d %d, flags %d %d %d\n", first_any, second_any, unset, set, (int)asked);
    DDP_REDUCE(weights, 8, DDP_UINT64, DDP_OP_MAX, 0);
    DDP_FORGET(gradients);
    take_turns();
    return 0;
}
