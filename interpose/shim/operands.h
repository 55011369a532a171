/*
 * operands.h - which device memory do the calls of hooks.def name? Words of its column `operands`.
 *
 * Included by hooks.c only. A range that cannot be known exactly is made larger, never smaller: a touch too many is
 * looked at, a touch too few is a wrong answer.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_OPERANDS_H
#define DDPRUN_INTERPOSE_SHIM_OPERANDS_H

#include "interpose/engine.h"
#include "interpose/shim/shim.h"

#include <stdlib.h>

enum { ELEMENT_BYTES_AT_MOST = 16 }; /* of an array: four channels of 32 bits */

enum { FEW_OPERANDS = 4 };

/* An operation and room for its operands: on the hook's stack, or `many`. */
struct listing {
    struct operation operation;
    struct operand *many; /* malloc'ed, or NULL */
    size_t capacity;
};

/* Makes room for `count` operands. On failure the operation becomes opaque. */
static inline void
reserve_operands(struct listing *listing, size_t count)
{
    if (count <= listing->capacity)
        return;
    listing->many = count <= UINT32_MAX ? malloc(count * sizeof(*listing->many)) : NULL;
    if (listing->many == NULL) {
        listing->operation.opaque = true;
        return;
    }
    listing->operation.operands = listing->many;
    listing->capacity = count;
}

static inline void
add_operand(struct listing *listing, uint32_t argument, CUdeviceptr address, size_t bytes)
{
    struct operation *operation = &listing->operation;
    if (bytes > 0 && operation->operand_count < listing->capacity)
        operation->operands[operation->operand_count++] =
            (struct operand){.argument = argument, .address = address, .bytes = bytes};
}

/* Entry `i` of a list that is argument `argument`. */
static inline uint32_t
list_argument(uint32_t argument, size_t i)
{
    return argument | (uint32_t)(i & UINT16_MAX) << OPERAND_LIST_SHIFT;
}

/* Bytes from the first to the last of `rows` rows of `width` bytes that lie `pitch` bytes apart. */
static inline size_t
pitched_bytes(size_t pitch, size_t width, size_t rows)
{
    return rows == 0 || width == 0 ? 0 : pitch * (rows - 1) + width;
}

static inline bool
is_addressable(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* `rows` rows of `width` bytes, `pitch` apart, in `layers` layers that are `layer` bytes apart. */
static inline void
add_rows(struct listing *listing, uint32_t argument, CUdeviceptr address, size_t pitch, size_t width, size_t rows,
         size_t layer, size_t layers)
{
    size_t of_layer = pitched_bytes(pitch, width, rows);
    unsigned at = listing->operation.operand_count;
    add_operand(listing, argument, address, pitched_bytes(layer, of_layer, layers));
    bool has_holes = (rows > 1 && pitch > width) || (layers > 1 && layer > of_layer);
    bool is_sound = (rows == 1 || pitch >= width) && (layers == 1 || layer >= of_layer);
    if (listing->operation.operand_count > at && has_holes && is_sound)
        listing->operation.operands[at].pieces =
            (struct pieces){width, rows, rows > 1 ? pitch : 0, layers, layers > 1 ? layer : 0};
}

/* One side of a copy of rows in layers; all in bytes: x, y, z, and the same of the extent. */
static inline void
add_block(struct listing *listing, uint32_t argument, CUmemorytype type, CUdeviceptr address, const size_t at[3],
          size_t pitch, size_t layer, const size_t extent[3])
{
    if (is_addressable(type))
        add_rows(listing, argument, address + at[2] * layer + at[1] * pitch + at[0], pitch, extent[0], extent[1], layer,
                 extent[2]);
}

/* The source, if the call says that it is the host's: the engine looks for addresses in it. */
static inline void
look_at_host_block(CUmemorytype type, const void *host, const size_t at[3], size_t pitch, size_t layer,
                   const size_t extent[3])
{
    if (type != CU_MEMORYTYPE_HOST)
        return;
    const char *begin = (const char *)host + at[2] * layer + at[1] * pitch + at[0];
    for (size_t z = 0; z < extent[2]; ++z)
        shim.engine->copied_from_host(begin + z * layer, extent[0], pitch, extent[1]);
}

/* Where a copy goes, also to the host: a player of plans may bring other bytes there. */
#define DST_OF(copy)                                                                         \
    copy->dstMemoryType == CU_MEMORYTYPE_HOST ? CU_MEMORYTYPE_UNIFIED : copy->dstMemoryType, \
        copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)copy->dstHost : copy->dstDevice
