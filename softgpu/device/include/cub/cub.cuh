/*
 * cub/cub.cuh - in the place of NVIDIA's: collectives of a warp and of a block, algorithms of a device, iterators. What
 * is not there is refused by name where it is used (softgpu_refused.cuh).
 */
#ifndef SOFTGPU_CUB_H
#define SOFTGPU_CUB_H
#pragma GCC system_header

#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_select.cuh>
#include <cub/softgpu_iterator.cuh>
#include <cub/softgpu_refused.cuh>
#include <cub/thread/thread_operators.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#endif
