/*
 * mean_of.c - DDP_MEAN of a TYPE, DDP_ANY of a FLAG, and DDP_TYPE_OF a pointer to WRONG, compiled by type_of.sh and not
 * run.
 */
#include "ddprun.h"

#include <signal.h>
#ifndef __cplusplus
#include <stdbool.h>
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
#ifdef WRONG
    return DDP_TYPE_OF((WRONG *)NULL);
#endif
    return value > 0;
}
