/* curand_kernel.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error "softgpu-cc does not support the device functions of cuRAND (<curand_kernel.h>); draw the numbers on the host"
