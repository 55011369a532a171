/*
 * launch.c - kernel launches: of programs, and in the form that compilers generate (a configuration pushed, then popped
 * by the stub).
 */
#include "runtime.h"

#include <stdint.h>

/* ---- launches: the CUkernel goes to the driver in a CUfunction's place ---- */

/*
 * The runtime has an error of its own for a grid or a block that no GPU takes, where the driver says "invalid value" as
 * for anything else, such as too much shared memory.
 */
static cudaError_t
launch_error(cudaError_t error, dim3 grid, dim3 block)
{
    enum { BLOCK_THREADS = 1024, BLOCK_Z = 64, GRID_YZ = 65535 };
    bool none = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
    bool large = (uint64_t)block.x * block.y > BLOCK_THREADS || (uint64_t)block.x * block.y * block.z > BLOCK_THREADS ||
                 block.z > BLOCK_Z || grid.x > INT32_MAX || grid.y > GRID_YZ || grid.z > GRID_YZ;
    return error == cudaErrorInvalidValue && (none || large) ? cudaErrorInvalidConfiguration : error;
}

static cudaError_t
launch(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream,
       enum flavour flavour)
{
    RUNTIME_DEEPER(launch(kernel, grid, block, arguments, shared_bytes, stream, flavour));
    CUkernel handle;
    TRY(kernel_handle(kernel, &handle));
    REQUIRE(shared_bytes <= UINT32_MAX);
    CUresult result = STREAM_CALL(cuLaunchKernel)((CUfunction)handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                  (unsigned)shared_bytes, stream, arguments, NULL);
    return finish(launch_error(from_driver(result), grid, block));
}
BOTH_FLAVOURS(cudaLaunchKernel, _ptsz,
              (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream),
              launch(kernel, grid, block, arguments, shared_bytes, stream, flavour))

static cudaError_t
launch_cooperative(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                   cudaStream_t stream, enum flavour flavour)
{
    CUkernel handle;
    TRY(kernel_handle(kernel, &handle));
    REQUIRE(shared_bytes <= UINT32_MAX);
    CUresult result =
        STREAM_CALL(cuLaunchCooperativeKernel)((CUfunction)handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                               (unsigned)shared_bytes, stream, arguments);
    return finish(launch_error(from_driver(result), grid, block));
}
BOTH_FLAVOURS(cudaLaunchCooperativeKernel, _ptsz,
              (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream),
              launch_cooperative(kernel, grid, block, arguments, shared_bytes, stream, flavour))

static cudaError_t
launch_ex(const cudaLaunchConfig_t *config, const void *kernel, void **arguments, enum flavour flavour)
{
    CUkernel handle;
    REQUIRE(config != NULL);
    TRY(kernel_handle(kernel, &handle));
    REQUIRE(config->dynamicSmemBytes <= UINT32_MAX);
    CUlaunchConfig passed = {.gridDimX = config->gridDim.x,
                             .gridDimY = config->gridDim.y,
                             .gridDimZ = config->gridDim.z,
                             .blockDimX = config->blockDim.x,
                             .blockDimY = config->blockDim.y,
                             .blockDimZ = config->blockDim.z,
                             .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                             .hStream = config->stream,
                             .attrs = (CUlaunchAttribute *)config->attrs,
                             .numAttrs = config->numAttrs};
    CUresult result = STREAM_CALL(cuLaunchKernelEx)(&passed, (CUfunction)handle, arguments, NULL);
    return finish(launch_error(from_driver(result), config->gridDim, config->blockDim));
}
BOTH_FLAVOURS(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),
              launch_ex(config, kernel, arguments, flavour))

/* ---- what compilers generate calls of (declared in crt/host_runtime.h and crt/device_functions.h, for C++ only) ----
 */

enum { CONFIGURATION_LIMIT = 64 }; /* launches inside arguments of launches */

static _Thread_local struct {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
} configurations[CONFIGURATION_LIMIT];
static _Thread_local unsigned configuration_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    cudaStream_t stream);

/* Not 0: the launch does not happen. */
unsigned
__cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    if (configuration_count == CONFIGURATION_LIMIT) {
        finish(cudaErrorLaunchFailure);
        return 1;
    }
    configurations[configuration_count].grid = grid;
    configurations[configuration_count].block = block;
    configurations[configuration_count].shared_bytes = shared_bytes;
    configurations[configuration_count].stream = stream;
    ++configuration_count;
    return 0;
}

/* `stream` is where a cudaStream_t goes. */
cudaError_t
__cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    if (configuration_count == 0) {
        return finish(cudaErrorMissingConfiguration);
    }
    --configuration_count;
    *grid = configurations[configuration_count].grid;
    *block = configurations[configuration_count].block;
    *shared_bytes = configurations[configuration_count].shared_bytes;
    *(void **)stream = configurations[configuration_count].stream;
    return cudaSuccess;
}

/* Code from nvcc asks for a handle before it launches and looks at no error: the launch itself tells. */
cudaError_t
__cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    *kernel = (cudaKernel_t)stub;
    return cudaSuccess;
}

cudaError_t
__cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                   cudaStream_t stream)
{
    return launch(kernel, grid, block, arguments, shared_bytes, stream, LEGACY);
}

cudaError_t
__cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                        cudaStream_t stream)
{
    return launch(kernel, grid, block, arguments, shared_bytes, stream, PER_THREAD);
}
