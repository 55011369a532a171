/*
 * symbol.c - __device__ and __constant__ variables. On the stand-in such a variable is a variable of the host program,
 * and its address is its device address; libsoftgpu.so knows where they are. The first
 * use of a variable registers it with the driver.
 */
#include "runtime.h"

#include "softgpu/stub.h"

cudaError_t
symbol_find(const void *symbol, void **address_p, size_t *bytes_p)
{
    struct softgpu_variable variable;
    REQUIRE_ELSE(symbol != NULL && softgpu_variable_find(symbol, &variable) &&
                     driver.softgpuGlobalRegister(variable.address, variable.bytes) == CUDA_SUCCESS,
                 cudaErrorInvalidSymbol);
    size_t offset = (size_t)((const char *)symbol - (const char *)variable.address);
    *address_p = (char *)variable.address + offset;
    *bytes_p = variable.bytes - offset;
    return cudaSuccess;
}

cudaError_t
cudaGetSymbolAddress(void **address, const void *symbol)
{
    size_t bytes;
    TRY(runtime_enter());
    REQUIRE(address != NULL);
    return finish(symbol_find(symbol, address, &bytes));
}

cudaError_t
cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    void *address;
    TRY(runtime_enter());
    REQUIRE(bytes != NULL);
    return finish(symbol_find(symbol, &address, bytes));
}
