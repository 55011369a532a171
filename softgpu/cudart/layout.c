/*
 * layout.c - what the stand-in takes for granted of CUDA's public types, checked against the toolkit's headers when it
 * is compiled. No code.
 *
 *   Sizes: programs are compiled against the headers of CUDA 13; were these built with others, their structs would be
 *   read wrongly (cudaDeviceProp has 1032 bytes in CUDA 12).
 *   Pairs: what the runtime hands to the driver as it is must have the same layout, and the same numbers.
 */
#include "runtime.h"

#define SIZE(type, bytes)       _Static_assert(sizeof(type) == (bytes), "programs are compiled against the types of CUDA 13")
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), "passed through")
#define SAME_PLACE(ours, our_field, theirs, their_field)                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&             \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field), \
                   "passed through")
#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "passed through")

SIZE(struct cudaDeviceProp, 1008);
SIZE(struct cudaMemcpy3DParms, 160);
SIZE(struct cudaMemcpy3DPeerParms, 168);
SIZE(struct cudaPointerAttributes, 88);
SIZE(struct cudaFuncAttributes, 144);
SIZE(cudaLaunchConfig_t, 56);
SIZE(cudaLaunchAttribute, 72);
SIZE(struct cudaKernelNodeParams, 56);
SIZE(struct cudaHostNodeParams, 16);
SIZE(struct cudaMemsetParams, 40);
SIZE(struct cudaPitchedPtr, 32);
SIZE(struct cudaExtent, 24);
SIZE(struct cudaMemPoolProps, 88);
SIZE(struct cudaChannelFormatDesc, 20);
SIZE(cudaGraphExecUpdateResultInfo, 24);
SIZE(CUlaunchConfig, 56);
SIZE(CUDA_MEMCPY2D, 128);
SIZE(CUDA_MEMCPY3D, 200);
SIZE(CUDA_MEMCPY3D_PEER, 200);
SIZE(CUmemAllocationProp, 32);
SIZE(CUstreamBatchMemOpParams, 48);
SIZE(CUDA_KERNEL_NODE_PARAMS, 72);
SIZE(CUDA_MEMSET_NODE_PARAMS, 40);
SIZE(CUuuid, 16);

SAME_SIZE(struct cudaMemLocation, CUmemLocation);
SAME_PLACE(struct cudaMemLocation, type, CUmemLocation, type);
SAME_PLACE(struct cudaMemLocation, id, CUmemLocation, id);

SAME_SIZE(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_PLACE(struct cudaMemAccessDesc, location, CUmemAccessDesc, location);
SAME_PLACE(struct cudaMemAccessDesc, flags, CUmemAccessDesc, flags);

SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps);
SAME_PLACE(struct cudaMemPoolProps, allocType, CUmemPoolProps, allocType);
SAME_PLACE(struct cudaMemPoolProps, handleTypes, CUmemPoolProps, handleTypes);
SAME_PLACE(struct cudaMemPoolProps, location, CUmemPoolProps, location);
SAME_PLACE(struct cudaMemPoolProps, win32SecurityAttributes, CUmemPoolProps, win32SecurityAttributes);
SAME_PLACE(struct cudaMemPoolProps, maxSize, CUmemPoolProps, maxSize);
SAME_PLACE(struct cudaMemPoolProps, usage, CUmemPoolProps, usage);

SAME_SIZE(cudaLaunchAttribute, CUlaunchAttribute);
SAME_PLACE(cudaLaunchAttribute, id, CUlaunchAttribute, id);
SAME_PLACE(cudaLaunchAttribute, val, CUlaunchAttribute, value);

