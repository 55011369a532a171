/* driver.c - see driver.h. */
#include "comm/driver.h"

#include <stddef.h>
#include <stdio.h>

enum { DRIVER_FAULT_BYTES = 512 };

/* CUDA_ERROR_CONTAINED and CUDA_ERROR_TENSOR_MEMORY_LEAK of cuda.h, which older ones lack. */
enum { ERROR_CONTAINED = 226, ERROR_TENSOR_MEMORY_LEAK = 721 };

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
    if (driver_result_is_fault(result)) {
        char text[DRIVER_FAULT_BYTES];
        driver_describe_fault(driver, result, what, text, sizeof(text));
        return comm_fail_by(error, COMM_FAULT, "%s", text);
    }
    return comm_fail_by(error, result == CUDA_ERROR_OUT_OF_MEMORY ? COMM_OWN : COMM_UNCLEAR, "%s: %s%s", what,
                        driver_result_name(driver, result), driver_result_advice(result));
}

bool
driver_result_is_of_hardware(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case ERROR_CONTAINED:
    case ERROR_TENSOR_MEMORY_LEAK:
        return true;
    default:
        return false;
    }
}

bool
driver_result_is_fault(CUresult result)
{
    if (driver_result_is_of_hardware(result))
        return true;
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

void
driver_describe_fault(const struct driver *driver, CUresult result, const char *what, char *text, size_t bytes)
{
    const char *name = driver_result_name(driver, result);
    if (driver_result_is_of_hardware(result))
        snprintf(
            text, bytes,
            "the GPU itself has failed with %s, no kernel of the trainer; CUDA reports it here: %s; `dmesg` has its "
            "Xid, `nvidia-smi -q` its memory errors: take the GPU out of use, or reset it",
            name, what);
    else
        snprintf(text, bytes,
                 "a kernel of the trainer failed with %s; CUDA reports it at a later call, here: %s; compute-sanitizer "
                 "finds the kernel",
                 name, what);
}

const char *
driver_result_advice(CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return "";
    return "; if the program takes all memory of the device, --reserve 1536 leaves some to ddprun";
}

const char *
driver_result_name(const struct driver *driver, CUresult result)
{
    const char *name = NULL;
    if (driver->cuGetErrorName_p(result, &name) != CUDA_SUCCESS || name == NULL)
        return "an unknown CUDA error";
    return name;
}
