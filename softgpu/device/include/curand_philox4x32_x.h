/* curand_philox4x32_x.h - a part of NVIDIA's <curand_kernel.h>; ours is in one piece. */
#pragma GCC system_header
#include <curand_kernel.h>
