/* mma.h - refused by name: softgpu-cc does not have what NVIDIA's header gives. */
#error "softgpu-cc does not support tensor core intrinsics (wmma) (<mma.h>); write the product as loops, or call cuBLAS"