SAME_SIZE(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_PLACE(struct cudaHostNodeParams, fn, CUDA_HOST_NODE_PARAMS, fn);
SAME_PLACE(struct cudaHostNodeParams, userData, CUDA_HOST_NODE_PARAMS, userData);

SAME_SIZE(cudaGraphEdgeData, CUgraphEdgeData);
SAME_PLACE(cudaGraphEdgeData, from_port, CUgraphEdgeData, from_port);
SAME_PLACE(cudaGraphEdgeData, to_port, CUgraphEdgeData, to_port);
SAME_PLACE(cudaGraphEdgeData, type, CUgraphEdgeData, type);

SAME_SIZE(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);
SAME_PLACE(cudaGraphExecUpdateResultInfo, result, CUgraphExecUpdateResultInfo, result);
SAME_PLACE(cudaGraphExecUpdateResultInfo, errorNode, CUgraphExecUpdateResultInfo, errorNode);
SAME_PLACE(cudaGraphExecUpdateResultInfo, errorFromNode, CUgraphExecUpdateResultInfo, errorFromNode);

SAME_SIZE(cudaUUID_t, CUuuid);
SAME_PLACE(cudaUUID_t, bytes, CUuuid, bytes);

SAME_SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_PLACE(struct cudaMemcpyAttributes, srcAccessOrder, CUmemcpyAttributes, srcAccessOrder);
SAME_PLACE(struct cudaMemcpyAttributes, srcLocHint, CUmemcpyAttributes, srcLocHint);
SAME_PLACE(struct cudaMemcpyAttributes, dstLocHint, CUmemcpyAttributes, dstLocHint);
SAME_PLACE(struct cudaMemcpyAttributes, flags, CUmemcpyAttributes, flags);

SAME_SIZE(struct cudaExtent, CUextent3D);
SAME_PLACE(struct cudaExtent, width, CUextent3D, width);
SAME_PLACE(struct cudaExtent, height, CUextent3D, height);
SAME_PLACE(struct cudaExtent, depth, CUextent3D, depth);

SAME_SIZE(struct cudaMemcpy3DOperand, CUmemcpy3DOperand);
SAME_PLACE(struct cudaMemcpy3DOperand, type, CUmemcpy3DOperand, type);
SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.ptr, CUmemcpy3DOperand, op.ptr.ptr);
SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.rowLength, CUmemcpy3DOperand, op.ptr.rowLength);
SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.layerHeight, CUmemcpy3DOperand, op.ptr.layerHeight);
SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.locHint, CUmemcpy3DOperand, op.ptr.locHint);
SAME_PLACE(struct cudaMemcpy3DOperand, op.array.array, CUmemcpy3DOperand, op.array.array);
SAME_PLACE(struct cudaMemcpy3DOperand, op.array.offset, CUmemcpy3DOperand, op.array.offset);

SAME_SIZE(struct cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);
SAME_PLACE(struct cudaMemcpy3DBatchOp, src, CUDA_MEMCPY3D_BATCH_OP, src);
SAME_PLACE(struct cudaMemcpy3DBatchOp, dst, CUDA_MEMCPY3D_BATCH_OP, dst);
SAME_PLACE(struct cudaMemcpy3DBatchOp, extent, CUDA_MEMCPY3D_BATCH_OP, extent);
SAME_PLACE(struct cudaMemcpy3DBatchOp, srcAccessOrder, CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder);
SAME_PLACE(struct cudaMemcpy3DBatchOp, flags, CUDA_MEMCPY3D_BATCH_OP, flags);

