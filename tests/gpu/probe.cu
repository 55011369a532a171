/*
 * probe.cu - what is so about the driver of this machine, for first.sh: probe WHAT. Each line of output is one thing:
 * its name, what ddprun expects, what is seen, and a verdict, with tabs between them.
 *
 *   driver       nothing but the context: says which CUDA driver and runtime serve
 *   addresses    where memory of each kind lies
 *   handle K     which parameter query takes which handle, K from 0 to 3: one a process, for a wrong handle may crash
 *   tensor-maps  whether an address stands raw in a tensor map
 *   reading      whether the process can read pinned and managed memory by plain loads and by system calls
 *   waits        which calls return while a kernel of another stream runs, as one of NCCL does that waits for its peers
 *   costs        nanoseconds of the driver's calls that ddprun makes beside the program's
 *
 * Driver functions are looked up by name, so that a driver that lacks one is a line of output.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4 << 20 };

__device__ float device_variable[1024];
__constant__ float constant_variable[16];
__managed__ float managed_variable[1024];

__global__ void
fill(float *out, float value, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = value;
}

static void
require(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "probe: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

template <class F>
static F
driver(const char *name)
{
    static void *library;
    if (library == NULL)
        library = dlopen("libcuda.so.1", RTLD_NOW);
    F found = library != NULL ? (F)dlsym(library, name) : (F)NULL;
    if (found == NULL)
        fprintf(stderr, "probe: no %s in libcuda.so.1\n", name);
    return found;
}
#define DRIVER(name) driver<__typeof__(&name)>(#name)

/* ---- addresses ---- */

enum place { ABOVE, BELOW, ANY }; /* of 0x700000000000 */

static void
print_address(const char *kind, enum place place, const void *address, cudaError_t error)
{
    static const char *const expected[] = {"near 0x7f0000000000", "near 0x302000000", "any"};
    if (error != cudaSuccess) {
        printf("address of %s\t%s\t%s\tnot run\n", kind, expected[place], cudaGetErrorString(error));
        (void)cudaGetLastError();
        return;
    }
    bool above = (uintptr_t)address >= UINT64_C(0x700000000000);
    printf("address of %s\t%s\t%p\t%s\n", kind, expected[place], address,
           place == ANY                ? "measured"
           : above == (place == ABOVE) ? "ok"
                                       : "differs");
}

