/* driver.c - see driver.h. */
#include "comm/driver.h"

#include <stddef.h>

/* cuda.h renames functions to their versions (cuMemAlloc is cuMemAlloc_v2): names are taken before that happens. */
#define NAME_OF(function, version) #function,
static const char *const names[] = {DRIVER_FUNCTIONS(NAME_OF)};

#define VERSION_OF(function, version) version,
static const int versions[] = {DRIVER_FUNCTIONS(VERSION_OF)};

_Static_assert(sizeof(struct driver) == sizeof(names) / sizeof(names[0]) * sizeof(void *), "one pointer for each name");

bool
driver_fill(struct driver *driver, driver_lookup_fn lookup, struct comm_error *error)
{
    struct driver filled;
    void **members = (void **)&filled;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        members[i] = lookup(names[i], versions[i]);
        if (members[i] == NULL)
            return comm_fail(
                error, "the CUDA driver has no %s (as of CUDA %d.%d); ddprun needs a driver for CUDA 12.4 or newer",
                names[i], versions[i] / 1000, versions[i] % 1000 / 10);
    }
    *driver = filled;
    return true;
}

bool
driver_fail(const struct driver *driver, CUresult result, const char *what, struct comm_error *error)
{
    if (driver_result_is_fault(result))
        return comm_fail_by(error, COMM_FAULT, DRIVER_FAULT_FORMAT, driver_result_name(driver, result), what);
    return comm_fail_by(error, result == CUDA_ERROR_OUT_OF_MEMORY ? COMM_OWN : COMM_UNCLEAR, "%s: %s", what,
                        driver_result_name(driver, result));
}

bool
driver_result_is_fault(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default: /* among 700 to 719: what calls like these get for their own arguments */
        return false;
    }
}

const char *
driver_result_name(const struct driver *driver, CUresult result)
{
    const char *name = NULL;
    if (driver->cuGetErrorName_p(result, &name) != CUDA_SUCCESS || name == NULL)
        return "an unknown CUDA error";
    return name;
}
