// Memory in its forms: managed variables and what is advised of them, objects in managed memory, mapped host memory,
// pools, rows with a pitch, volumes, textures of linear memory, qualifiers of pointers.
#include <new>

#define RETURN_LINE_IF(condition) \
    do {                          \
        if (condition)            \
            return __LINE__;      \
    } while (0)
#define CHECK(call) RETURN_LINE_IF((call) != cudaSuccess)

__managed__ float weights[256];
__managed__ double matrix[4][8];

static int
asked(cudaMemRangeAttribute attribute, const void *p, size_t bytes)
{
    int value = -100;
    return cudaMemRangeGetAttribute(&value, sizeof value, attribute, p, bytes) == cudaSuccess ? value : -100;
}

// The line that does not hold, or 0.
static int
advised(float *p, size_t bytes)
{
    const cudaMemLocation device = {cudaMemLocationTypeDevice, {0}}, host = {cudaMemLocationTypeHost, {0}};
    const size_t half = bytes / 2;
    const auto place = [=](size_t count) { return asked(cudaMemRangeAttributeLastPrefetchLocation, p, count); };
    RETURN_LINE_IF(place(bytes) != cudaInvalidDeviceId);
    CHECK(cudaMemPrefetchAsync(p, half, device, 0, 0));
    RETURN_LINE_IF(place(half) != 0 || place(bytes) != cudaInvalidDeviceId);
    CHECK(cudaMemPrefetchAsync(p + half / sizeof *p, half, device, 0, 0));
    RETURN_LINE_IF(place(bytes) != 0);
    CHECK(cudaMemPrefetchAsync(p, bytes, host, 0, 0));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetReadMostly, device));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, device));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, host));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, device));
    int by[3];
    CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, p, bytes));
    RETURN_LINE_IF(by[0] != cudaCpuDeviceId || by[1] != 0 || by[2] != cudaInvalidDeviceId);
    RETURN_LINE_IF(place(bytes) != cudaCpuDeviceId || asked(cudaMemRangeAttributePreferredLocation, p, half) != 0 ||
                   asked(cudaMemRangeAttributeReadMostly, p, bytes) != 1);
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseUnsetReadMostly, device));
    int read_mostly = -1, type = -1;
    void *data[] = {&read_mostly, &type};
    size_t sizes[] = {4, 4};
    cudaMemRangeAttribute which[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributePreferredLocationType};
    CHECK(cudaMemRangeGetAttributes(data, sizes, which, 2, p, bytes));
    RETURN_LINE_IF(read_mostly != 0 || type != cudaMemLocationTypeDevice);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, p));
    RETURN_LINE_IF(attributes.type != cudaMemoryTypeManaged || attributes.device != 0 ||
                   attributes.devicePointer != p || attributes.hostPointer != p);
    return 0;
}

FEATURE(managed_variables_take_advice_as_memory_does)
{
    const cudaMemLocation device = {cudaMemLocationTypeDevice, {0}};
    double copy[4][8];
    EXPECT(advised(managed(1024), 1024) == 0);
    EXPECT(cudaMemcpyFromSymbol(copy, matrix, sizeof copy) == cudaSuccess);
    EXPECT(cudaMemPrefetchAsync(matrix, sizeof matrix, device, 0, 0) == cudaSuccess);
    EXPECT(cudaMemPrefetchAsync(weights, sizeof weights + 1, device, 0, 0) == cudaErrorInvalidValue);
    EXPECT(advised(weights, sizeof weights) == 0);
}

struct in_managed_memory {
    void *operator new(size_t bytes)
    {
        return managed(bytes).memory;
    }
    void operator delete(void *p)
    {
        cudaFree(p);
    }
};
class four : public in_managed_memory
{
    int numbers_[4] = {1, 2, 3, 4};

  public:
    __host__ __device__ int &operator[](int i)
    {
        return numbers_[i];
    }
};
__global__ void
twice(four &numbers)
{
    numbers[threadIdx.x] *= 2;
}

FEATURE(objects_are_passed_by_reference)
{
    four *a = new four, *b = new four(*a);
    twice<<<1, 4>>>(*a);
    EXPECT(done() && (*a)[3] == 8 && (*b)[3] == 4);
    delete a;
    delete b;
}

