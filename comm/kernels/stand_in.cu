/*
 * stand_in.cu - the kernels of wire.cu as a library for the stand-in: built by softgpu-cc, opened by comm/kernels.c.
 *
 * Where a GPU's driver takes a fatbin with all kernels, the stand-in's takes an image of one kernel; this is where they
 * are had, by the kernel's name.
 */
#include "comm/kernels/wire.cu"

#include <softgpu/stub.h>
#include <string.h>

struct named_kernel {
    const char *name;
    const void *stub;
};

static const struct named_kernel kernels[] = {
    {"ddprun_pack", (const void *)ddprun_pack},
    {"ddprun_unpack", (const void *)ddprun_unpack},
    {"ddprun_pack_float16", (const void *)ddprun_pack_float16},
    {"ddprun_unpack_float16", (const void *)ddprun_unpack_float16},
    {"ddprun_pack_bfloat16", (const void *)ddprun_pack_bfloat16},
    {"ddprun_unpack_bfloat16", (const void *)ddprun_unpack_bfloat16},
};

/* What cuModuleLoadData takes for the kernel; NULL for a name that is none. */
extern "C" __attribute__((visibility("default"))) const void *
ddprun_kernel_image(const char *name)
{
    for (const struct named_kernel &kernel : kernels) {
        if (strcmp(kernel.name, name) == 0)
            return softgpu_stub_image(kernel.stub);
    }
    return NULL;
}
