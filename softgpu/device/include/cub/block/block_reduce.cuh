/* cub/block/block_reduce.cuh - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error \
    "softgpu-cc does not support CUB (<cub/block/block_reduce.cuh>); write the reduction with shared memory or shuffles"
