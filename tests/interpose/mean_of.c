/*
 * mean_of.c - DDP_MEAN of a TYPE, and DDP_TYPE_OF a pointer to WRONG, compiled by type_of.sh and not run.
 */
#include "ddprun.h"

int mean_of(void);

int
mean_of(void)
{
    TYPE value = 1;
    DDP_MEAN(&value);
#ifdef WRONG
    return DDP_TYPE_OF((WRONG *)NULL);
#endif
    return value > 0;
}
