// Texture objects of linear memory, read by tex1Dfetch, also beside both ends; others are refused when they are made.
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

int
main()
{
    float *memory = managed(4 * 30), *x = managed(4 * 32);
    cudaTextureObject_t numbers, pairs;
    for (int i = 0; i < 30; ++i)
        memory[i] = static_cast<float>(i + 1);
    if (texture_of(memory, 4 * 30, cudaReadModeElementType, &numbers) != cudaSuccess ||
        texture_of(memory, 4 * 30, cudaReadModeElementType, &pairs) != cudaSuccess)
        return 1;
    fetch<<<1, 32>>>(numbers, pairs, x);
    if (cudaDeviceSynchronize() != cudaSuccess || x[0] != 2 || x[31] != 0)
        return 2;
    for (int i = 1; i < 31; ++i) {
        if (x[i] != static_cast<float>(i * 101))
            return 3;
    }
    if (cudaDestroyTextureObject(numbers) != cudaSuccess || cudaDestroyTextureObject(pairs) != cudaSuccess)
        return 4;
    return texture_of(memory, 4 * 30, cudaReadModeNormalizedFloat, &numbers) != cudaErrorNotSupported ||
           cudaGetLastError() != cudaErrorNotSupported;
}
