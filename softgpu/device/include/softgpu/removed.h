/*
 * softgpu/removed.h - forms of CUDA's runtime API that version 13 no longer has: an error that names the new form, or,
 * with --allow-removed, the old one. softgpu-cc's rewriter does the same for names (removed.c). Templates, so that a
 * program's own functions win. Included by softgpu_prelude.h.
 */
#ifndef SOFTGPU_REMOVED_H
#define SOFTGPU_REMOVED_H
#pragma GCC system_header

#include <cuda_runtime.h>
#include <tuple>

namespace softgpu
{

#ifdef SOFTGPU_ALLOW_REMOVED
template <class> struct allows_removed : std::true_type {
};

/* A field of cudaDeviceProp that is an attribute now; 0 for a device that is not there. */
inline int
removed_property(cudaDeviceAttr attribute, const cudaDeviceProp &properties)
{
    char id[32];
    int device = 0, value = 0;
    std::snprintf(id, sizeof(id), "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID),
                  static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
    if (cudaDeviceGetByPCIBusId(&device, id) != cudaSuccess ||
        cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess)
        return 0;
    return value;
}

/* The member of Thrust's tuples, or that of the program's own class. */
using std::get;
template <std::size_t N, class T>
inline auto
removed_get_of(T &tuple, int) -> decltype(tuple.template get<N>())
{
    return tuple.template get<N>();
}
template <std::size_t N, class T>
inline auto
removed_get_of(T &tuple, long) -> decltype(get<N>(tuple))
{
    return get<N>(tuple);
}
template <std::size_t N, class T>
inline auto
removed_get(T &&tuple) -> decltype(removed_get_of<N>(tuple, 0))
{
    return removed_get_of<N>(tuple, 0);
}
#else
template <class> struct allows_removed : std::false_type {
};
#endif

/* cudaCpuDeviceId is the host. */
inline cudaMemLocation
removed_location(int device)
{
    cudaMemLocation location = {};
    location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device == cudaCpuDeviceId ? 0 : device;
    return location;
}

template <class Device> using if_number = typename std::enable_if<std::is_integral<Device>::value, int>::type;

} // namespace softgpu

template <class Device, softgpu::if_number<Device> = 0>
inline cudaError_t
cudaMemAdvise(const void *pointer, size_t bytes, cudaMemoryAdvise advice, Device device)
{
    static_assert(softgpu::allows_removed<Device>::value,
                  "CUDA 13 has no cudaMemAdvise with the number of a device: use a cudaMemLocation, "
                  "{cudaMemLocationTypeDevice, device}, or compile with --allow-removed");
    return ::cudaMemAdvise(pointer, bytes, advice, softgpu::removed_location(static_cast<int>(device)));
}

template <class Device, softgpu::if_number<Device> = 0>
inline cudaError_t
cudaMemPrefetchAsync(const void *pointer, size_t bytes, Device device, cudaStream_t stream = nullptr)
{
    static_assert(softgpu::allows_removed<Device>::value,
                  "CUDA 13 has no cudaMemPrefetchAsync with the number of a device: use a cudaMemLocation and flags, "
                  "cudaMemPrefetchAsync(pointer, bytes, {cudaMemLocationTypeDevice, device}, 0, stream), or compile "
                  "with --allow-removed");
    return ::cudaMemPrefetchAsync(pointer, bytes, softgpu::removed_location(static_cast<int>(device)), 0, stream);
}

#endif