static inline void
add_operands_2d(struct listing *listing, const CUDA_MEMCPY2D *copy)
{
    if (copy == NULL)
        return; /* the driver refuses it */
    const size_t extent[3] = {copy->WidthInBytes, copy->Height, 1};
    const size_t dst[3] = {copy->dstXInBytes, copy->dstY, 0}, src[3] = {copy->srcXInBytes, copy->srcY, 0};
    add_block(listing, 0, DST_OF(copy), dst, copy->dstPitch, 0, extent);
    add_block(listing, 1, copy->srcMemoryType, copy->srcDevice, src, copy->srcPitch, 0, extent);
    look_at_host_block(copy->srcMemoryType, copy->srcHost, src, copy->srcPitch, 0, extent);
}

static inline void
add_operands_3d(struct listing *listing, const CUDA_MEMCPY3D *copy)
{
    if (copy == NULL)
        return;
    const size_t extent[3] = {copy->WidthInBytes, copy->Height, copy->Depth};
    const size_t dst[3] = {copy->dstXInBytes, copy->dstY, copy->dstZ};
    const size_t src[3] = {copy->srcXInBytes, copy->srcY, copy->srcZ};
    add_block(listing, 0, DST_OF(copy), dst, copy->dstPitch, copy->dstPitch * copy->dstHeight, extent);
    add_block(listing, 1, copy->srcMemoryType, copy->srcDevice, src, copy->srcPitch, copy->srcPitch * copy->srcHeight,
              extent);
    look_at_host_block(copy->srcMemoryType, copy->srcHost, src, copy->srcPitch, copy->srcPitch * copy->srcHeight,
                       extent);
}

_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D) &&
                   offsetof(CUDA_MEMCPY3D_PEER, srcPitch) == offsetof(CUDA_MEMCPY3D, srcPitch) &&
                   offsetof(CUDA_MEMCPY3D_PEER, dstPitch) == offsetof(CUDA_MEMCPY3D, dstPitch),
               "the same but for contexts, in fields that the other has in reserve");

static inline void
add_operands_batch(struct listing *listing, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                   size_t count)
{
    if (dsts == NULL || srcs == NULL || sizes == NULL)
        return;
    reserve_operands(listing, 2 * count);
    for (size_t i = 0; i < count && !listing->operation.opaque; ++i) {
        add_operand(listing, list_argument(0, i), dsts[i], sizes[i]);
        add_operand(listing, list_argument(1, i), srcs[i], sizes[i]);
    }
}

