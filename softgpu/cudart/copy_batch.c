/*
 * copy_batch.c - copies between devices, and batches of copies. A batch goes to the driver as it is: the types have the
 * same layout.
 */
#include "runtime.h"

/* ---- between devices ---- */

static cudaError_t
peer_contexts(int to_device, int from_device, CUcontext *to_p, CUcontext *from_p)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess) {
        error = runtime_context(to_device, to_p);
    }
    return error == cudaSuccess ? runtime_context(from_device, from_p) : error;
}

cudaError_t
cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    CUcontext to_context, from_context;
    cudaError_t error = peer_contexts(to_device, from_device, &to_context, &from_context);
    if (error != cudaSuccess) {
        return finish(error);
    }
    return WITH_CONTEXT(driver.cuMemcpyPeer((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes));
}

cudaError_t
cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
    CUcontext to_context, from_context;
    cudaError_t error = peer_contexts(to_device, from_device, &to_context, &from_context);
    if (error != cudaSuccess) {
        return finish(error);
    }
    return WITH_CONTEXT(
        driver.cuMemcpyPeerAsync((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes, stream));
}

/* Between pitched memory only: the stand-in has no arrays. */
static cudaError_t
box_peer(CUDA_MEMCPY3D_PEER *box, const struct cudaMemcpy3DPeerParms *copy)
{
    CUcontext to_context, from_context;
    if (copy == NULL) {
        return cudaErrorInvalidValue;
    }
    if (copy->srcArray != NULL || copy->dstArray != NULL) {
        say("cudaMemcpy3DPeer: CUDA arrays are not supported");
        return cudaErrorNotSupported;
    }
    cudaError_t error = peer_contexts(copy->dstDevice, copy->srcDevice, &to_context, &from_context);
    if (error != cudaSuccess) {
        return error;
    }
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

static cudaError_t
copy_3d_peer(const struct cudaMemcpy3DPeerParms *copy, enum flavour flavour)
{
    CUDA_MEMCPY3D_PEER box;
    cudaError_t error = box_peer(&box, copy);
    return error != cudaSuccess ? finish(error) : WITH_CONTEXT(MEMORY_CALL(cuMemcpy3DPeer)(&box));
}

static cudaError_t
copy_3d_peer_async(const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream, enum flavour flavour)
{
    CUDA_MEMCPY3D_PEER box;
    cudaError_t error = box_peer(&box, copy);
    return error != cudaSuccess ? finish(error) : WITH_CONTEXT(STREAM_CALL(cuMemcpy3DPeerAsync)(&box, stream));
}

BOTH_FLAVOURS(cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *copy), copy_3d_peer(copy, flavour))
BOTH_FLAVOURS(cudaMemcpy3DPeerAsync, _ptsz, (const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream),
              copy_3d_peer_async(copy, stream, flavour))

/* ---- batches ---- */

#define SAME_PLACE(ours, our_field, theirs, their_field)           \
    (offsetof(ours, our_field) == offsetof(theirs, their_field) && \
     sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field))

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes) &&
                   SAME_PLACE(struct cudaMemcpyAttributes, srcAccessOrder, CUmemcpyAttributes, srcAccessOrder) &&
                   SAME_PLACE(struct cudaMemcpyAttributes, srcLocHint, CUmemcpyAttributes, srcLocHint) &&
                   SAME_PLACE(struct cudaMemcpyAttributes, dstLocHint, CUmemcpyAttributes, dstLocHint) &&
                   SAME_PLACE(struct cudaMemcpyAttributes, flags, CUmemcpyAttributes, flags),
               "passed through");
_Static_assert(sizeof(struct cudaMemcpy3DOperand) == sizeof(CUmemcpy3DOperand) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, type, CUmemcpy3DOperand, type) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.ptr, CUmemcpy3DOperand, op.ptr.ptr) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.rowLength, CUmemcpy3DOperand, op.ptr.rowLength) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.layerHeight, CUmemcpy3DOperand, op.ptr.layerHeight) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.locHint, CUmemcpy3DOperand, op.ptr.locHint) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.array.array, CUmemcpy3DOperand, op.array.array) &&
                   SAME_PLACE(struct cudaMemcpy3DOperand, op.array.offset, CUmemcpy3DOperand, op.array.offset),
               "passed through");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP) &&
                   SAME_PLACE(struct cudaMemcpy3DBatchOp, src, CUDA_MEMCPY3D_BATCH_OP, src) &&
                   SAME_PLACE(struct cudaMemcpy3DBatchOp, dst, CUDA_MEMCPY3D_BATCH_OP, dst) &&
                   SAME_PLACE(struct cudaMemcpy3DBatchOp, extent, CUDA_MEMCPY3D_BATCH_OP, extent) &&
                   SAME_PLACE(struct cudaMemcpy3DBatchOp, srcAccessOrder, CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder) &&
                   SAME_PLACE(struct cudaMemcpy3DBatchOp, flags, CUDA_MEMCPY3D_BATCH_OP, flags),
               "passed through");
_Static_assert((int)cudaMemcpySrcAccessOrderStream == (int)CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                   (int)cudaMemcpySrcAccessOrderDuringApiCall == (int)CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
                   (int)cudaMemcpySrcAccessOrderAny == (int)CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
                   (int)cudaMemcpyOperandTypePointer == (int)CU_MEMCPY_OPERAND_TYPE_POINTER &&
                   (int)cudaMemcpyOperandTypeArray == (int)CU_MEMCPY_OPERAND_TYPE_ARRAY &&
                   (int)cudaMemcpyFlagPreferOverlapWithCompute == (int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE,
               "orders, types and flags have the same numbers");

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
