/*
 * kernel.c - kernels: from what a program calls one (a cudaKernel_t, or the address of a host stub) to the driver's
 * function; questions about kernels.
 *
 * Three kinds of address arrive here:
 *   - a cudaKernel_t that cudaLibraryGetKernel gave out: what softgpu-cc's stubs pass;
 *   - the address of such a stub itself, as in cudaLaunchKernel((void *)k, ...): libsoftgpu.so tells its image;
 *   - the address of a stub that nvcc made, known from __cudaRegisterFunction: there is no code for it here, which
 *     is said once, at its first launch and never before, because programs may carry kernels that they do not use.
 */
#include "runtime.h"

#include "softgpu/stub.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct entry {
    const void *key; /* NULL: free */
    CUfunction function;
    CUkernel kernel;
    const char *nvcc_name; /* made by nvcc: its name, and no function */
};

static struct {
    pthread_rwlock_t lock; /* guards all below */
    struct entry *entries; /* open addressing; room is a power of two */
    size_t room, used;
} table = {.lock = PTHREAD_RWLOCK_INITIALIZER};

/* ---- the table ---- */

static size_t
place_of(const struct entry *entries, size_t room, const void *key)
{
    size_t place = (size_t)(((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 32) & (room - 1);
    while (entries[place].key != NULL && entries[place].key != key) {
        place = (place + 1) & (room - 1);
    }
    return place;
}

static bool
find(const void *key, struct entry *entry_p)
{
    bool found = false;
    pthread_rwlock_rdlock(&table.lock);
    if (table.room > 0) {
        *entry_p = table.entries[place_of(table.entries, table.room, key)];
        found = entry_p->key != NULL;
    }
    pthread_rwlock_unlock(&table.lock);
    return found;
}

/* With table.lock held. */
static bool
grow(void)
{
    size_t room = table.room == 0 ? 256 : table.room * 2;
    struct entry *entries = calloc(room, sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < table.room; ++i) {
        if (table.entries[i].key != NULL) {
            entries[place_of(entries, room, table.entries[i].key)] = table.entries[i];
        }
    }
    free(table.entries);
    table.entries = entries;
    table.room = room;
    return true;
}

/* A key that is there already gets the new value: an address may be used again after its library went. */
static cudaError_t
add(const struct entry *entry)
{
    cudaError_t error = cudaSuccess;
    pthread_rwlock_wrlock(&table.lock);
    if (table.used * 2 >= table.room && !grow()) {
        error = cudaErrorMemoryAllocation;
    } else {
        struct entry *place = &table.entries[place_of(table.entries, table.room, entry->key)];
        table.used += place->key == NULL;
        *place = *entry;
    }
    pthread_rwlock_unlock(&table.lock);
    return error;
}

/* ---- from an address to a function ---- */

static int
holds_code(struct dl_phdr_info *object, size_t bytes, void *address)
{
    (void)bytes;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && (uintptr_t)address - begin < part->p_memsz) {
            return 1;
        }
    }
    return 0;
}

/* Finds the driver's function for an entry's kernel and remembers both under the entry's key. */
static cudaError_t
add_kernel(struct entry *entry)
{
    TRY_DRIVER(driver.cuKernelGetFunction(&entry->function, entry->kernel));
    return add(entry);
}