/* One side of an entry of cuMemcpy3DBatchAsync: counted in elements, with 0 for rows and layers without gaps. */
static inline void
add_batch_side(struct listing *listing, uint32_t argument, const CUmemcpy3DOperand *side, const CUextent3D *extent,
               size_t element_bytes)
{
    static const size_t begin[3] = {0, 0, 0};
    if (side->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return;
    size_t row = side->op.ptr.rowLength != 0 ? side->op.ptr.rowLength : extent->width;
    size_t height = side->op.ptr.layerHeight != 0 ? side->op.ptr.layerHeight : extent->height;
    const size_t bytes[3] = {extent->width * element_bytes, extent->height, extent->depth};
    add_block(listing, argument, CU_MEMORYTYPE_UNIFIED, side->op.ptr.ptr, begin, row * element_bytes,
              row * height * element_bytes, bytes);
}

static inline void
add_operands_3d_batch(struct listing *listing, const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count)
{
    if (copies == NULL)
        return;
    reserve_operands(listing, 2 * count);
    for (size_t i = 0; i < count && !listing->operation.opaque; ++i) {
        /* An element is a byte between pointers; the array says it otherwise, which is not asked. */
        bool plain = copies[i].dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
                     copies[i].src.type == CU_MEMCPY_OPERAND_TYPE_POINTER;
        size_t element_bytes = plain ? 1 : ELEMENT_BYTES_AT_MOST;
        add_batch_side(listing, list_argument(0, i), &copies[i].dst, &copies[i].extent, element_bytes);
        add_batch_side(listing, list_argument(1, i), &copies[i].src, &copies[i].extent, element_bytes);
    }
}

/* 64 bits that the device will find in its memory: they may be an address. */
static inline void
look_at_value(cuuint64_t value)
{
    shim.engine->copied_from_host(&value, sizeof(value), 0, 1);
}

static inline void
add_operands_of_values(struct listing *listing, const CUstreamBatchMemOpParams *list, unsigned count)
{
    if (list == NULL)
        return;
    reserve_operands(listing, count);
    for (unsigned i = 0; i < count && !listing->operation.opaque; ++i) {
        bool is_32 =
            list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || list[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
        bool is_64 =
            list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 || list[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        if (list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            look_at_value(list[i].writeValue.value64);
        if (is_32 || is_64) /* waitValue has its address in the same place */
            add_operand(listing, list_argument(2, i), list[i].writeValue.address, is_32 ? 4 : 8);
    }
}

/* ---- nodes of graphs ---- */

static inline void
add_kernel_v1(struct listing *listing, const CUDA_KERNEL_NODE_PARAMS_v1 *work)
{
    if (work == NULL)
        return;
    listing->operation.function = work->func;
    listing->operation.params = work->kernelParams;
    listing->operation.extra = work->extra;
}

static inline void
add_kernel(struct listing *listing, const CUDA_KERNEL_NODE_PARAMS *work)
{
    if (work == NULL)
        return;
    listing->operation.function = work->func != NULL ? work->func : (CUfunction)work->kern;
    listing->operation.params = work->kernelParams;
    listing->operation.extra = work->extra;
}

static inline void
add_memset_node(struct listing *listing, const CUDA_MEMSET_NODE_PARAMS *work)
{
    if (work != NULL)
        add_rows(listing, 0, work->dst, work->pitch, work->width * work->elementSize, work->height, 0, 1);
}

/* What is not known to be harmless is opaque. */
static inline void
add_node_parameters(struct listing *listing, const CUgraphNodeParams *work)
{
    if (work == NULL)
        return;
    struct operation *operation = &listing->operation;
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        operation->function = work->kernel.func != NULL ? work->kernel.func : (CUfunction)work->kernel.kern;
        operation->params = work->kernel.kernelParams;
        operation->extra = work->kernel.extra;
        return;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        add_operands_3d(listing, &work->memcpy.copyParams);
        return;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        add_rows(listing, 0, work->memset.dst, work->memset.pitch, work->memset.width * work->memset.elementSize,
                 work->memset.height, 0, 1);
        return;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        shim.engine->graph_nested(work->graph.graph, operation->name);
        operation->opaque = true;
        return;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return;
    default:
        operation->opaque = true;
    }
}

#define operand(argument, address, bytes) add_operand(&listing, argument, address, bytes);
#define from_host(source, bytes)            \
    listing.operation.host_source = source; \
    listing.operation.host_bytes = bytes;
#define rows(argument, address, pitch, width, count) add_rows(&listing, argument, address, pitch, width, count, 0, 1);
#define host_value(value)                            look_at_value(value);
#define operands_2d(copy)                            add_operands_2d(&listing, copy);
#define operands_3d(copy)                            add_operands_3d(&listing, copy);
#define operands_3d_peer(copy)                       add_operands_3d(&listing, (const CUDA_MEMCPY3D *)(copy));
#define operands_batch(dsts, srcs, sizes, count)     add_operands_batch(&listing, dsts, srcs, sizes, count);
#define operands_3d_batch(copies, count)             add_operands_3d_batch(&listing, copies, count);
#define operands_of_values(list, count)              add_operands_of_values(&listing, list, count);
#define opaque()                                     listing.operation.opaque = true;
#define launch_of(exec)                              listing.operation.graph = exec;

/* Of GRAPH rows: what is about to change, and what the node is about to do. */
#define graph_changes(graph)     engine->graph_changes(graph, listing.operation.name);
#define captured_into(graph)     (engine->graph_changes)(graph, "cuStreamBeginCaptureToGraph");
#define child_graph(child)       engine->graph_nested(child, listing.operation.name);
#define kernel_v1(work)          add_kernel_v1(&listing, work);
#define kernel(work)             add_kernel(&listing, work);
#define memset_node(work)        add_memset_node(&listing, work);
#define node_parameters(work)    add_node_parameters(&listing, work);
#define node_changes(exec, node) engine->node_changes(exec, node, &listing.operation);

#endif
