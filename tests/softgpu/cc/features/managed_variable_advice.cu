// Managed variables with prefetches, advice and attributes, as memory of cudaMallocManaged has them; what was advised
// is read back.
__managed__ float weights[256];
__managed__ double matrix[4][8];
#define CHECK(call)                \
    do {                           \
        if ((call) != cudaSuccess) \
            return __LINE__;       \
    } while (0)

static int
asked(cudaMemRangeAttribute attribute, const void *p, size_t bytes)
{
    int value = -100;
    return cudaMemRangeGetAttribute(&value, sizeof value, attribute, p, bytes) == cudaSuccess ? value : -100;
}

static int
advised(float *p, size_t bytes)
{
    const cudaMemLocation device = {cudaMemLocationTypeDevice, {0}}, host = {cudaMemLocationTypeHost, {0}};
    const size_t half = bytes / 2;
    if (asked(cudaMemRangeAttributeLastPrefetchLocation, p, bytes) != cudaInvalidDeviceId)
        return __LINE__;
    CHECK(cudaMemPrefetchAsync(p, half, device, 0, 0));
    if (asked(cudaMemRangeAttributeLastPrefetchLocation, p, half) != 0 ||
        asked(cudaMemRangeAttributeLastPrefetchLocation, p, bytes) != cudaInvalidDeviceId)
        return __LINE__;
    CHECK(cudaMemPrefetchAsync(p + half / sizeof *p, half, device, 0, 0));
    if (asked(cudaMemRangeAttributeLastPrefetchLocation, p, bytes) != 0)
        return __LINE__;
    CHECK(cudaMemPrefetchAsync(p, bytes, host, 0, 0));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetReadMostly, device));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, device));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, host));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, device));
    int by[3];
    CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, p, bytes));
    if (asked(cudaMemRangeAttributeLastPrefetchLocation, p, bytes) != cudaCpuDeviceId ||
        asked(cudaMemRangeAttributePreferredLocation, p, half) != 0 ||
        asked(cudaMemRangeAttributeReadMostly, p, bytes) != 1 || by[0] != cudaCpuDeviceId || by[1] != 0 ||
        by[2] != cudaInvalidDeviceId)
        return __LINE__;
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseUnsetReadMostly, device));
    int read_mostly = -1, type = -1;
    void *data[] = {&read_mostly, &type};
    size_t sizes[] = {4, 4};
    cudaMemRangeAttribute which[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributePreferredLocationType};
    CHECK(cudaMemRangeGetAttributes(data, sizes, which, 2, p, bytes));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, p));
    return read_mostly != 0 || type != cudaMemLocationTypeDevice || attributes.type != cudaMemoryTypeManaged ||
           attributes.device != 0 || attributes.devicePointer != p || attributes.hostPointer != p;
}

int
main()
{
    const cudaMemLocation device = {cudaMemLocationTypeDevice, {0}};
    float *p;
    CHECK(cudaMallocManaged(&p, 1024));
    int line = advised(p, 1024);
    cudaFree(p);
    if (line != 0)
        return line;
    double copy[4][8];
    CHECK(cudaMemcpyFromSymbol(copy, matrix, sizeof copy));
    CHECK(cudaMemPrefetchAsync(matrix, sizeof matrix, device, 0, 0));
    if (cudaMemPrefetchAsync(weights, sizeof weights + 1, device, 0, 0) != cudaErrorInvalidValue)
        return __LINE__;
    cudaGetLastError();
    return advised(weights, sizeof weights);
}
