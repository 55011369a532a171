/*
 * test_kernel.c - kernels through the driver: what they are given, how they are asked about, which launches are
 * refused.
 *
 * Run with SOFTGPU_WORKERS of 1 and more: a launch's blocks are run exactly once each, whichever worker runs them.
 */
#include "kernels.h"

#include "tests/lib/test.h"

/* What mixed_image is given, and writes. */
static struct mixed seen, *out = &seen;
static char char_given = 'x';
static double double_given = 2.5;
static struct {
    char text[24];
} text_given = {"by value"};
static short short_given = -7;
static void *mixed_args[] = {&char_given, &double_given, &text_given, &short_given, &out};

static CUkernel
load_kernel(CUlibrary *library, const struct softgpu_image *image)
{
    CUkernel kernel;
    OK(cuLibraryLoadData(library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, *library, image->name));
    return kernel;
}

static void
check_mixed(void)
{
    ck_assert_int_eq(seen.a, 'x');
    ck_assert_double_eq(seen.b, 2.5);
    ck_assert_str_eq(seen.text, "by value");
    ck_assert_int_eq(seen.d, -7);
    ck_assert(seen.aligned);
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

TEST(parameters_arrive_as_they_were_at_the_call)
{
    CUfunction function = load_function(&mixed_image);
    memset(&seen, 0, sizeof seen);
    static atomic_int open;
    atomic_store(&open, 0);
    launch_one(load_function(&gate_image), NULL, &open);
    OK(cuLaunchKernel(function, 3, 4, 5, 6, 7, 8, 1000, NULL, mixed_args, NULL));
    char_given = 'y', double_given = 0, short_given = 0, text_given.text[0] = '\0'; /* copied at the launch */
    atomic_store(&open, 1);
    OK(cuCtxSynchronize());
    char_given = 'x', double_given = 2.5, short_given = -7, text_given.text[0] = 'b';
    check_mixed();
    ck_assert_uint_eq(seen.blocks_seen, 60);
    ck_assert_uint_eq(seen.grid[0] * 100 + seen.grid[1] * 10 + seen.grid[2], 345);
    ck_assert_uint_eq(seen.block[0] * 100 + seen.block[1] * 10 + seen.block[2], 678);
    ck_assert_uint_eq(seen.dynamic_shared_bytes, 1000);
}

TEST(parameters_arrive_from_one_buffer)
{
    CUfunction function = load_function(&mixed_image);
    unsigned char buffer[56] = {0};
    size_t bytes = sizeof buffer;
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < mixed_image.param_count; ++i)
        memcpy(buffer + mixed_image.params[i].offset, mixed_args[i], mixed_image.params[i].bytes);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    check_mixed();
    bytes = 40; /* too few */
    ck_assert_int_eq(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(parameters_can_be_asked_for)
{
    CUlibrary library;
    CUkernel kernel = load_kernel(&library, &mixed_image), other;
    CUfunction function;
    ck_assert_int_eq(cuLibraryGetKernel(&other, library, "other"), CUDA_ERROR_NOT_FOUND);
    OK(cuKernelGetFunction(&function, kernel));
    for (size_t i = 0; i < mixed_image.param_count; ++i) {
        size_t offset, bytes;
        OK(cuFuncGetParamInfo(function, i, &offset, &bytes));
        ck_assert_uint_eq(offset, mixed_image.params[i].offset);
        ck_assert_uint_eq(bytes, mixed_image.params[i].bytes);
        OK(cuKernelGetParamInfo(kernel, i, &offset, NULL));
        ck_assert_uint_eq(offset, mixed_image.params[i].offset);
    }
    size_t offset, bytes;
    ck_assert_int_eq(cuFuncGetParamInfo(function, 5, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    const char *name;
    OK(cuFuncGetName(&name, function));
    ck_assert_str_eq(name, "mixed");
    OK(cuKernelGetName(&name, kernel));
    ck_assert_str_eq(name, "mixed");
    CUmodule module;
    CUfunction same;
    OK(cuModuleLoadData(&module, &mixed_image));
    OK(cuModuleGetFunction(&same, module, "mixed"));
    OK(cuModuleUnload(module));
    ck_assert_int_eq(cuFuncGetName(&name, same), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLibraryUnload(library));
    ck_assert_int_eq(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_question_takes_its_own_kind_of_handle)
{
    CUlibrary library;
    CUkernel kernel = load_kernel(&library, &mixed_image), enumerated;
    CUfunction function, in_module;
    CUmodule module;
    OK(cuLibraryEnumerateKernels(&enumerated, 1, library));
    ck_assert_ptr_eq(enumerated, kernel);
    OK(cuKernelGetFunction(&function, kernel));
    ck_assert_ptr_ne((void *)function, (void *)kernel);
    OK(cuLibraryGetModule(&module, library));
    OK(cuModuleGetFunction(&in_module, module, "mixed"));
    ck_assert_ptr_ne((void *)in_module, (void *)kernel);

    CUfunction kernel_cast = (CUfunction)kernel;
    CUkernel function_cast = (CUkernel)function;
    size_t offset, bytes;
    const char *name;
    int value;
    CUfunctionLoadingState state;
    const int attribute = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    const int carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    const CUresult refused[] = {
        cuFuncGetParamInfo(kernel_cast, 0, &offset, &bytes),
        cuFuncGetParamInfo(kernel_cast, mixed_image.param_count, &offset, &bytes),
        cuFuncGetName(&name, kernel_cast),
        cuFuncGetModule(&module, kernel_cast),
        cuFuncLoad(kernel_cast),
        cuFuncIsLoaded(&state, kernel_cast),
        cuFuncGetAttribute(&value, attribute, kernel_cast),
        cuFuncSetAttribute(kernel_cast, carveout, 50),
        cuFuncSetCacheConfig(kernel_cast, CU_FUNC_CACHE_PREFER_NONE),
        cuKernelGetParamInfo(function_cast, 0, &offset, &bytes),
        cuKernelGetParamInfo(function_cast, mixed_image.param_count, &offset, &bytes),
        cuKernelGetName(&name, function_cast),
        cuKernelGetLibrary(&library, function_cast),
        cuKernelGetFunction(&in_module, function_cast),
        cuKernelGetAttribute(&value, attribute, function_cast, 0),
        cuKernelSetAttribute(carveout, 50, function_cast, 0),
        cuKernelSetCacheConfig(function_cast, CU_FUNC_CACHE_PREFER_NONE, 0),
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i)
        ck_assert_msg(refused[i] == CUDA_ERROR_INVALID_HANDLE, "call %zu: %d", i, (int)refused[i]);
    OK(cuFuncGetAttribute(&value, attribute, function));
    OK(cuKernelGetAttribute(&value, attribute, kernel, 0));
    OK(cuKernelSetAttribute(carveout, 50, kernel, 0));

    /* Questions about occupancy take both, and so do launches and nodes of graphs. */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel_cast, 64, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 64, 0));
    CUgraph graph;
    CUgraphNode node;
    const CUDA_KERNEL_NODE_PARAMS nodes[] = {{.func = function}, {.func = kernel_cast}, {.kern = kernel}};
    OK(cuGraphCreate(&graph, 0));
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; ++i) {
        CUDA_KERNEL_NODE_PARAMS one = nodes[i];
        one.gridDimX = one.gridDimY = one.gridDimZ = one.blockDimX = one.blockDimY = one.blockDimZ = 1;
        one.kernelParams = mixed_args;
        OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &one));
    }
    OK(cuLaunchKernel(kernel_cast, 1, 1, 1, 1, 1, 1, 0, NULL, mixed_args, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, mixed_args, NULL));
    OK(cuCtxSynchronize());
    OK(cuGraphDestroy(graph));
}

