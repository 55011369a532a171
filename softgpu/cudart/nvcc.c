/*
 * nvcc.c - what nvcc's code registers when it is loaded. It is noted and never an error: programs may carry kernels
 * that they do not use. The binary itself is never read.
 */
#include "runtime.h"

#include "softgpu/stub.h"

#include <stdlib.h>

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *tid, void *bid, dim3 *block, dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *variable, char *device_address, const char *name, int ext, size_t bytes,
                       int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **variable, char *device_address, const char *name, int ext,
                              size_t bytes, int constant, int global);
void __cudaRegisterHostVar(void **handle, const char *name, char *variable, size_t bytes);
void __cudaRegisterUnifiedTable(void **handle, void *table);
cudaError_t __cudaGetProcAddress(const char *name, void **function, unsigned int version, unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *status);

void **
__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary; /* never read: see the head of this file */
    return &handle;
}

void
__cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void
__cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char
__cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void
__cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                       void *tid, void *bid, dim3 *block, dim3 *grid, int *warp_size)
{
    (void)handle, (void)device_function, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp_size;
    /* Without memory for it the kernel is unknown at its launch, which is an error then. */
    (void)!kernel_add_nvcc(stub, name != NULL ? name : "?");
}

/* The host's shadow of the variable serves, until a launch shows that nothing here could use it. */
void
__cudaRegisterVar(void **handle, char *variable, char *device_address, const char *name, int ext, size_t bytes,
                  int constant, int global)
{
    (void)handle, (void)device_address, (void)ext, (void)global;
    struct softgpu_variable *added = malloc(sizeof *added);
    if (added != NULL) {
        *added =
            (struct softgpu_variable){.name = name, .address = variable, .bytes = bytes, .is_constant = constant != 0};
        softgpu_variable_add(added);
    }
}

void
__cudaRegisterManagedVar(void **handle, void **variable, char *device_address, const char *name, int ext, size_t bytes,
                         int constant, int global)
{
    (void)handle, (void)variable, (void)device_address, (void)name, (void)ext, (void)bytes, (void)constant,
        (void)global;
}

void
__cudaRegisterHostVar(void **handle, const char *name, char *variable, size_t bytes)
{
    (void)handle, (void)name, (void)variable, (void)bytes;
}

void
__cudaRegisterUnifiedTable(void **handle, void *unified)
{
    (void)handle, (void)unified;
}

cudaError_t
__cudaGetProcAddress(const char *name, void **function, unsigned int version, unsigned long long flags,
                     enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(name, function, version, flags, status);
}
