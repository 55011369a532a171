/*
 * mean_of.c - DDP_MEAN of a TYPE: of a float it compiles, of a double (and in C++ of an int) it must not. Compiled by
 * CMakeLists.txt's tests interpose/mean_of_*, and not run.
 */
#include "ddprun.h"

int mean_of(void);

int
mean_of(void)
{
    TYPE value = 1;
    DDP_MEAN(&value);
    return value > 0;
}
