/*
 * copy_batch.c - copies between devices, and batches of copies, as the boxes of copy.c.
 *
 * Copies between devices run in a stream of the current context. A batch runs in stream order as a whole, its copies in
 * any order among themselves: in that of the arrays, and with SOFTGPU_CHAOS in reverse, which shows programs that rely
 * on one. Either all copies of a batch are submitted or, where one of them is wrong, none.
 */
#include "copy.h"

#include <stdlib.h>

/* ---- between devices ---- */

/* The contexts of both sides; a synchronous copy waits for all that they have pending. */
static CUresult
enter_peers(CUcontext to, CUcontext from, enum timing timing)
{
    struct context *contexts[2];
    TRY(driver_enter());
    TRY(context_from_handle(to, &contexts[0]));
    TRY(context_from_handle(from, &contexts[1]));
    for (int i = 0; timing == SYNC && i < 2; ++i) {
        TRY(context_drain(contexts[i]));
    }
    return CUDA_SUCCESS;
}

static CUresult
copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
          enum timing timing, CUstream handle, enum flavour flavour)
{
    struct box box = {.to = {.address = to, .side = DEVICE},
                      .from = {.address = from, .side = DEVICE},
                      .width = bytes,
                      .height = 1,
                      .depth = 1};
    struct stream *stream;
    TRY(enter_peers(to_context, from_context, timing));
    TRY(stream_enter(handle, flavour, &stream));
    return copy_submit(&box, timing, ORDER_OF_CALL, stream);
}

