/*
 * fake_driver.c - a libcuda.so.1 that only counts: one function for each row of the shim's table, and cuGetProcAddress
 * with the driver's rules (the newest function not newer than the version asked for, in the flavour asked for).
 */
#include <cuda.h>

#include <stddef.h>
#include <string.h>

/* cuda.h gives this name to its newer version; both exist. */
#undef cuDevicePrimaryCtxReset
CUresult cuDevicePrimaryCtxReset(CUdevice device);

struct row {
    const char *symbol, *name;
    int version;
    cuuint64_t flags;
    void *function;
    unsigned long calls;
};
static struct row rows[];

static CUresult count_call(const char *symbol);

#define BODY(symbol, parameters)    \
    CUresult symbol parameters      \
    {                               \
        return count_call(#symbol); \
    }
#define BODIES(symbol, twin, parameters)    \
    extern __typeof__(symbol) symbol##twin; \
    BODY(symbol, parameters)                \
    BODY(symbol##twin, parameters)
#define OPERATION(symbol, twin, name, version, twin_version, parameters, ...)  BODIES(symbol, twin, parameters)
#define LAUNCH(symbol, twin, name, version, twin_version, parameters, ...)     BODIES(symbol, twin, parameters)
#define ALLOCATION(symbol, twin, name, version, twin_version, parameters, ...) BODIES(symbol, twin, parameters)
#define RELEASE(symbol, twin, name, version, twin_version, parameters, ...)    BODIES(symbol, twin, parameters)
#define ALLOCATION_SINGLE(symbol, name, version, parameters, ...)              BODY(symbol, parameters)
#define RELEASE_SINGLE(symbol, name, version, parameters, ...)                 BODY(symbol, parameters)
#define NOTIFICATION(symbol, name, version, parameters, ...)                   BODY(symbol, parameters)
#include "interpose/shim/hooks.def"
#undef OPERATION
#undef LAUNCH
#undef ALLOCATION
#undef RELEASE
#undef ALLOCATION_SINGLE
#undef RELEASE_SINGLE
#undef NOTIFICATION

/* A version of a hooked call from the future of this shim, and a call that nobody hooks. */
CUresult cuMemcpyHtoD_v9(CUdeviceptr dst, const void *src, size_t bytes, int how);
BODY(cuMemcpyHtoD_v9, (CUdeviceptr dst, const void *src, size_t bytes, int how))
BODY(cuInit, (unsigned flags))

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *name, void **pfn, int version, cuuint64_t flags);

#define PLAIN(symbol, name, version) {#symbol, name, version, 0, (void *)symbol, 0},
#define TWIN(symbol, name, version)  {#symbol, name, version, 2, (void *)symbol, 0},
#define OPERATION(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define LAUNCH(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define ALLOCATION(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define RELEASE(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define ALLOCATION_SINGLE(symbol, name, version, ...) PLAIN(symbol, name, version)
#define RELEASE_SINGLE(symbol, name, version, ...)    PLAIN(symbol, name, version)
#define NOTIFICATION(symbol, name, version, ...)      PLAIN(symbol, name, version)
static struct row rows[] = {
#include "interpose/shim/hooks.def"
    PLAIN(cuMemcpyHtoD_v9, "cuMemcpyHtoD", 13990) PLAIN(cuInit, "cuInit", 2000)
        PLAIN(cuGetProcAddress, "cuGetProcAddress", 11030) PLAIN(cuGetProcAddress_v2, "cuGetProcAddress", 12000)};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static CUresult
count_call(const char *symbol)
{
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            __atomic_fetch_add(&rows[i].calls, 1, __ATOMIC_RELAXED);
    }
    return CUDA_SUCCESS;
}

/* How often `symbol` was called. */
unsigned long fake_driver_calls(const char *symbol);

unsigned long
fake_driver_calls(const char *symbol)
{
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            return rows[i].calls;
    }
    return 0;
}

CUresult
cuGetProcAddress_v2(const char *name, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct row *best = NULL;
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].name, name) == 0 && rows[i].flags == flags && rows[i].version <= version &&
            (best == NULL || rows[i].version > best->version))
            best = &rows[i];
    }
    if (status != NULL)
        *status = best != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *pfn = best != NULL ? best->function : NULL;
    return best != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult
cuGetProcAddress(const char *name, void **pfn, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, pfn, version, flags, NULL);
}
