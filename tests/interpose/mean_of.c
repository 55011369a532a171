/*
 * mean_of.c - DDP_MEAN of a TYPE, DDP_ANY of a FLAG, DDP_SHARD into two of type SIZE, DDP_TYPE_OF a pointer to WRONG,
 * and annotations of POINTER, a parameter `p`, with ELEMENT as type. Compiled by type_of.sh, and not run.
 */
#include "ddprun.h"

#include <signal.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

struct four {
    float x, y, z, w;
};

#ifdef POINTER
void annotate(POINTER, int variable);

void
annotate(POINTER, int variable)
{
    (void)variable;
    DDP_PARAMETER(p, 12, ELEMENT);
    DDP_REDUCE(p, 12, ELEMENT, DDP_OP_SUM, 0);
}
#endif

int mean_of(void);

int
mean_of(void)
{
#ifdef TYPE
    TYPE value = 1;
    DDP_MEAN(&value);
#else
    int value = 0;
#endif
#ifdef FLAG
    FLAG flag = 0;
    DDP_ANY(&flag);
    while (DDP_ANY(&flag))
        ++value;
#endif
#ifdef SIZE
    SIZE first = 0, count = 0;
    DDP_SHARD(8, &first, &count);
#endif
#ifdef WRONG
    return DDP_TYPE_OF((WRONG *)NULL);
#endif
    return value > 0;
}