BOTH_FLAVOURS(cuMemcpyPeer, _ptds,
              (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
              copy_peer(to, to_context, from, from_context, bytes, SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemcpyPeerAsync, _ptsz,
              (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
               CUstream stream),
              copy_peer(to, to_context, from, from_context, bytes, ASYNC, stream, flavour))

static CUresult
copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy, enum timing timing, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    REQUIRE(copy != NULL && copy->srcLOD == 0 && copy->dstLOD == 0);
    struct box box = {.width = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth};
    TRY(copy_corner(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, copy->dstZ,
                    copy->dstPitch, copy->dstHeight, &box.to));
    TRY(copy_corner(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, copy->srcZ,
                    copy->srcPitch, copy->srcHeight, &box.from));
    TRY(enter_peers(copy->dstContext, copy->srcContext, timing));
    TRY(stream_enter(handle, flavour, &stream));
    return copy_submit(&box, timing, ORDER_OF_CALL, stream);
}
BOTH_FLAVOURS(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy), copy_3d_peer(copy, SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
              copy_3d_peer(copy, ASYNC, stream, flavour))

/* ---- batches ---- */

struct batch {
    size_t count;
    struct batch_copy {
        struct box box;
        enum order order;
    } copies[];
};

static CUresult
order_of(CUmemcpySrcAccessOrder asked, enum order *order_p)
{
    switch (asked) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
        *order_p = ORDER_STREAM;
        return CUDA_SUCCESS;
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
        *order_p = ORDER_DURING_CALL;
        return CUDA_SUCCESS;
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
        *order_p = ORDER_ANY;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
batch_new(size_t count, struct batch **batch_p)
{
    size_t bytes;
    REQUIRE(count != 0 && !__builtin_mul_overflow(count, sizeof(struct batch_copy), &bytes) &&
            !__builtin_add_overflow(bytes, sizeof(struct batch), &bytes));
    struct batch *batch = malloc(bytes);
    REQUIRE_ELSE(batch != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    batch->count = count;
    *batch_p = batch;
    return CUDA_SUCCESS;
}

/* Frees the batch. *fail_p: the copy that was wrong, or SIZE_MAX. */
static CUresult
batch_submit(struct batch *batch, CUstream handle, enum flavour flavour, size_t *fail_p)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result == CUDA_SUCCESS && stream == stream->context->legacy) {
        result = CUDA_ERROR_INVALID_VALUE; /* the manual: "Must not be legacy NULL stream" */
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < batch->count; ++i) {
        result = copy_check(&batch->copies[i].box);
        if (result != CUDA_SUCCESS) {
            *fail_p = i;
        }
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < batch->count; ++i) {
        const struct batch_copy *copy = &batch->copies[driver.chaos ? batch->count - 1 - i : i];
        result = copy_submit(&copy->box, ASYNC, copy->order, stream);
    }
    free(batch);
    return result;
}

/* Copy i of a batch has the attributes of the last index that is not above i. */
static CUresult
batch_orders(struct batch *batch, const CUmemcpyAttributes *attributes, const size_t *indices, size_t attribute_count,
             size_t *fail_p)
{
    REQUIRE(attributes != NULL && indices != NULL && attribute_count != 0 && attribute_count <= batch->count &&
            indices[0] == 0);
    for (size_t k = 0; k < attribute_count; ++k) {
        size_t end = k + 1 < attribute_count ? indices[k + 1] : batch->count;
        REQUIRE(indices[k] < end && end <= batch->count &&
                attributes[k].flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
        for (size_t i = indices[k]; i < end; ++i) {
            CUresult result = order_of(attributes[k].srcAccessOrder, &batch->copies[i].order);
            if (result != CUDA_SUCCESS) {
                *fail_p = i;
                return result;
            }
        }
    }
    return CUDA_SUCCESS;
}

/* Pointers and sizes, as the calls pass them. */
struct rows {
    const CUdeviceptr *to, *from;
    const size_t *bytes;
    size_t count;
};

static CUresult
copy_rows(struct rows rows, const CUmemcpyAttributes *attributes, const size_t *indices, size_t attribute_count,
          size_t *fail_p, CUstream stream, enum flavour flavour)
{
    struct batch *batch;
    size_t unused;
    fail_p = fail_p != NULL ? fail_p : &unused;
    *fail_p = SIZE_MAX;
    REQUIRE(rows.to != NULL && rows.from != NULL && rows.bytes != NULL);
    TRY(batch_new(rows.count, &batch));
    CUresult result = batch_orders(batch, attributes, indices, attribute_count, fail_p);
    for (size_t i = 0; result == CUDA_SUCCESS && i < rows.count; ++i) {
        batch->copies[i].box = (struct box){.to = {.address = rows.to[i], .side = UNIFIED},
                                            .from = {.address = rows.from[i], .side = UNIFIED},
                                            .width = rows.bytes[i],
                                            .height = 1,
                                            .depth = 1};
        if (rows.bytes[i] == 0) {
            *fail_p = i;
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (result != CUDA_SUCCESS) {
        free(batch);
        return result;
    }
    return batch_submit(batch, stream, flavour, fail_p);
}
BOTH_FLAVOURS(cuMemcpyBatchAsync, _ptsz,
              (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
               size_t *indices, size_t attribute_count, size_t *failed, CUstream stream),
              copy_rows((struct rows){to, from, bytes, count}, attributes, indices, attribute_count, failed, stream,
                        flavour))
BOTH_FLAVOURS(cuMemcpyBatchAsync_v2, _ptsz,
              (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
               size_t *indices, size_t attribute_count, CUstream stream),
              copy_rows((struct rows){to, from, bytes, count}, attributes, indices, attribute_count, NULL, stream,
                        flavour))

/* An operand that is not an array; a row length or layer height of 0 means packed. */
static CUresult
operand_corner(const CUmemcpy3DOperand *operand, const CUextent3D *extent, struct corner *corner_p)
{
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        say("cuMemcpy3DBatchAsync: CUDA arrays are not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight;
    REQUIRE(operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER && (row == 0 || row >= extent->width) &&
            (rows == 0 || rows >= extent->height));
    return copy_corner(CU_MEMORYTYPE_UNIFIED, NULL, operand->op.ptr.ptr, 0, 0, 0, row != 0 ? row : extent->width,
                       rows != 0 ? rows : extent->height, corner_p);
}

static CUresult
operation_box(const CUDA_MEMCPY3D_BATCH_OP *operation, struct batch_copy *copy)
{
    const CUextent3D *extent = &operation->extent;
    copy->box = (struct box){.width = extent->width, .height = extent->height, .depth = extent->depth};
    REQUIRE(extent->width != 0 && extent->height != 0 && extent->depth != 0 &&
            operation->flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
    TRY(order_of(operation->srcAccessOrder, &copy->order));
    TRY(operand_corner(&operation->dst, extent, &copy->box.to));
    return operand_corner(&operation->src, extent, &copy->box.from);
}

static CUresult
copy_operations(size_t count, const CUDA_MEMCPY3D_BATCH_OP *operations, size_t *fail_p, unsigned long long flags,
                CUstream stream, enum flavour flavour)
{
    struct batch *batch;
    size_t unused;
    fail_p = fail_p != NULL ? fail_p : &unused;
    *fail_p = SIZE_MAX;
    REQUIRE(operations != NULL && flags == 0);
    CUresult result = batch_new(count, &batch);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (size_t i = 0; i < count; ++i) {
        result = operation_box(&operations[i], &batch->copies[i]);
        if (result != CUDA_SUCCESS) {
            *fail_p = i;
            free(batch);
            return result;
        }
    }
    return batch_submit(batch, stream, flavour, fail_p);
}
BOTH_FLAVOURS(cuMemcpy3DBatchAsync, _ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, size_t *failed, unsigned long long flags,
               CUstream stream),
              copy_operations(count, operations, failed, flags, stream, flavour))
BOTH_FLAVOURS(cuMemcpy3DBatchAsync_v2, _ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, unsigned long long flags, CUstream stream),
              copy_operations(count, operations, NULL, flags, stream, flavour))
