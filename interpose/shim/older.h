/*
 * older.h - functions of the driver that cuda.h knows by their newer versions only, and some that are newer than it:
 * cuda.h may be of CUDA 12.4 or later.
 *
 * cuda.h makes the plain name a macro for the newest version; libcuda exports both. Included after cuda.h by the hooks
 * and by the drivers of the tests.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_OLDER_H
#define DDPRUN_INTERPOSE_SHIM_OLDER_H

#include <cuda.h>

#undef cuGetProcAddress
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxSetFlags
#undef cuDeviceGetUuid
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
#undef cuStreamBeginCapture
#undef cuStreamUpdateCaptureDependencies
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphAddNode
#undef cuGraphRemoveDependencies

/* What a program that was built with a newer toolkit hands over; members as the hooks read them. */
#if CUDA_VERSION < 12080
enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1 };
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct {
    size_t width, height, depth;
} CUextent3D;
typedef struct {
    int type;
    struct {
        struct {
            CUdeviceptr ptr;
            size_t rowLength, layerHeight; /* in elements */
            CUmemLocation hint;
        } ptr; /* or an array, of the same size */
    } op;
} CUmemcpy3DOperand;
typedef struct {
    CUmemcpy3DOperand src, dst;
    CUextent3D extent;
    int order;
    unsigned flags;
} CUDA_MEMCPY3D_BATCH_OP;
typedef unsigned CUtensorMapIm2ColWideMode;
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                     const cuuint64_t *sizes, const cuuint64_t *strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                     CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill);
#endif
#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
#endif
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112, "as the driver has it");

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *how, unsigned flags, CUdevice device);
CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation location);
CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t bytes, CUdevice device, CUstream stream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream);
CUresult cuStreamGetDevice(CUstream stream, CUdevice *device);
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count, size_t *failed,
                            CUstream stream);
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags,
                              CUstream stream);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags);

CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags);
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t bytes);
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t bytes);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *answer);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *work);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *work);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *work);
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                        CUgraphNodeParams *work);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);

/* Since CUDA 13, and since CUDA 13.2. */
CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count,
                               CUstream stream);
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags,
                                 CUstream stream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpyAttributes *attributes,
                                     CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream);

#endif
