/*
 * copy.c - copies and memset. The kind of a copy chooses the driver's function, as in NVIDIA's runtime: the driver then
 * checks that each side is what the kind says.
 */
#include "runtime.h"

#include <string.h>

static cudaError_t
copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, enum flavour flavour)
{
    RUNTIME_DEEPER(copy(to, from, bytes, kind, flavour));
    CUdeviceptr to_device = (CUdeviceptr)to, from_device = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return WITH_CONTEXT(MEMORY_CALL(cuMemcpyHtoD_v2)(to_device, from, bytes));
    case cudaMemcpyDeviceToHost:
        return WITH_CONTEXT(MEMORY_CALL(cuMemcpyDtoH_v2)(to, from_device, bytes));
    case cudaMemcpyDeviceToDevice:
        return WITH_CONTEXT(MEMORY_CALL(cuMemcpyDtoD_v2)(to_device, from_device, bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return WITH_CONTEXT(MEMORY_CALL(cuMemcpy)(to_device, from_device, bytes));
    }
    return finish(cudaErrorInvalidMemcpyDirection);
}

static cudaError_t
copy_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
           enum flavour flavour)
{
    RUNTIME_DEEPER(copy_async(to, from, bytes, kind, stream, flavour));
    CUdeviceptr to_device = (CUdeviceptr)to, from_device = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return WITH_CONTEXT(STREAM_CALL(cuMemcpyHtoDAsync_v2)(to_device, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return WITH_CONTEXT(STREAM_CALL(cuMemcpyDtoHAsync_v2)(to, from_device, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return WITH_CONTEXT(STREAM_CALL(cuMemcpyDtoDAsync_v2)(to_device, from_device, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return WITH_CONTEXT(STREAM_CALL(cuMemcpyAsync)(to_device, from_device, bytes, stream));
    }
    return finish(cudaErrorInvalidMemcpyDirection);
}

BOTH_FLAVOURS(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
              copy(to, from, bytes, kind, flavour))
BOTH_FLAVOURS(cudaMemcpyAsync, _ptsz,
              (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
              copy_async(to, from, bytes, kind, stream, flavour))

/* ---- rows and planes ---- */

/* What a kind says of the two sides. */
static cudaError_t
memory_types(enum cudaMemcpyKind kind, CUmemorytype *to, CUmemorytype *from)
{
    static const CUmemorytype types[][2] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
    };
    REQUIRE_ELSE((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    *to = types[kind][0];
    *from = types[kind][1];
    return cudaSuccess;
}

static cudaError_t
box_2d(CUDA_MEMCPY2D *box, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
       enum cudaMemcpyKind kind)
{
    REQUIRE_ELSE(width <= to_pitch && width <= from_pitch, cudaErrorInvalidPitchValue);
    *box = (CUDA_MEMCPY2D){.srcHost = from,
                           .srcDevice = (CUdeviceptr)from,
                           .srcPitch = from_pitch,
                           .dstHost = to,
                           .dstDevice = (CUdeviceptr)to,
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
    return memory_types(kind, &box->dstMemoryType, &box->srcMemoryType);
}

BOTH_FLAVOURS(cudaMemcpy2D, _ptds,
              (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
               enum cudaMemcpyKind kind),
              WITH_MADE(CUDA_MEMCPY2D, box_2d(&made, to, to_pitch, from, from_pitch, width, height, kind),
                        MEMORY_CALL(cuMemcpy2DUnaligned_v2)(&made)))
BOTH_FLAVOURS(cudaMemcpy2DAsync, _ptsz,
              (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
               enum cudaMemcpyKind kind, cudaStream_t stream),
              WITH_MADE(CUDA_MEMCPY2D, box_2d(&made, to, to_pitch, from, from_pitch, width, height, kind),
                        STREAM_CALL(cuMemcpy2DAsync_v2)(&made, stream)))

/* Between pitched memory only: the stand-in has no arrays. */
cudaError_t
copy_box_3d(CUDA_MEMCPY3D *box, const struct cudaMemcpy3DParms *copy)
{
    REQUIRE(copy != NULL);
    if (copy->srcArray != NULL || copy->dstArray != NULL) {
        say("cudaMemcpy3D: CUDA arrays are not supported");
        return cudaErrorNotSupported;
    }
    *box = (CUDA_MEMCPY3D){.srcXInBytes = copy->srcPos.x,
                           .srcY = copy->srcPos.y,
                           .srcZ = copy->srcPos.z,
                           .srcHost = copy->srcPtr.ptr,
                           .srcDevice = (CUdeviceptr)copy->srcPtr.ptr,
                           .srcPitch = copy->srcPtr.pitch,
                           .srcHeight = copy->srcPtr.ysize,
                           .dstXInBytes = copy->dstPos.x,
                           .dstY = copy->dstPos.y,
                           .dstZ = copy->dstPos.z,
                           .dstHost = copy->dstPtr.ptr,
                           .dstDevice = (CUdeviceptr)copy->dstPtr.ptr,
                           .dstPitch = copy->dstPtr.pitch,
                           .dstHeight = copy->dstPtr.ysize,
                           .WidthInBytes = copy->extent.width,
                           .Height = copy->extent.height,
                           .Depth = copy->extent.depth};
    return memory_types(copy->kind, &box->dstMemoryType, &box->srcMemoryType);
}

BOTH_FLAVOURS(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *copy),
              WITH_MADE(CUDA_MEMCPY3D, copy_box_3d(&made, copy), MEMORY_CALL(cuMemcpy3D_v2)(&made)))
BOTH_FLAVOURS(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream),
              WITH_MADE(CUDA_MEMCPY3D, copy_box_3d(&made, copy), STREAM_CALL(cuMemcpy3DAsync_v2)(&made, stream)))

/* ---- memset ---- */

BOTH_FLAVOURS(cudaMemset, _ptds, (void *to, int value, size_t bytes),
              WITH_CONTEXT(MEMORY_CALL(cuMemsetD8_v2)((CUdeviceptr)to, (unsigned char)value, bytes)))
BOTH_FLAVOURS(cudaMemsetAsync, _ptsz, (void *to, int value, size_t bytes, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemsetD8Async)((CUdeviceptr)to, (unsigned char)value, bytes, stream)))
BOTH_FLAVOURS(cudaMemset2D, _ptds, (void *to, size_t pitch, int value, size_t width, size_t height),
              WITH_CONTEXT(MEMORY_CALL(cuMemsetD2D8_v2)((CUdeviceptr)to, pitch, (unsigned char)value, width, height)))
BOTH_FLAVOURS(cudaMemset2DAsync, _ptsz,
              (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemsetD2D8Async)((CUdeviceptr)to, pitch, (unsigned char)value, width, height,
                                                          stream)))

/* Plane by plane, in one stream. */
static cudaError_t
fill_3d(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent, cudaStream_t stream, enum flavour flavour)
{
    for (size_t z = 0; z < extent.depth; ++z) {
        CUdeviceptr plane = (CUdeviceptr)pitched.ptr + z * pitched.ysize * pitched.pitch;
        TRY(WITH_CONTEXT(STREAM_CALL(cuMemsetD2D8Async)(plane, pitched.pitch, (unsigned char)value, extent.width,
                                                        extent.height, stream)));
    }
    return cudaSuccess;
}
BOTH_FLAVOURS(cudaMemset3D, _ptds, (struct cudaPitchedPtr pitched, int value, struct cudaExtent extent),
              fill_3d(pitched, value, extent, NULL, flavour))
BOTH_FLAVOURS(cudaMemset3DAsync, _ptsz,
              (struct cudaPitchedPtr pitched, int value, struct cudaExtent extent, cudaStream_t stream),
              fill_3d(pitched, value, extent, stream, flavour))

/* ---- to and from __device__ variables ---- */

/* The part of a variable that a copy means. */
static cudaError_t
symbol_part(const void *symbol, size_t bytes, size_t offset, void **address_p)
{
    void *address;
    size_t whole_bytes;
    TRY(runtime_enter());
    TRY(symbol_find(symbol, &address, &whole_bytes));
    REQUIRE(offset <= whole_bytes && bytes <= whole_bytes - offset);
    *address_p = (char *)address + offset;
    return cudaSuccess;
}

/* A copy to or from `part`, that part. */
#define WITH_PART(call)                                                \
    __extension__({                                                    \
        void *part;                                                    \
        cudaError_t found = symbol_part(symbol, bytes, offset, &part); \
        found != cudaSuccess ? finish(found) : (call);                 \
    })

BOTH_FLAVOURS(cudaMemcpyToSymbol, _ptds,
              (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
              WITH_PART(copy(part, from, bytes, kind, flavour)))
BOTH_FLAVOURS(cudaMemcpyFromSymbol, _ptds,
              (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
              WITH_PART(copy(to, part, bytes, kind, flavour)))
BOTH_FLAVOURS(cudaMemcpyToSymbolAsync, _ptsz,
              (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
               cudaStream_t stream),
              WITH_PART(copy_async(part, from, bytes, kind, stream, flavour)))
BOTH_FLAVOURS(cudaMemcpyFromSymbolAsync, _ptsz,
              (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
               cudaStream_t stream),
              WITH_PART(copy_async(to, part, bytes, kind, stream, flavour)))
