/*
 * launch.c - kernel launches in all their forms, and the occupancy questions that come before them.
 *
 * Parameters are copied when the launch is called, limits are checked as a GPU checks them, and the rest is a command.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRID_LIMIT_X = 0x7fffffff,
    GRID_LIMIT_YZ = 65535,
    BLOCK_LIMIT_Z = 64,
    PARAM_ALIGNMENT = 64, /* at least that of any parameter */
    THREADS_PER_MULTIPROCESSOR = 2048,
    BLOCKS_PER_MULTIPROCESSOR = 32,
    CLUSTER_LIMIT = 16, /* of an H100, which takes more than 8 where the kernel's attribute allows it */
};

struct launch_command {
    struct command command;
    struct kernel *kernel;
    const struct softgpu_image *image;
    struct softgpu_launch launch;
    uint64_t block_count;
    const void *args[]; /* then, aligned, the parameters */
};

static void
run_launch(struct command *command, struct stream *stream)
{
    struct launch_command *launch = (struct launch_command *)command;
    if (atomic_load(&stream->context->failure) != CUDA_SUCCESS) {
        return;
    }
    launch->launch.draw = unruly_draw(stream);
    bool shared = (launch->image->flags & SOFTGPU_IMAGE_WHOLE_GRID) != 0;
    strict_begin(shared);
    workers_run(stream->context, launch->image, &launch->launch, launch->block_count);
    strict_end(shared, stream->context, launch->image->name);
}

/* ---- checks ---- */

static CUresult
check_size(const struct kernel *kernel, const CUlaunchConfig *config)
{
    REQUIRE(config->gridDimX != 0 && config->gridDimY != 0 && config->gridDimZ != 0 && config->blockDimX != 0 &&
            config->blockDimY != 0 && config->blockDimZ != 0);
    REQUIRE(config->gridDimX <= GRID_LIMIT_X && config->gridDimY <= GRID_LIMIT_YZ && config->gridDimZ <= GRID_LIMIT_YZ);
    REQUIRE(config->blockDimX <= THREADS_PER_BLOCK && config->blockDimY <= THREADS_PER_BLOCK &&
            config->blockDimZ <= BLOCK_LIMIT_Z);
    unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    REQUIRE(threads <= THREADS_PER_BLOCK);
    REQUIRE_ELSE(threads <= kernel_thread_limit(kernel), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); /* __launch_bounds__ */
    return config->sharedMemBytes > (unsigned)kernel_shared_limit(kernel) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A grid whose blocks may wait for each other is as large as the device can hold. */
static CUresult
check_cooperative(struct kernel *kernel, const struct softgpu_launch *launch)
{
    int blocks;
    TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (CUfunction)&kernel->function,
                                                    (int)(launch->block[0] * launch->block[1] * launch->block[2]),
                                                    launch->dynamic_shared_bytes));
    REQUIRE_ELSE(launch->block_end <= (uint64_t)blocks * (uint64_t)driver.profile->multiprocessors,
                 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return CUDA_SUCCESS;
}