SAME_NUMBER(cudaStreamCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_NUMBER(cudaStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);

SAME_NUMBER(cudaStreamCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_NUMBER(cudaStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_NUMBER(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);

SAME_NUMBER(cudaLimitStackSize, CU_LIMIT_STACK_SIZE);
SAME_NUMBER(cudaLimitPrintfFifoSize, CU_LIMIT_PRINTF_FIFO_SIZE);
SAME_NUMBER(cudaLimitMallocHeapSize, CU_LIMIT_MALLOC_HEAP_SIZE);
SAME_NUMBER(cudaLimitPersistingL2CacheSize, CU_LIMIT_PERSISTING_L2_CACHE_SIZE);

SAME_NUMBER(cudaFuncCachePreferNone, CU_FUNC_CACHE_PREFER_NONE);
SAME_NUMBER(cudaFuncCachePreferShared, CU_FUNC_CACHE_PREFER_SHARED);
SAME_NUMBER(cudaFuncCachePreferL1, CU_FUNC_CACHE_PREFER_L1);
SAME_NUMBER(cudaFuncCachePreferEqual, CU_FUNC_CACHE_PREFER_EQUAL);

SAME_NUMBER(cudaSharedMemBankSizeDefault, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE);
SAME_NUMBER(cudaSharedMemBankSizeEightByte, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);

SAME_NUMBER(cudaFuncAttributeMaxDynamicSharedMemorySize, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(cudaFuncAttributePreferredSharedMemoryCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);

SAME_NUMBER(cudaMemPoolReuseFollowEventDependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_NUMBER(cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_NUMBER(cudaMemPoolAttrReservedMemCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME_NUMBER(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);

SAME_NUMBER(cudaMemAdviseSetReadMostly, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME_NUMBER(cudaMemAdviseSetPreferredLocation, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME_NUMBER(cudaMemAdviseUnsetAccessedBy, CU_MEM_ADVISE_UNSET_ACCESSED_BY);

SAME_NUMBER(cudaMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(cudaMemLocationTypeHost, CU_MEM_LOCATION_TYPE_HOST);
SAME_NUMBER(cudaMemLocationTypeHostNumaCurrent, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
SAME_NUMBER(cudaMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(cudaMemHandleTypeNone, CU_MEM_HANDLE_TYPE_NONE);
SAME_NUMBER(cudaMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

SAME_NUMBER(cudaGraphNodeTypeKernel, CU_GRAPH_NODE_TYPE_KERNEL);
SAME_NUMBER(cudaGraphNodeTypeMemcpy, CU_GRAPH_NODE_TYPE_MEMCPY);
SAME_NUMBER(cudaGraphNodeTypeMemset, CU_GRAPH_NODE_TYPE_MEMSET);
SAME_NUMBER(cudaGraphNodeTypeHost, CU_GRAPH_NODE_TYPE_HOST);
SAME_NUMBER(cudaGraphNodeTypeGraph, CU_GRAPH_NODE_TYPE_GRAPH);
SAME_NUMBER(cudaGraphNodeTypeEmpty, CU_GRAPH_NODE_TYPE_EMPTY);
SAME_NUMBER(cudaGraphNodeTypeWaitEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SAME_NUMBER(cudaGraphNodeTypeEventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD);

SAME_NUMBER(cudaGraphExecUpdateSuccess, CU_GRAPH_EXEC_UPDATE_SUCCESS);
SAME_NUMBER(cudaGraphExecUpdateErrorTopologyChanged, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
SAME_NUMBER(cudaGraphExecUpdateErrorNodeTypeChanged, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
SAME_NUMBER(cudaGraphExecUpdateErrorAttributesChanged, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);

SAME_NUMBER(cudaLaunchAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_NUMBER(cudaLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_NUMBER(cudaLaunchAttributeProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_NUMBER(cudaLaunchAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_NUMBER(cudaLaunchAttributeMemSyncDomain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);

SAME_NUMBER(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(cudaEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME_NUMBER(cudaEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(cudaEventInterprocess, CU_EVENT_INTERPROCESS);
SAME_NUMBER(cudaEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME_NUMBER(cudaEventWaitExternal, CU_EVENT_WAIT_EXTERNAL);

SAME_NUMBER(cudaHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(cudaHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_NUMBER(cudaHostAllocWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME_NUMBER(cudaHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
SAME_NUMBER(cudaHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_NUMBER(cudaHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
SAME_NUMBER(cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL);
SAME_NUMBER(cudaMemAttachHost, CU_MEM_ATTACH_HOST);

SAME_NUMBER(cudaDeviceScheduleSpin, CU_CTX_SCHED_SPIN);
SAME_NUMBER(cudaDeviceScheduleYield, CU_CTX_SCHED_YIELD);
SAME_NUMBER(cudaDeviceScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
SAME_NUMBER(cudaDeviceMapHost, CU_CTX_MAP_HOST);

SAME_NUMBER(cudaMemcpySrcAccessOrderStream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME_NUMBER(cudaMemcpySrcAccessOrderDuringApiCall, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME_NUMBER(cudaMemcpySrcAccessOrderAny, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME_NUMBER(cudaMemcpyOperandTypePointer, CU_MEMCPY_OPERAND_TYPE_POINTER);
SAME_NUMBER(cudaMemcpyOperandTypeArray, CU_MEMCPY_OPERAND_TYPE_ARRAY);
SAME_NUMBER(cudaMemcpyFlagPreferOverlapWithCompute, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);

SAME_NUMBER(cudaDevAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(cudaDevAttrWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_NUMBER(cudaDevAttrMultiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(cudaDevAttrComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(cudaDevAttrConcurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME_NUMBER(cudaDevAttrCooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME_NUMBER(cudaDevAttrMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(cudaDevAttrMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);

SAME_NUMBER(cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(cudaErrorInitializationError, CUDA_ERROR_NOT_INITIALIZED);
SAME_NUMBER(cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(cudaErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME_NUMBER(cudaErrorInvalidResourceHandle, CUDA_ERROR_INVALID_HANDLE);
SAME_NUMBER(cudaErrorNotReady, CUDA_ERROR_NOT_READY);
SAME_NUMBER(cudaErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(cudaErrorLaunchFailure, CUDA_ERROR_LAUNCH_FAILED);
SAME_NUMBER(cudaErrorAssert, CUDA_ERROR_ASSERT);
SAME_NUMBER(cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME_NUMBER(cudaErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_NUMBER(cudaErrorGraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME_NUMBER(cudaErrorUnknown, CUDA_ERROR_UNKNOWN);
