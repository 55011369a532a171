/*
 * stand_in.cu - the kernels as a library for the stand-in: built by softgpu-cc, opened by comm/kernels.c, as
 * comm/kernels/stand_in.cu is.
 */
#define DDPRUN_STAND_IN 1
#include "tools/plan/trainer/kernels/kernels.cu"

#include <softgpu/stub.h>

/* What cuModuleLoadData takes for the kernel; NULL for an unknown name. */
extern "C" __attribute__((visibility("default"))) const void *
ddprun_kernel_image(const char *name)
{
    static const struct {
        const char *name;
        const void *stub;
    } kernels[] = {{"ddprun_state_keep", (const void *)ddprun_state_keep},
                   {"ddprun_state_return", (const void *)ddprun_state_return},
                   {"ddprun_state_change", (const void *)ddprun_state_change},
                   {"ddprun_state_divide", (const void *)ddprun_state_divide},
                   {"ddprun_state_apply", (const void *)ddprun_state_apply}};
    for (const auto &kernel : kernels) {
        if (strcmp(kernel.name, name) == 0)
            return softgpu_stub_image(kernel.stub);
    }
    return nullptr;
}
