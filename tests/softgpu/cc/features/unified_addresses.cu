// One space of addresses: cudaPointerGetAttributes for each kind of memory, copies with cudaMemcpyDefault.
static cudaMemoryType
type_of(const void *p)
{
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, p) != cudaSuccess) {
        cudaGetLastError();
        return cudaMemoryTypeUnregistered;
    }
    return attributes.type;
}
template <typename T>
static void
copy(T *to, const T *from, size_t n)
{
    cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDefault);
}

int
main()
{
    int local[4] = {1, 2, 3, 4}, back[4] = {}, *device, *pinned, *managed;
    cudaMalloc(&device, 16);
    cudaMallocHost(&pinned, 16);
    cudaMallocManaged(&managed, 16);
    if (type_of(local) != cudaMemoryTypeUnregistered || type_of(device + 1) != cudaMemoryTypeDevice ||
        type_of(pinned) != cudaMemoryTypeHost || type_of(managed) != cudaMemoryTypeManaged)
        return 1;
    copy(device, local, 4);
    copy(pinned, device, 4);
    copy(managed, pinned, 4);
    copy(back, managed, 4);
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, device);
    const bool ok = attributes.devicePointer == device && attributes.device == 0;
    cudaFree(device);
    cudaFreeHost(pinned);
    cudaFree(managed);
    return ok && back[0] == 1 && back[3] == 4 ? 0 : 2;
}
