/* cuda_pipeline_primitives.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error "softgpu-cc does not support asynchronous copies (<cuda_pipeline_primitives.h>); copy with ordinary assignments"
