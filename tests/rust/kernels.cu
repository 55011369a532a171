/* kernels.cu - the kernels of the example of interpose/rust as a library of the stand-in, whose driver takes images for
 * modules. */
#include "../../interpose/rust/examples/driver/kernels.cu"

#include <softgpu/stub.h>
#include <string.h>

#define KERNEL(name)              \
    {                             \
#name, (const void *)name \
    }

extern "C" const void *
kernel_image(const char *name)
{
    static const struct {
        const char *name;
        const void *kernel;
    } kernels[] = {KERNEL(forward), KERNEL(loss), KERNEL(backward_output), KERNEL(backward_hidden),
                   KERNEL(momentum_step)};
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); ++i) {
        if (strcmp(kernels[i].name, name) == 0)
            return softgpu_stub_image(kernels[i].kernel);
    }
    return NULL;
}
