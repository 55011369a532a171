/*
 * fake_driver.c - a libcuda.so.1 that only counts: one function for each row of the shim's table, one address for each
 * other name that cudart asks for, and cuGetProcAddress with the driver's rules (the newest function not newer than the
 * version asked for, in the flavour asked for, else the plain one).
 */
#include "fake_driver.h"

#include "interpose/shim/older.h"

#include <dlfcn.h>
#include <string.h>

struct row {
    const char *symbol, *name;
    int version;
    cuuint64_t flags;
    void *function;
    unsigned long calls;
};
static struct row rows[];

struct fake_driver fake_driver;

static CUresult count_call(const char *symbol, unsigned count, const uint64_t *values);

/* What a function of the driver does: notes its arguments. */
#define BODY(symbol, parameters, arguments)                                     \
    CUresult symbol parameters                                                  \
    {                                                                           \
        const uint64_t values[] = {WORDS arguments};                            \
        return count_call(#symbol, sizeof(values) / sizeof(values[0]), values); \
    }
#define ONE(kind, symbol, name, version, parameters, arguments, ...) BODY(symbol, parameters, arguments)
#define TWO(kind, symbol, twin, name, version, twin_version, parameters, arguments, ...) \
    extern __typeof__(symbol) symbol##twin;                                              \
    BODY(symbol, parameters, arguments)                                                  \
    BODY(symbol##twin, parameters, arguments)
#include "interpose/shim/hooks.def"

/* A version of a hooked call from the future of this shim, one from before its time, and a call without a hook. */
CUresult cuMemcpyHtoD_v9(CUdeviceptr dst, const void *src, size_t bytes, int how);
BODY(cuMemcpyHtoD_v9, (CUdeviceptr dst, const void *src, size_t bytes, int how), (dst, src, bytes, how))
CUresult cuMemFree_v1(unsigned dptr);
BODY(cuMemFree_v1, (unsigned dptr), (dptr))
BODY(cuInit, (unsigned flags), (flags))

#define ONE(kind, symbol, name, version, ...) {#symbol, name, version, 0, (void *)symbol, 0},
#define TWO(kind, symbol, twin, name, version, twin_version, ...) \
    {#symbol, name, version, 0, (void *)symbol, 0}, {#symbol #twin, name, twin_version, 2, (void *)symbol##twin, 0},
static struct row rows[] = {
    {"cuMemcpyHtoD_v9", "cuMemcpyHtoD", 13990, 0, (void *)cuMemcpyHtoD_v9, 0},
    {"cuMemFree_v1", "cuMemFree", 2000, 0, (void *)cuMemFree_v1, 0},
    {"cuInit", "cuInit", 2000, 0, (void *)cuInit, 0},
    {"cuGetProcAddress", "cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress, 0},
    {"cuGetProcAddress_v2", "cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2, 0},
#include "interpose/shim/hooks.def"
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What else cudart asks for: an address that is no function, and must not be called. */
struct other {
    const char *name;
    int version;
    cuuint64_t flags;
    int result;
    void *address;
};
static struct other others[] = {
#include "lookups_cudart_13_0.inc"
};
enum { OTHERS = sizeof(others) / sizeof(others[0]) };

/* As that of WSL2 does. */
static void
ask_back(void)
{
    if (fake_driver.asks_back)
        fake_driver.own = dlsym(RTLD_DEFAULT, "cuMemcpy");
}

static CUresult
count_call(const char *symbol, unsigned count, const uint64_t *values)
{
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            __atomic_fetch_add(&rows[i].calls, 1, __ATOMIC_RELAXED);
    }
    ask_back();
    if (fake_driver.meets)
        (void)pthread_barrier_wait(&fake_driver.meeting);
    fake_driver.argument_count = count;
    memcpy(fake_driver.arguments, values, count * sizeof(*values));
    return fake_driver.result;
}

unsigned long
fake_driver_calls(const char *symbol)
{
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            return rows[i].calls;
    }
    return 0;
}

static void *
find(const char *name, int version, cuuint64_t flags)
{
    const struct row *best = NULL;
    for (int i = 0; i < ROWS; ++i) {
        if (strcmp(rows[i].name, name) == 0 && rows[i].flags == flags && rows[i].version <= version &&
            (best == NULL || rows[i].version > best->version))
            best = &rows[i];
    }
    if (best != NULL)
        return best->function;
    for (int i = 0; i < OTHERS; ++i) {
        if (name[0] != '\0' && strcmp(others[i].name, name) == 0 && others[i].flags == flags &&
            others[i].version <= version)
            return &others[i];
    }
    return NULL;
}

CUresult
cuGetProcAddress_v2(const char *name, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (name == NULL || pfn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ask_back();
    void *found = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? find(name, version, 2) : NULL;
    if (found == NULL)
        found = find(name, version, 0);
    if (status != NULL)
        *status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *pfn = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult
cuGetProcAddress(const char *name, void **pfn, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, pfn, version, flags, NULL);
}