/* Of a device, a context, a function and a module; an error that comes before that is returned. */
TEST(an_answer_without_a_place_is_an_invalid_value)
{
    CUfunction function = load_function(&mixed_image);
    ck_assert_int_eq(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuDeviceTotalMem(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuDeviceTotalMem(NULL, -1), CUDA_ERROR_INVALID_DEVICE);
    ck_assert_int_eq(cuCtxGetFlags(NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuCtxGetApiVersion(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuFuncGetModule(NULL, function), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuFuncGetModule(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuModuleGetLoadingMode(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(every_block_runs_once)
{
    enum { COUNT = 100000 };
    CUfunction add = load_function(&add_image);
    CUdeviceptr device = device_memory(COUNT * sizeof(float));
    float *host = calloc(COUNT, sizeof *host), by = 1;
    unsigned count = COUNT;
    OK(cuMemcpyHtoD(device, host, COUNT * sizeof *host));
    void *args[] = {&device, &by, &count};
    for (int i = 0; i < 20; ++i)
        OK(cuLaunchKernel(add, (COUNT + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(host, device, COUNT * sizeof *host));
    for (int i = 0; i < COUNT; ++i)
        ck_assert_float_eq(host[i], 20);
    /* A whole-grid kernel is one call, however many blocks and workers there are. */
    atomic_int calls = 0, *pointer = &calls;
    void *whole_args[] = {&pointer};
    OK(cuLaunchKernel(load_function(&whole_image), 1000, 1, 1, 1, 1, 1, 0, NULL, whole_args, NULL));
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&calls), 1);
    OK(cuMemFree(device));
    free(host);
}

TEST(all_ways_to_launch_reach_the_kernel)
{
    CUfunction whole = load_function(&whole_image);
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    OK(cuLaunchCooperativeKernel(whole, 1, 1, 1, 1, 1, 1, 0, NULL, args));
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    OK(cuLaunchKernelEx(&config, whole, args, NULL));
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cuLaunchKernelEx(&config, whole, args, NULL));
    attribute = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
    ck_assert_int_eq(cuLaunchKernelEx(&config, whole, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CUlibrary library;
    OK(cuLaunchKernel((CUfunction)load_kernel(&library, &whole_image), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&calls), 4);
}

static CUresult
try_launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared)
{
    CUresult result = cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, NULL, NULL, NULL);
    OK(cuCtxSynchronize());
    return result;
}

TEST(launches_that_a_gpu_refuses_are_refused)
{
    CUfunction bounded = load_function(&bounded_image);
    OK(try_launch(bounded, 1, 1, 1, 128, 1, 1, 0));
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 129, 1, 1, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 1025, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 32, 32, 2, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 0, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 1, 65536, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(try_launch(bounded, 0x80000000u, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    /* Shared memory: 48 KiB less what the kernel has itself, more on request. */
    OK(try_launch(bounded, 1, 1, 1, 1, 1, 1, (48 << 10) - 1000));
    ck_assert_int_eq(try_launch(bounded, 1, 1, 1, 1, 1, 1, (48 << 10) - 999), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
    OK(try_launch(bounded, 1, 1, 1, 1, 1, 1, 100 << 10));
    ck_assert_int_eq(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    int value;
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded));
    ck_assert_int_eq(value, 128);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, bounded));
    ck_assert_int_eq(value, 1000);
}

TEST(occupancy_is_plausible)
{
    CUfunction whole = load_function(&whole_image), bounded = load_function(&bounded_image);
    int blocks, threads, grid;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, whole, 1024, 0));
    ck_assert_int_eq(blocks, 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, whole, 32, 0));
    ck_assert_int_eq(blocks, 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, whole, 256, 100 << 10));
    ck_assert_int_eq(blocks, 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 256, 0));
    ck_assert_int_eq(blocks, 0);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, whole, NULL, 0, 0));
    ck_assert_int_eq(threads, 1024);
    ck_assert_int_eq(grid, 264);
}

