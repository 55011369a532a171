/*
 * softgpu/symbol.h - __device__, __constant__ and __managed__ variables, and the C++ forms of the runtime's calls that
 * take a variable or a kernel: NVIDIA's header gives these forms to nvcc only. Included by launch.h.
 */
#ifndef SOFTGPU_SYMBOL_H
#define SOFTGPU_SYMBOL_H
#pragma GCC system_header

#include "softgpu/object.h"

namespace softgpu
{

/* Stands beside each such variable, and makes it known to the runtime. */
struct __attribute__((visibility("hidden"))) variable {
    softgpu_variable entry;

    variable(const volatile void *address, size_t bytes, const char *name, bool is_constant, bool is_managed = false)
    {
        entry.name = name;
        entry.address = const_cast<void *>(address);
        entry.bytes = bytes;
        entry.is_constant = is_constant;
        entry.is_managed = is_managed;
        entry.next = nullptr;
        softgpu_variable_add(&entry);
    }
    variable(const variable &) = delete;
    variable &operator=(const variable &) = delete;
    ~variable()
    {
        softgpu_variable_remove(&entry);
    }
};

} // namespace softgpu

template <class T>
static inline cudaError_t
cudaMemcpyToSymbol(const T &symbol, const void *source, size_t count, size_t offset = 0,
                   cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    return ::cudaMemcpyToSymbol(static_cast<const void *>(&symbol), source, count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyToSymbolAsync(const T &symbol, const void *source, size_t count, size_t offset = 0,
                        cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0)
{
    return ::cudaMemcpyToSymbolAsync(static_cast<const void *>(&symbol), source, count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbol(void *target, const T &symbol, size_t count, size_t offset = 0,
                     cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
    return ::cudaMemcpyFromSymbol(target, static_cast<const void *>(&symbol), count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbolAsync(void *target, const T &symbol, size_t count, size_t offset = 0,
                          cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0)
{
    return ::cudaMemcpyFromSymbolAsync(target, static_cast<const void *>(&symbol), count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaGetSymbolAddress(void **address, const T &symbol)
{
    return ::cudaGetSymbolAddress(address, static_cast<const void *>(&symbol));
}

template <class T>
static inline cudaError_t
cudaGetSymbolSize(size_t *bytes, const T &symbol)
{
    return ::cudaGetSymbolSize(bytes, static_cast<const void *>(&symbol));
}

template <class T>
static inline cudaError_t
cudaFuncSetCacheConfig(T *kernel, cudaFuncCache config)
{
    return ::cudaFuncSetCacheConfig(reinterpret_cast<const void *>(kernel), config);
}

template <class T>
static inline cudaError_t
cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

template <class T>
static inline cudaError_t
cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel)
{
    return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

#endif