__global__ void
triple(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] *= 3;
}

FEATURE(kernels_reach_host_memory)
{
    int *pinned, *mapped;
    unsigned flags = 0;
    cudaHostAlloc(&pinned, 400, cudaHostAllocMapped | cudaHostAllocPortable);
    pinned[99] = 99;
    EXPECT(cudaHostGetDevicePointer((void **)&mapped, pinned, 0) == cudaSuccess);
    triple<<<1, 32>>>(mapped, 100);
    cudaHostGetFlags(&flags, pinned);
    EXPECT(done() && pinned[99] == 297 && (flags & cudaHostAllocMapped) != 0);
    cudaFreeHost(pinned);

    std::vector<int> values(1000, 2);
    EXPECT(cudaHostRegister(values.data(), values.size() * sizeof(int), cudaHostRegisterDefault) == cudaSuccess);
    cudaHostGetDevicePointer(&mapped, values.data(), 0);
    triple<<<1, 32>>>(mapped, 1000);
    EXPECT(done() && values[999] == 6);
    cudaHostUnregister(values.data());
}

__global__ void
put(int *p, int v)
{
    p[threadIdx.x] = v + threadIdx.x;
}

FEATURE(pools_have_thresholds)
{
    cudaMemPool_t pool, own;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    unsigned long long threshold = ~0ull, read = 0;
    EXPECT(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
    EXPECT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read) == cudaSuccess && read == threshold);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    EXPECT(cudaMemPoolCreate(&own, &properties) == cudaSuccess);
    int *a, *b, host[64];
    EXPECT(cudaMallocFromPoolAsync(&a, 256, own, stream) == cudaSuccess);
    EXPECT(cudaMallocAsync((void **)&b, 256, stream) == cudaSuccess);
    put<<<1, 64, 0, stream>>>(a, 5);
    cudaMemcpyAsync(b, a, 256, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(host, b, 256, cudaMemcpyDeviceToHost, stream);
    cudaFreeAsync(a, stream);
    cudaFreeAsync(b, stream);
    cudaStreamSynchronize(stream);
    cudaMemPoolTrimTo(own, 0);
    EXPECT(cudaMemPoolDestroy(own) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
    EXPECT(host[0] == 5 && host[63] == 68);
}

__global__ void
add_row_number(char *base, size_t pitch, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int *row = (int *)(base + y * pitch);
    row[x] += y * 100 + x;
}

FEATURE(rows_have_a_pitch)
{
    constexpr int kWidth = 37, kHeight = 5;
    int host[kHeight][kWidth] = {}, window[2][3];
    char *a, *b;
    size_t pitch_a = 0, pitch_b = 0;
    cudaMallocPitch(&a, &pitch_a, kWidth * sizeof(int), kHeight);
    cudaMallocPitch((void **)&b, &pitch_b, 64 * sizeof(int), kHeight);
    EXPECT(pitch_a >= kWidth * sizeof(int) && pitch_a % 32 == 0);
    cudaMemset2DAsync(a, pitch_a, 0, kWidth * sizeof(int), kHeight, nullptr);
    add_row_number<<<dim3(5, 2), dim3(8, 4)>>>(a, pitch_a, kWidth, kHeight);
    cudaMemcpy2DAsync(b, pitch_b, a, pitch_a, kWidth * sizeof(int), kHeight, cudaMemcpyDeviceToDevice, nullptr);
    cudaMemcpy2D(host, sizeof(host[0]), b, pitch_b, sizeof(host[0]), kHeight, cudaMemcpyDeviceToHost);
    cudaMemcpy2D(window, sizeof(window[0]), b + 3 * pitch_b + 10 * sizeof(int), pitch_b, sizeof(window[0]), 2,
                 cudaMemcpyDefault);
    EXPECT(host[4][36] == 436 && host[0][7] == 7 && window[0][0] == 310 && window[1][2] == 412);
    cudaFree(a);
    cudaFree(b);
}

__global__ void
number(cudaPitchedPtr volume, cudaExtent extent)
{
    char *slice = static_cast<char *>(volume.ptr) + blockIdx.z * volume.pitch * extent.height;
    float *row = reinterpret_cast<float *>(slice + blockIdx.y * volume.pitch);
    for (int x = threadIdx.x; x < static_cast<int>(extent.width / sizeof(float)); x += blockDim.x)
        row[x] += blockIdx.z * 100 + blockIdx.y * 10 + x;
}

FEATURE(volumes_are_set_and_copied)
{
    const int nx = 6, ny = 4, nz = 3;
    float host[nz][ny][nx], corner[2][2][2];
    const cudaExtent extent = make_cudaExtent(nx * sizeof(float), ny, nz);
    cudaPitchedPtr volume;
    EXPECT(cudaMalloc3D(&volume, extent) == cudaSuccess && volume.xsize == nx * sizeof(float) && volume.ysize == ny);
    cudaMemset3D(volume, 0, extent);
    number<<<dim3(1, ny, nz), 4>>>(volume, extent);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = volume;
    copy.dstPtr = make_cudaPitchedPtr(host, nx * sizeof(float), nx, ny);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    EXPECT(cudaMemcpy3D(&copy) == cudaSuccess);
    copy.srcPos = make_cudaPos(4 * sizeof(float), 1, 1);
    copy.dstPtr = make_cudaPitchedPtr(corner, 2 * sizeof(float), 2, 2);
    copy.extent = make_cudaExtent(2 * sizeof(float), 2, 2);
    EXPECT(cudaMemcpy3DAsync(&copy, cudaStreamPerThread) == cudaSuccess &&
           cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
    cudaFree(volume.ptr);
    EXPECT(host[2][3][5] == 235 && host[0][0][1] == 1 && corner[0][0][0] == 114 && corner[1][1][1] == 225);
}

// Beside both ends, too.
__global__ void
fetch(cudaTextureObject_t numbers, cudaTextureObject_t pairs, float *x)
{
    const int at = static_cast<int>(threadIdx.x) - 1;
    float2 pair;
    tex1Dfetch(&pair, pairs, at / 2);
    x[threadIdx.x] = tex1Dfetch<float>(numbers, at) * 100 + (at % 2 == 0 ? pair.x : pair.y);
}

static cudaError_t
texture_of(float *memory, size_t bytes, cudaTextureReadMode mode, cudaTextureObject_t *texture)
{
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = bytes;
    cudaTextureDesc how = {};
    how.readMode = mode;
    return cudaCreateTextureObject(texture, &resource, &how, nullptr);
}

FEATURE(textures_of_linear_memory_are_fetched)
{
    float *memory = managed(4 * 30), *x = managed(4 * 32);
    cudaTextureObject_t numbers, pairs;
    for (int i = 0; i < 30; ++i)
        memory[i] = static_cast<float>(i + 1);
    EXPECT(texture_of(memory, 4 * 30, cudaReadModeElementType, &numbers) == cudaSuccess);
    EXPECT(texture_of(memory, 4 * 30, cudaReadModeElementType, &pairs) == cudaSuccess);
    fetch<<<1, 32>>>(numbers, pairs, x);
    EXPECT(done() && x[0] == 2 && x[31] == 0);
    for (int i = 1; i < 31; ++i)
        EXPECT(x[i] == static_cast<float>(i * 101));
    EXPECT(cudaDestroyTextureObject(numbers) == cudaSuccess && cudaDestroyTextureObject(pairs) == cudaSuccess);
    EXPECT(texture_of(memory, 4 * 30, cudaReadModeNormalizedFloat, &numbers) == cudaErrorNotSupported);
    EXPECT(cudaGetLastError() == cudaErrorNotSupported);
}

__device__ volatile int flag;
__device__ int data;
__global__ void
publish(int *__restrict__ out, const int *const __restrict__ in)
{
    if (threadIdx.x == 0) {
        data = __ldcg(in) + __ldcs(in + 1) + __ldca(in + 2);
        __threadfence();
        flag = 1;
    }
    __threadfence_block();
    __syncthreads();
    if (threadIdx.x == 1)
        __stcg(out, flag ? data : -1);
    __threadfence_system();
}

FEATURE(pointers_have_qualifiers)
{
    int *m = managed(64);
    m[1] = 2, m[2] = 3, m[3] = 4;
    publish<<<1, 33>>>(m, m + 1);
    EXPECT(done() && m[0] == 9);
}