TEST(code_for_a_gpu_is_refused_by_name)
{
    const unsigned fatbin[64] = {0xba55ed50};
    CUlibrary library = NULL;
    CUmodule module = NULL;
    ck_assert_int_eq(cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_int_eq(cuModuleLoadData(&module, fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
    struct softgpu_image newer = whole_image;
    newer.version += 1;
    ck_assert_int_eq(cuLibraryLoadData(&library, &newer, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_IMAGE);
    ck_assert_ptr_null(library);
}

/* Last in its process: the device is lost for good, until it is reset. */
TEST(a_failed_kernel_loses_the_context)
{
    CUfunction fail = load_function(&fail_image), whole = load_function(&whole_image);
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    CUdeviceptr device;
    OK(cuLaunchKernel(fail, 4, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); /* the launch itself succeeds */
    (void)!cuLaunchKernel(whole, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_ERROR_ASSERT);
    ck_assert_int_eq(cuMemAlloc(&device, 8), CUDA_ERROR_ASSERT);
    ck_assert_int_eq(cuStreamSynchronize(NULL), CUDA_ERROR_ASSERT);
    ck_assert_int_eq(cuLaunchKernel(whole, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_ASSERT);
    ck_assert_int_eq(atomic_load(&calls), 0); /* what was enqueued after it never runs */
    (void)!cuDevicePrimaryCtxReset(0);
    device = device_memory(8);
}