/* The grid of a cooperative launch, or a cluster, is a group of blocks that may wait for each other. */
static CUresult
set_group(struct kernel *kernel, const CUlaunchAttribute *attribute, struct softgpu_launch *launch)
{
    const unsigned *shape = launch->grid;
    const unsigned cluster[] = {attribute->value.clusterDim.x, attribute->value.clusterDim.y,
                                attribute->value.clusterDim.z};
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        if (attribute->value.cooperative == 0) {
            return CUDA_SUCCESS;
        }
        TRY(check_cooperative(kernel, launch));
        launch->cooperative = true;
    } else {
        shape = cluster;
        for (int i = 0; i < 3; ++i) {
            REQUIRE_ELSE(shape[i] > 0 && launch->grid[i] % shape[i] == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
        }
        REQUIRE_ELSE((uint64_t)shape[0] * shape[1] * shape[2] <= CLUSTER_LIMIT, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    if (launch->group[0] != 0) {
        say("kernel %s: clusters in a cooperative launch are not supported", kernel->image->name);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    memcpy(launch->group, shape, sizeof(launch->group));
    return CUDA_SUCCESS;
}

/* Attributes that only advise are passed over; those that would change what the program observes are refused by name.
 */
static CUresult
check_attributes(struct kernel *kernel, const CUlaunchConfig *config, struct softgpu_launch *launch)
{
    REQUIRE(config->numAttrs == 0 || config->attrs != NULL);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        const char *refused = NULL;
        switch (attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            TRY(set_group(kernel, attribute, launch));
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            refused = "programmatic events";
            break;
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            refused = "launch completion events";
            break;
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
            refused = "graph nodes updated by the device";
            break;
        default:
            REQUIRE((unsigned)attribute->id < CU_LAUNCH_ATTRIBUTE_MAX);
            break;
        }
        if (refused != NULL) {
            say("kernel %s: %s are not supported", kernel->image->name, refused);
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

/* ---- parameters ---- */

/* The one block of memory of `extra`: { POINTER, p, SIZE, &bytes, END }. */
static CUresult
read_extra(void **extra, const unsigned char **block_p, size_t *bytes_p)
{
    const unsigned char *block = NULL;
    const size_t *bytes = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            block = extra[1];
        } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            bytes = extra[1];
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    REQUIRE(block != NULL && bytes != NULL);
    *block_p = block;
    *bytes_p = *bytes;
    return CUDA_SUCCESS;
}

static CUresult
copy_parameters(const struct kernel *kernel, unsigned char *to, void **parameters, void **extra)
{
    const struct softgpu_image *image = kernel->image;
    REQUIRE(parameters == NULL || extra == NULL);
    if (extra != NULL) {
        const unsigned char *block;
        size_t bytes;
        TRY(read_extra(extra, &block, &bytes));
        REQUIRE(bytes >= kernel->param_bytes);
        memcpy(to, block, kernel->param_bytes);
        return CUDA_SUCCESS;
    }
    REQUIRE(parameters != NULL || image->param_count == 0);
    for (uint32_t i = 0; i < image->param_count; ++i) {
        REQUIRE(parameters[i] != NULL);
        memcpy(to + image->params[i].offset, parameters[i], image->params[i].bytes);
    }
    return CUDA_SUCCESS;
}

static CUresult
make_command(struct kernel *kernel, const struct softgpu_launch *shape, void **parameters, void **extra,
             struct launch_command **launch_p)
{
    const struct softgpu_image *image = kernel->image;
    size_t fixed_bytes = sizeof(struct launch_command) + image->param_count * sizeof(void *);
    struct launch_command *launch = command_new(fixed_bytes + PARAM_ALIGNMENT + kernel->param_bytes, run_launch);
    REQUIRE_ELSE(launch != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    uintptr_t block = ((uintptr_t)launch + fixed_bytes + PARAM_ALIGNMENT - 1) & ~(uintptr_t)(PARAM_ALIGNMENT - 1);
    CUresult result = copy_parameters(kernel, (unsigned char *)block, parameters, extra);
    if (result != CUDA_SUCCESS) {
        command_drop(launch);
        return result;
    }
    for (uint32_t i = 0; i < image->param_count; ++i) {
        launch->args[i] = (const void *)(block + image->params[i].offset);
    }
    launch->command.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
    launch->kernel = kernel;
    launch->image = image;
    launch->launch = *shape;
    launch->launch.args = launch->args;
    launch->block_count = shape->block_end;
    *launch_p = launch;
    return CUDA_SUCCESS;
}

/* ---- the API ---- */

CUresult
launch_command_new(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra,
                   struct command **command_p)
{
    struct kernel *kernel;
    TRY(kernel_from_function(function, &kernel));
    TRY(check_size(kernel, config));
    struct softgpu_launch shape = {
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .dynamic_shared_bytes = config->sharedMemBytes,
        .block_end = (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ,
    };
    TRY(check_attributes(kernel, config, &shape));
    struct launch_command *command;
    TRY(make_command(kernel, &shape, parameters, extra, &command));
    *command_p = &command->command;
    return CUDA_SUCCESS;
}

void
launch_command_inherit(struct command *command, const struct command *before)
{
    struct softgpu_launch *launch = &((struct launch_command *)command)->launch;
    const struct softgpu_launch *old = &((const struct launch_command *)before)->launch;
    launch->cooperative = old->cooperative;
    if (old->cooperative || memcmp(old->grid, launch->grid, sizeof(old->grid)) == 0) {
        memcpy(launch->group, old->cooperative ? launch->grid : old->group, sizeof(launch->group));
    }
}

void
launch_command_parameters(struct command *command, CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct launch_command *launch = (struct launch_command *)command;
    *parameters = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)&launch->kernel->function,
                                            .gridDimX = launch->launch.grid[0],
                                            .gridDimY = launch->launch.grid[1],
                                            .gridDimZ = launch->launch.grid[2],
                                            .blockDimX = launch->launch.block[0],
                                            .blockDimY = launch->launch.block[1],
                                            .blockDimZ = launch->launch.block[2],
                                            .sharedMemBytes = (unsigned)launch->launch.dynamic_shared_bytes,
                                            .kernelParams = (void **)launch->args};
}

/* "Loading a kernel might require context synchronization" (CUDA programming guide, "Lazy Loading"): under
 * SOFTGPU_UNRULY it does, but for kernels of libraries, which load theirs before. */
static void
load(struct kernel *kernel, struct stream *stream)
{
    if (kernel_load(kernel) && (kernel->image->flags & SOFTGPU_IMAGE_WHOLE_GRID) == 0 && !capture_is_on(stream))
        (void)!context_drain(stream->context);
}

static CUresult
launch(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra, enum flavour flavour)
{
    struct stream *stream;
    struct command *command;
    uint64_t number = 0; /* stays 0 where the stream is captured */
    TRY(stream_enter(config->hStream, flavour, &stream));
    TRY(launch_command_new(config, function, parameters, extra, &command));
    load(((struct launch_command *)command)->kernel, stream);
    TRY(stream_submit(stream, command, &number));
    if (driver.launches_block && number != 0) {
        stream_wait(stream, number);
        return (CUresult)atomic_load(&stream->context->failure);
    }
    return CUDA_SUCCESS;
}

#define CONFIG(gx, gy, gz, bx, by, bz, shared, stream, ...) \
    (&(CUlaunchConfig){.gridDimX = (gx),                    \
                       .gridDimY = (gy),                    \
                       .gridDimZ = (gz),                    \
                       .blockDimX = (bx),                   \
                       .blockDimY = (by),                   \
                       .blockDimZ = (bz),                   \
                       .sharedMemBytes = (shared),          \
                       .hStream = (stream),                 \
                       __VA_ARGS__})

BOTH_FLAVOURS(cuLaunchKernel, _ptsz,
              (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
               unsigned int bz, unsigned int shared, CUstream stream, void **parameters, void **extra),
              launch(CONFIG(gx, gy, gz, bx, by, bz, shared, stream), function, parameters, extra, flavour))

BOTH_FLAVOURS(cuLaunchCooperativeKernel, _ptsz,
              (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
               unsigned int bz, unsigned int shared, CUstream stream, void **parameters),
              launch(CONFIG(gx, gy, gz, bx, by, bz, shared, stream,
                            .attrs = &(CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                                          .value.cooperative = 1},
                            .numAttrs = 1),
                     function, parameters, NULL, flavour))

BOTH_FLAVOURS(cuLaunchKernelEx, _ptsz,
              (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
              config == NULL ? CUDA_ERROR_INVALID_VALUE : launch(config, function, parameters, extra, flavour))

/* ---- occupancy: by threads and shared memory of the profile ---- */

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, CUfunction function, int block_threads,
                                                     size_t dynamic_bytes, unsigned int flags)
{
    struct kernel *kernel;
    TRY(driver_enter());
    TRY(kernel_from_function(function, &kernel));
    REQUIRE(count != NULL && block_threads > 0 && (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) == 0);
    size_t shared = dynamic_bytes + kernel->image->static_shared_bytes;
    unsigned threads = ((unsigned)block_threads + 31) / 32 * 32;
    if ((unsigned)block_threads > kernel_thread_limit(kernel) || shared > (size_t)driver.profile->shared_bytes_opt_in) {
        *count = 0;
        return CUDA_SUCCESS;
    }
    unsigned by_threads = THREADS_PER_MULTIPROCESSOR / threads;
    size_t each = shared + (size_t)driver.profile->shared_bytes_reserved;
    size_t by_shared = each > 0 ? (size_t)driver.profile->shared_bytes_per_multiprocessor / each : SIZE_MAX;
    unsigned least = by_threads < by_shared ? by_threads : (unsigned)by_shared;
    *count = (int)(least < BLOCKS_PER_MULTIPROCESSOR ? least : BLOCKS_PER_MULTIPROCESSOR);
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int block_threads, size_t dynamic_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, block_threads, dynamic_bytes, 0);
}

CUresult
cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid_blocks, int *block_threads, CUfunction function,
                                          CUoccupancyB2DSize dynamic_of_block, size_t dynamic_bytes, int limit,
                                          unsigned int flags)
{
    struct kernel *kernel;
    TRY(driver_enter());
    TRY(kernel_from_function(function, &kernel));
    REQUIRE(grid_blocks != NULL && block_threads != NULL);
    int most = (int)kernel_thread_limit(kernel), best_threads = 0, best_blocks = 0;
    most = limit > 0 && limit < most ? limit : most;
    /* From large to small blocks in steps of a warp: the first that keeps most threads busy. */
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
        int blocks, tried = threads < most ? threads : most;
        size_t dynamic = dynamic_of_block != NULL ? dynamic_of_block(tried) : dynamic_bytes;
        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, tried, dynamic, flags));
        if (blocks * tried > best_blocks * best_threads) {
            best_threads = tried;
            best_blocks = blocks;
        }
    }
    *block_threads = best_threads;
    *grid_blocks = best_blocks * driver.profile->multiprocessors;
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxPotentialBlockSize(int *grid_blocks, int *block_threads, CUfunction function,
                                 CUoccupancyB2DSize dynamic_of_block, size_t dynamic_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid_blocks, block_threads, function, dynamic_of_block,
                                                     dynamic_bytes, limit, 0);
}

CUresult
cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic_bytes, CUfunction function, int blocks, int block_threads)
{
    struct kernel *kernel;
    TRY(driver_enter());
    TRY(kernel_from_function(function, &kernel));
    REQUIRE(dynamic_bytes != NULL && blocks > 0 && block_threads > 0);
    const struct profile *profile = driver.profile;
    size_t share = (size_t)profile->shared_bytes_per_multiprocessor / (unsigned)blocks;
    size_t fixed = kernel->image->static_shared_bytes, reserved = (size_t)profile->shared_bytes_reserved;
    share = share > reserved ? share - reserved : 0;
    share = share < (size_t)profile->shared_bytes_opt_in ? share : (size_t)profile->shared_bytes_opt_in;
    *dynamic_bytes = share > fixed ? share - fixed : 0;
    return CUDA_SUCCESS;
}