static void
print_virtual(void)
{
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t granularity = 0;
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle chunks[2];
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    auto granularity_of = DRIVER(cuMemGetAllocationGranularity);
    auto reserve = DRIVER(cuMemAddressReserve);
    auto create = DRIVER(cuMemCreate);
    auto map = DRIVER(cuMemMap);
    auto set_access = DRIVER(cuMemSetAccess);
    auto range = driver<CUresult (*)(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange_v2");
    if (!granularity_of || !reserve || !create || !map || !set_access || !range ||
        granularity_of(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        reserve(&address, 2 * granularity, 0, 0, 0) != CUDA_SUCCESS) {
        print_address("virtual memory (cuMemAddressReserve)", ANY, NULL, cudaErrorNotSupported);
        return;
    }
    print_address("virtual memory (cuMemAddressReserve)", ANY, (void *)address, cudaSuccess);
    for (int i = 0; i < 2; ++i) {
        if (create(&chunks[i], granularity, &properties, 0) != CUDA_SUCCESS ||
            map(address + i * granularity, granularity, 0, chunks[i], 0) != CUDA_SUCCESS)
            return;
    }
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (set_access(address, 2 * granularity, &access, 1) == CUDA_SUCCESS &&
        range(&base, &bytes, address) == CUDA_SUCCESS)
        printf("range of virtual memory in two chunks\tone range for each chunk, %zu bytes\t%zu bytes\t%s\n",
               granularity, bytes, bytes == granularity ? "ok" : "differs");
}

static void
print_addresses(void)
{
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, BYTES);
    print_address("cudaMalloc, 4 MiB", ABOVE, memory, error);
    error = cudaMalloc(&memory, 256);
    print_address("cudaMalloc, 256 bytes", ABOVE, memory, error);
    error = cudaMalloc(&memory, (size_t)64 << 20);
    print_address("cudaMalloc, 64 MiB", ABOVE, memory, error);
    error = cudaMallocAsync(&memory, BYTES, 0);
    print_address("a pool (cudaMallocAsync)", BELOW, memory, error);
    print_virtual();
    error = cudaMallocManaged(&memory, BYTES);
    print_address("managed memory (cudaMallocManaged)", ANY, memory, error);
    error = cudaMallocHost(&memory, BYTES);
    print_address("pinned memory (cudaMallocHost)", ANY, memory, error);
    error = cudaHostAlloc(&memory, BYTES, cudaHostAllocMapped);
    void *mapped = NULL;
    error = error == cudaSuccess ? cudaHostGetDevicePointer(&mapped, memory, 0) : error;
    print_address("mapped memory, on the device", ANY, mapped, error);
    if (error == cudaSuccess)
        printf("mapped memory: the device's address is the host's\tyes\t%s\t%s\n", mapped == memory ? "yes" : "no",
               mapped == memory ? "ok" : "differs");
    error = cudaGetSymbolAddress(&memory, device_variable);
    print_address("a __device__ variable", ABOVE, memory, error);
    error = cudaGetSymbolAddress(&memory, constant_variable);
    print_address("a __constant__ variable", ABOVE, memory, error);
    error = cudaGetSymbolAddress(&memory, managed_variable);
    print_address("a __managed__ variable", ANY, memory, error);
}

/* ---- handles ---- */

static void
print_handle(int which)
{
    static const char *const names[] = {"cuFuncGetParamInfo of a CUfunction", "cuFuncGetParamInfo of a CUkernel",
                                        "cuKernelGetParamInfo of a CUkernel", "cuKernelGetParamInfo of a CUfunction"};
    cudaKernel_t kernel = NULL;
    cudaFunction_t function = NULL;
    require(cudaGetKernel(&kernel, (const void *)fill), "cudaGetKernel");
    require(cudaGetFuncBySymbol(&function, (const void *)fill), "cudaGetFuncBySymbol");
    auto of_function = DRIVER(cuFuncGetParamInfo);
    auto of_kernel = DRIVER(cuKernelGetParamInfo);
    bool fits = which % 2 == 0;
    const char *expected = fits ? "0 (offset 8, 4 bytes)" : "400 (INVALID_HANDLE)";
    if (!of_function || !of_kernel) {
        printf("%s\t%s\tno such function in this driver\tnot run\n", names[which], expected);
        return;
    }
    void *handle = which == 0 || which == 3 ? (void *)function : (void *)kernel;
    size_t offset = 0, bytes = 0;
    CUresult result = which < 2 ? of_function((CUfunction)handle, 1, &offset, &bytes)
                                : of_kernel((CUkernel)handle, 1, &offset, &bytes);
    bool as_expected = fits ? result == CUDA_SUCCESS && offset == 8 && bytes == 4 : result == CUDA_ERROR_INVALID_HANDLE;
    printf("%s\t%s\t%d (offset %zu, %zu bytes)\t%s\n", names[which], expected, (int)result, offset, bytes,
           as_expected ? "ok" : "differs");
    if (which == 0)
        printf("CUkernel and CUfunction of a kernel\tdistinct\t%s\t%s\n",
               (void *)kernel == (void *)function ? "the same" : "distinct",
               (void *)kernel == (void *)function ? "differs" : "ok");
}

/* ---- tensor maps ---- */

static bool
encode(CUtensorMap *map, void *address)
{
    auto tiled = DRIVER(cuTensorMapEncodeTiled);
    cuuint64_t sizes[2] = {64, 64}, strides[1] = {256};
    cuuint32_t box[2] = {16, 16}, steps[2] = {1, 1};
    memset(map, 0, sizeof(*map));
    return tiled != NULL && tiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, address, sizes, strides, box, steps,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static void
print_tensor_maps(void)
{
    char *memory = NULL;
    require(cudaMalloc((void **)&memory, BYTES), "cudaMalloc");
    alignas(64) CUtensorMap maps[2];
    char seen[200] = "no tensor maps on this device";
    const char *expected = "both stand raw in them, as 8 bytes", *verdict = "not run";
    if (encode(&maps[0], memory) && encode(&maps[1], memory + (1 << 20))) {
        int raw = -1, differing = 0;
        for (size_t i = 0; i + 8 <= sizeof(maps[0]); ++i) {
            char *first = memory, *second = memory + (1 << 20);
            if (memcmp((char *)&maps[0] + i, &first, 8) == 0 && memcmp((char *)&maps[1] + i, &second, 8) == 0)
                raw = (int)i;
        }
        for (size_t i = 0; i < sizeof(maps[0]); ++i)
            differing += ((char *)&maps[0])[i] != ((char *)&maps[1])[i];
        snprintf(seen, sizeof(seen), "%s%d; %d bytes differ between the maps", raw < 0 ? "not raw, " : "raw at byte ",
                 raw, differing);
        verdict = raw >= 0 ? "ok" : "differs";
    }
    printf("two addresses in tensor maps\t%s\t%s\t%s\n", expected, seen, verdict);
}

/* ---- reading ---- */

static void
print_reading(const char *kind, const char *way, bool needed, bool worked, const char *why)
{
    printf("%s memory read by %s\t%s\t%s%s%s\t%s\n", kind, way, needed ? "works" : "any", worked ? "works" : "fails",
           why[0] != '\0' ? ": " : "", why,
           !needed  ? "measured"
           : worked ? "ok"
                    : "differs");
}

static void
read_memory(const char *kind, const float *memory, bool system_calls)
{
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    float value = 0;
    int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : pread(file, &value, sizeof(value), (off_t)(uintptr_t)memory);
    print_reading(kind, "/proc/self/mem", system_calls, bytes == sizeof(value) && value == 3.0f,
                  bytes < 0 ? strerror(errno) : "");
    if (file >= 0)
        close(file);
    struct iovec to = {&value, sizeof(value)}, from = {(void *)memory, sizeof(value)};
    value = 0;
    bytes = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    print_reading(kind, "process_vm_readv", system_calls, bytes == sizeof(value) && value == 3.0f,
                  bytes < 0 ? strerror(errno) : "");
    print_reading(kind, "a plain load", true, *(const volatile float *)memory == 3.0f, "");
}

static void
print_readings(void)
{
    float *memory = NULL;
    require(cudaMallocHost((void **)&memory, BYTES), "cudaMallocHost");
    fill<<<4, 64>>>(memory, 3.0f, 1024);
    read_memory("pinned", memory, true);
    require(cudaMallocManaged((void **)&memory, BYTES), "cudaMallocManaged");
    fill<<<4, 64>>>(memory, 3.0f, 1024);
    read_memory("managed", memory, false);
}

/* ---- waits ---- */

enum { BUSY_MS = 300 };

__global__ void
spin(long long cycles)
{
    for (long long begin = clock64(); clock64() - begin < cycles;)
        ;
}

__global__ void
load_late(float *out)
{
    out[threadIdx.x] = 1.0f;
}

static double
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

template <class F>
static void
print_wait(const char *name, cudaStream_t busy, F call)
{
    int clock_khz = 0;
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    require(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
    spin<<<1, 1, 0, busy>>>((long long)clock_khz * BUSY_MS);
    require(cudaGetLastError(), "spin");
    double begin = now_ms();
    call();
    double ms = now_ms() - begin;
    const char *verdict = cudaStreamQuery(busy) == cudaErrorNotReady ? "returns" : "waits for the kernel";
    (void)cudaGetLastError(); /* which has "not ready" */
    printf("%s, while a kernel of another stream runs\t-\t%s: %.3f ms\tmeasured\n", name, verdict, ms);
}

static void
print_waits(void)
{
    cudaStream_t busy, other;
    float *memory = NULL, *more = NULL, *pinned = NULL;
    static float host[1 << 18];
    require(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    require(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    require(cudaMalloc((void **)&memory, BYTES), "cudaMalloc");
    fill<<<4, 64, 0, other>>>(memory, 3.0f, 1024);
    spin<<<1, 1, 0, busy>>>(1);
    print_wait("a launch", busy, [&] { fill<<<4, 64, 0, other>>>(memory, 3.0f, 1024); });
    print_wait("the first launch of a kernel", busy, [&] { load_late<<<1, 32, 0, other>>>(memory); });
    print_wait("cudaMalloc", busy, [&] { require(cudaMalloc((void **)&more, 256 << 20), "cudaMalloc"); });
    print_wait("cudaFree", busy, [&] { require(cudaFree(more), "cudaFree"); });
    print_wait("cudaMallocAsync", busy,
               [&] { require(cudaMallocAsync((void **)&more, BYTES, other), "cudaMallocAsync"); });
    print_wait("cudaFreeAsync", busy, [&] { require(cudaFreeAsync(more, other), "cudaFreeAsync"); });
    print_wait("cudaMallocHost", busy, [&] { require(cudaMallocHost((void **)&pinned, BYTES), "cudaMallocHost"); });
    print_wait("cudaFreeHost", busy, [&] { require(cudaFreeHost(pinned), "cudaFreeHost"); });
    print_wait("cudaMemcpy to ordinary memory", busy,
               [&] { require(cudaMemcpy(host, memory, sizeof(host), cudaMemcpyDeviceToHost), "cudaMemcpy"); });
    print_wait("cudaMemcpyAsync from ordinary memory", busy, [&] {
        require(cudaMemcpyAsync(memory, host, sizeof(host), cudaMemcpyHostToDevice, other), "cudaMemcpyAsync");
    });
    print_wait("cudaStreamSynchronize of its own stream", busy,
               [&] { require(cudaStreamSynchronize(other), "cudaStreamSynchronize"); });
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* ---- costs ---- */

template <class F>
static void
print_cost(const char *name, F call)
{
    enum { CALLS = 20000 };
    double begin = now_ms();
    for (int i = 0; i < CALLS; ++i)
        call();
    printf("%s\t-\t%.0f ns\tmeasured\n", name, 1e6 * (now_ms() - begin) / CALLS);
}

static void
print_costs(void)
{
    float *memory = NULL;
    static float host[16];
    require(cudaMalloc((void **)&memory, BYTES), "cudaMalloc");
    auto attributes = DRIVER(cuPointerGetAttributes);
    auto is_capturing = DRIVER(cuStreamIsCapturing);
    auto global = driver<CUresult (*)(CUdeviceptr *, size_t *, CUmodule, const char *)>("cuModuleGetGlobal_v2");
    auto module_of = DRIVER(cuFuncGetModule);
    cudaFunction_t function = NULL;
    CUmodule module = NULL;
    require(cudaGetFuncBySymbol(&function, (const void *)fill), "cudaGetFuncBySymbol");
    if (attributes == NULL || is_capturing == NULL || global == NULL || module_of == NULL ||
        module_of(&module, (CUfunction)function) != CUDA_SUCCESS)
        return;
    unsigned kind = 0;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&kind, &base, &bytes};
    CUstreamCaptureStatus capturing;
    print_cost("cuPointerGetAttributes of device memory", [&] { attributes(3, which, answers, (CUdeviceptr)memory); });
    print_cost("cuPointerGetAttributes of ordinary memory", [&] { attributes(3, which, answers, (CUdeviceptr)host); });
    print_cost("cuStreamIsCapturing", [&] { is_capturing(NULL, &capturing); });
    print_cost("cuModuleGetGlobal that finds a variable", [&] { global(&base, &bytes, module, "device_variable"); });
    print_cost("cuModuleGetGlobal that finds none", [&] { global(&base, &bytes, module, "no_such_variable"); });
}

static void
print_driver(void)
{
    int driver_version = 0, runtime_version = 0;
    cudaDeviceProp device;
    require(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
    require(cudaRuntimeGetVersion(&runtime_version), "cudaRuntimeGetVersion");
    require(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
    printf("%s, compute capability %d.%d, driver for CUDA %d.%d, runtime %d.%d\n", device.name, device.major,
           device.minor, driver_version / 1000, driver_version % 1000 / 10, runtime_version / 1000,
           runtime_version % 1000 / 10);
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    require(cudaFree(NULL), "cudaFree(NULL), which makes the context");
    if (strcmp(what, "driver") == 0)
        print_driver();
    else if (strcmp(what, "addresses") == 0)
        print_addresses();
    else if (strcmp(what, "handle") == 0 && argc == 3 && argv[2][0] >= '0' && argv[2][0] <= '3')
        print_handle(argv[2][0] - '0');
    else if (strcmp(what, "tensor-maps") == 0)
        print_tensor_maps();
    else if (strcmp(what, "reading") == 0)
        print_readings();
    else if (strcmp(what, "waits") == 0)
        print_waits();
    else if (strcmp(what, "costs") == 0)
        print_costs();
    else {
        fputs("Usage: probe driver|addresses|handle 0..3|tensor-maps|reading|waits|costs\n", stderr);
        return 2;
    }
    return 0;
}