static cudaError_t
add_stub(const void *stub, struct entry *entry)
{
    REQUIRE_ELSE(dl_iterate_phdr(holds_code, (void *)stub), cudaErrorInvalidDeviceFunction);
    const struct softgpu_image *image = softgpu_stub_image(stub);
    REQUIRE_ELSE(image != NULL, cudaErrorInvalidDeviceFunction);
    void **handle = (image->flags & SOFTGPU_IMAGE_HANDLE) != 0 ? image->handle : NULL;
    void *loaded = handle != NULL ? __atomic_load_n(handle, __ATOMIC_ACQUIRE) : NULL;
    if (loaded == NULL) {
        CUlibrary library;
        TRY_DRIVER(driver.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        TRY_DRIVER(driver.cuLibraryGetKernel(&entry->kernel, library, image->name));
        if (handle == NULL ||
            __atomic_compare_exchange_n(handle, &loaded, entry->kernel, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            loaded = entry->kernel;
        }
    }
    if (handle != NULL) { /* the stub launches by it */
        entry->key = entry->kernel = loaded;
        TRY(add_kernel(entry));
    }
    entry->key = stub;
    return add_kernel(entry);
}

static cudaError_t
find_kernel(const void *address, struct entry *entry)
{
    *entry = (struct entry){NULL};
    REQUIRE_ELSE(address != NULL, cudaErrorInvalidDeviceFunction);
    if (!find(address, entry)) {
        return add_stub(address, entry);
    }
    if (entry->nvcc_name != NULL) {
        static _Atomic bool said;
        if (!atomic_exchange(&said, true)) {
            say("kernel %s was built by nvcc for a GPU and has no code for the CPU: build the program with softgpu-cc, "
                "or run it "
                "with an NVIDIA GPU",
                entry->nvcc_name);
        }
        return cudaErrorNoKernelImageForDevice;
    }
    return cudaSuccess;
}

cudaError_t
kernel_add_nvcc(const void *stub, const char *name)
{
    return add(&(struct entry){.key = stub, .nvcc_name = name});
}

cudaError_t
kernel_function(const void *kernel, CUfunction *function_p)
{
    struct entry entry;
    TRY(runtime_enter());
    TRY(find_kernel(kernel, &entry));
    *function_p = entry.function;
    return cudaSuccess;
}

cudaError_t
kernel_handle(const void *kernel, CUkernel *handle_p)
{
    struct entry entry;
    TRY(runtime_enter());
    TRY(find_kernel(kernel, &entry));
    *handle_p = entry.kernel;
    return cudaSuccess;
}

cudaError_t
kernel_of_function(CUfunction function, void **kernel_p)
{
    const void *key = NULL;
    pthread_rwlock_rdlock(&table.lock);
    for (size_t i = 0; i < table.room; ++i) {
        const struct entry *entry = &table.entries[i];
        /* The address of a stub, which programs compare with, rather than a handle. */
        if (entry->key != NULL && entry->function == function && (key == NULL || entry->key != (void *)entry->kernel)) {
            key = entry->key;
        }
    }
    pthread_rwlock_unlock(&table.lock);
    REQUIRE_ELSE(key != NULL, cudaErrorInvalidDeviceFunction);
    *kernel_p = (void *)key;
    return cudaSuccess;
}

cudaError_t
cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    return finish(function == NULL ? cudaErrorInvalidValue : kernel_function(symbol, function));
}

cudaError_t
cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    return finish(kernel == NULL ? cudaErrorInvalidValue : kernel_handle(stub, kernel));
}

/* ---- libraries ---- */

ONE_FLAVOUR(cudaLibraryLoadData,
            (cudaLibrary_t * library, const void *code, enum cudaJitOption *jit_options, void **jit_values,
             unsigned int jit_count, enum cudaLibraryOption *options, void **values, unsigned int count),
            WITH_CONTEXT(driver.cuLibraryLoadData(library, code, (CUjit_option *)jit_options, jit_values, jit_count,
                                                  (CUlibraryOption *)options, values, count)))
ONE_FLAVOUR(cudaLibraryUnload, (cudaLibrary_t library), WITH_CONTEXT(driver.cuLibraryUnload(library)))

cudaError_t
cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    struct entry entry = {NULL};
    REQUIRE(kernel != NULL);
    TRY(runtime_enter());
    TRY_DRIVER(driver.cuLibraryGetKernel(&entry.kernel, library, name));
    entry.key = entry.kernel;
    TRY(add_kernel(&entry));
    *kernel = entry.kernel;
    return cudaSuccess;
}

