/*
 * init.c - the first call of a program: reads the options and puts the handler of faults in place.
 */
#include "driver.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
start(void)
{
    if (!driver_open()) {
        return;
    }
    if (driver.device_count > 0) {
        fault_watch();
    }
    driver_ready();
}

CUresult
cuInit(unsigned int flags)
{
    REQUIRE(flags == 0);
    REQUIRE_ELSE(!driver_forked(), CUDA_ERROR_NOT_INITIALIZED);
    pthread_once(&once, start);
    return driver_enter();
}

CUresult
cuDriverGetVersion(int *version)
{
    REQUIRE(version != NULL);
    *version = driver_version(); /* before cuInit, too */
    return CUDA_SUCCESS;
}
