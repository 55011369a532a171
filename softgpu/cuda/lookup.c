/*
 * lookup.c - cuGetProcAddress: how the runtime, cuBLAS, NCCL and programs get every function of the driver.
 *
 * functions.def is the one table of what is implemented; every name besides (names.txt) resolves to a generated stub
 * that says its name. The same functions are exported under their ABI names, so dlsym() gives the same pointers.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <stdlib.h>
#include <string.h>

typedef void (*any_function)(void);

struct entry {
    const char *name; /* as asked for: without version and flavour */
    int since;        /* the CUDA version from which on this is the function */
    enum flavour flavour;
    any_function function;
    const char *abi; /* its exported name */
};

/* A generated function of stubs.c, under its ABI name. */
struct stub {
    const char *name;
    any_function function;
};
extern const struct stub driver_stubs[];
extern const size_t driver_stub_count;

static const struct entry entries[] = {
#define ONE(name, since, abi) {#name, since, LEGACY, (any_function)abi, #abi},
#define STREAM(name, since, since_ptsz, abi)         \
    {#name, since, LEGACY, (any_function)abi, #abi}, \
        {#name, since_ptsz, PER_THREAD, (any_function)abi##_ptsz, #abi "_ptsz"},
#define MEMORY(name, since, since_ptds, abi)         \
    {#name, since, LEGACY, (any_function)abi, #abi}, \
        {#name, since_ptds, PER_THREAD, (any_function)abi##_ptds, #abi "_ptds"},
#include "functions.def"
};

enum { ENTRY_COUNT = sizeof entries / sizeof entries[0] };

/* Both lists by name, made at the first look-up. */
static const struct entry *by_name[ENTRY_COUNT];
static const struct stub **stub_by_name;
static pthread_once_t sorted = PTHREAD_ONCE_INIT;

static int
compare_entries(const void *left, const void *right)
{
    return strcmp((*(const struct entry *const *)left)->name, (*(const struct entry *const *)right)->name);
}

static int
compare_stubs(const void *left, const void *right)
{
    return strcmp((*(const struct stub *const *)left)->name, (*(const struct stub *const *)right)->name);
}

static void
sort_names(void)
{
    for (size_t i = 0; i < ENTRY_COUNT; ++i) {
        by_name[i] = &entries[i];
    }
    qsort(by_name, ENTRY_COUNT, sizeof by_name[0], compare_entries);
    stub_by_name = malloc((driver_stub_count + 1) * sizeof *stub_by_name);
    for (size_t i = 0; stub_by_name != NULL && i < driver_stub_count; ++i) {
        stub_by_name[i] = &driver_stubs[i];
    }
    if (stub_by_name != NULL) {
        qsort(stub_by_name, driver_stub_count, sizeof *stub_by_name, compare_stubs);
    }
}

static any_function
find_stub(const char *name)
{
    const struct stub key = {.name = name}, *key_pointer = &key;
    const struct stub **found = NULL;
    if (stub_by_name != NULL) {
        found = bsearch(&key_pointer, stub_by_name, driver_stub_count, sizeof *stub_by_name, compare_stubs);
    }
    return found != NULL ? (*found)->function : NULL;
}

/* The newest function of that name and flavour that `version` may have; *known_p: the name exists in some version. */
static any_function
find_entry(const char *name, int version, enum flavour flavour, bool *known_p)
{
    const struct entry key = {.name = name}, *key_pointer = &key;
    const struct entry **found = bsearch(&key_pointer, by_name, ENTRY_COUNT, sizeof by_name[0], compare_entries);
    const struct entry *best = NULL;
    if (found == NULL) {
        return NULL;
    }
    *known_p = true;
    while (found > by_name && strcmp(found[-1]->name, name) == 0) {
        --found;
    }
    for (; found < by_name + ENTRY_COUNT && strcmp((*found)->name, name) == 0; ++found) {
        if ((*found)->flavour == flavour && (*found)->since <= version &&
            (best == NULL || (*found)->since > best->since)) {
            best = *found;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    union {
        void *object;
        any_function function;
    } looked_up = {.object = self_look_up(best->abi)};
    return looked_up.object != NULL ? looked_up.function : best->function;
}

CUresult
cuGetProcAddress_v2(const char *name, void **function_out, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known_flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    REQUIRE(name != NULL && function_out != NULL && (flags & ~known_flags) == 0 && version <= DRIVER_VERSION);
    pthread_once(&sorted, sort_names);
    bool known = false;
    any_function function = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
        function = find_entry(name, version, PER_THREAD, &known);
    }
    if (function == NULL) {
        function = find_entry(name, version, LEGACY, &known);
    }
    if (function == NULL && !known) {
        function = find_stub(name);
    }
    union {
        any_function function;
        void *object;
    } result = {.function = function};
    *function_out = result.object;
    if (status != NULL) {
        *status = function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known          ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return CUDA_SUCCESS;
}

CUresult
cuGetProcAddress(const char *name, void **function_out, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, function_out, version, flags, NULL);
}

/*
 * The tables are NVIDIA's private interface between its own libraries: there are none here. Who asks for one is
 * NVIDIA's runtime, linked into a program statically, and without them it fails with errors that explain nothing.
 */
CUresult
cuGetExportTable(const void **table, const CUuuid *id)
{
    static _Atomic bool said;
    REQUIRE(table != NULL && id != NULL);
    if (!atomic_exchange(&said, true)) {
        say("this program carries NVIDIA's own CUDA runtime (cudart linked statically, as nvcc does by default), which "
            "cannot use the stand-in: build it with softgpu-cc, or run it with an NVIDIA GPU");
    }
    return CUDA_ERROR_NOT_FOUND;
}
