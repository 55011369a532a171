/* curand_mtgp32.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error \
    "softgpu-cc does not support <curand_mtgp32.h>; <curand_kernel.h> has XORWOW and Philox with uniform and normal numbers"
