/*
 * stand_in.cu - the kernels as a library for the stand-in: built by softgpu-cc, opened by comm/kernels.c.
 *
 * Where a GPU's driver takes a fatbin with all kernels, the stand-in's takes an image of one kernel; this is where they
 * are had, by the kernel's name.
 */
#include <softgpu/convert.h>
#define DDPRUN_STAND_IN 1
#include "comm/kernels/kernels.cu"

#include <softgpu/stub.h>
#include <string.h>

struct named_kernel {
    const char *name;
    const void *stub;
};

#define KERNEL(name)  {#name, (const void *)(name)},
#define KERNELS(name) KERNEL(name##_float32) KERNEL(name##_float64) KERNEL(name##_float16) KERNEL(name##_bfloat16)

static const struct named_kernel kernels[] = {
    KERNEL(ddprun_chunks) KERNEL(ddprun_digest) KERNEL(ddprun_digest_float16) KERNEL(ddprun_digest_bfloat16)
        KERNELS(ddprun_digest_scaled) KERNEL(ddprun_pack) KERNEL(ddprun_unpack) KERNEL(ddprun_pack_float16)
            KERNEL(ddprun_unpack_float16) KERNEL(ddprun_pack_bfloat16) KERNEL(ddprun_unpack_bfloat16)
                KERNEL(ddprun_pack_widened) KERNEL(ddprun_digest_widened) KERNEL(ddprun_unpack_widened)
                    KERNELS(ddprun_scale) KERNELS(ddprun_pack_scaled) KERNELS(ddprun_unpack_scaled)
                        KERNELS(ddprun_compare_values) KERNELS(ddprun_sample_values) KERNEL(ddprun_hash)
                            KERNEL(ddprun_compare) KERNEL(ddprun_nonfinite)};

/* What cuModuleLoadData takes for the kernel; NULL for an unknown name. */
extern "C" __attribute__((visibility("default"))) const void *
ddprun_kernel_image(const char *name)
{
    for (const struct named_kernel &kernel : kernels) {
        if (strcmp(kernel.name, name) == 0)
            return softgpu_stub_image(kernel.stub);
    }
    return NULL;
}