ONE_FLAVOUR(cudaLibraryGetKernelCount, (unsigned int *count, cudaLibrary_t library),
            WITH_CONTEXT(driver.cuLibraryGetKernelCount(count, library)))

cudaError_t
cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int room, cudaLibrary_t library)
{
    unsigned int count = 0;
    TRY(WITH_CONTEXT(driver.cuLibraryEnumerateKernels(kernels, room, library)));
    TRY_DRIVER(driver.cuLibraryGetKernelCount(&count, library));
    for (unsigned int i = 0; i < room && i < count; ++i) {
        struct entry entry = {.key = kernels[i], .kernel = kernels[i]};
        TRY(add_kernel(&entry));
    }
    return cudaSuccess;
}

/* ---- questions ---- */

#define WITH_FUNCTION(kernel, call)                               \
    __extension__({                                               \
        CUfunction function;                                      \
        cudaError_t found = kernel_function(kernel, &function);   \
        finish(found != cudaSuccess ? found : from_driver(call)); \
    })

cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    CUfunction function;
    int values[CU_FUNC_ATTRIBUTE_MAX];
    REQUIRE(attributes != NULL);
    TRY(kernel_function(kernel, &function));
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
        TRY_DRIVER(driver.cuFuncGetAttribute(&values[i], (CUfunction_attribute)i, function));
    }
    *attributes = (struct cudaFuncAttributes){
        .sharedSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES],
        .constSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES],
        .localSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES],
        .maxThreadsPerBlock = values[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .numRegs = values[CU_FUNC_ATTRIBUTE_NUM_REGS],
        .ptxVersion = values[CU_FUNC_ATTRIBUTE_PTX_VERSION],
        .binaryVersion = values[CU_FUNC_ATTRIBUTE_BINARY_VERSION],
        .cacheModeCA = values[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA],
        .maxDynamicSharedSizeBytes = values[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES],
        .preferredShmemCarveout = values[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT],
    };
    return cudaSuccess;
}

/* Attributes have the same numbers in the runtime and the driver. */
cudaError_t
cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    return WITH_FUNCTION(kernel, driver.cuFuncSetAttribute(function, (CUfunction_attribute)attribute, value));
}

ONE_FLAVOUR(cudaKernelSetAttributeForDevice,
            (cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device),
            WITH_CONTEXT(driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device)))

cudaError_t
cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache config)
{
    return WITH_FUNCTION(kernel, driver.cuFuncSetCacheConfig(function, (CUfunc_cache)config));
}

cudaError_t
cudaFuncSetSharedMemConfig(const void *kernel, enum cudaSharedMemConfig config)
{
    return WITH_FUNCTION(kernel, driver.cuFuncSetSharedMemConfig(function, (CUsharedconfig)config));
}

cudaError_t
cudaFuncGetName(const char **name, const void *kernel)
{
    return WITH_FUNCTION(kernel, driver.cuFuncGetName(name, function));
}

cudaError_t
cudaFuncGetParamInfo(const void *kernel, size_t index, size_t *offset, size_t *bytes)
{
    return WITH_FUNCTION(kernel, driver.cuFuncGetParamInfo(function, index, offset, bytes));
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *kernel, int block_threads,
                                                       size_t dynamic_bytes, unsigned int flags)
{
    return WITH_FUNCTION(kernel, driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                                     count, function, block_threads, dynamic_bytes, flags));
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *kernel, int block_threads, size_t dynamic_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, kernel, block_threads, dynamic_bytes,
                                                                  cudaOccupancyDefault);
}

cudaError_t
cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic_bytes, const void *kernel, int blocks, int block_threads)
{
    return WITH_FUNCTION(
        kernel, driver.cuOccupancyAvailableDynamicSMemPerBlock(dynamic_bytes, function, blocks, block_threads));
}
