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

static const struct named_kernel kernels[] = {
    {"ddprun_chunks", (const void *)ddprun_chunks},
    {"ddprun_pack", (const void *)ddprun_pack},
    {"ddprun_unpack", (const void *)ddprun_unpack},
    {"ddprun_pack_float16", (const void *)ddprun_pack_float16},
    {"ddprun_unpack_float16", (const void *)ddprun_unpack_float16},
    {"ddprun_pack_bfloat16", (const void *)ddprun_pack_bfloat16},
    {"ddprun_unpack_bfloat16", (const void *)ddprun_unpack_bfloat16},
    {"ddprun_scale_float32", (const void *)ddprun_scale_float32},
    {"ddprun_scale_float64", (const void *)ddprun_scale_float64},
    {"ddprun_scale_float16", (const void *)ddprun_scale_float16},
    {"ddprun_scale_bfloat16", (const void *)ddprun_scale_bfloat16},
    {"ddprun_pack_scaled_bfloat16", (const void *)ddprun_pack_scaled_bfloat16},
    {"ddprun_unpack_scaled_bfloat16", (const void *)ddprun_unpack_scaled_bfloat16},
    {"ddprun_pack_scaled_float16", (const void *)ddprun_pack_scaled_float16},
    {"ddprun_unpack_scaled_float16", (const void *)ddprun_unpack_scaled_float16},
    {"ddprun_pack_scaled_float64", (const void *)ddprun_pack_scaled_float64},
    {"ddprun_unpack_scaled_float64", (const void *)ddprun_unpack_scaled_float64},
    {"ddprun_pack_scaled_float32", (const void *)ddprun_pack_scaled_float32},
    {"ddprun_unpack_scaled_float32", (const void *)ddprun_unpack_scaled_float32},
    {"ddprun_outer_float32", (const void *)ddprun_outer_float32},
    {"ddprun_outer_float64", (const void *)ddprun_outer_float64},
    {"ddprun_outer_float16", (const void *)ddprun_outer_float16},
    {"ddprun_outer_bfloat16", (const void *)ddprun_outer_bfloat16},
    {"ddprun_anchor_float32", (const void *)ddprun_anchor_float32},
    {"ddprun_anchor_float64", (const void *)ddprun_anchor_float64},
    {"ddprun_anchor_float16", (const void *)ddprun_anchor_float16},
    {"ddprun_anchor_bfloat16", (const void *)ddprun_anchor_bfloat16},
    {"ddprun_compare_values_float32", (const void *)ddprun_compare_values_float32},
    {"ddprun_compare_values_float64", (const void *)ddprun_compare_values_float64},
    {"ddprun_compare_values_float16", (const void *)ddprun_compare_values_float16},
    {"ddprun_compare_values_bfloat16", (const void *)ddprun_compare_values_bfloat16},
    {"ddprun_sample_values_float32", (const void *)ddprun_sample_values_float32},
    {"ddprun_sample_values_float64", (const void *)ddprun_sample_values_float64},
    {"ddprun_sample_values_float16", (const void *)ddprun_sample_values_float16},
    {"ddprun_sample_values_bfloat16", (const void *)ddprun_sample_values_bfloat16},
    {"ddprun_hash", (const void *)ddprun_hash},
    {"ddprun_compare", (const void *)ddprun_compare},
    {"ddprun_nonfinite", (const void *)ddprun_nonfinite},
};

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
