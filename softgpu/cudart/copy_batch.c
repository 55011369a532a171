/*
 * copy_batch.c - copies between devices, and batches of copies. A batch goes to the driver as it is: the types have the
 * same layout.
 */
#include "runtime.h"

/* ---- between devices ---- */

static cudaError_t
peer_contexts(int to_device, int from_device, CUcontext *to_p, CUcontext *from_p)
{
    TRY(runtime_enter());
    TRY(runtime_context(to_device, to_p));
    return runtime_context(from_device, from_p);
}

cudaError_t
cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    CUcontext to_context, from_context;
    TRY(peer_contexts(to_device, from_device, &to_context, &from_context));
    return WITH_CONTEXT(driver.cuMemcpyPeer((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes));
}

cudaError_t
cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
    CUcontext to_context, from_context;
    TRY(peer_contexts(to_device, from_device, &to_context, &from_context));
    return WITH_CONTEXT(
        driver.cuMemcpyPeerAsync((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes, stream));
}

/* Between pitched memory only: the stand-in has no arrays. */
static cudaError_t
box_peer(CUDA_MEMCPY3D_PEER *box, const struct cudaMemcpy3DPeerParms *copy)
{
    CUcontext to_context, from_context;
    REQUIRE(copy != NULL);
    if (copy->srcArray != NULL || copy->dstArray != NULL) {
        say("cudaMemcpy3DPeer: CUDA arrays are not supported");
        return cudaErrorNotSupported;
    }
    TRY(peer_contexts(copy->dstDevice, copy->srcDevice, &to_context, &from_context));
    *box = (CUDA_MEMCPY3D_PEER){.srcXInBytes = copy->srcPos.x,
                                .srcY = copy->srcPos.y,
                                .srcZ = copy->srcPos.z,
                                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = (CUdeviceptr)copy->srcPtr.ptr,
                                .srcContext = from_context,
                                .srcPitch = copy->srcPtr.pitch,
                                .srcHeight = copy->srcPtr.ysize,
                                .dstXInBytes = copy->dstPos.x,
                                .dstY = copy->dstPos.y,
                                .dstZ = copy->dstPos.z,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = (CUdeviceptr)copy->dstPtr.ptr,
                                .dstContext = to_context,
                                .dstPitch = copy->dstPtr.pitch,
                                .dstHeight = copy->dstPtr.ysize,
                                .WidthInBytes = copy->extent.width,
                                .Height = copy->extent.height,
                                .Depth = copy->extent.depth};
    return cudaSuccess;
}

BOTH_FLAVOURS(cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *copy),
              WITH_MADE(CUDA_MEMCPY3D_PEER, box_peer(&made, copy), MEMORY_CALL(cuMemcpy3DPeer)(&made)))
BOTH_FLAVOURS(cudaMemcpy3DPeerAsync, _ptsz, (const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream),
              WITH_MADE(CUDA_MEMCPY3D_PEER, box_peer(&made, copy), STREAM_CALL(cuMemcpy3DPeerAsync)(&made, stream)))

/* ---- batches ---- */

BOTH_FLAVOURS(cudaMemcpyBatchAsync, _ptsz,
              (void *const *to, const void *const *from, const size_t *bytes, size_t count,
               struct cudaMemcpyAttributes *attributes, size_t *indices, size_t attribute_count, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemcpyBatchAsync_v2)((CUdeviceptr *)to, (CUdeviceptr *)from, (size_t *)bytes,
                                                              count, (CUmemcpyAttributes *)attributes, indices,
                                                              attribute_count, stream)))
BOTH_FLAVOURS(cudaMemcpy3DBatchAsync, _ptsz,
              (size_t count, struct cudaMemcpy3DBatchOp *operations, unsigned long long flags, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemcpy3DBatchAsync_v2)(count, (CUDA_MEMCPY3D_BATCH_OP *)operations, flags,
                                                                stream)))
