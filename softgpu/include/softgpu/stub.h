/*
 * stub.h - from the address of a kernel, as a program knows it, to its image.
 *
 * `&kernel` in a program compiled by softgpu-cc is the address of a host function, the stub: calling it is what
 * `kernel<<<...>>>` does after the configuration is pushed. The runtime meets such addresses in cudaLaunchKernel,
 * cudaFuncGetAttributes, cudaFuncSetAttribute and the occupancy calls, and asks here what they stand for. Exported by
 * libsoftgpu.so. C and C++.
 */
#ifndef SOFTGPU_STUB_H
#define SOFTGPU_STUB_H

#include "softgpu/image.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The image of the kernel whose stub is at `stub`: static storage, never freed, the same pointer each time. NULL for
 * NULL.
 *
 * It is asked of the stub itself: the stub is called with a flag set in this thread that makes it answer and return
 * before it touches a parameter. So `stub` must be the address of a kernel, as CUDA demands too; the address of any
 * other function runs that function with parameters that are all zero. Any thread.
 */
const struct softgpu_image *softgpu_stub_image(const void *stub);

/* A __device__, __constant__ or __managed__ variable of the program: host memory that plays device memory. */
struct softgpu_variable {
    const char *name;
    void *address;
    size_t bytes;
    bool is_constant;              /* __constant__: kernels only read it */
    bool is_managed;               /* __managed__ */
    struct softgpu_variable *next; /* libsoftgpu's */
};

/* Makes a variable known for as long as its object is loaded; the struct stays the caller's and in place. Any thread.
 */
void softgpu_variable_add(struct softgpu_variable *variable);
void softgpu_variable_remove(struct softgpu_variable *variable);

/* Copies to *variable_p the variable that holds `address`; false if none does. Any thread. */
bool softgpu_variable_find(const void *address, struct softgpu_variable *variable_p);

/* The same by position, to walk all of them: false past the last. Variables may come and go between two calls. */
bool softgpu_variable_at(size_t position, struct softgpu_variable *variable_p);

#ifdef __cplusplus
}
#endif
#endif
