/* cooperative_groups/memcpy_async.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error \
    "softgpu-cc does not support asynchronous copies (<cooperative_groups/memcpy_async.h>); copy with ordinary assignments"
