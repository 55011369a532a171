/* cuda_pipeline.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error "softgpu-cc does not support asynchronous copies (<cuda_pipeline.h>); copy with ordinary assignments"
