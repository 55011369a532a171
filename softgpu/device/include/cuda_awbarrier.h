/* cuda_awbarrier.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error "softgpu-cc does not support asynchronous barriers (<cuda_awbarrier.h>); use __syncthreads"
